"""The files of a watched run: JSON and SARIF as of an audit, and an HTML page with the curves and findings by step."""

from __future__ import annotations

import math
from html import escape

from auditkit import __version__
from auditkit.live.report import first_step, report
from auditkit.live.watch import Watched, catalog
from auditkit.reports.export import json_text
from auditkit.reports.sarif import run_sarif

_WIDTH, _HEIGHT, _LEFT, _BOTTOM = 860, 150, 70, 22
_STYLE = (
    "body{font:15px/1.5 system-ui,sans-serif;max-width:920px;margin:2em auto;padding:0 1em;"
    "color:#1c1c1e;background:#fff}"
    "pre{background:#f4f4f6;padding:1em;overflow:auto;white-space:pre-wrap}"
    "svg{width:100%;height:auto}"
    "@media(prefers-color-scheme:dark){body{color:#e6e6e8;background:#1c1c1e}"
    "pre{background:#2a2a2d}}"
)
_Points = list[tuple[int, float]]


def document(watched: Watched, form: str) -> bytes:
    """The run in one of the forms `save`, `sarif` and `html`."""
    if form == "html":
        return page(watched).encode()
    return json_text(watched.run.to_json() if form == "save" else run_sarif(watched.run, catalog(), __version__))


def page(watched: Watched) -> str:
    """The whole page."""
    body = [f"<pre>{escape(chr(10).join(report(watched, 10_000)))}</pre>"]
    for title, unit, points in curves(watched):
        body.append(f"<h2>{escape(title)}</h2>{_drawing(title, unit, points, watched)}")
    return (
        '<!doctype html><html lang="en"><meta charset="utf-8"><meta name="viewport" content="width=device-width">'
        f"<title>auditkit run {escape(watched.run.id)}</title><style>{_STYLE}</style>"
        f"<h1>Watched run {escape(watched.run.id)}</h1>{''.join(body)}</html>\n"
    )


def curves(watched: Watched) -> list[tuple[str, str, _Points]]:
    """Loss, norm, clip factor, reads and memory by inspected step, of the first rank; those with two points."""
    turns = watched.recording.main.turns
    first = [turn for turn in turns if turn["optimizer"] == turns[0]["optimizer"]] if turns else []
    clips = [
        (turn["step"], min(1.0, clip["limit"] / clip["before"]))
        for turn in first
        for clip in turn["clips"][-1:]
        if clip["before"] and math.isfinite(clip["before"])
    ]
    found = [
        ("Loss", "", [(turn["step"], turn["loss"]) for turn in first if turn["loss"] is not None]),
        ("Gradient norm at the step", "", [(turn["step"], turn["norm"]) for turn in first]),
        ("Clip factor", "", clips),
        (
            "Reads from tensors per step",
            "",
            [(turn["step"], float(sum(r[3] for r in turn["reads"]))) for turn in first],
        ),
        ("Memory", "bytes", [(turn["step"], float(turn["memory"][0])) for turn in first if turn["memory"]]),
    ]
    return [(title, unit, finite) for title, unit, points in found if len(finite := _finite(points)) > 1]


def _finite(points: _Points) -> _Points:
    return [(step, value) for step, value in points if math.isfinite(value)]


def _drawing(title: str, unit: str, points: _Points, watched: Watched) -> str:
    """A line through the points, and a vertical mark at the first step of each finding in the range."""
    steps, values = [step for step, _ in points], [value for _, value in points]
    low, high = min(values), max(values)
    span, width = (high - low) or 1.0, (max(steps) - min(steps)) or 1

    def x(step: float) -> float:
        return _LEFT + (step - min(steps)) / width * (_WIDTH - _LEFT - 10)

    def y(value: float) -> float:
        return 10 + (high - value) / span * (_HEIGHT - _BOTTOM - 10)

    line = " ".join(f"{x(step):.1f},{y(value):.1f}" for step, value in points)
    marks = "".join(
        f'<line x1="{x(step):.1f}" x2="{x(step):.1f}" y1="5" y2="{_HEIGHT - _BOTTOM}" stroke="#b00020" '
        f'stroke-dasharray="4 3"><title>{escape(each.probe)}</title></line>'
        for each in watched.findings
        if min(steps) <= (step := first_step(each)) <= max(steps)
    )
    labels = "".join(_text(_LEFT - 6, y(value) + 4, "end", f"{value:.4g}") for value in {low, high})
    labels += _text(x(min(steps)), _HEIGHT - 6, "start", f"step {min(steps)}")
    labels += _text(x(max(steps)), _HEIGHT - 6, "end", f"step {max(steps)}")
    described = escape(f"{title}{f' in {unit}' if unit else ''} by step")
    return (
        f'<svg viewBox="0 0 {_WIDTH} {_HEIGHT}" role="img" aria-label="{described}">{marks}'
        f'<polyline points="{line}" fill="none" stroke="#2563eb" stroke-width="1.5"/>{labels}</svg>'
    )


def _text(x: float, y: float, anchor: str, text: str) -> str:
    place = f'x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}"'
    return f'<text {place} font-size="11" fill="currentColor">{escape(text)}</text>'
