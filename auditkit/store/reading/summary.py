"""The figures of a summary page that people keep by hand: in tables, in bars, in headings and in sentences.

A figure is a number in a column of counts or percentages, behind a bar of blocks, in brackets behind a
heading that names a severity, or beside words for tickets. Other numbers (lines, versions, times) are none.
"""

from __future__ import annotations

import bisect
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from auditkit.model.tickets.ids import AGENT_NAMES, agent_code
from auditkit.model.tickets.page import Figure
from auditkit.model.tickets.review import parse_verdict
from auditkit.model.tickets.ticket import parse_severity, parse_status
from auditkit.store.markdown.scan import Scan, Span, line_end, next_line, scan
from auditkit.store.markdown.tables import split_row

COUNT_HEADERS = frozenset(
    {"count", "counts", "tickets", "issues", "findings", "number", "#", "n", "total", "votes", "reviews", "value"}
)
"""Headers of columns that count tickets (or votes)."""

_PERCENT_HEADERS = frozenset({"%", "percent", "percentage", "share"})
_OTHER_COUNTS = frozenset({"mentions", "occurrences", "files", "lines of code"})
_NUMBER = r"\d{1,3}(?:,\d{3})+|\d{1,12}"
_CELL = re.compile(rf"^[\s*_`]*(?P<number>~?(?:(?:{_NUMBER})(?:\.\d+)?\s?%|{_NUMBER}))[\s*_`]*(?:\(.*\)\s*)?$")
_BAR = re.compile(rf"^\s*(?P<label>\S.{{0,80}}?)\s*[█▉▊▋▌▍▎▏▇■▪▓]+\s+(?P<number>{_NUMBER})\s*$")
_LEVEL = r"P[0-4]\b"
_NOUN = r"(?:tickets?|issues?|findings?|bugs?|batches)\b"
# A number and the words behind it, up to a noun for tickets or a severity: "35 P0-P1 issues".
_COUNTED = re.compile(
    rf"(?<![\w.,/#:~%-])(?P<number>{_NUMBER})(?![\w.,%/:-]*\d)\s+(?P<words>"
    r"[\"“][^\"”]{1,60}[\"”]"
    rf"|(?:(?!\d)\S{{1,40}}\s+){{0,4}}?"
    rf"(?:\S{{0,40}}?{_NOUN}|[\"'(*]*{_LEVEL}\S{{0,40}}(?:\s+\S{{0,40}}?{_NOUN})?))",
    re.IGNORECASE,
)
_BRACKETED = re.compile(
    rf"(?P<words>(?:[^\s,;:]{{1,40}}\s+){{1,5}})(?:count|total|{_NOUN})\s*\((?P<number>{_NUMBER})\)", re.I
)
_PERCENT = re.compile(
    r"(?P<rough>~|\b(?:about|around|roughly|nearly)\s+)?(?P<number>\d{1,3}(?:\.\d{1,6})?)\s?%"
    r"(?:\s+(?:are|is)\s+(?P<words>[^.,;|%]{0,80}))?",
    re.IGNORECASE,
)
_OPENED = re.compile(r"[\s\"'*]*\(~?")
_HEADING_COUNT = re.compile(
    rf"{_LEVEL}.{{0,200}}?(?:\((?P<number>{_NUMBER})\)|[-–—:]\s*(?P<none>none\b.{{0,80}}))\s*$", re.IGNORECASE
)
# List numbers, and what is said of the count rather than of the tickets.
_LEAD = re.compile(r"^(?:\d+[.)]\s+)?(?:(?:and|an?|low|high|only|just|the)\s+)*", re.IGNORECASE)
_ABOUT_TICKETS = re.compile(rf"{_NOUN}|{_LEVEL}", re.IGNORECASE)


def read_figures(data: bytes) -> tuple[Figure, ...]:
    """Every figure of the Markdown page `data`, in the order of the file; bytes that are no text read as `�`."""
    reader = _Reader(data, scan(data))
    return tuple(sorted(reader.figures(), key=lambda figure: (figure.line, figure.column)))


@dataclass(frozen=True)
class _Line:
    number: int
    span: Span
    text: str
    is_hidden: bool
    headings: tuple[str, ...]


