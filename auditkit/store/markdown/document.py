"""A ticket's file: its bytes, and where in them everything lies. An edit replaces one span, nothing else."""

from __future__ import annotations

import bisect
import io
import itertools
import operator
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import PurePath

from auditkit.errors import BadInputError
from auditkit.model.text import inert_line
from auditkit.model.tickets.ticket import BrokenTicket
from auditkit.store.markdown.scan import Heading, Marker, Scan, Span, line_end, next_line, scan
from auditkit.store.markdown.tables import Field, read_fields

_MOST_BAD_LINES = 10
# Below it, counting the lines above is quicker than an index of them.
_SMALL_BYTES = 20_000
_BOM = b"\xef\xbb\xbf"
_RULE = re.compile(rb" {0,3}([-*_])(?:[ \t]*\1){2,}[ \t]*\r?")
_FINGERPRINT = re.compile(rb"^\|[ *]*Fingerprint[ *]*\|", re.MULTILINE)
_HISTORY = re.compile(rb"^\*\*History\*\*[ \t]*\r?$", re.MULTILINE)
_HISTORY_ITEM = re.compile(rb"^- ([^\r\n]+)", re.MULTILINE)
_DEVICE = re.compile(rb"^\|[ *]*Device[ *]*\|.*\((\w+)\)[ \t]*\|[ \t]*\r?$", re.MULTILINE)


class BrokenFileError(Exception):
    """A file that cannot be read as a ticket; `broken` says where and why."""

    def __init__(self, broken: BrokenTicket) -> None:
        super().__init__(broken.describe())
        self.broken = broken


@dataclass(frozen=True)
class EvidenceBlock:
    """One machine-written block, both markers included; `history` are the lines under **History**.

    `device` is what is in brackets behind its Device: `cpu`, `simulated`, `cuda` or `source`. The banner
    of a ticket is a block without a fingerprint.
    """

    span: Span
    fingerprint: str
    history: tuple[str, ...]
    device: str = ""


