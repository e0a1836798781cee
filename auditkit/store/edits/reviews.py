"""A reviewer's verdict as a Cross-Review section: appended, filled in where one waits, or replaced."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Sequence
from dataclasses import dataclass

from auditkit.errors import BadInputError
from auditkit.model.enums import Severity
from auditkit.model.tickets.review import ReviewForm, Verdict, is_agent_name, read_reviewer
from auditkit.store.edits.cells import add_row, check_line, rows_of, set_cell
from auditkit.store.edits.review_places import insert_section
from auditkit.store.edits.spans import inserted, replaced
from auditkit.store.markdown.document import Document
from auditkit.store.markdown.scan import Heading, Span, line_end
from auditkit.store.markdown.tables import split_row
from auditkit.store.reading.reviews import EVALUATIONS, ReviewAt, read_reviews, reviewers_section

TITLES = {"drl": "DRL Specialist", "pytorch": "PyTorch Specialist", "codereview": "Code Review Specialist"}
"""How reviews call the agents."""

_EVALUATION = re.compile(rb"^\*\*Evaluation:?\*\*:?", re.MULTILINE | re.IGNORECASE)


@dataclass(frozen=True)
class NewReview:
    """A verdict to write down; `evaluation` is Markdown that stands on its own, `date` ISO or ""."""

    reviewer: str
    verdict: Verdict
    evaluation: str = ""
    severity: Severity | None = None
    date: str = ""
    judged: str = ""

    @property
    def title(self) -> str:
        return TITLES.get(read_reviewer(self.reviewer), self.reviewer)

    def rows(self) -> list[tuple[str, str]]:
        """Label and Markdown of each cell, in the order of the table."""
        return [
            ("Verdict", f"`{self.verdict.value}`"),
            ("Reviewer", f"`{self.title}`" if is_agent_name(self.title) else self.title),
            ("Severity", f"`{self.severity.value}`" if self.severity else ""),
            ("Date", self.date),
            ("Judged", f"`{self.judged}`" if self.judged else ""),
        ]


def set_review(document: Document, review: NewReview, replace: bool = False) -> Document:
    """The document with the review in it.

    A section that waits for this reviewer is filled in; otherwise a new one is made (`review_places`). With
    `replace` it takes the place of the reviewer's last one. Raises BadInputError where there is one and `replace` is
    not set, where the earlier one cannot be told from what is around it, and for a text that would be read as
    another review.
    """
    check_line(review.reviewer, "Reviewer")
    before = read_reviews(document)
    own = [found for found in before if _is_by(found, review)]
    if own and not replace:
        said = own[-1].review
        raise BadInputError(
            f"{review.title} has reviewed it already: {said.verdict_written}, line {said.line}",
            "--replace puts the new verdict in its place",
        )
    if own:
        changed, review = _in_place_of(document, own[-1], before, review)
    else:
        section = _waiting(document, before, review)
        changed = _filled(document, section, review) if section else _appended(document, review)
    after = read_reviews(changed)
    is_read = len(after) == len(before) + (not own) and any(_says(found, review) for found in after)
    if not is_read or _of_others(before, review) != _of_others(after, review):
        raise BadInputError(
            "the note would be read as a review of its own", "leave out table rows and lines such as **Verdict:** ..."
        )
    return changed


def _is_by(found: ReviewAt, review: NewReview) -> bool:
    agent = read_reviewer(review.reviewer)
    if agent:
        return found.review.reviewer == agent
    return found.review.reviewer_written.casefold() == review.reviewer.casefold()


def _says(found: ReviewAt, review: NewReview) -> bool:
    said = found.review
    return _is_by(found, review) and said.verdict is review.verdict and review.judged in ("", said.judged)


def _of_others(reviews: Sequence[ReviewAt], review: NewReview) -> list[tuple[str, str, str]]:
    said = [found.review for found in reviews if not _is_by(found, review)]
    return [(one.reviewer_written, one.verdict_written, one.evaluation) for one in said]


def _in_place_of(
    document: Document, own: ReviewAt, reviews: Sequence[ReviewAt], review: NewReview
) -> tuple[Document, NewReview]:
    """The document with the review where `own` was, and what of the review its form can hold."""
    form = own.review.form
    if form is ReviewForm.TABLE:
        return _with_cells(document, own, review)
    if sum(found.section == own.section for found in reviews) > 1:
        raise _not_replaced(own, "shares its section with others")
    if form is ReviewForm.FIELD_VALUE:
        return _filled(document, own.section, review), review
    if form is ReviewForm.BOLD_PARAGRAPH:
        return _as_table(document, own, review), review
    raise _not_replaced(own, "is not a Field and Value table")


def _not_replaced(own: ReviewAt, reason: str) -> BadInputError:
    return BadInputError(
        f"the earlier review (line {own.review.line}) {reason}, so it is not replaced",
        "take it out by hand, then review again",
    )


def _with_cells(document: Document, own: ReviewAt, review: NewReview) -> tuple[Document, NewReview]:
    """A row of a table of several reviews: the cells that it has columns for."""
    names = [re.sub(r"[*_`:]", "", text).strip().casefold() for text in own.review.columns]
    notes = [name for name in names if name in EVALUATIONS]
    if review.evaluation and not notes:
        raise _not_replaced(own, "has no column for the note")
    if review.severity and "severity" not in names:
        raise _not_replaced(own, "has no column for the severity")
    if "judged" not in names:
        review = dataclasses.replace(review, judged="")
    values = {label.casefold(): value for label, value in review.rows() if label != "Reviewer"}
    values["verdict"] = _decorated_as(document.data[own.verdict.start : own.verdict.end].decode(), review.verdict)
    if notes and review.evaluation:
        values[notes[0]] = review.evaluation
    start = document.data.rfind(b"\n", 0, own.verdict.start) + 1
    cells = split_row(document.data, Span(start, line_end(document.data, start)))
    for name, cell in reversed(list(zip(names, cells, strict=False))):
        if name in values:
            check_line(values[name], name)
            text = values[name].replace("|", "\\|")
            document = replaced(document, cell, f" {text} " if text else " ")
    return document, review


def _decorated_as(old: str, verdict: Verdict) -> str:
    around = re.fullmatch(r"\s*([*_`]*)\w+([*_`]*)\s*", old)
    return f"{around[1]}{verdict.value}{around[2]}" if around else f"`{verdict.value}`"


def _as_table(document: Document, own: ReviewAt, review: NewReview) -> Document:
    """A verdict in a paragraph becomes a table; the text around it stays where the review has no note of its own."""
    if review.evaluation:
        span = Span(own.section.line.end, document.content_end(own.section.section_end))
        return replaced(document, span, f"\n\n{_table(review)}\n\n**Evaluation:** {review.evaluation}")
    above = document.data[own.section.line.end : own.verdict.start].split(b"\n")[-2:-1]
    below = document.data[own.verdict.end : own.section.section_end].split(b"\n")[1:2]
    gaps = ["\n" if any(line.strip() for line in lines) else "" for lines in (above, below)]
    return replaced(document, own.verdict, f"{gaps[0]}{_table(review)}{gaps[1]}")


def _waiting(document: Document, reviews: tuple[ReviewAt, ...], review: NewReview) -> Heading | None:
    """The reviewer's section that has a table and no verdict yet."""
    taken = {found.section.line.start for found in reviews}
    for heading in document.scan.headings:
        match = reviewers_section(heading.text) if heading.level == 2 else None
        if match is None or heading.line.start in taken:
            continue
        who = read_reviewer(match[1]) or match[1].casefold()
        labels = [row.label.casefold() for row in rows_of(document, heading)]
        if who == (read_reviewer(review.reviewer) or review.reviewer.casefold()) and "verdict" in labels:
            return heading
    return None


