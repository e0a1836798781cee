"""A measured value as evidence shows it: how far it can be off by its rounding, and in which case it was taken."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from auditkit.model.codec import Record
from auditkit.model.measurement import Measurement
from auditkit.model.units import factor_of, format_value

_BYTES = re.compile(r"(?P<number>-?[\d.]+(?:e[+-]?\d+)?) (?P<prefix>B|[KMGT]iB)")
_CASE = re.compile(r"(?:^|, )(?P<name>\w+)=(?P<value>.*?)(?=, \w+=|$)")
_DIGITS_OF_BYTES, _DIGITS = 3, 4
"""What `format_bytes` and `format_value` show of a number that is not whole."""


@dataclass(frozen=True)
class Measured(Record, keys="name value text unit case evidence"):
    """One measured value: `value` is a number in `unit`, or None where it is no number (`text` says what).

    The true number lies within `slack` of it: half of the last digit shown, 0 for an exact one.
    """

    name: str
    value: float | None
    text: str
    unit: str
    case: Mapping[str, str] = field(default_factory=dict)
    evidence: str = "measured"
    slack: float = 0.0

    @classmethod
    def exact(cls, measurement: Measurement) -> Measured:
        """What a probe measured, before anything was rounded."""
        raw, unit = measurement.value, measurement.unit
        is_number = isinstance(raw, int | float) and not isinstance(raw, bool)
        shown = format_value(raw, unit) if raw is None or isinstance(raw, bool | int | float | str) else str(raw)
        case = {name: _case_text(value) for name, value in measurement.case.items()}
        return cls(measurement.name, float(raw) if is_number else None, shown, unit, case, measurement.evidence.value)

    @classmethod
    def from_cells(cls, name: str, text: str, unit: str, case: str, evidence: str) -> Measured:
        """What a row of an evidence table says."""
        value, slack = _read_number(text, unit)
        cases = {match["name"]: match["value"] for match in _CASE.finditer(case)}
        return cls(name, value, text, unit, cases, evidence, slack)

    @property
    def is_none(self) -> bool:
        """Whether the probe says that there is no such value."""
        return self.value is None and self.text == "none"

    def case_text(self) -> str:
        """`dtype=float32, tensors=64`."""
        return ", ".join(f"{name}={value}" for name, value in self.case.items())


def _case_text(value: Any) -> str:
    return format_value(value, "") if value is None or isinstance(value, bool | int | float | str) else str(value)


def _read_number(text: str, unit: str) -> tuple[float | None, float]:
    """The number that `format_value` wrote, and how far it can be off; None for words."""
    found = _BYTES.fullmatch(text) if unit == "bytes" else None
    if found is not None:
        factor = factor_of(found["prefix"])
        value = float(found["number"])
        return value * factor, 0.0 if found["prefix"] == "B" else _half_digit(value, _DIGITS_OF_BYTES) * factor
    try:
        value = float(text.replace(",", ""))
    except ValueError:
        return None, 0.0
    if not math.isfinite(value) or "," in text or (text.lstrip("-").isdigit() and abs(value) < 1000):
        return value, 0.0
    # A whole number has separators from 1,000 on; without them it was rounded.
    return value, _half_digit(value, _DIGITS)


def _half_digit(value: float, digits: int) -> float:
    """Half of the last of `digits` significant digits."""
    return 0.5 * 10.0 ** (math.floor(math.log10(abs(value))) - digits + 1) if value else 0.0
