"""What a result's numbers look like: how a figure grows, where a result breaks, what a change did to it."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from auditkit.model.enums import Evidence
from auditkit.model.runs.measurement import Measurement
from auditkit.model.runs.run import ProbeResult
from auditkit.model.text import counted
from auditkit.model.units import format_value
from auditkit.reports.html import svg
from auditkit.reports.html.svg import Boundaries, Drawing, Growth, Limit, Markup, element
from auditkit.tickets.deciding import evidence_words

_SIZES = ("tensors", "params", "elements", "ranks", "steps", "layers", "size")
"""Cases that a figure grows with, the first that has most values wins."""
_NOUNS = {
    "sync_count": ("wait", "waits"),
    "launch_count": ("kernel launch", "kernel launches"),
    "break_count": ("graph break", "graph breaks"),
    "breaks_before_end": ("graph break", "graph breaks"),
    "operators_outside_graphs": ("operator outside graphs", "operators outside graphs"),
    "peak_extra_bytes": ("extra byte at the peak", "extra bytes at the peak"),
}
_LAW_OF = {"break_law": "break_count", "operators_outside_law": "operators_outside_graphs"}
_LIMITS = {
    "breaking_magnitude": "break the result", "destroying_magnitude": "are destroyed", "vanishing_magnitude": "vanish",
}  # fmt: skip
_LARGEST = {"float16": 65504.0, "bfloat16": 3.39e38, "float32": 3.403e38, "float64": 1.797e308, "mixed": 3.403e38}
_SMALLEST = {"float16": 6.0e-8, "bfloat16": 9.2e-41, "float32": 1.4e-45, "float64": 4.9e-324, "mixed": 1.4e-45}
_LABEL = 22
"""The height of the evidence below a drawing."""
"""Units of what says nothing without its name."""
_LARGEST_DRAWN = 1e300


@dataclass(frozen=True)
class Picture:
    """A drawing with what is said of it: `title` is the finding, `description` what is drawn, `evidence` its label.

    `head` and `rows` are the drawing's numbers as a table, all as text.
    """

    title: str
    description: str
    evidence: str
    head: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    drawing: Drawing

    def svg(self, name: str) -> Markup:
        """The drawing for a page, on which `name` is its own."""
        return element(
            "svg",
            element("title", self.title, id=f"{name}-t"),
            element("desc", f"{self.description} Evidence: {self.evidence}.", id=f"{name}-d"),
            self._drawn(),
            viewBox=f"0 0 {svg.WIDTH} {self.drawing.height + _LABEL}", role="img",
            aria_labelledby=f"{name}-t", aria_describedby=f"{name}-d",
        )  # fmt: skip

    def _drawn(self) -> Markup:
        label = svg.text(
            4, self.drawing.height + 14.0, svg.fitting(f"evidence: {self.evidence}", svg.WIDTH - 8), "soft"
        )
        return svg.joined([self.drawing.draw(), label])


def pictures_of(result: ProbeResult) -> list[Picture]:
    """The pictures of a finding: of its law, and of the boundaries that it has; none where it has neither."""
    return [] if result.is_of_source else [*_growths(result), *_boundaries(result)]


def _finite(value: object) -> float | None:
    """The value where it is a number that can be drawn."""
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return float(value) if is_number and abs(value) < _LARGEST_DRAWN else None  # type: ignore[arg-type]


def _growths(result: ProbeResult) -> Iterator[Picture]:
    """The first figure that has a fitted law, or extrapolated points, over three sizes or more."""
    by_name: dict[str, list[Measurement]] = {}
    for one in result.measurements:
        if (number := _finite(one.value)) is not None and number >= 0:
            by_name.setdefault(one.name, []).append(one)
    laws = {
        _LAW_OF.get(name, name.removesuffix("_law")): taken[0]
        for name, taken in by_name.items()
        if name.endswith("_law")
    }
    far = {one.name for one in result.measurements if one.evidence is Evidence.EXTRAPOLATED}
    for name, taken in sorted(by_name.items(), key=lambda item: item[0] not in laws):
        picture = _growth(result, name, taken, laws.get(name)) if name in laws or name in far else None
        if picture is not None:
            yield picture
            return


def _growth(result: ProbeResult, name: str, taken: Sequence[Measurement], law: Measurement | None) -> Picture | None:
    def sizes(key: str) -> set[Any]:
        return {one.case[key] for one in taken if _finite(one.case.get(key)) is not None}

    size = max(_SIZES, key=lambda key: len(sizes(key)))
    sized = [one for one in taken if _finite(one.case.get(size)) is not None]
    dtypes = Counter(str(one.case.get("dtype", "")) for one in sized)
    dtype = max(dtypes, key=lambda name: dtypes[name], default="")
    sized = [one for one in sized if str(one.case.get("dtype", "")) == dtype]
    sized.sort(key=lambda one: float(one.case[size]))
    near = [one for one in sized if one.evidence is not Evidence.EXTRAPOLATED]
    if len({one.case[size] for one in near}) < 2 or len({one.case[size] for one in sized}) < 3:
        return None
    every = [(float(one.case[size]), float(one.value)) for one in sized]
    points = [point for point, one in zip(every, sized, strict=True) if one.evidence is not Evidence.EXTRAPOLATED]
    far = [point for point, one in zip(every, sized, strict=True) if one.evidence is Evidence.EXTRAPOLATED]
    slope, constant = (_finite(law.value), _finite(law.case.get("constant"))) if law else (None, None)
    is_known = slope is not None and constant is not None
    fit = _kept((slope or 0.0, constant or 0.0), points, 0.25) if is_known else _through(every)
    unit, one, several = near[0].unit, *_NOUNS.get(name, (name.replace("_", " "),) * 2)
    drawing = Growth(
        f"{size}{f' of {dtype}' if dtype else ''} [count]", f"{several} [{unit}]", points, far, fit,
        _how(result, near[0]), str(law.case.get("law", "")) if law else result.law or "fitted",
        lambda value: format_value(value, unit), _count,
    )  # fmt: skip
    rows = [(format_value(one.case[size]), format_value(one.value, unit), _how(result, one)) for one in sized]
    if fit and not far:
        end = max(points)[0] * 1.5
        rows.append((format_value(end), format_value(drawing.fitted(end), unit), "extrapolated"))
    x, y = max(far or points)
    at = f"{format_value(y, unit)}{'' if unit == 'bytes' else f' {one if y == 1 else several}'}"
    at += f" at {format_value(x)} {size}{' (extrapolated)' if far else ''}"
    words = f" The line is the fitted law {drawing.law}; beyond the last point it is extrapolated." if fit else ""
    return Picture(
        f"{_rate(name, fit, size) if law and fit else result.law or several}: {at}",
        f"{several} over {drawing.x_title}: {len(near)} points.{words}",
        evidence_words(result), (size, drawing.y_title, "evidence"), tuple(rows), drawing,
    )  # fmt: skip


def _how(result: ProbeResult, one: Measurement) -> str:
    return "simulated" if result.device == "simulated" and one.evidence is Evidence.MEASURED else one.evidence.value


_Point = tuple[float, float]


def _through(points: Sequence[_Point]) -> _Point | None:
    """Slope and constant of the straight line through all points, least squares; None where they leave it."""
    mean_x, mean_y = (sum(values) / len(points) for values in zip(*points, strict=True))
    spread = sum((x - mean_x) ** 2 for x, _ in points)
    slope = sum((x - mean_x) * (y - mean_y) for x, y in points) / spread
    return _kept((slope, mean_y - slope * mean_x), points, 0.01)


def _kept(line: _Point, points: Sequence[_Point], share: float) -> _Point | None:
    """The line, where no point is further off than a `share` of the largest; else none is drawn."""
    slope, constant = line
    off = max(abs(y - slope * x - constant) for x, y in points)
    return line if off <= share * max(abs(y) for _, y in points) else None


def _rate(name: str, line: _Point, size: str) -> str:
    """`waits once per tensor`, `3 kernel launches per tensor and 1 more`."""
    one, several = _NOUNS.get(name, (name.replace("_", " "),) * 2)
    slope, constant = line
    if slope == 0:
        return f"{format_value(constant)} {one if constant == 1 else several} however many {size}"
    each = size.removesuffix("s")
    rate = f"{format_value(slope)} {one if slope == 1 else several} per {each}"
    more = f" and {format_value(constant)} more" if constant > 0 else ""
    return f"{f'waits once per {each}' if (name, slope) == ('sync_count', 1) else rate}{more}"


def _count(value: float) -> str:
    """A number on an axis: `100 M` for as many parameters."""
    for unit, power in (("G", 1e9), ("M", 1e6), ("k", 1e4)):
        if value >= power:
            return f"{value / (1e3 if unit == 'k' else power):g} {unit}"
    return f"{value:g}"


def _boundaries(result: ProbeResult) -> Iterator[Picture]:
    """A map for each magnitude at which something breaks: dtypes down, sizes across."""
    for name, verb in _LIMITS.items():
        taken = [one for one in result.measurements if one.name == name and "dtype" in one.case]
        if not any(_finite(one.value) for one in taken):
            continue
        by_cell = {(str(one.case["dtype"]), format_value(one.case.get("elements", "all"))): one for one in taken}
        dtypes, sizes = (list(dict.fromkeys(key[number] for key in by_cell)) for number in (0, 1))
        is_low = name.startswith("vanishing")
        cells = {key: _limit(one, key[0], is_low) for key, one in by_cell.items()}
        drawing = Boundaries(
            [f"{size} elements" for size in sizes],
            [(dtype, [cells.get((dtype, size)) for size in sizes]) for dtype in dtypes],
            f"bars: powers of ten from 1 to the dtype's {'smallest' if is_low else 'largest'} number",
        )  # fmt: skip
        found = [one for one in taken if _finite(one.value)]
        worst = (max if is_low else min)(found, key=lambda one: float(one.value))
        way = "less" if is_low else "more"
        where = f" ({format_value(worst.case['elements'])} elements)" if "elements" in worst.case else ""
        dtypes_found = len({str(one.case["dtype"]) for one in found})
        yield Picture(
            f"gradients of {worst.value:.3g} and {way} {verb} in {worst.case['dtype']}{where}; "
            f"{dtypes_found} of {counted(len(dtypes), 'dtype')} affected",
            f"For each dtype and size the magnitude from which gradients {verb}, with the part of the dtype's range "
            "that is lost, by powers of ten.",
            evidence_words(result),
            ("dtype", "elements", "gradient's magnitude [absolute value]", "share of the range that is sound"),
            tuple((dtype, size, cells[dtype, size].words, _share(cells[dtype, size])) for dtype, size in by_cell),
            drawing,
        )


def _limit(one: Measurement, dtype: str, is_low: bool) -> Limit:
    """How much of the way from 1 to the dtype's largest (or smallest) number is sound, by powers of ten."""
    number = _finite(one.value)
    if not number or number <= 0:
        return Limit("does not break", 1.0, is_low)
    end = (_SMALLEST if is_low else _LARGEST).get(dtype)
    if end is None:
        return Limit(format_value(number), None, is_low)
    share = math.log10(number) / math.log10(end)
    return Limit(format_value(number), min(max(share, 0.0), 1.0), is_low)


def _share(limit: Limit) -> str:
    return "unknown" if limit.sound is None else f"{limit.sound:.0%}"
