"""What a result's numbers look like as SVG: how a figure grows with its size, and from where on a result breaks."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from html import escape

from auditkit.model.enums import Evidence
from auditkit.model.runs.measurement import Measurement
from auditkit.model.runs.run import ProbeResult
from auditkit.model.text import inert
from auditkit.model.units import format_value
from auditkit.tickets.deciding import evidence_words

_SIZES = ("tensors", "params", "elements", "ranks", "steps", "layers", "size")
"""Cases that a figure grows with: the one that has most values."""
_FIGURE_OF = {"break_law": "break_count", "operators_outside_law": "operators_outside_graphs"}
_LIMITS = {
    "breaking_magnitude": "break the result", "destroying_magnitude": "are destroyed", "vanishing_magnitude": "vanish",
}  # fmt: skip
_LARGEST = {"float16": 65504.0, "bfloat16": 3.39e38, "float32": 3.403e38, "float64": 1.797e308, "mixed": 3.403e38}
_SMALLEST = {"float16": 6.0e-8, "bfloat16": 9.2e-41, "float32": 1.4e-45, "float64": 4.9e-324, "mixed": 1.4e-45}
_WIDTH, _HEIGHT, _LEFT, _RIGHT, _TOP, _BOTTOM = 440, 250, 74, 18, 34, 46
"""Units of a drawing: nearly those of a telephone's screen, so that its words can be read there."""
_ROW, _BAR = 24, 190
_LONGEST = 66


@dataclass(frozen=True)
class Picture:
    """A drawing as SVG, and the sentence below it."""

    title: str
    svg: str


def pictures_of(result: ProbeResult) -> list[Picture]:
    """The pictures of a finding: of its growth law and of its boundaries, as far as it has them."""
    return [] if result.is_of_source else [*_growths(result), *_boundaries(result)]


def _finite(value: object) -> float | None:
    """The value if it is a number that can be drawn."""
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return float(value) if is_number and abs(value) < 1e300 else None  # type: ignore[arg-type]


def _drawing(parts: Sequence[str], height: int, title: str, result: ProbeResult) -> Picture:
    label = _text(4, height + 14, f"evidence: {evidence_words(result)}", "soft")
    head = f'<svg viewBox="0 0 {_WIDTH} {height + 22}" role="img"><title>{escape(inert(title))}</title>'
    return Picture(title, f"{head}{''.join(parts)}{label}</svg>")


def _text(x: float, y: float, words: str, kind: str = "", anchor: str = "start") -> str:
    shown = escape(inert(words if len(words) <= _LONGEST else f"{words[: _LONGEST - 1]}…"))
    return f'<text x="{x:.1f}" y="{y:.1f}" class="{kind}" text-anchor="{anchor}">{shown}</text>'


def _line(kind: str, *points: tuple[float, float]) -> str:
    return f'<polyline class="{kind}" points="{" ".join(f"{x:.1f},{y:.1f}" for x, y in points)}"/>'


def _growths(result: ProbeResult) -> list[Picture]:
    """The first figure that has a fitted law, or extrapolated points, over three sizes or more."""
    drawn = [one for one in result.measurements if (number := _finite(one.value)) is not None and number >= 0]
    laws = {
        _FIGURE_OF.get(one.name, one.name.removesuffix("_law")): str(one.case.get("law", result.law))
        for one in reversed(drawn)
        if one.name.endswith("_law")
    }
    far = {one.name for one in result.measurements if one.evidence is Evidence.EXTRAPOLATED}
    for name in sorted(dict.fromkeys(one.name for one in drawn), key=lambda name: name not in laws):
        taken = [one for one in drawn if one.name == name]
        picture = _growth(result, taken, laws.get(name, result.law)) if name in laws or name in far else None
        if picture is not None:
            return [picture]
    return []