@dataclass(frozen=True)
class Document:
    """The bytes of one file and an index of spans into them; `path` is only for messages.

    Made by `Document.parse`. Every editing method returns another document, parsed again.
    """

    data: bytes
    path: PurePath
    scan: Scan

    @classmethod
    def parse(cls, data: bytes, path: PurePath = PurePath()) -> Document:  # noqa: B008 - a path is frozen
        """Index `data`; raises BrokenFileError, with every problem, where it is not UTF-8, has unresolved
        merge conflicts or evidence blocks that do not close."""
        found = scan(data)
        problems = [*_undecodable(data), *((start, "unresolved merge conflict") for start in found.conflicts)]
        problems += _unpaired(found.markers)
        if problems:
            problems.sort(key=operator.itemgetter(0))
            first, *others = [broken_at(data, path, offset, message) for offset, message in problems]
            raise BrokenFileError(replace(first, also=tuple(others)))
        return cls(data, path, found)

    @cached_property
    def _sections(self) -> dict[tuple[int, str], Heading]:
        return {(heading.level, heading.text.casefold()): heading for heading in reversed(self.scan.headings)}

    @cached_property
    def _metadata_by_label(self) -> dict[str, Field]:
        return {row.label.casefold(): row for row in reversed(self.metadata)}

    @property
    def newline(self) -> bytes:
        """The line end of the first line: `\\r\\n` or `\\n`."""
        first = self.data.find(b"\n")
        return b"\r\n" if first > 0 and self.data[first - 1 : first] == b"\r" else b"\n"

    @cached_property
    def _line_starts(self) -> list[int]:
        return list(itertools.accumulate(map(len, io.BytesIO(self.data + b"\n")), initial=0))

    def line_number(self, offset: int) -> int:
        """The line (1-based) that the byte at `offset` is on."""
        if len(self.data) < _SMALL_BYTES:
            return self.data.count(b"\n", 0, offset) + 1
        return bisect.bisect_right(self._line_starts, offset)

    def body(self, heading: Heading) -> Span:
        """What lies below a heading, up to the end of its section."""
        return Span(next_line(self.data, heading.line.end), heading.section_end)

    @cached_property
    def metadata(self) -> tuple[Field, ...]:
        """The rows of the `## Ticket Metadata` table."""
        return self.fields("Ticket Metadata")

    @cached_property
    def evidence(self) -> tuple[EvidenceBlock, ...]:
        """The evidence blocks, in the order of the file."""
        markers = self.scan.markers
        pairs = zip(markers[::2], markers[1::2], strict=True)
        return tuple(self._evidence_block(Span(start.line.start, end.line.end)) for start, end in pairs)

    @property
    def banner(self) -> EvidenceBlock | None:
        """The block that says where the ticket's numbers come from, above its first section."""
        first = next(iter(self.evidence), None)
        sections = (heading.line.start for heading in self.scan.headings if heading.level == 2)
        is_banner = first is not None and not first.fingerprint and first.span.end < next(sections, 0)
        return first if is_banner else None

    def section(self, title: str, level: int = 2) -> Heading | None:
        """The first heading of that level and title, whatever the case."""
        return self._sections.get((level, title.casefold()))

    def child(self, parent: Heading, *titles: str) -> Heading | None:
        """The first H3 in the section of `parent` that has one of the titles, whatever the case."""
        wanted = {title.casefold() for title in titles}
        inside = (h for h in self.scan.headings if parent.line.start < h.line.start < parent.section_end)
        return next((h for h in inside if h.level == 3 and h.text.casefold() in wanted), None)

    def fields(self, title: str) -> tuple[Field, ...]:
        """The rows of the tables in the section `title`, its header row left out."""
        heading = self.section(title)
        if heading is None:
            return ()
        rows = read_fields(self.data, self.body(heading), self.scan.hidden)
        return tuple(row for row in rows if row.label.casefold() != "field")

    def field(self, label: str) -> Field | None:
        """The first metadata row with that label."""
        return self._metadata_by_label.get(label.casefold())

    def replace(self, span: Span, replacement: bytes) -> Document:
        """The document with one span replaced and every other byte as it was."""
        changed = self.data[: span.start] + replacement + self.data[span.end :]
        return Document.parse(changed, self.path)

    def set_field(self, label: str, value: str) -> Document:
        """The document with one metadata value replaced, inside its backticks or bold.

        Raises BadInputError where there is no such row, or where `value` is no text for a table cell.
        """
        row = self.field(label)
        if row is None:
            raise BadInputError(
                f"{self.path}: the Ticket Metadata table has no row '{label}'",
                f"add the row by hand: | **{label}** | `{value}` |",
            )
        if value != inert_line(value) or "`" in value:
            raise BadInputError(f"not a value for the row '{label}': {inert_line(value)!r}")
        written = value.replace("|", "\\|").encode()
        if row.value.start == row.value.end and written:
            return self.replace(row.cell, b" " + written + b" ")
        return self.replace(row.value, written)

    def set_evidence(self, old: EvidenceBlock, block: bytes) -> Document:
        """The document with the evidence block `old` replaced by `block`, in this file's line ends."""
        return self.replace(old.span, self.in_own_newlines(block))

    def insert_evidence(self, above: EvidenceBlock, block: bytes) -> Document:
        """The document with one more evidence block below the block `above`, a blank line between them."""
        end = above.span.end
        return self.replace(Span(end, end), 2 * self.newline + self.in_own_newlines(block))

    def in_own_newlines(self, text: bytes) -> bytes:
        """`text` without its last line end, its other line ends as this file has them."""
        lines = text.replace(b"\r\n", b"\n").rstrip(b"\n")
        return lines.replace(b"\n", self.newline)

    def append_to_section(self, section: str, lines: Sequence[str]) -> Document:
        """The document with more lines at the end of `## section`; as it is where that is missing."""
        heading = self.section(section)
        if heading is None or not lines:
            return self
        is_empty = not self.data[heading.line.end : self.content_end(heading.section_end)].strip()
        return self._insert_after(heading.section_end, ("\n\n" if is_empty else "\n") + "\n".join(lines))

    def append_to_subsection(self, section: str, subsection: str, line: str) -> Document:
        """The document with one more line at the end of `### subsection` of `## section`.

        What is missing of the two headings is added: the subsection at the end of its section, the
        section at the end of the file.
        """
        parent = self.section(section)
        if parent is None:
            text = f"\n\n---\n\n## {section}\n\n### {subsection}\n\n{line}"
            return self._insert_after(len(self.data), text)
        child = self.child(parent, subsection)
        if child is None:
            return self._insert_after(parent.section_end, f"\n\n### {subsection}\n\n{line}")
        is_empty = not self.data[child.line.end : self.content_end(child.section_end)].strip()
        return self._insert_after(child.section_end, f"\n\n{line}" if is_empty else f"\n{line}")

    def _insert_after(self, end: int, text: str) -> Document:
        position = self.content_end(end)
        return self.replace(Span(position, position), text.replace("\n", self.newline.decode()).encode())

    def content_end(self, end: int) -> int:
        """Where the last line before `end` that is neither blank nor a rule ends."""
        position = end
        while position > 0:
            start = self.data.rfind(b"\n", 0, max(position - 1, 0)) + 1
            stop = line_end(self.data, start)
            line = self.data[start : min(stop, end)]
            if self.scan.hides(start) or (line.strip() and _RULE.fullmatch(line) is None):
                return stop
            position = start
        return 0

    def _evidence_block(self, span: Span) -> EvidenceBlock:
        label = _FINGERPRINT.search(self.data, span.start, span.end)
        rows = read_fields(self.data, Span(label.start(), label.end()), self.scan.hidden) if label else ()
        fingerprint = rows[0].text if rows else ""
        text = self.data[span.start : span.end]
        history = _HISTORY.search(text)
        items = _HISTORY_ITEM.findall(text, history.end()) if history else []
        device = _DEVICE.search(text)
        return EvidenceBlock(
            span,
            fingerprint,
            tuple(item.decode("utf-8", "replace") for item in items),
            device[1].decode() if device else "",
        )


