"""The file of a ticket: read as a whole with all its problems, and edited without touching other bytes."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec

from auditkit.errors import BadInputError, nearest_names
from auditkit.model.enums import Severity
from auditkit.model.text import inert, inert_line
from auditkit.model.ticket import UNDATED, UNKNOWN, Box, Resolution, Review, Status, Ticket, Verdict
from auditkit.tickets.front_matter import (
    LONGEST_LINE,
    Problem,
    read_front_matter,
    with_fields,
    write_front_matter,
)

MOST_BYTES = 1_000_000
"""A larger file is not a ticket."""
REPRODUCE, FIX, VERIFICATION, CROSS_REVIEW, RESOLUTION = (
    "Reproduce", "Fix", "Verification", "Cross-review", "Resolution",
)  # fmt: skip
EVIDENCE_BEGIN = "<!-- evidence: written by auditkit, replaced by the next audit -->"
EVIDENCE_END = "<!-- /evidence -->"
NO_REVIEW = "none yet"

_HEADING = re.compile(r"## +(?P<title>.*?)\s*#*\s*")
_FENCE = re.compile(r" {0,3}(?P<marks>`{3,}|~{3,})")
_CONFLICT = re.compile(r"^(<{7}|>{7}|\|{7})( .*)?$|^={7}$", re.MULTILINE)
_BOX = re.compile(r"(?P<before>[-*] \[)(?P<mark>[ xX])(?P<after>\] )(?P<text>.*)")
_REVIEW = re.compile(
    r"- \*\*(?P<verdict>[A-Z]+)\*\*(?: (?P<severity>P[0-4]))? · (?P<reviewer>[^·()]*[^·() ])(?: \((?P<role>[^()·]+)\))?"
    r" · (?P<date>\d{4}-\d\d-\d\d|undated) · at (?P<revision>[0-9a-f]{7,64}|unknown)(?:: (?P<note>.*))?"
)
_RESOLUTION = re.compile(
    r"- (?P<status>[a-z-]+)(?: in (?P<commit>[0-9a-f]{7,64}))? by (?P<person>[^·]*[^· ]), "
    r"(?P<date>\d{4}-\d\d-\d\d|undated)(?: · (?P<details>.*))?",
    re.DOTALL,
)


class TicketFileError(BadInputError):
    """A file that is not a valid ticket: `problems` has every defect with its line."""

    def __init__(self, path: Path, problems: Sequence[Problem]) -> None:
        self.path = path
        self.problems = tuple(problems)
        hints = [f" ({inert_line(problem.hint)})" if problem.hint else "" for problem in problems]
        told = [f"{path}:{problem.line}: {inert_line(problem.message)}" for problem in problems]
        super().__init__("\n".join(map(str.__add__, told, hints)))


@dataclass(frozen=True)
class Section:
    """The lines from `first` up to `end` (indices) below the heading `title`; "" for those before any heading."""

    title: str
    first: int
    end: int


@dataclass(frozen=True)
class Document:
    """The text of a ticket's file with what auditkit reads in it. Each edit returns a new, valid document."""

    path: Path
    text: str
    ticket: Ticket
    sections: tuple[Section, ...]
    evidence_lines: tuple[int, int] | None
    """The indices of the lines that begin and end the evidence block."""

    @property
    def data(self) -> bytes:
        """The bytes of the file."""
        return self.text.encode()

    @property
    def lines(self) -> list[str]:
        return self.text.split("\n")

    def section(self, title: str) -> str | None:
        """Return the text below a heading without blank lines around it, None if there is no such heading."""
        found = self._find(title)
        return None if found is None else "\n".join(self.lines[found.first : found.end]).strip("\n")

    def _find(self, title: str) -> Section | None:
        return next((section for section in reversed(self.sections) if section.title == title), None)

    def edited(self, **fields: Any) -> Document:
        """Return the document with these fields of the front matter; a new title also replaces the heading."""
        changed = [key for key, value in fields.items() if getattr(self.ticket, key) != value]
        if not changed:
            return self
        text = with_fields(self.text, msgspec.structs.replace(self.ticket, **fields), changed)
        if "title" in changed:
            text = text.replace(f"\n# {self.ticket.title}\n", f"\n# {fields['title']}\n", 1)
        return self._as(text)

    def with_section(self, title: str, body: str) -> Document:
        """Return the document with `body` below a heading that it has."""
        found, lines = self._find(title), self.lines
        assert found is not None, title
        after = ["", *lines[found.end :]] if found.end < len(lines) else [""]
        return self._as("\n".join([*lines[: found.first], *body.split("\n"), *after]))

    def with_evidence(self, body: str) -> Document:
        """Return the document with `body` between the evidence marks, which are added before Cross-review."""
        lines = self.lines
        block = [EVIDENCE_BEGIN, *body.split("\n"), EVIDENCE_END]
        if self.evidence_lines is not None:
            begin, end = self.evidence_lines
            return self._as("\n".join([*lines[:begin], *block, *lines[end + 1 :]]))
        found = self._find(CROSS_REVIEW)
        assert found is not None, "parse_document requires the section"
        cut = found.first - 1
        return self._as("\n".join([*lines[:cut], *block, "", *lines[cut:]]))

    def with_ticks(self, ticks: Mapping[int, bool]) -> Document:
        """Return the document with the boxes on these lines (from 1) ticked or not."""
        lines = self.lines
        for number, is_done in ticks.items():
            match = _BOX.fullmatch(lines[number - 1])
            if match is not None and (match["mark"] != " ") != is_done:
                lines[number - 1] = f"{match['before']}{'x' if is_done else ' '}{match['after']}{match['text']}"
        return self._as("\n".join(lines))

    def with_review(self, review: Review) -> Document:
        """Return the document with one more line below Cross-review."""
        found, lines = self._find(CROSS_REVIEW), self.lines
        assert found is not None, "parse_document requires the section"
        kept = [line for line in lines[found.first : found.end] if line.strip() != NO_REVIEW]
        return self._with_entry(found, kept, review_line(review))

    def with_resolution(self, resolution: Resolution) -> Document:
        """Return the document with one more line below Resolution, a section that is added after Cross-review."""
        found, reviews, line = self._find(RESOLUTION), self._find(CROSS_REVIEW), resolution_line(resolution)
        if found is None or reviews is None or found.first < reviews.first:
            return self._as(self.text.rstrip("\n") + f"\n\n## {RESOLUTION}\n{line}\n")
        return self._with_entry(found, self.lines[found.first : found.end], line)

    def _with_entry(self, section: Section, kept: list[str], entry: str) -> Document:
        """Return the document with `entry` below the lines `kept` of a section, before its last blank lines."""
        last = next((n for n in range(len(kept), 0, -1) if kept[n - 1].strip()), 0)
        lines = self.lines
        return self._as("\n".join([*lines[: section.first], *kept[:last], entry, *kept[last:], *lines[section.end :]]))

    def _as(self, text: str) -> Document:
        return parse_document(text.encode(), self.path)


