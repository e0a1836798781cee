"""What changes in an evidence block: its outcome, its history and its parts; and whether two blocks say the same."""

from __future__ import annotations

import hashlib
import re

from auditkit.model.units import TIME_UNITS
from auditkit.store.markdown.document import Document
from auditkit.store.markdown.scan import Span, line_end, next_line
from auditkit.store.markdown.tables import split_row

VOLATILE_LABELS = frozenset({"Message"})
"""Rows that only retell the measurements below them, times among them."""

OF_THE_COMMAND = frozenset({"Asked", "Sandbox"})
"""Rows on how a command came to its answer, which is the same in another way."""

VERIFIED = "Verified"
"""The title of the part that a block may have between what was found and its history."""

FOUND_BEFORE = "now; the rest is what was found before"
"""What stands behind an outcome that is not that of the block's rows."""

ABSENT = "no longer reproduced"
"""How a line of the history says that a finding is gone."""

AS_FOUND = "as found above"
"""What stands behind a run of the Verified part that was not made again."""

AT_FIX = "Measurement at the fix"
"""The first header of the table with what the fix gave."""

_DIGITS = 12
_LABEL, _UNIT = 0, 2
_MEASURED = re.compile(rb"^\| Measurement \|", re.MULTILINE)
_SIBLINGS = re.compile(
    rb"^\*\*Same pattern elsewhere:\*\*.*?(?=^\*\*(?:History|Verified)|^Note:|^<!-- /|\Z)",
    re.MULTILINE | re.DOTALL,
)
_OUTCOME = re.compile(rb"^(\|[ *]*Outcome[ *]*\|) *`reproduced` *\|", re.MULTILINE)
_OUTCOME_BEFORE = re.compile(
    rb"^(\|[ *]*Outcome[ *]*\|) *`not_reproduced` " + FOUND_BEFORE.encode() + rb" *\|", re.MULTILINE
)
_TITLED = re.compile(rb"^\*\*(?P<title>Verified|History)\*\*[^\r\n]*\r?$", re.MULTILINE)
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
    changed = with_outcome(block, False)
    return block if changed == block else with_history_line(changed, line)


def with_outcome(block: bytes, is_reproduced: bool) -> bytes:
    """The block saying that the finding is there, or is not any more, its numbers as they are.

    As it is where it says so, or where its numbers are not those of a run that reproduced.
    """
    if is_reproduced:
        return _OUTCOME_BEFORE.sub(rb"\1 `reproduced` |", block, count=1)
    return _OUTCOME.sub(rb"\1 `not_reproduced` " + FOUND_BEFORE.encode() + b" |", block, count=1)


def with_history_line(block: bytes, line: str) -> bytes:
    """The block with one more line in its history, which is added where it has none."""
    end = _END.search(block)
    if end is None:
        return block
    head = b"" if _HISTORY.search(block) else b"\n**History**\n\n"
    return block[: end.start()] + head + f"- {line}\n".encode() + block[end.start() :]


def with_part(block: bytes, title: str, text: bytes) -> bytes:
    """The block with `text` as its part `title`, in the place of an earlier one or above the history.

    `text` is Markdown whose first line is `**title**` and whatever follows; no other line of it may start
    with the title of a part in bold. "" takes the part out. Line ends of the new lines are `\\n`.
    """
    found = _part(block, title)
    if found is None:
        history = next((one for one in _TITLED.finditer(block) if one["title"] == b"History"), None)
        end = history or _END.search(block)
        if end is None or not text:
            return block
        found = Span(end.start(), end.start())
    before, after = block[: found.start].rstrip(b"\r\n"), block[found.end :]
    piece = b"\n\n" + text.strip(b"\n") + b"\n" if text else b"\n"
    gap = b"" if _END.match(after) else b"\n"
    return before + piece + gap + after


def part_of(block: bytes, title: str) -> bytes:
    """The block's part with that title, "" where it has none."""
    found = _part(block, title)
    return block[found.start : found.end].strip() if found else b""


def _part(block: bytes, title: str) -> Span | None:
    """From the line with the title to the next title, or to the end of the block."""
    titles = list(_TITLED.finditer(block))
    start = next((one for one in titles if one["title"].decode() == title), None)
    end = _END.search(block)
    if start is None or end is None:
        return None
    following = next((one.start() for one in titles if one.start() > start.start()), end.start())
    return Span(start.start(), following)


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
    return is_retold or cells[_LABEL] in OF_THE_COMMAND or (len(cells) > _UNIT + 1 and cells[_UNIT] in TIME_UNITS)


def ticket_digest(document: Document) -> str:
    """Twelve hex digits of the evidence blocks' lines that do not change from run to run.

    Of a ticket without evidence: of What's Wrong (else the Detailed Description) and the Location rows.
    """
    blocks = [document.data[block.span.start : block.span.end] for block in document.evidence if block.fingerprint]
    lines = [line for block in blocks for line in stable_lines(block)] if blocks else _claimed(document)
    text = b"\n".join(line.rstrip() for line in lines)
    return hashlib.sha256(text).hexdigest()[:_DIGITS]


def _claimed(document: Document) -> list[bytes]:
    description = document.section("Detailed Description")
    if description is not None:
        description = document.child(description, "What's Wrong") or description
    lines = [f"{row.label}: {row.written}".encode() for row in document.fields("Location")]
    if description is not None:
        body = document.body(description)
        lines += document.data[body.start : document.content_end(body.end)].splitlines()
    return lines
