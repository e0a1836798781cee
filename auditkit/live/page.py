"""The files of a watched run: JSON and SARIF as of an audit, and an HTML page with the curves and findings by step."""

from __future__ import annotations

import math
from html import escape

from auditkit import __version__
from auditkit.live.report import first_step, report
from auditkit.live.watch import Watched, catalog
from auditkit.reports.export import json_text
from auditkit.reports.sarif import run_sarif

_WIDTH, _HEIGHT = 860, 120
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
    body += [_drawing(title, points, watched) for title, points in curves(watched)]
    return (
        '<!doctype html><html lang="en"><meta charset="utf-8"><meta name="viewport" content="width=device-width">'
        f"<title>auditkit run {escape(watched.run.id)}</title><style>{_STYLE}</style>"
        f"<h1>Watched run {escape(watched.run.id)}</h1>{''.join(body)}</html>\n"
    )


def curves(watched: Watched) -> list[tuple[str, _Points]]:
    """Loss, norm, clip factor, reads and memory by inspected step, of the first rank; those with two points."""
    turns = watched.recording.main.turns
    first = [turn for turn in turns if turn["optimizer"] == turns[0]["optimizer"]] if turns else []
    found: dict[str, _Points] = {
        "Loss": [(turn["step"], turn["loss"]) for turn in first if turn["loss"] is not None],
        "Gradient norm at the step": [(turn["step"], turn["norm"]) for turn in first],
        "Clip factor": [
            (turn["step"], min(1.0, clip["limit"] / clip["before"]))
            for turn in first
            for clip in turn["clips"][-1:]
            if clip["before"]
        ],
        "Reads from tensors": [(turn["step"], float(sum(read[3] for read in turn["reads"]))) for turn in first],
        "Bytes of memory": [(turn["step"], float(turn["memory"][0])) for turn in first if turn["memory"]],
    }
    finite = {title: [point for point in points if math.isfinite(point[1])] for title, points in found.items()}
    return [(title, points) for title, points in finite.items() if len(points) > 1]


def _drawing(title: str, points: _Points, watched: Watched) -> str:
    """A line through the points, and a vertical mark at the first step of each finding in the range."""
    steps, values = [step for step, _ in points], [value for _, value in points]
    low, high = min(values), max(values)

    def x(step: float) -> str:
        return f"{(step - steps[0]) / ((steps[-1] - steps[0]) or 1) * _WIDTH:.1f}"

    line = " ".join(f"{x(step)},{5 + (high - value) / ((high - low) or 1.0) * _HEIGHT:.1f}" for step, value in points)
    marks = "".join(
        f'<line x1="{x(step)}" x2="{x(step)}" y1="0" y2="{_HEIGHT + 10}" stroke="#b00020" stroke-dasharray="4 3">'
        f"<title>{escape(each.probe)}</title></line>"
        for each in watched.findings
        if steps[0] <= (step := first_step(each)) <= steps[-1]
    )
    return (
        f"<h2>{escape(title)} by step</h2><p>{low:.4g} to {high:.4g}, steps {steps[0]} to {steps[-1]}</p>"
        f'<svg viewBox="0 0 {_WIDTH} {_HEIGHT + 10}" role="img" aria-label="{escape(title)} by step">{marks}'
        f'<polyline points="{line}" fill="none" stroke="#2563eb" stroke-width="1.5"/></svg>'
    )