def parse_document(data: bytes, path: Path) -> Document:
    """Read the file of a ticket. Raises TicketFileError with every problem and its line."""
    text = decoded(data, path)
    ticket, problems, body = read_front_matter(text)
    if ticket is None:
        raise TicketFileError(path, problems)
    lines = text.split("\n")
    first = text.count("\n", 0, body)
    reader = _BodyReader(lines, first)
    if reader.problems:
        raise TicketFileError(path, sorted(reader.problems))
    whole = msgspec.structs.replace(
        ticket, reviews=tuple(reader.reviews), boxes=tuple(reader.boxes), resolutions=tuple(reader.resolutions)
    )
    return Document(path, text, whole, tuple(reader.sections), reader.evidence)


def decoded(data: bytes, path: Path) -> str:
    """Return the text of a ticket's file. Raises TicketFileError for other encodings, line ends and conflict marks."""
    problem = _unreadable(data)
    if problem is not None:
        raise TicketFileError(path, [problem])
    text = data.decode()
    conflict = _CONFLICT.search(text)
    if conflict is not None:
        line = text.count("\n", 0, conflict.start()) + 1
        hint = "git left both sides: keep what is right of each, and remove the marks"
        raise TicketFileError(path, [Problem(line, f"a conflict mark is left: {conflict[0][:40]}", hint)])
    return text


def _unreadable(data: bytes) -> Problem | None:
    if len(data) > MOST_BYTES:
        return Problem(1, f"the file has {len(data):,} bytes", f"a ticket has at most {MOST_BYTES:,}")
    for byte, message, hint in (
        (b"\0", "the file has a NUL byte: it is binary", "a ticket is a text file in UTF-8"),
        (b"\r", "the line ends in CRLF", "save the file with LF line ends (git: core.autocrlf=input)"),
    ):
        if byte in data:
            return Problem(data.count(b"\n", 0, data.find(byte)) + 1, message, hint)
    try:
        data.decode()
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        return Problem(line, f"the byte 0x{data[error.start]:02x} is not UTF-8", "save the file as UTF-8")
    return None


