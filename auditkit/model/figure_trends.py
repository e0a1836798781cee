"""The same figures at two revisions: which belong together, which way is better, and what is only noise."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from enum import Enum, auto
from itertools import zip_longest
from typing import Any

from auditkit.model.codec import ABSENT
from auditkit.model.enums import Severity
from auditkit.model.revisions.comparison import FigureChange, Trend
from auditkit.model.runs.measurement import Measurement
from auditkit.model.units import TIME_UNITS

SAME_FLOAT = 1e-6
"""Relative: floats nearer to each other than this are the same."""


class Better(Enum):
    """Which way a figure is better. `NEITHER` only differs or does not."""

    LOWER = auto()
    HIGHER = auto()
    NEAR_ZERO = auto()
    NEAR = auto()
    TRUE = auto()
    FALSE = auto()
    NEITHER = auto()


_HIGHER = (
    "breaking_norm", "breaking_magnitude", "destroying_norm", "destroying_magnitude", "breaking_noise",
    "alignment_score",
)  # fmt: skip
# What others are judged by, follows from others, or describes a line. More graphs are worse than one, and better than
# none: the breaks and what runs outside of graphs tell.
_DESCRIBING = (
    "allowed_error", "allowed_difference", "largest_error", "live_at_peak", "syncs_at_line", "graph_count",
)  # fmt: skip
_SCALES: Mapping[str, tuple[Better, str]] = {
    **dict.fromkeys(_HIGHER, (Better.HIGHER, "")),
    "vanishing_magnitude": (Better.LOWER, ""),
    "relative_error": (Better.NEAR_ZERO, "allowed_error"),
    "split_difference": (Better.NEAR_ZERO, "allowed_difference"),
    "order_difference": (Better.NEAR_ZERO, "allowed_difference"),
    "count_error": (Better.NEAR_ZERO, ""),
    "norm": (Better.NEAR, "expected_norm"),
    "norm_after": (Better.NEAR, "expected_norm_after"),
    **dict.fromkeys(("sound", "visible", "captured", "same_answer"), (Better.TRUE, "")),
    "raises": (Better.FALSE, ""),
    **dict.fromkeys(_DESCRIBING, (Better.NEITHER, "")),
}
"""How a figure is read, and the measurement of the same case that it is judged by.