def _growth(result: ProbeResult, taken: Sequence[Measurement], law: str) -> Picture | None:
    """Measured points joined by a line, which is dashed to those that are extrapolated."""

    def sized(key: str) -> list[Measurement]:
        return [one for one in taken if _finite(one.case.get(key)) is not None]

    size = max(_SIZES, key=lambda key: len({one.case[key] for one in sized(key)}))
    dtypes = Counter(str(one.case.get("dtype", "")) for one in sized(size)).most_common(1)
    own = [one for one in sized(size) if str(one.case.get("dtype", "")) == dtypes[0][0]]
    near, far = (
        sorted((float(one.case[size]), float(one.value)) for one in own
               if (one.evidence is Evidence.EXTRAPOLATED) is is_far)
        for is_far in (False, True)
    )  # fmt: skip
    if len({x for x, _ in near}) < 2 or len({x for x, _ in (*near, *far)}) < 3:
        return None
    unit, name, dtype = own[0].unit, own[0].name, dtypes[0][0]
    high_x, high_y = (max(values) or 1.0 for values in zip(*near, *far, strict=True))

    def at(x: float, y: float) -> tuple[float, float]:
        right, up = (_WIDTH - _LEFT - _RIGHT) * x / high_x, (_HEIGHT - _BOTTOM - _TOP) * y / high_y
        return _LEFT + right, _HEIGHT - _BOTTOM - up

    parts = [_text(_LEFT, 16, f"law: {law}" if law else "", "strong")]
    for share in (0.0, 0.5, 1.0):
        (left, y), (x, bottom) = at(0, high_y * share), at(high_x * share, 0)
        parts += [_line("rule", (left, y), (_WIDTH - _RIGHT, y)),
                  _text(left - 6, y + 4, format_value(high_y * share, unit), "soft", "end"),
                  _text(x, bottom + 16, f"{high_x * share:.4g}", "soft", "middle")]  # fmt: skip
    of_dtype = f" of {dtype}" if dtype else ""
    parts.append(_text((_LEFT + _WIDTH) / 2, _HEIGHT - 10, f"{size}{of_dtype} [count]", "", "middle"))
    parts.append(_line("fit", *(at(*each) for each in near)))
    parts += [_line("far", *(at(*each) for each in (near[-1], *far)))] if far else []
    for kind, points in (("dot", near), ("open", far)):
        parts += [f'<circle cx="{x:.1f}" cy="{y:.1f}" r="4" class="{kind}"/>' for x, y in (at(*one) for one in points)]
    x, y = max((*near, *far))
    told = f"{name.replace('_', ' ')}: {law + ', ' if law else ''}{format_value(y, unit)} at {format_value(x)} {size}"
    return _drawing(parts, _HEIGHT, f"{told}{' (extrapolated)' if far else ''}", result)


def _boundaries(result: ProbeResult) -> Iterator[Picture]:
    """For each magnitude at which something breaks a map: a bar for each dtype and size, as long as its sound range."""
    for name, verb in _LIMITS.items():
        taken = [one for one in result.measurements if one.name == name and "dtype" in one.case]
        found = [one for one in taken if _finite(one.value)]
        if not found:
            continue
        is_low = name == "vanishing_magnitude"
        ends = _SMALLEST if is_low else _LARGEST
        worst = (max if is_low else min)(found, key=lambda one: float(one.value))
        title = f"gradients of {worst.value:.3g} and {'less' if is_low else 'more'} {verb} in {_case(worst)}"
        parts = [_text(4, 16, "bars: the sound powers of ten, from 1 to the dtype's last number", "soft")]
        for row, one in enumerate(taken):
            y, value = _TOP + _ROW * row, _finite(one.value)
            parts.append(_text(4, y + 12, _case(one)))
            share, words = 1.0, format_value(one.value) if value else "does not break"
            end = ends.get(str(one.case["dtype"]))
            if value and value > 0 and end:
                share = min(max(math.log10(value) / math.log10(end), 0.0), 1.0)
            bars = (("sound", 170.0, _BAR * share), ("lost", 170 + _BAR * share, _BAR * (1 - share)))
            parts += [f'<rect x="{x:.1f}" y="{y + 2}" width="{width:.1f}" height="10" class="{kind}"/>'
                      for kind, x, width in bars]  # fmt: skip
            parts.append(_text(170 + _BAR + 6, y + 12, words, "strong"))
        yield _drawing(parts, _TOP + _ROW * len(taken), title, result)


def _case(one: Measurement) -> str:
    elements = f", {format_value(one.case['elements'])} elements" if "elements" in one.case else ""
    return f"{one.case['dtype']}{elements}"