class _BodyReader:
    """Reads the lines below the front matter, in one pass for the structure and one for each section with a form."""

    def __init__(self, lines: Sequence[str], first: int) -> None:
        self.lines = lines
        self.problems: list[Problem] = []
        self.reviews: list[Review] = []
        self.boxes: list[Box] = []
        self.resolutions: list[Resolution] = []
        self.evidence: tuple[int, int] | None = None
        self.sections: list[Section] = []
        self._read_structure(first)
        self._check_structure()
        # A section Resolution above the reviews is text of an imported ticket.
        has_reviews = False
        for section in self.sections:
            if section.title == VERIFICATION:
                self._read_boxes(section)
            elif section.title == CROSS_REVIEW:
                has_reviews = True
                self._read_entries(section, self._read_review)
            elif section.title == RESOLUTION and has_reviews:
                self._read_entries(section, self._read_resolution)

    def _read_structure(self, first: int) -> None:
        title, start, fence, begin = "", first, "", -1
        for index in range(first, len(self.lines)):
            line = self.lines[index]
            mark = _FENCE.match(line)
            if fence:
                fence = "" if mark and mark["marks"].startswith(fence) and not line.strip(" `~") else fence
            elif mark:
                fence = mark["marks"]
            elif line.startswith("<!-- evidence"):
                if begin >= 0 or self.evidence:
                    self._note(index, "a second evidence block begins", "a ticket has one: remove the other")
                begin = index
                self.sections.append(Section(title, start, index))
                title, start = "evidence block", index
            elif line.rstrip() == EVIDENCE_END and begin >= 0:
                self.evidence, begin = (begin, index), -1
            elif begin < 0 and (heading := _HEADING.fullmatch(line)):
                self.sections.append(Section(title, start, index))
                title, start = heading["title"], index + 1
        self.sections.append(Section(title, start, len(self.lines)))
        if begin >= 0:
            self._note(begin, "the evidence block has no end", f"add a line {EVIDENCE_END} below it")

    def _check_structure(self) -> None:
        titles = [section.title for section in self.sections]
        if CROSS_REVIEW not in titles and not self.problems:  # an open evidence block hides it
            hint = f"add ## {CROSS_REVIEW}: {NO_REVIEW}"
            self._note(len(self.lines) - 1, "the section Cross-review is missing", hint)
        for number, section in enumerate(self.sections):
            if section.title in (CROSS_REVIEW, VERIFICATION) and section.title in titles[:number]:
                self._note(section.first - 1, f"a second section {section.title}", "put both into one")

    def _note(self, index: int, message: str, hint: str) -> None:
        self.problems.append(Problem(index + 1, message, hint))

    def _read_boxes(self, section: Section) -> None:
        for index in range(section.first, section.end):
            match = _BOX.fullmatch(self.lines[index])
            if match is not None:
                following = self.lines[index + 1 : section.end]
                count = next((n for n, line in enumerate(following) if not line.startswith("  ")), len(following))
                text = " ".join([match["text"].strip(), *(line.strip() for line in following[:count])])
                self.boxes.append(Box(text, match["mark"] != " ", index + 1))

    def _read_entries(self, section: Section, read: Any) -> None:
        """Read list items of which indented lines are a part."""
        entry: list[str] = []
        at = section.first
        for index in range(section.first, section.end + 1):
            line = self.lines[index] if index < section.end else "-"
            if entry and (line.startswith("  ") or not line.strip()):
                entry.append(line[2:])
                continue
            if entry:
                read(at, "\n".join(entry).rstrip())
                entry = []
            if line.strip() and index < section.end:
                entry, at = [line], index

    def _read_review(self, index: int, text: str) -> None:
        head, newline, rest = text.partition("\n")
        match = _REVIEW.fullmatch(head)
        if text.strip() == NO_REVIEW:
            return
        if match is None or match["verdict"] not in Verdict.__members__:
            self._note(index, f"this is not a review: {head[:80]!r}", f"a valid line is: {nearest_review(head)}")
            return
        self.reviews.append(
            Review(
                Verdict(match["verdict"]),
                match["reviewer"],
                Severity(match["severity"]) if match["severity"] else None,
                match["role"] or "",
                match["date"],
                match["revision"],
                (match["note"] or "") + newline + rest,
                index + 1,
            )
        )

    def _read_resolution(self, index: int, text: str) -> None:
        match = _RESOLUTION.fullmatch(text)
        if match is None or match["status"] not in set(Status):
            near = nearest_names(text.removeprefix("- ").split(" ")[0], [status.value for status in Status], 1)
            form = f"- {near[0] if near else 'fixed'} in COMMIT by NAME, 2026-11-24 · proof or reason"
            self._note(index, f"this is not a resolution: {text[:80]!r}", f"a valid line is: {form}")
            return
        text = re.sub(r"\s*\n\s*", " ", match["details"] or "")
        details = tuple(text.split(" · ")) if text else ()
        by = match["person"], match["date"], match["commit"] or ""
        self.resolutions.append(Resolution(Status(match["status"]), *by, details, index + 1))


