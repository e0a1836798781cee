"""What changes in an evidence block: whether two say the same, and that a finding is not there any more."""

from __future__ import annotations

import re

from auditkit.store.scan import Span, line_end, next_line
from auditkit.store.tables import split_row

TIME_UNITS = frozenset({"s", "ms", "us", "µs", "ns", "seconds", "milliseconds", "microseconds", "nanoseconds"})
"""Units of measurements that never come out twice the same: no ticket is rewritten for them."""

VOLATILE_LABELS = frozenset({"Message"})
"""Rows that only retell the measurements below them, times among them."""

_LABEL, _UNIT = 0, 2
_MEASURED = re.compile(rb"^\| Measurement \|", re.MULTILINE)
_SIBLINGS = re.compile(
    rb"^\*\*Same pattern elsewhere:\*\*.*?(?=^\*\*History|^Note:|^<!-- /|\Z)", re.MULTILINE | re.DOTALL
)
_OUTCOME = re.compile(rb"^(\|[ *]*Outcome[ *]*\|) *`reproduced` *\|", re.MULTILINE)
_HISTORY = re.compile(rb"^\*\*History\*\*[ \t]*\r?$", re.MULTILINE)
_END = re.compile(rb"^<!-- /auditkit:evidence -->", re.MULTILINE)
_PLACE = re.compile(rb"`[^`\r\n]+:\d+`")


def say_the_same(old: bytes, new: bytes) -> bool:
    """Whether a refresh from `old` to `new` would change nothing that the checkout is the cause of.

    Times differ from run to run, and which places of a pattern count as probed depends on what was asked.
    """
    return stable_lines(old) == stable_lines(new)


def says_reproduced(block: bytes) -> bool:
    """Whether the block's outcome is that the finding is there."""
    return _OUTCOME.search(block) is not None


def without_finding(block: bytes, line: str) -> bytes:
    """The block with `not_reproduced` as its outcome and `line` in its history; its numbers stay.

    As it is where it already says so, or has no outcome. Line ends of the new lines are `\\n`.
    """
    changed = _OUTCOME.sub(rb"\1 `not_reproduced` now; the rest is what was found before |", block, count=1)
    end = None if changed == block else _END.search(changed)
    if end is None:
        return block
    head = b"" if _HISTORY.search(changed) else b"\n**History**\n\n"
    return changed[: end.start()] + head + f"- {line}\n".encode() + changed[end.start() :]


def stable_lines(block: bytes) -> list[bytes]:
    """The lines of a block that come out the same again from the same checkout, without their line ends."""
    siblings = _SIBLINGS.search(block)
    lines: list[bytes] = sorted(set(_PLACE.findall(siblings[0]))) if siblings else []
    block = _SIBLINGS.sub(b"", block, count=1)
    has_measurements = _MEASURED.search(block) is not None
    position = 0
    while position < len(block):
        line = Span(position, line_end(block, position))
        position = next_line(block, line.end)
        if not _is_volatile(block, line, has_measurements):
            lines.append(block[line.start : line.end])
    return lines


def _is_volatile(block: bytes, line: Span, has_measurements: bool) -> bool:
    cells = [
        block[cell.start : cell.end].decode("utf-8", "replace").strip().strip("*`") for cell in split_row(block, line)
    ]
    if not cells:
        return False
    is_retold = cells[_LABEL] in VOLATILE_LABELS and has_measurements
    return is_retold or (len(cells) > _UNIT + 1 and cells[_UNIT] in TIME_UNITS)