def _undecodable(data: bytes) -> Iterator[tuple[int, str]]:
    """The first byte of each line that is not UTF-8, of ten lines at most."""
    position = 0
    for _ in range(_MOST_BAD_LINES):
        try:
            data[position:].decode("utf-8")
        except UnicodeDecodeError as error:
            offset = position + error.start
            yield offset, f"not UTF-8: byte 0x{data[offset]:02x}"
            position = next_line(data, offset)
        else:
            return


def _unpaired(markers: Sequence[Marker]) -> Iterator[tuple[int, str]]:
    """Where the markers of evidence blocks do not come in pairs."""
    opened: Marker | None = None
    for marker in markers:
        if marker.is_start and opened is not None:
            yield marker.line.start, "evidence marker out of place: the block before it is not closed"
        elif not marker.is_start and opened is None:
            yield marker.line.start, "evidence marker out of place: no start before it"
        opened = marker if marker.is_start else None
    if opened is not None:
        yield opened.line.start, "evidence block is not closed"


def broken_at(data: bytes, path: PurePath, offset: int, message: str) -> BrokenTicket:
    """A broken entry for the byte at `offset`: line, column in characters, and the line's text."""
    start = data.rfind(b"\n", 0, offset) + 1
    line = data.count(b"\n", 0, offset) + 1
    text = data[start : line_end(data, start)]
    column = len(data[start:offset].removeprefix(_BOM).decode("utf-8", "replace")) + 1
    source = text.removeprefix(_BOM).decode("utf-8", "replace")
    return BrokenTicket(path, line, column, message, source)