def nearest_review(line: str) -> str:
    """Return the valid review line nearest to `line`, with names for what is missing."""
    words = re.findall(r"[A-Za-z]+", line)
    verdicts = (nearest_names(word.upper(), list(Verdict.__members__), 1) for word in words[:3])
    verdict = next((near[0] for near in verdicts if near), "ENDORSE")
    severity = re.search(r"\bP[0-4]\b", line)
    date = re.search(r"\d{4}-\d\d-\d\d", line)
    revision = re.search(r"\b(?=[0-9a-f]*\d)[0-9a-f]{7,64}\b", line)
    parts = [part.strip(" -*") for part in line.split("·")]
    who = parts[1] if len(parts) > 2 and parts[1] else "NAME (ROLE)"
    note = line.rpartition(": ")[2].strip() if ": " in line else "NOTE"
    return (
        f"- **{verdict}** {severity[0] if severity else 'P1'} · {who} · {date[0] if date else '2026-11-24'} · "
        f"at {revision[0] if revision else 'COMMIT'}: {note}"
    )


def review_line(review: Review) -> str:
    """Return the line of a review; a note of several lines, or a long one, continues in indented lines."""
    severity = f" {review.severity.value}" if review.severity else ""
    role = f" ({_name(review.role)})" if review.role else ""
    reviewer = _name(review.reviewer) or UNKNOWN
    head = f"- **{review.verdict}**{severity} · {reviewer}{role} · {review.date or UNDATED} · at {review.revision}"
    note = inert(review.note).strip()
    if not note:
        return head
    first, *rest = note.split("\n")
    if not rest:
        return wrapped(f"{head}: {note}")
    return "\n".join([f"{head}: {first.strip()}", *(f"  {line}".rstrip() for line in rest)])


def resolution_line(resolution: Resolution) -> str:
    """Return the line of a resolution."""
    commit = f" in {resolution.commit}" if resolution.commit else ""
    person = inert_line(resolution.person).replace("·", "-") or UNKNOWN
    details = "".join(f" · {inert_line(detail)}" for detail in resolution.details)
    return wrapped(f"- {resolution.status.value}{commit} by {person}, {resolution.date or UNDATED}{details}")


def wrapped(line: str) -> str:
    """Return a list item in lines of at most `LONGEST_LINE` characters, all but the first indented."""
    return "\n".join(
        textwrap.wrap(line, LONGEST_LINE, subsequent_indent="  ", break_long_words=False, break_on_hyphens=False)
    )


def _name(text: str) -> str:
    return re.sub(r"[·()]+", " ", inert_line(text)).strip()


def new_document(ticket: Ticket, sections: Sequence[tuple[str, str]], path: Path) -> Document:
    """Return a new ticket: front matter, title, `sections` (heading and text; "" is the introduction) and the rest.

    The boxes, reviews and resolutions come from `ticket`. A section without text is left out.
    """
    parts = [write_front_matter(ticket) + f"# {ticket.title}"]
    boxes = "\n".join(wrapped(f"- [{'x' if box.is_done else ' '}] {box.text}") for box in ticket.boxes)
    is_given = VERIFICATION in dict(sections)
    for title, text in [*sections, *([] if is_given else [(VERIFICATION, boxes)])]:
        if text.strip("\n"):
            parts.append(("" if not title else f"## {title}\n") + text.strip("\n"))
    parts.append(f"## {CROSS_REVIEW}\n" + ("\n".join(map(review_line, ticket.reviews)) or NO_REVIEW))
    if ticket.resolutions:
        parts.append(f"## {RESOLUTION}\n" + "\n".join(map(resolution_line, ticket.resolutions)))
    return parse_document(("\n\n".join(parts) + "\n").encode(), path)