class _Reader:
    def __init__(self, data: bytes, found: Scan) -> None:
        self._data = data
        self._scan = found
        self._lines = tuple(self._read_lines())

    def figures(self) -> Iterator[Figure]:
        block = 0
        header: list[str] = []
        for line in self._lines:
            cells = [] if line.is_hidden else self._cells(line)
            if cells and header:
                yield from _row_figures(line, cells, header, block)
                continue
            header = [text for text, _ in cells]
            if header or not line.text.strip() or line.text.lstrip().startswith(("```", "~~~")):
                block = line.number
            if header:
                continue
            yield from _bar(line, block)
            if not line.is_hidden:
                yield from _prose(line, block)

    def _read_lines(self) -> Iterator[_Line]:
        """The lines with the headings above each; a heading stands below itself."""
        hidden = iter(self._scan.hidden)
        heads = iter(self._scan.headings)
        span, head = next(hidden, None), next(heads, None)
        above: list[tuple[int, str]] = []
        start = number = 0
        while start < len(self._data):
            number += 1
            while span is not None and span.end <= start:
                span = next(hidden, None)
            if head is not None and head.line.start <= start:
                above = [*((level, text) for level, text in above if level < head.level), (head.level, head.text)]
                head = next(heads, None)
            line = Span(start, line_end(self._data, start))
            text = self._data[line.start : line.end].decode("utf-8", "replace")
            is_hidden = span is not None and span.start <= start
            yield _Line(number, line, text, is_hidden, tuple(text for _, text in above))
            start = next_line(self._data, line.end)

    def _cells(self, line: _Line) -> list[tuple[str, int]]:
        """The cells of a table row, each with the column (1-based) where it starts."""
        spans = split_row(self._data, line.span)
        before = self._data[line.span.start : spans[0].start].decode("utf-8", "replace") if spans else ""
        column, cells = len(before) + 1, []
        for span in spans:
            text = self._data[span.start : span.end].decode("utf-8", "replace")
            cells.append((text, column))
            column += len(text) + 1
        return cells


def _row_figures(line: _Line, cells: list[tuple[str, int]], header: list[str], block: int) -> Iterator[Figure]:
    """The numbers of a row whose columns count something; a column of tickets' words adds its label."""
    label, subject = _plain(cells[0][0]), _plain(header[0])
    for (text, column), head in zip(cells[1:], header[1:], strict=False):
        unit = _plain(head)
        match = _CELL.match(text)
        is_count = unit.casefold() in COUNT_HEADERS | _PERCENT_HEADERS | _OTHER_COUNTS
        if match is None or not (is_count or _is_value(unit)):
            continue
        labels = (label,) if is_count else (label, unit)
        written = match["number"].replace(" ", "")
        place = column + match.start("number")
        yield Figure(line.number, place, written, labels, subject, unit if is_count else "", block, line.headings)


def _bar(line: _Line, block: int) -> Iterator[Figure]:
    match = _BAR.match(line.text)
    if match is not None:
        place = match.start("number") + 1
        yield Figure(line.number, place, match["number"], (_plain(match["label"]),), "", "", block, line.headings)


def _prose(line: _Line, block: int) -> Iterator[Figure]:
    """The figures of a line of text or a heading; each place counts once."""
    taken: set[int] = set()
    for find in (_heading_figures, _counted_figures, _bracketed_figures, _percent_figures):
        for start, written, label in find(line.text):
            if start not in taken:
                taken.add(start)
                yield Figure(line.number, start + 1, written, (label,), "", "", block, line.headings)


_Found = Iterator[tuple[int, str, str]]


def _heading_figures(text: str) -> _Found:
    match = _HEADING_COUNT.search(text) if text.lstrip().startswith("#") else None
    if match is not None:
        is_none = match["number"] is None
        start = match.start("none" if is_none else "number")
        yield start, "0" if is_none else match["number"], re.split(r"\s[-–—(]", _plain(match[0]))[0]


def _counted_figures(text: str) -> _Found:
    for match in _COUNTED.finditer(text):
        yield match.start("number"), match["number"], _counted_label(text, match)


def _counted_label(text: str, match: re.Match[str]) -> str:
    """The words behind a number; where they only say "tickets", those before its colon or its preposition."""
    words = _plain(match["words"])
    if re.fullmatch(_NOUN, words, re.IGNORECASE) is None or words.casefold() == "batches":
        return words
    before = text[max(0, match.start() - 120) : match.start()]
    named = re.search(r"([^.:|]*):[\s*_]*$", before)
    if named is not None:
        return _plain(named[1])
    is_all = re.search(r"\b(?:all|total|of|for|across|in|the|have|has)[\s*_]*$", before, re.IGNORECASE)
    return f"total {words}" if is_all else f"some {words}"


def _bracketed_figures(text: str) -> _Found:
    for match in _BRACKETED.finditer(text):
        yield match.start("number"), match["number"], _LEAD.sub("", _plain(match["words"]))


def _percent_figures(text: str) -> _Found:
    """Percentages of a line about tickets; one in brackets behind a count is of what the count counts."""
    if _ABOUT_TICKETS.search(text) is None:
        return
    counted = list(_COUNTED.finditer(text))
    ends = [match.end() for match in counted]
    for match in _PERCENT.finditer(text):
        label = _plain(match["words"] or "")
        nearest = bisect.bisect_right(ends, match.start()) - 1
        if not label and nearest >= 0 and _OPENED.fullmatch(text, ends[nearest], match.start("number")):
            label = _counted_label(text, counted[nearest])
        yield match.start("number"), ("~" if match["rough"] else "") + match["number"] + "%", label


def _plain(text: str) -> str:
    return re.sub(r"[*_`\"“”]|^#+", "", text).strip()


def _is_value(header: str) -> bool:
    """Whether a column's header is a severity, a status, a verdict or an agent: a table of two facets."""
    parsers: tuple[Callable[[str], object], ...] = (parse_severity, parse_status, parse_verdict)
    for parse in parsers:
        try:
            parse(header)
        except ValueError:
            continue
        return True
    return agent_code(header) in AGENT_NAMES
