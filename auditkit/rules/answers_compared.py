"""The answers of two revisions to the same gradients, number by number."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from auditkit.model.comparison import ABSENT, Agreement, AnswerContrast, relative_difference
from auditkit.model.measurement import Measurement

RAISES = "(raises)"
LEFT = "(norm of the gradients it leaves)"
_READ = ("field", "error")
"""What a case says of the answer, and not of the gradients."""
_IS_THE_NORM = 0.01
"""A field is taken for the norm where its value is this near to the exact one, at either revision."""


@dataclass
class _Case:
    """One set of gradients: what is known of it, and every number that was answered."""

    case: dict[str, Any]
    exact: float = math.nan
    allowed: float = 0.0
    fields: dict[str, Any] = field(default_factory=dict)


def compare_answers(base: Sequence[Measurement], head: Sequence[Measurement]) -> tuple[AnswerContrast, ...]:
    """Every field of every case that both sides were asked, in the order asked."""
    ours, theirs = _by_case(base), _by_case(head)
    return tuple(
        _contrast(ours[key], theirs[key], name)
        for key in ours
        if key in theirs
        for name in dict.fromkeys((*ours[key].fields, *theirs[key].fields))
    )


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
            case.fields[_field_of(one)] = one.value
    return cases


def _field_of(one: Measurement) -> str:
    return {"raises": RAISES, "left_norm": LEFT}.get(one.name) or str(one.case.get("field", ""))


def _contrast(ours: _Case, theirs: _Case, name: str) -> AnswerContrast:
    before, after = ours.fields.get(name, ABSENT), theirs.fields.get(name, ABSENT)
    agreement = _agreement(before, after, ours.allowed)
    nearer = _nearer(before, after, ours.exact) if agreement is Agreement.DIFFERS else ""
    return AnswerContrast(ours.case, name, before, after, ours.exact, ours.allowed, agreement, nearer)


def _agreement(before: Any, after: Any, allowed: float) -> Agreement:
    if before is ABSENT or after is ABSENT:
        return Agreement.ONLY_HEAD if before is ABSENT else Agreement.ONLY_BASE
    if before == after or repr(before) == repr(after):
        return Agreement.IDENTICAL
    if isinstance(before, float) and isinstance(after, float) and relative_difference(before, after) <= allowed:
        return Agreement.WITHIN
    return Agreement.DIFFERS


def _nearer(before: Any, after: Any, exact: float) -> str:
    errors = [_error(value, exact) for value in (before, after)]
    if min(errors) > _IS_THE_NORM or errors[0] == errors[1]:
        return ""
    return "head" if errors[1] < errors[0] else "base"


def _error(value: Any, exact: float) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return math.inf
    return relative_difference(float(value), exact)


def _number(value: Any) -> float:
    return float(value) if isinstance(value, int | float) else math.nan


def families(answers: Sequence[AnswerContrast]) -> Mapping[str, tuple[AnswerContrast, ...]]:
    """The answers by the family of their gradients, in order."""
    found: dict[str, list[AnswerContrast]] = {}
    for answer in answers:
        found.setdefault(answer.family, []).append(answer)
    return {family: tuple(of_family) for family, of_family in found.items()}


def largest_difference(answers: Sequence[AnswerContrast]) -> float:
    """The largest relative difference of numbers that agree; 0 where all are identical."""
    agreeing = (Agreement.IDENTICAL, Agreement.WITHIN)
    return max((relative_difference(a.base, a.head) for a in answers if a.agreement in agreeing), default=0.0)
