"""Cross-reviews in every form that people write them in."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache

from auditkit.model.enums import Severity
from auditkit.model.text import inert_line
from auditkit.model.tickets.review import Review, ReviewForm, find_reviewer, read_verdict, reviewer_of
from auditkit.store.markdown.document import Document
from auditkit.store.markdown.lines import Line, Row, Table, blocks_of
from auditkit.store.markdown.scan import Heading, Span

_verdict_of = lru_cache(read_verdict)
_agent_named = lru_cache(find_reviewer)
_reviewer_of = lru_cache(reviewer_of)
reviewers_section = lru_cache(re.compile(r"cross[ -]?reviews?\b\W*(.*?)\W*", re.IGNORECASE).fullmatch)
"""The match of the title of a section of reviews; its group is what the title says of the reviewer."""
_VERDICT_LINE = re.compile(r"\*\*(?:\w+ )*verdict:?\*\*:?\s*(\S.*)|\*\*verdict:\s*([^*]+)\*\*(.*)", re.IGNORECASE)
_NOTE = re.compile(r"\*\*([^*]{1,60}?):?\*\*:?\s*(.*)")
_DATE = re.compile(r"\d{4}-\d{2}-\d{2}")
_SEVERITY = re.compile(r"P[0-4]\b")
_RULE = re.compile(r"[-*_ ]{3,}")
_WHO = ("reviewer", "agent", "specialist", "reviewed by", "by")
EVALUATIONS = ("evaluation", "comment", "comments", "notes", "note", "rationale", "reason", "assessment")
"""Names that rows, columns and headings have for a reviewer's text."""


@dataclass(frozen=True)
class ReviewAt:
    """A review and its places: the verdict's cell or words, and the section that holds it."""

    review: Review
    verdict: Span
    section: Heading


@dataclass
class _Draft:
    """A review while its section is read: evaluations and dates may stand far below the verdict."""

    form: ReviewForm
    verdict: Span
    written: str
    who: str = ""
    title: str = ""
    evaluation: str = ""
    date: str = ""
    severity: str = ""
    judged: str = ""
    columns: tuple[str, ...] = ()

    @property
    def reviewer(self) -> str:
        return _reviewer_of(self.who, self.title)


def read_reviews(document: Document) -> tuple[ReviewAt, ...]:
    """Every verdict of the sections whose title starts with Cross-Review, in the order of the file."""
    found: list[ReviewAt] = []
    headings = document.scan.headings
    for number, heading in enumerate(headings):
        is_likely = heading.level == 2 and heading.text[:5].casefold() == "cross"
        match = reviewers_section(heading.text) if is_likely else None
        if match is not None:
            inner = itertools.takewhile(lambda one: one.level > 2, headings[number + 1 :])
            drafts = _SectionReader(document, heading, match[1], inner).read()
            found += [ReviewAt(_finished(document, draft, heading), draft.verdict, heading) for draft in drafts]
    return tuple(found)


