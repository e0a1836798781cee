"""Which correct results a change of the code has changed. Pure functions over recorded results."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from typing import Any

from auditkit.model.answer_changes import LEFT, RAISES, TYPE, compare_answers
from auditkit.model.codec import ABSENT
from auditkit.model.revisions.comparison import Agreement, AnswerContrast
from auditkit.model.runs.measurement import Measurement
from auditkit.model.units import format_value

_PLANTED, _EMPTY, _SCALED = "special values", "missing and empty", "magnitudes"
_HIDES, _OTHER_TYPE = "nonfinite_grads_look_healthy", "empty_input_changes_result_type"
SPARSE = "fails_on_sparse_grads"
_NARROW = frozenset({"float16", "bfloat16"})
_NARROW_NORM = frozenset({"norm_overflows_on_finite_grads", "norm_underflows_to_zero", "norm_loses_accuracy"})
_CAREFUL = frozenset({"float32", "float64"})
_SMALLEST, _LARGEST = 1e-12, 1e12
"""Between these, squares and sums of squares of float32 gradients neither overflow nor underflow."""


def changed_answers(
    base: Sequence[Measurement], head: Sequence[Measurement], roles: Mapping[str, str], findings: Collection[str]
) -> list[AnswerContrast]:
    """Return the results for the same gradients that were correct at the base and differ at the head.

    `roles` names the field of the norm and those of counts; `findings` are the probes that the change has to fix:
    what they call wrong may change.
    """
    return [one for one in compare_answers(base, head) if not one.agrees and _was_right(one, roles, findings)]


def told(change: AnswerContrast) -> str:
    """`norm of float32, seed 1: 3.2 -> 4.1`."""
    case = ", ".join(f"{key} {format_value(value)}" for key, value in change.case.items() if key != "family")
    before, after = ("nothing" if value is ABSENT else format_value(value) for value in (change.base, change.head))
    return f"{change.field or 'the result'} of {case}: {before} -> {after}"


def _was_right(one: AnswerContrast, roles: Mapping[str, str], findings: Collection[str]) -> bool:
    """Whether the base's result counts as correct although the head's differs and is not nearer."""
    if one.field == RAISES:
        return one.agreement is Agreement.ONLY_HEAD
    if one.field.startswith(TYPE):
        return _was_right_type(one, findings)
    if one.base is ABSENT or one.nearer == "head":
        return False
    if one.head is ABSENT:
        is_healthy = one.base is True and one.family == _PLANTED and _HIDES in findings
        return not (is_healthy or (one.family == _EMPTY and _OTHER_TYPE in findings))
    if one.nearer == "base":
        return True
    if SPARSE in findings and str(one.case.get("layout", "")).startswith("sparse"):
        return _is_finite(one.base) and not _is_finite(one.head)
    if one.family == _PLANTED:
        return _was_right_of_planted(one, roles, findings)
    if one.family == _EMPTY and _OTHER_TYPE in findings:
        return False
    magnitude = float(one.case.get("magnitude", 1.0))
    if one.case.get("dtype") not in _CAREFUL or (one.family == _SCALED and not _SMALLEST <= magnitude <= _LARGEST):
        return _is_finite(one.base) and not _is_finite(one.head)
    return _is_finite(one.base) and not _cancels(one)


def _was_right_type(one: AnswerContrast, findings: Collection[str]) -> bool:
    """Whether a type has to stay: not that of an empty input's result that a finding calls wrong.

    Neither that of a tensor of 16 bits where a finding says that the norm does not fit into it.
    """
    if one.base is ABSENT or one.head is ABSENT or (one.family == _EMPTY and _OTHER_TYPE in findings):
        return False
    before, after = (str(value).split(" ", 1) for value in (one.base, one.head))
    is_widened = (after[0], before[1:]) == ("float32", after[1:])
    return not (before[0] in _NARROW and is_widened and not _NARROW_NORM.isdisjoint(findings))


def _was_right_of_planted(one: AnswerContrast, roles: Mapping[str, str], findings: Collection[str]) -> bool:
    """With NaN or Inf among the gradients: a norm has to show them, a count or a share of them stays as it was."""
    norm = roles.get("norm")
    counts = {field for role, field in roles.items() if role != "norm"}
    if _HIDES in findings and one.field not in counts:
        return False
    if not _is_finite(one.base):
        return one.field in (norm, LEFT) and _is_finite(one.head)
    return one.field != norm and not _cancels(one)


def _cancels(one: AnswerContrast) -> bool:
    """Whether a difference is rounding of terms that cancel: small beside the gradients, large beside their sum."""
    values = (one.base, one.head)
    if not all(isinstance(value, float) and _is_finite(value) for value in values) or not math.isfinite(one.exact):
        return False
    return bool(abs(one.base - one.head) <= one.allowed * max(*map(abs, values), one.exact))


def _is_finite(value: Any) -> bool:
    return not isinstance(value, int | float) or math.isfinite(value)
