"""A reviewer's verdict as a Cross-Review section: appended, filled in where one waits, or replaced."""

from __future__ import annotations

import re
from dataclasses import dataclass

from auditkit.errors import BadInputError
from auditkit.model.enums import Severity
from auditkit.model.review import ReviewForm, Verdict, is_agent_name, read_reviewer
from auditkit.store.document import Document
from auditkit.store.edits.cells import add_row, check_line, rows_of, set_cell
from auditkit.store.edits.spans import inserted, replaced
from auditkit.store.reviews import ReviewAt, read_reviews
from auditkit.store.scan import Heading, Span

TITLES = {"drl": "DRL Specialist", "pytorch": "PyTorch Specialist", "codereview": "Code Review Specialist"}
"""How reviews call the agents."""

_SECTION = re.compile(r"cross[ -]?reviews?\b\W*(.*?)\W*", re.IGNORECASE)
_EVALUATION = re.compile(rb"^\*\*Evaluation:?\*\*:?", re.MULTILINE | re.IGNORECASE)
_BEFORE = ("resolution", "appendix")


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

    A section that waits for this reviewer is filled in; otherwise a new one follows the last
    cross-review, or stands before Resolution and Appendix. Raises BadInputError where the reviewer has
    given a verdict already and `replace` is not set, and for a text that would be read as another review.
    """
    check_line(review.reviewer, "Reviewer")
    before = read_reviews(document)
    own = [found for found in before if _is_by(found, review)]
    if own and not replace:
        said = own[0].review
        raise BadInputError(
            f"{review.title} has reviewed it already: {said.verdict_written}, line {said.line}",
            "--replace puts the new verdict in its place",
        )
    section = _replaceable(own[0]) if own else _waiting(document, before, review)
    changed = _filled(document, section, review) if section else _appended(document, review)
    after = read_reviews(changed)
    if len(after) != len(before) + (not own) or not any(_says(found, review) for found in after):
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


def _replaceable(own: ReviewAt) -> Heading:
    if own.review.form is not ReviewForm.FIELD_VALUE:
        raise BadInputError(
            f"the earlier review (line {own.review.line}) is not a Field and Value table, so it is not replaced",
            "take it out by hand, then review again",
        )
    return own.section


def _waiting(document: Document, reviews: tuple[ReviewAt, ...], review: NewReview) -> Heading | None:
    """The reviewer's section that has a table and no verdict yet."""
    taken = {found.section.line.start for found in reviews}
    for heading in document.scan.headings:
        match = _SECTION.fullmatch(heading.text) if heading.level == 2 else None
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
    found = next(
        (
            match
            for match in _EVALUATION.finditer(document.data, body.start, body.end)
            if not any(span.start <= match.start() < span.end for span in document.scan.hidden)
        ),
        None,
    )
    if found is None:
        return inserted(document, end, f"\n\n**Evaluation:** {evaluation}")
    return replaced(document, Span(found.end(), end), f" {evaluation}")


def _appended(document: Document, review: NewReview) -> Document:
    cells = [(label, value.replace("|", "\\|")) for label, value in review.rows() if value]
    table = "\n".join(
        ["| Field | Value |", "|-------|-------|", *(f"| **{label}** | {cell} |" for label, cell in cells)]
    )
    evaluation = f"\n\n**Evaluation:** {review.evaluation}" if review.evaluation else ""
    rule = "---\n\n" if re.search(rb"^---[ \t]*\r?$", document.data, re.MULTILINE) else ""
    title = re.sub(r"[()]", "", review.title)
    text = f"\n\n{rule}## Cross-Review ({title})\n\n{table}{evaluation}"
    return inserted(document, document.content_end(_end_of_reviews(document)), text)


def _end_of_reviews(document: Document) -> int:
    sections = [heading for heading in document.scan.headings if heading.level == 2]
    reviews = [heading.section_end for heading in sections if _SECTION.fullmatch(heading.text)]
    following = [heading.line.start for heading in sections if heading.text.casefold() in _BEFORE]
    return reviews[-1] if reviews else next(iter(following), len(document.data))


def _again(document: Document, place: int) -> Heading:
    """The heading that starts at `place`: edits below it do not move it."""
    return next(heading for heading in document.scan.headings if heading.line.start == place)
