"""What was measured: one number, as evidence shows it and as tables of several; and where something happened."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from auditkit.model.codec import Record, number_again
from auditkit.model.enums import Evidence
from auditkit.model.units import format_value


@dataclass(frozen=True)
class Measurement(Record):
    """A name, a value, a unit, and the case it was taken in (dtype, count, magnitude, device)."""

    name: str
    value: Any
    unit: str
    case: Mapping[str, Any] = field(default_factory=dict)
    evidence: Evidence = Evidence.MEASURED

    @classmethod
    def from_json(cls, raw: Mapping[str, Any]) -> Measurement:
        """What a probe's message says, whose words are taken as they are."""
        case, evidence = dict(raw.get("case", {})), Evidence(raw.get("evidence", "measured"))
        return cls(raw["name"], number_again(raw["value"], raw["unit"]), raw["unit"], case, evidence)


@dataclass(frozen=True)
class Location(Record, keys="file line function"):
    """A line of the checkout: `file` is relative to its root, with forward slashes.

    That of an installed package is relative to `folder`, which is known only while the run is made.
    """

    file: str
    line: int
    function: str = ""
    folder: str = field(default="", compare=False)


@dataclass(frozen=True)
class CodeExcerpt(Record):
    """Lines cut from the checkout at the audited revision: the ticket's code evidence."""

    file: str
    first_line: int
    lines: tuple[str, ...]

    @property
    def last_line(self) -> int:
        return self.first_line + len(self.lines) - 1


@dataclass(frozen=True)
class Measured(Record, keys="name value text unit case evidence"):
    """One measured value: `value` is a number in `unit`, or None where it is no number (`text` says what)."""

    name: str
    value: float | None
    text: str
    unit: str
    case: Mapping[str, str] = field(default_factory=dict)
    evidence: str = "measured"

    @classmethod
    def exact(cls, measurement: Measurement) -> Measured:
        """What a probe measured, before anything was rounded."""
        raw, unit = measurement.value, measurement.unit
        is_number = isinstance(raw, int | float) and not isinstance(raw, bool)
        number = float(raw) if is_number else None
        case = {name: format_value(value) for name, value in measurement.case.items()}
        return cls(measurement.name, number, format_value(raw, unit), unit, case, measurement.evidence.value)

    def case_text(self) -> str:
        """`dtype=float32, tensors=64`."""
        return ", ".join(f"{name}={value}" for name, value in self.case.items())


NOT_MEASURED = "-"
_FIRST_CHOICE = ("dtype", "elements")
"""What a reader looks for at the side and at the top, where a probe's cases have both."""

_LONGEST_HEAD = 24
"""A case may hold a sentence, such as what was raised: that heads no column."""


@dataclass(frozen=True)
class Pivot:
    """The measurements of one name by two values of their cases, all as text.

    `side` and `top` name the two; each row is the side's value and one cell for each of `columns`.
    """

    name: str
    side: str
    top: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str, tuple[str, ...]], ...]


def pivots(measurements: Sequence[Measurement]) -> list[Pivot]:
    """A table for each name that was measured over two values of the case, such as dtype and elements.

    A further value may differ as well (tensors), as long as the two tell every case from the others.
    """
    by_name: dict[str, list[Measurement]] = {}
    for measurement in measurements:
        by_name.setdefault(measurement.name, []).append(measurement)
    found = (_pivot(name, taken) for name, taken in by_name.items())
    return [pivot for pivot in found if pivot is not None]


def _pivot(name: str, taken: Sequence[Measurement]) -> Pivot | None:
    varying = [key for key in taken[0].case if _differs(key, taken)]
    varying.sort(key=lambda key: _FIRST_CHOICE.index(key) if key in _FIRST_CHOICE else len(_FIRST_CHOICE))
    for number, side in enumerate(varying):
        for top in varying[number + 1 :]:
            cells = {(_text(m, side), _text(m, top)): _cell(m) for m in taken}
            if len(cells) == len(taken):
                return _table(name, side, top, cells)
    return None


def _differs(key: str, taken: Sequence[Measurement]) -> bool:
    if not all(key in m.case for m in taken):
        return False
    texts = {_text(m, key) for m in taken}
    return len(texts) > 1 and max(map(len, texts)) <= _LONGEST_HEAD


def _cell(measurement: Measurement) -> str:
    value = format_value(measurement.value, measurement.unit)
    return f"{value} extrapolated" if measurement.evidence is Evidence.EXTRAPOLATED else value


def _text(measurement: Measurement, key: str) -> str:
    return format_value(measurement.case[key])


def _table(name: str, side: str, top: str, cells: dict[tuple[str, str], str]) -> Pivot:
    columns = tuple(dict.fromkeys(column for _, column in cells))
    rows = dict.fromkeys(row for row, _ in cells)
    return Pivot(
        name,
        side,
        top,
        columns,
        tuple((row, tuple(cells.get((row, column), NOT_MEASURED) for column in columns)) for row in rows),
    )