That is the allowed error for NEAR_ZERO (inside it all are alike) and the expected value for NEAR. A boundary of None is
none at all: the best there is.
"""
_LOWER_UNITS = frozenset({"count", "bytes", "ratio", "per tensor", "bytes per call", "fields", *TIME_UNITS})


_PYTHON_MEMORY = "NumPy and Python"
_PYTHON_NOISE = {"bytes": 4096.0, "bytes per call": 512.0, "ratio": 0.005}
"""By unit. tracemalloc also sees what the interpreter allocates meanwhile: the same revision of esper-lite twice gave
held bytes up to 225 apart and shares up to 0.0004."""


def compare_figures(base: Sequence[Measurement], head: Sequence[Measurement]) -> tuple[FigureChange, ...]:
    """Every figure of either side beside its counterpart: the same name in the same case."""
    found = []
    for name in dict.fromkeys(measurement.name for measurement in (*base, *head)):
        ours, theirs = ([one for one in side if one.name == name] for side in (base, head))
        keys = tuple(dict.fromkeys((*telling_keys(ours), *telling_keys(theirs))))
        before, after = _grouped(ours, keys), _grouped(theirs, keys)
        for case in dict.fromkeys((*before, *after)):
            pairs = zip_longest(before.get(case, []), after.get(case, []))
            found += [_figure(one, other, base, head) for one, other in pairs]
    return tuple(found)


def telling_keys(taken: Sequence[Measurement]) -> tuple[str, ...]:
    """Return the first keys of their cases that distinguish them; a case may also hold a reading (an error's text)."""
    keys: list[str] = []
    count = 1
    for key in dict.fromkeys(key for measurement in taken for key in measurement.case):
        apart = len(_grouped(taken, (*keys, key)))
        if apart > count:
            keys.append(key)
            count = apart
    return tuple(keys)


def _grouped(taken: Iterable[Measurement], keys: Sequence[str]) -> dict[tuple[str, ...], list[Measurement]]:
    groups: dict[tuple[str, ...], list[Measurement]] = {}
    for measurement in taken:
        # An extrapolated figure is not the measured one of the same case.
        case = (*(repr(measurement.case.get(key)) for key in keys), measurement.evidence.value)
        groups.setdefault(case, []).append(measurement)
    return groups


def _figure(
    one: Measurement | None, other: Measurement | None, base: Sequence[Measurement], head: Sequence[Measurement]
) -> FigureChange:
    named = other or one
    assert named is not None
    values = [ABSENT if side is None else side.value for side in (one, other)]
    trend = Trend.MOVED if one is None or other is None else _trend(one, other, base, head)
    return FigureChange(named.name, named.unit, dict(named.case), values[0], values[1], trend, named.evidence)


def _trend(one: Measurement, other: Measurement, base: Sequence[Measurement], head: Sequence[Measurement]) -> Trend:
    before, after = _badness(one, base), _badness(other, head)
    # A single time has no noise that one could compare it by.
    if before is None or after is None or one.unit in TIME_UNITS:
        return Trend.SAME if _are_same(one.value, other.value) else Trend.MOVED
    # Python's memory has noise; counters are equal or not; only floats may differ a little.
    is_python = one.case.get("memory") == _PYTHON_MEMORY or one.name.startswith("python_peak")
    noise = _PYTHON_NOISE.get(one.unit, 0.0) if is_python else 0.0
    larger = max(abs(before), abs(after))
    if math.isfinite(larger) and not (isinstance(one.value, int) and isinstance(other.value, int)):
        noise = max(noise, SAME_FLOAT * larger)
    if before == after or abs(before - after) <= noise:
        return Trend.SAME
    return Trend.BETTER if after < before else Trend.WORSE


def _are_same(one: Any, other: Any) -> bool:
    if isinstance(one, float) and isinstance(other, float) and not (math.isnan(one) or math.isnan(other)):
        return math.isclose(one, other, rel_tol=SAME_FLOAT)
    return repr(one) == repr(other) or bool(one == other)


def _badness(measurement: Measurement, side: Sequence[Measurement]) -> float | None:
    """The lower the better; None where the figure has no such order."""
    # By its name where that is known, else by its unit: fewer bytes, counts and shares are better.
    by_unit = Better.LOWER if measurement.unit in _LOWER_UNITS else Better.NEITHER
    better, judge = _SCALES.get(measurement.name, (by_unit, ""))
    value = measurement.value
    if better in (Better.TRUE, Better.FALSE):
        return float(bool(value) is (better is Better.FALSE))
    if better is Better.NEITHER or isinstance(value, str | list | dict):
        return None
    if value is None:
        return -math.inf if better in (Better.HIGHER, Better.LOWER) else None
    number = float(value)
    if math.isnan(number):
        return math.inf
    if better is Better.HIGHER:
        return -number
    if better is Better.LOWER:
        return number
    beside = _beside(measurement, judge, side)
    if better is Better.NEAR_ZERO:
        return 0.0 if beside is not None and abs(number) <= beside else abs(number)
    return None if not beside else abs(number / beside - 1)


def _beside(measurement: Measurement, name: str, side: Sequence[Measurement]) -> float | None:
    """The value of the measurement `name` of the same case, where that is a finite number."""
    for other in side:
        if other.name == name and other.case.get("of", measurement.name) == measurement.name:
            shared = (key for key in other.case if key in measurement.case)
            if all(other.case[key] == measurement.case[key] for key in shared):
                value = other.value
                return float(value) if isinstance(value, int | float) and math.isfinite(value) else None
    return None


def overall(figures: Iterable[FigureChange], before: Severity | None, after: Severity | None) -> Trend:
    """Where a finding went: by its severity where that changed, else by its figures."""
    if before is not None and after is not None and before is not after:
        return Trend.WORSE if after.at_least(before) else Trend.BETTER
    seen = {figure.trend for figure in figures if ABSENT not in (figure.base, figure.head)}
    if {Trend.BETTER, Trend.WORSE} <= seen:
        return Trend.MIXED
    return next((trend for trend in (Trend.WORSE, Trend.BETTER, Trend.MOVED) if trend in seen), Trend.SAME)
