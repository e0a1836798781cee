"""Whether two evidence blocks say the same, apart from what differs from one run to the next."""

from __future__ import annotations

from auditkit.store.scan import Span, line_end, next_line
from auditkit.store.tables import split_row

TIME_UNITS = frozenset({"s", "ms", "us", "µs", "ns", "seconds", "milliseconds", "microseconds", "nanoseconds"})
"""Units of measurements that never come out twice the same: no ticket is rewritten for them."""

VOLATILE_LABELS = frozenset({"Message"})
"""Rows that only retell measurements, times among them."""

_LABEL, _UNIT = 0, 2


def say_the_same(old: bytes, new: bytes) -> bool:
    """Whether a refresh from `old` to `new` would change nothing but times."""
    return _stable_lines(old) == _stable_lines(new)


def _stable_lines(block: bytes) -> list[bytes]:
    lines: list[bytes] = []
    position = 0
    while position < len(block):
        line = Span(position, line_end(block, position))
        position = next_line(block, line.end)
        if not _is_volatile(block, line):
            lines.append(block[line.start : line.end])
    return lines


def _is_volatile(block: bytes, line: Span) -> bool:
    cells = [
        block[cell.start : cell.end].decode("utf-8", "replace").strip().strip("*`") for cell in split_row(block, line)
    ]
    if not cells:
        return False
    return cells[_LABEL] in VOLATILE_LABELS or (len(cells) > _UNIT + 1 and cells[_UNIT] in TIME_UNITS)
