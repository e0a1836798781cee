"""The results of two revisions for the same gradients, number by number."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from auditkit.model.codec import ABSENT
from auditkit.model.revisions.comparison import Agreement, AnswerContrast, relative_difference
from auditkit.model.runs.measurement import Measurement

RAISES = "(raises)"
TYPE = "type of "
LEFT = "(norm of the gradients it leaves)"
_READ = ("field", "error")
"""The keys of a case that describe the result, not the gradients."""
_ORDINARY, _SCALES = 1e4, 1e-4
"""A magnitude at which nothing overflows, and how exactly a field has to scale to it."""
_IS_THE_NORM = 0.01
"""A field is taken for the norm where its value is this near to the exact one, at either revision."""


@dataclass
class _Case:
    """One set of gradients: what is known about it, and every number that the target returned."""

    case: dict[str, Any]
    exact: float = math.nan
    allowed: float = 0.0
    fields: dict[str, Any] = field(default_factory=dict)


def compare_answers(base: Sequence[Measurement], head: Sequence[Measurement]) -> tuple[AnswerContrast, ...]:
    """Compare every field of every case that ran on both sides, in their order."""
    ours, theirs = _by_case(base), _by_case(head)
    scaling = _scaling_fields(list(ours.values()), list(theirs.values()))
    return tuple(
        _contrast(ours[key], theirs[key], name, scaling)
        for key in ours
        if key in theirs
        for name in dict.fromkeys((*ours[key].fields, *theirs[key].fields))
    )


def _scaling_fields(ours: Sequence[_Case], theirs: Sequence[_Case]) -> Mapping[str, float]:
    """Fields that grow as the gradients do, at both revisions, with their value at magnitude 1.

    The cases of a magnitude are the gradients of the first seed, scaled: what a norm, a mean norm or a largest
    element is there follows from what it is at magnitude 1.
    """
    found = []
    for cases in (ours, theirs):
        plain = next((one.fields for one in cases if one.case.get("seed") == 0 and "magnitude" not in one.case), {})
        ordinary = next((one.fields for one in cases if one.case.get("magnitude") == _ORDINARY), {})
        values = {name: _number(value) for name, value in plain.items()}
        found.append(
            {
                name: value
                for name, value in values.items()
                if value and relative_difference(value * _ORDINARY, _number(ordinary.get(name))) < _SCALES
            }
        )
    return {name: value for name, value in found[0].items() if name in found[1]}


def _by_case(measurements: Sequence[Measurement]) -> dict[str, _Case]:
    cases: dict[str, _Case] = {}
    for one in measurements:
        known = {key: value for key, value in one.case.items() if key not in _READ}
        case = cases.setdefault(repr(known), _Case(known))
        if one.name == "exact_norm":
            case.exact = _number(one.value)
        elif one.name == "allowed_difference":
            case.allowed = _number(one.value)
        else:
            name = str(one.case.get("field", ""))
            others = {"type": f"{TYPE}{name or 'the result'}", "raises": RAISES, "left_norm": LEFT}
            case.fields[others.get(one.name, name)] = one.value
    return cases


def _contrast(ours: _Case, theirs: _Case, name: str, scaling: Mapping[str, float]) -> AnswerContrast:
    before, after = ours.fields.get(name, ABSENT), theirs.fields.get(name, ABSENT)
    agreement = _agreement(before, after, ours.allowed)
    expected = ours.exact
    if name in scaling and "magnitude" in ours.case:
        expected = scaling[name] * float(ours.case["magnitude"])
    nearer = _nearer(before, after, expected) if agreement is Agreement.DIFFERS else ""
    return AnswerContrast(ours.case, name, before, after, ours.exact, ours.allowed, agreement, nearer)


def _agreement(before: Any, after: Any, allowed: float) -> Agreement:
    if before is ABSENT or after is ABSENT:
        return Agreement.ONLY_HEAD if before is ABSENT else Agreement.ONLY_BASE
    if before == after or repr(before) == repr(after):
        return Agreement.IDENTICAL
    if isinstance(before, float) and isinstance(after, float) and relative_difference(before, after) <= allowed:
        return Agreement.WITHIN
    return Agreement.DIFFERS


def _nearer(before: Any, after: Any, expected: float) -> str:
    """The side nearer to what is expected, where one of them is near; of finite gradients the side that is finite."""
    if not math.isfinite(expected):
        return ""
    numbers = _number(before), _number(after)
    errors = [relative_difference(number, expected) for number in numbers]
    if min(errors) <= _IS_THE_NORM and errors[0] != errors[1]:
        return "head" if errors[1] < errors[0] else "base"
    is_finite = [math.isfinite(number) for number in numbers]
    if is_finite[0] is not is_finite[1]:
        return "head" if is_finite[1] else "base"
    return ""


def _number(value: Any) -> float:
    return float(value) if isinstance(value, int | float) and not isinstance(value, bool) else math.nan
