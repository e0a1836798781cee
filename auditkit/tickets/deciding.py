"""Which of a probe's figures decide: the one that its message tells, what it was held against, the largest case."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from typing import Any

from auditkit.model.enums import Evidence
from auditkit.model.runs.measurement import Measurement
from auditkit.model.runs.run import ProbeResult
from auditkit.model.units import format_value

MOST_DECIDING = 3

_NUMBER = re.compile(r"(?<![\w.])-?\d[\d,]*(?:\.\d+)?(?:e[+-]?\d+)?(?: %)?")
_EXPECTED = ("expected_", "allowed_")
_SIZES = ("elements", "params", "tensors")
_UNTOLD = frozenset({"device", "exact", "constant", "deliberate", "of"})
_VALUE, _CASE = 4, 1


def deciding(result: ProbeResult) -> tuple[Measurement, ...]:
    """At most three of a result's measurements: what was judged, its expectation, and the largest case of it."""
    measured = result.measurements
    if len(measured) <= MOST_DECIDING:
        return measured
    told = _numbers(result.message)
    ranked = sorted(measured, key=lambda one: -_score(one, result.message, told))
    judged = ranked[0]
    beside = _expectation(judged, measured) or [one for one in ranked if one is not judged and one.case == judged.case]
    chosen = [judged, *beside[:1], *_largest(judged, measured), *ranked]
    return tuple({id(one): one for one in chosen}.values())[:MOST_DECIDING]


def evidence_words(result: ProbeResult) -> str:
    """By which evidence a result stands: `measured on cpu, partly extrapolated`."""
    if result.is_of_source:
        return "read from the source"
    if result.evidence is Evidence.SIMULATED or result.device == "simulated":
        words = "simulated: CPU values behind a simulated CUDA device"
    else:
        words = f"{result.evidence.value if result.evidence else 'not measured'} on {result.device or 'no device'}"
    far = any(each.evidence is Evidence.EXTRAPOLATED for each in result.measurements)
    return f"{words}, partly extrapolated" if far else words


def case_text(case: Mapping[str, Any]) -> str:
    """A measurement's case as `dtype=float32, tensors=64`."""
    return ", ".join(f"{name}={format_value(value)}" for name, value in case.items())


def _score(one: Measurement, message: str, told: Sequence[float]) -> int:
    """How much of the message is this figure: its value weighs most, then the words of its case."""
    is_law = one.name.endswith("_law")
    said = [format_value(value) for key, value in one.case.items() if key not in _UNTOLD]
    in_case = sum(len(text) > 1 and text in message for text in said)
    value = 0 if is_law else _VALUE * _is_told(one.value, told) + _is_told(one.value, told[:1])
    return value + _CASE * in_case + 2 * is_law


def _numbers(message: str) -> list[float]:
    found = (text.replace(",", "") for text in _NUMBER.findall(message))
    return [float(text[:-2]) / 100 if text.endswith(" %") else float(text) for text in found]


def _is_told(value: object, told: Sequence[float]) -> bool:
    """Whether the message has the number, rounded as messages are."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        return False
    return any(math.isclose(value, number, rel_tol=0.012) for number in told if number)


def _expectation(judged: Measurement, measured: Sequence[Measurement]) -> list[Measurement]:
    """What is expected or allowed in the same case."""
    case = {key: value for key, value in judged.case.items() if key != "of"}
    return [
        one
        for one in measured
        if one.name.startswith(_EXPECTED)
        and one.case.get("of", judged.name) == judged.name
        and {key: value for key, value in one.case.items() if key != "of"} == case
    ]


def _largest(judged: Measurement, measured: Sequence[Measurement]) -> list[Measurement]:
    """The same figure, or those that its law goes through, where most elements or tensors were taken."""
    name = judged.name.removesuffix("_law")
    same = [one for one in measured if one.name == name and one.evidence is not Evidence.EXTRAPOLATED]
    sized = [one for one in same if any(isinstance(one.case.get(key), int) for key in _SIZES)]
    sizes = [next(one.case[key] for key in _SIZES if isinstance(one.case.get(key), int)) for one in sized]
    return [sized[sizes.index(max(sizes))]] if sized else []
