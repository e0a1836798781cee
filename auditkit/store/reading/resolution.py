"""How a ticket ended: its resolution, its verification boxes, and the report it came from."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise

from auditkit.model.tickets.review import find_reviewer, read_reviewer
from auditkit.model.tickets.ticket import (
    ReportReference,
    Resolution,
    SignOff,
    VerificationItem,
    read_status,
)
from auditkit.store.markdown.document import Document
from auditkit.store.markdown.lines import Line, lines_of
from auditkit.store.markdown.scan import Heading, Span

ENDED = re.compile(r"(?:resolution|closure|closing notes|status|correction)\b", re.IGNORECASE)
_CHANGE = re.compile(rb"^- (\d{4}-\d{2}-\d{2}): ([^:\r\n]{1,99}):", re.MULTILINE)
_RETURNED = re.compile(
    rb"^- (\d{4}-\d{2}-\d{2}): returned at [^\r\n]*; the status was [^\r\n]* and is open again", re.MULTILINE
)
_BOX = re.compile(r"[-*+] \[([ xX])\]\s+(.*)")
# Both are bounded, so that no line takes long, however long it is.
_PROBE = re.compile(r"<!--\s{0,9}probe:(?P<binding>.{0,500}?)-->")
_CLAIM = re.compile(r"<!--\s{0,9}claim:.{0,500}?-->")
_DATE = re.compile(r"\b\d{4}-\d{2}-\d{2}\b")
_HASH = re.compile(r"`([0-9a-f]{7,40})`|\b(?:commit|commits|revision|in)\b[*:\s|]*\b([0-9a-f]{7,40})\b", re.IGNORECASE)
_TEST = re.compile(r"`([^`\s]*test[^`\s]*\.py(?:::[^`\s]+)?)`")
_TEST_BY_NAME = re.compile(r"`([^`\s]*test[^`\s]*\.py(?:::[^`\s]+)?|(?:\w+(?:::|\.))*test_\w+(?:\[[^`\s]*\])?)`")
_ABOUT_TESTS = re.compile(r"\btests\b", re.IGNORECASE)
_SIGN_OFF = re.compile(r"\bsign(?:ed)?[- ]?off\b|\bapproved\b", re.IGNORECASE)
_APPROVED_BY = re.compile(r"\*\*Sign-off:\*\* Approved by `([A-Za-z][\w.-]*)`")
_PLACEHOLDER = re.compile(r"\[To be filled[^\]\n]*\]|\(pending\)|\[pending\]|\(to be determined\)", re.IGNORECASE)
_DISPOSITION = re.compile(
    r"\*\*(?:status|disposition|resolution|final disposition):?\*\*:?\s*(.+)"
    r"|#+\s*(?:final )?disposition:?\s*(.+)"
    r"|\*\*((?:won'?t|wont)[ -]?fix|no fix needed|fixed|already fixed|duplicate|invalid|not a bug|closing as [\w' -]+"
    r"|acceptable as[- ]is|deferred)\b[^*]*\*\*",
    re.IGNORECASE,
)
_PATH = re.compile(r"`?([^`\s]+)`?")
_REPORT = re.compile(
    rb"^[ \t]*\*\*(?:(?P<report>Report)(?: file)?|Section):?\*\*:?[ \t]*(?P<value>[^\r\n]*\S)",
    re.IGNORECASE | re.MULTILINE,
)


@dataclass(frozen=True)
class BoxAt:
    """A box of the Verification section, the byte between its brackets, and what stands behind them.

    `binding` is the comment that binds it to a probe, with the blanks before it; empty at the end of the
    text where there is none.
    """

    item: VerificationItem
    mark: Span
    binding: Span


def read_verification(document: Document) -> tuple[VerificationItem, ...]:
    """Every box of the Verification section, with the probe that a comment behind it binds it to."""
    return tuple(box.item for box in boxes_of(document))


def boxes_of(document: Document) -> tuple[BoxAt, ...]:
    """What `read_verification` reads, each with its place."""
    heading = document.section("Verification")
    if heading is None:
        return ()
    found = []
    for line in _lines(document, heading):
        box = _BOX.match(line.text)
        if box is not None:
            mark = document.data.index(b"[", line.start) + 1
            found.append(BoxAt(_item(document, line, box), Span(mark, mark + 1), _binding(document, line)))
    return tuple(found)


def _item(document: Document, line: Line, box: re.Match[str]) -> VerificationItem:
    binding = _PROBE.search(box[2])
    text = _CLAIM.sub("", _PROBE.sub("", box[2])).strip()
    probe, _, condition = binding["binding"].strip().partition(" ") if binding else ("", "", "")
    return VerificationItem(box[1] != " ", text, probe, document.line_number(line.start), condition.strip())


def _binding(document: Document, line: Line) -> Span:
    raw = document.data[line.start : line.end].decode("utf-8", "replace")
    probe = _PROBE.search(raw)
    start, end = (probe.start(), probe.end()) if probe else (len(raw.rstrip()), len(raw.rstrip()))
    start = len(raw[:start].rstrip())
    return Span(line.start + len(raw[:start].encode()), line.start + len(raw[:end].encode()))


def read_resolution(document: Document) -> Resolution | None:
    """What the sections that tell of the end say together, None where there is none."""
    sections = [h for h in document.scan.headings if h.level == 2 and ENDED.match(h.text)]
    if not sections:
        return None
    lines = [line for heading in sections for line in _without_changes(document, heading)]
    text = "\n".join(line.text for line in lines).strip()
    return Resolution(
        sections=tuple(heading.text for heading in sections),
        text=text,
        disposition=_disposition(lines),
        dates=tuple(dict.fromkeys(_DATE.findall(text))),
        commits=tuple(dict.fromkeys(_commits(text))),
        tests=tuple(dict.fromkeys(_tests(lines))),
        sign_offs=tuple(_sign_offs(document, lines)),
        placeholders=tuple(_placeholders(document, lines)),
        line=document.line_number(sections[0].line.start),
    )


def read_reopened(document: Document) -> str:
    """When the ticket was finished and opened again last, as its Status Changes or an audit tell; "" for never."""
    heading = document.section("Status Changes", level=3)
    found = max((date.decode() for date in _RETURNED.findall(document.data)), default="")
    for change in _CHANGE.finditer(document.data, heading.line.end, heading.section_end) if heading else ():
        date, steps = (part.decode("utf-8", "replace") for part in change.groups())
        statuses = [status for word in steps.split(" to ") if (status := read_status(word)) is not None]
        if any(old.is_finished and not new.is_finished for old, new in pairwise(statuses)):
            found = max(found, date)
    return found


def read_reports(document: Document) -> tuple[ReportReference, ...]:
    """Where the finding was reported first: `**Report file:**` and the `**Section:**` below it."""
    found: list[ReportReference] = []
    for match in _REPORT.finditer(document.data):
        if document.scan.hides(match.start()):
            continue
        value = match["value"].decode("utf-8", "replace")
        if match["report"] is not None:
            path = _PATH.match(value)
            found.append(ReportReference(path[1] if path else value, "", document.line_number(match.start("value"))))
        elif found and not found[-1].section:
            found[-1] = ReportReference(found[-1].file, value, found[-1].line)
    return tuple(found)


def _lines(document: Document, heading: Heading) -> Iterator[Line]:
    return lines_of(document.data, document.body(heading), document.scan.hidden)


def _without_changes(document: Document, heading: Heading) -> Iterator[Line]:
    """The lines of a section, those of its Status Changes left out: they tell what happened to the ticket."""
    told = [
        Span(h.line.start, h.section_end)
        for h in document.scan.headings
        if h.level == 3 and h.text.casefold() == "status changes"
    ]
    for line in _lines(document, heading):
        if not any(span.start <= line.start < span.end for span in told):
            yield line


def _disposition(lines: list[Line]) -> str:
    for line in lines:
        match = _DISPOSITION.match(line.text)
        if match is not None:
            return next(group for group in match.groups() if group).strip("* .")
    return ""


def _commits(text: str) -> Iterator[str]:
    for match in _HASH.finditer(text):
        found = match[1] or match[2]
        if re.search(r"\d", found) or len(found) == 40:
            yield found.lower()


def _tests(lines: list[Line]) -> Iterator[str]:
    """Files of tests anywhere, and below a heading about tests what is called as a test is."""
    is_below = False
    for line in lines:
        if line.text.startswith("#"):
            is_below = _ABOUT_TESTS.search(line.text) is not None
        yield from (_TEST_BY_NAME if is_below else _TEST).findall(line.text)


def _sign_offs(document: Document, lines: list[Line]) -> Iterator[SignOff]:
    is_below = False
    for line in lines:
        if line.text.startswith("#"):
            is_below = _SIGN_OFF.search(line.text) is not None
            continue
        says_so = _SIGN_OFF.search(line.text) is not None
        if says_so or (is_below and re.search(r"\w", line.text)):
            date = _DATE.search(line.text)
            agent = _signer(line.text)
            yield SignOff(agent, line.text, date[0] if date else "", document.line_number(line.start))


def _signer(text: str) -> str:
    """The agent named before the quotation or dash of a sign-off; "" for none."""
    head = re.split(r"—|--|\"", text, maxsplit=1)[0]
    approved = _APPROVED_BY.match(head)
    if approved:
        return read_reviewer(approved[1]) or approved[1]
    return find_reviewer(head.replace("feature-dev:code-reviewer", "code review"))


def _placeholders(document: Document, lines: list[Line]) -> Iterator[tuple[str, int]]:
    for line in lines:
        for match in _PLACEHOLDER.finditer(line.text):
            yield match[0], document.line_number(line.start)