class _SectionReader:
    """Walks over one section; `title` is what its heading, or an H3 inside, says of the reviewer."""

    def __init__(self, document: Document, heading: Heading, title: str, inner: Iterable[Heading]) -> None:
        self.document = document
        self.heading = heading
        self.title = title
        self.inner = {one.line.start: one for one in inner}
        self.drafts: list[_Draft] = []
        self.loose: list[tuple[str, str, int]] = []
        self.note = ""

    def read(self) -> list[_Draft]:
        document = self.document
        for block in blocks_of(document.data, document.body(self.heading), document.scan.hidden):
            if isinstance(block, Table):
                self.note = ""
                self.drafts += self._of_table(block)
            elif block.start in self.inner:
                self._enter(self.inner[block.start])
            else:
                self._of_line(block)
        self._give_out_notes()
        return self.drafts

    def _enter(self, heading: Heading) -> None:
        self.note = ""
        if _agent_named(heading.text):
            self.title = heading.text
        elif heading.text.casefold() in EVALUATIONS:
            self.note = "evaluation"

    def _of_table(self, table: Table) -> Iterator[_Draft]:
        header, rows = table.header, table.rows
        if header is None:
            yield from filter(None, (self._stray(row) for row in rows))
            return
        names = [_plain(text) for text in header.texts]
        if len(header.texts) == 2 and names[0] == "verdict" and read_verdict(header.texts[1])[0]:
            yield self._pairs(ReviewForm.VERDICT_IN_HEADER, header, rows)
        elif "verdict" in names and len(names) > 1:
            yield from filter(None, (self._of_row(header, names, row) for row in rows))
        else:
            verdict = next((row for row in rows if _label(row) == "verdict"), None)
            if verdict is not None and len(verdict.texts) > 1 and verdict.texts[1].strip("*` "):
                yield self._pairs(ReviewForm.FIELD_VALUE, verdict, rows)

    def _pairs(self, form: ReviewForm, verdict: Row, rows: Sequence[Row]) -> _Draft:
        """One review whose rows are a label and a value."""
        draft = _Draft(form, verdict.place(1), verdict.texts[1], title=self.title)
        for row in rows:
            if len(row.texts) > 1:
                self._take(draft, _label(row), row.texts[1])
        return draft

    def _of_row(self, header: Row, names: Sequence[str], row: Row) -> _Draft | None:
        """One review of a table that has a row for each."""
        column = names.index("verdict")
        if column >= len(row.texts) or not row.texts[column].strip("*` "):
            return None
        draft = _Draft(ReviewForm.TABLE, row.place(column), row.texts[column], title=self.title, columns=header.texts)
        for name, text in zip(names, row.texts, strict=False):
            self._take(draft, name, text)
        return draft

    def _stray(self, row: Row) -> _Draft | None:
        """A row outside every table: the cell that is a verdict, a name before it, a date or a text behind it."""
        column = next((n for n, text in enumerate(row.texts) if read_verdict(text)[0]), None)
        if column is None or len(row.texts) < 2:
            return None
        draft = _Draft(ReviewForm.STRAY_ROW, row.place(column), row.texts[column], title=self.title)
        for number, text in enumerate(row.texts):
            if number == column:
                continue
            if _DATE.fullmatch(text):
                draft.date = text
            elif number < column and _plain(text) != "verdict":
                draft.who = text
            elif number > column and not draft.evaluation:
                draft.evaluation = text
        return draft

    def _take(self, draft: _Draft, name: str, text: str) -> None:
        if name in _WHO:
            draft.who = text
        elif name in EVALUATIONS:
            draft.evaluation = text
        elif name == "date":
            draft.date = text
        elif name in ("severity", "severity wanted"):
            draft.severity = text
        elif name == "judged":
            draft.judged = text

    def _of_line(self, line: Line) -> None:
        if line.text.startswith("**") and self._of_bold(line):
            return
        if not _RULE.fullmatch(line.text):
            self.loose.append((self.note, line.text, len(self.drafts)))

    def _of_bold(self, line: Line) -> bool:
        """Whether the line begins with what it tells: a verdict, or one of the names that notes have."""
        verdict = _VERDICT_LINE.match(line.text)
        if verdict is not None:
            written = verdict[1] or f"{verdict[2]}{verdict[3]}"
            self.drafts.append(_Draft(ReviewForm.BOLD_PARAGRAPH, line.span, written.strip(), title=self.title))
            self.note = "evaluation"
            return True
        note = _NOTE.match(line.text)
        name = _plain(note[1]) if note else ""
        is_note = name == "date" or name in _WHO or name.endswith(EVALUATIONS)
        if note is not None and is_note:
            self.note = name
            self.loose.append((name, note[2], len(self.drafts)))
        return is_note

    def _give_out_notes(self) -> None:
        """Give paragraphs to the reviews they belong to: by the name they start with, else the one above."""
        for name, text, above in self.loose:
            if not self.drafts:
                return
            draft = (self._owner(name) if name else None) or self.drafts[max(above - 1, 0)]
            if name == "date":
                draft.date = draft.date or text
            elif name in _WHO:
                draft.who = draft.who or text
            else:
                draft.evaluation = f"{draft.evaluation}\n{text}".strip()

    def _owner(self, name: str) -> _Draft | None:
        who = _agent_named(name)
        return next((draft for draft in reversed(self.drafts) if draft.reviewer == who), None) if who else None


def _finished(document: Document, draft: _Draft, heading: Heading) -> Review:
    verdict, extra = _verdict_of(draft.written)
    severity = _SEVERITY.search(draft.severity.upper()) if draft.severity else None
    date = _DATE.search(draft.date) if draft.date else None
    who = draft.who or draft.title
    return Review(
        reviewer=draft.reviewer,
        reviewer_written=who.strip("*` "),
        verdict=verdict,
        verdict_written=draft.written.strip("*` "),
        extra=extra,
        form=draft.form,
        columns=draft.columns,
        section=heading.text,
        evaluation=draft.evaluation,
        date=date[0] if date else "",
        severity=Severity(severity[0]) if severity else None,
        judged=inert_line(draft.judged.strip("` ")) if draft.judged else "",
        line=document.line_number(draft.verdict.start),
    )


def _label(row: Row) -> str:
    return _plain(row.texts[0]) if row.texts else ""


def _plain(text: str) -> str:
    return text.strip("*_`: ").casefold()