def _filled(document: Document, section: Heading, review: NewReview) -> Document:
    place = section.line.start
    for label, value in review.rows():
        document = _with_row(document, _again(document, place), label, value)
    return _with_evaluation(document, _again(document, place), review.evaluation)


def _with_row(document: Document, section: Heading, label: str, value: str) -> Document:
    rows = rows_of(document, section)
    row = next((row for row in rows if row.label.casefold() == label.casefold()), None)
    if row is None:
        return add_row(document, section, rows[-1], True, label, value) if value else document
    plain = value.strip("`")
    if row.text == plain and row.written.strip("*`_ ") == plain:
        return document
    return set_cell(document, section, row, value)


def _with_evaluation(document: Document, section: Heading, evaluation: str) -> Document:
    if not evaluation:
        return document
    body = document.body(section)
    end = document.content_end(section.section_end)
    matches = _EVALUATION.finditer(document.data, body.start, body.end)
    found = next((match for match in matches if not document.scan.hides(match.start())), None)
    if found is None:
        return inserted(document, end, f"\n\n**Evaluation:** {evaluation}")
    return replaced(document, Span(found.end(), end), f" {evaluation}")


def _appended(document: Document, review: NewReview) -> Document:
    evaluation = f"\n\n**Evaluation:** {review.evaluation}" if review.evaluation else ""
    title = re.sub(r"[()]", "", review.title)
    section = f"## Cross-Review ({title})\n\n{_table(review)}{evaluation}"
    return insert_section(document, section, read_reviewer(review.reviewer) or review.reviewer)


def _table(review: NewReview) -> str:
    cells = [(label, value.replace("|", "\\|")) for label, value in review.rows() if value]
    rows = [f"| **{label}** | {cell} |" for label, cell in cells]
    return "\n".join(["| Field | Value |", "|-------|-------|", *rows])


def _again(document: Document, place: int) -> Heading:
    """The heading that starts at `place`: edits below it do not move it."""
    return next(heading for heading in document.scan.headings if heading.line.start == place)
