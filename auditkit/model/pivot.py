"""Measurements as tables: one value of their cases down the side, another along the top."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from auditkit.model.enums import Evidence
from auditkit.model.measurement import Measurement
from auditkit.model.units import format_value

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
    value: Any = measurement.case[key]
    return format_value(value, "") if value is None or isinstance(value, bool | int | float | str) else str(value)


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
