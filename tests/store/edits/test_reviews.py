"""A review in a ticket: where it goes, what it replaces, and when it is stale."""

from __future__ import annotations

import dataclasses
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from auditkit.errors import BadInputError
from auditkit.model.enums import Severity
from auditkit.model.tickets.review import ReviewForm, Verdict
from auditkit.model.tickets.ticket import LineRange
from auditkit.rendering.markdown import prose
from auditkit.rules.tickets.code_digest import code_digest, is_stale, judged_text
from auditkit.store.edits.fields import edit_field
from auditkit.store.edits.reviews import NewReview, set_review
from auditkit.store.markdown.document import Document
from auditkit.store.markdown.evidence import ticket_digest
from auditkit.store.reading.reader import ticket_of
from tests.filing_helpers import PATH, ticket_text
from tests.rendering.hostile import HOSTILE

REVIEW = NewReview("pytorch", Verdict.REFINE, "It is P3.", Severity.P3, "2026-03-04", "a" * 12)
WRITTEN = f"""## Cross-Review (PyTorch Specialist)

| Field | Value |
|-------|-------|
| **Verdict** | `REFINE` |
| **Reviewer** | PyTorch Specialist |
| **Severity** | `P3` |
| **Date** | 2026-03-04 |
| **Judged** | `{"a" * 12}` |

**Evaluation:** It is P3."""
WAITING = """
## Cross-Review (DRL Specialist)

| Field | Value |
|-------|-------|
| **Verdict** | |
| **Reviewer** | |

**Evaluation:**

---

## Cross-Review (PyTorch Specialist)

| Field | Value |
|-------|-------|
| **Verdict** | |
| **Reviewer** | |

**Evaluation:**

---

## Resolution
"""
TABLE = """
## Cross-Review

| Reviewer | Verdict | Evaluation |
|----------|---------|------------|
| `drl` | **OBJECT** | no |

---

## Appendix
"""


def parse(text: str) -> Document:
    return Document.parse(text.encode(), PATH)


def text_of(document: Document) -> str:
    return document.data.decode()


@pytest.mark.parametrize(
    ("extra", "before", "after"),
    [
        ("", "- [ ] a test\n\n---", "\n"),
        ("\n---\n\n## Appendix\n\nx", "- [ ] a test\n\n---", "\n\n---\n\n## Appendix\n\nx"),
        (TABLE, "| `drl` | **OBJECT** | no |\n\n***", "\n\n---\n\n## Appendix\n"),
        (
            "\n## Resolution\n\n**Sign-off:** x\n\n## Appendix\n",
            "- [ ] a test\n\n---",
            "\n\n## Resolution\n\n**Sign-off:** x\n\n## Appendix\n",
        ),
    ],
)
def test_a_new_section_goes_behind_the_last_review_or_before_the_end(extra: str, before: str, after: str) -> None:
    text = ticket_text(extra=extra)
    edited = text_of(set_review(parse(text), REVIEW))
    assert edited.endswith(f"{before}\n\n{WRITTEN}{after}")
    assert edited.replace(f"\n\n{before[-3:]}\n\n{WRITTEN}", "") == text


def test_it_is_read_as_what_was_given() -> None:
    (review,) = ticket_of(set_review(parse(ticket_text()), REVIEW)).reviews
    assert (review.reviewer, review.verdict, review.severity) == ("pytorch", Verdict.REFINE, Severity.P3)
    assert (review.evaluation, review.date, review.judged) == ("It is P3.", "2026-03-04", "a" * 12)
    assert (review.form, review.section) == (ReviewForm.FIELD_VALUE, "Cross-Review (PyTorch Specialist)")


def test_a_section_that_waits_for_the_reviewer_is_filled_in() -> None:
    text = ticket_text(extra=WAITING)
    edited = text_of(set_review(parse(text), REVIEW))
    head, _, _ = text.partition("## Cross-Review (PyTorch")
    assert edited == f"{head}{WRITTEN}\n\n---\n\n## Resolution\n"
    with pytest.raises(BadInputError, match="PyTorch Specialist has reviewed it already: REFINE, line"):
        set_review(parse(edited), dataclasses.replace(REVIEW, reviewer="PT"))


def test_a_second_verdict_replaces_the_first_where_that_is_asked_for() -> None:
    first = set_review(parse(ticket_text(extra=TABLE)), REVIEW)
    second = NewReview("PyTorch Expert", Verdict.ENDORSE, "It is\n\nP2.", None, "2026-04-01", "b" * 12)
    edited = set_review(first, second, replace=True)
    reviews = ticket_of(edited).reviews
    assert [(review.reviewer, review.verdict) for review in reviews] == [
        ("drl", Verdict.OBJECT),
        ("pytorch", Verdict.ENDORSE),
    ]
    assert (reviews[1].severity, reviews[1].evaluation, reviews[1].judged) == (None, "It is\nP2.", "b" * 12)
    assert set_review(edited, REVIEW, replace=True).data == first.data


AGAIN = NewReview("drl", Verdict.ENDORSE, "yes | so", None, "2026-04-01", "b" * 12)


@pytest.mark.parametrize("newline", ["\n", "\r\n"], ids=["lf", "crlf"])
def test_a_row_of_a_table_gets_the_new_verdict_and_note(newline: str) -> None:
    extra = TABLE.replace("no |\n", "no |\n| PyTorch | REFINE | it is P3 |\n")
    document = parse(ticket_text(extra=extra).replace("\n", newline))
    edited = text_of(set_review(document, AGAIN, replace=True))
    expected = extra.replace("| **OBJECT** | no |", "| **ENDORSE** | yes \\| so |")
    assert edited == ticket_text(extra=expected).replace("\n", newline)
    bare = dataclasses.replace(AGAIN, evaluation="")
    expected = extra.replace("**OBJECT**", "**ENDORSE**")
    assert text_of(set_review(document, bare, replace=True)) == ticket_text(extra=expected).replace("\n", newline)


PARAGRAPHS = "\n## Cross-Review\n\n**Verdict:** OBJECT\n\n**Reviewer:** drl\n\n**Verdict:** REFINE\n"
WIDE = """
## Cross-Review

| Reviewer | Verdict | Severity | Date | Judged |
|---|---|---|---|---|
| drl | OBJECT (to the title) | P2 | | |
| PyTorch | REFINE | | 2026-01-01 | |
"""


def test_a_row_gets_what_its_table_has_columns_for() -> None:
    wanted = dataclasses.replace(AGAIN, evaluation="", severity=Severity.P1)
    edited = set_review(parse(ticket_text(extra=WIDE)), wanted, replace=True)
    row = f"| drl | `ENDORSE` | `P1` | 2026-04-01 | `{'b' * 12}` |"
    assert text_of(edited) == ticket_text(extra=WIDE.replace("| drl | OBJECT (to the title) | P2 | | |", row))


@pytest.mark.parametrize(
    ("extra", "change", "message"),
    [
        (TABLE, {"severity": Severity.P1}, "has no column for the severity"),
        (TABLE, {"evaluation": "one\n\ntwo"}, "not a value for the row 'evaluation'"),
        (WIDE, {}, "has no column for the note"),
        ("\n## Cross-Review\n\ntext\n| drl | OBJECT | no |\n", {}, "is not a Field and Value table"),
        (PARAGRAPHS, {}, "shares its section"),
    ],
)
def test_a_review_that_cannot_be_replaced_is_left_alone(extra: str, change: dict[str, object], message: str) -> None:
    review = dataclasses.replace(AGAIN, **change)  # type: ignore[arg-type]
    document = parse(ticket_text(extra=extra))
    with pytest.raises(BadInputError, match=message):
        set_review(document, review, replace=True)


TWO_TABLES = """
## Cross-Review

### PyTorch Specialist

| Field | Value |
|-------|-------|
| **Verdict** | `REFINE` |

### DRL Specialist

| Field | Value |
|-------|-------|
| **Verdict** | `OBJECT` |
"""


def test_a_table_below_anothers_in_one_section_is_not_mixed_up() -> None:
    """The first Verdict row of the section is somebody else's."""
    with pytest.raises(BadInputError, match="shares its section"):
        set_review(parse(ticket_text(extra=TWO_TABLES)), AGAIN, replace=True)


PARAGRAPH = """
## Cross-Review (DRL Specialist)

**Verdict:** OBJECT, mostly
It is nothing.

## Appendix

x
"""


def test_a_verdict_in_a_paragraph_becomes_a_table() -> None:
    document = parse(ticket_text(extra=PARAGRAPH))
    head, _, rest = ticket_text(extra=PARAGRAPH).partition("**Verdict:** OBJECT, mostly")
    table = (
        "| Field | Value |\n|-------|-------|\n| **Verdict** | `ENDORSE` |\n| **Reviewer** | DRL Specialist |\n"
        f"| **Date** | 2026-04-01 |\n| **Judged** | `{'b' * 12}` |"
    )
    edited = set_review(document, AGAIN, replace=True)
    assert text_of(edited) == f"{head}{table}\n\n**Evaluation:** yes | so\n\n## Appendix\n\nx\n"
    kept = set_review(document, dataclasses.replace(AGAIN, evaluation=""), replace=True)
    assert text_of(kept) == f"{head}{table}\n{rest}"
    (review,) = ticket_of(kept).reviews
    assert (review.verdict, review.date, review.evaluation) == (Verdict.ENDORSE, "2026-04-01", "It is nothing.")


def test_of_several_reviews_by_one_the_last_is_replaced() -> None:
    """It is the one that counts."""
    twice = TABLE.replace("no |\n", "no |\n| drl | REFINE | it is P3 |\n")
    edited = text_of(set_review(parse(ticket_text(extra=twice)), AGAIN, replace=True))
    assert edited == ticket_text(extra=twice.replace("REFINE | it is P3", "ENDORSE | yes \\| so"))


def test_a_note_cannot_forge_a_verdict() -> None:
    with pytest.raises(BadInputError, match="read as a review of its own"):
        set_review(parse(ticket_text()), dataclasses.replace(REVIEW, evaluation="x\n\n**Verdict:** OBJECT"))


@given(HOSTILE, HOSTILE, st.sampled_from(["", TABLE, WAITING]), st.sampled_from(["\n", "\r\n"]))
def test_a_hostile_note_stays_a_note(note: str, who: str, extra: str, newline: str) -> None:
    """It is refused, or one review more is read, and nothing else of the ticket is read in another way."""
    document = parse(ticket_text(extra=extra).replace("\n", newline))
    before = ticket_of(document)
    try:
        edited = set_review(document, NewReview(who, Verdict.OBJECT, prose(note)))
    except BadInputError:
        return
    after = ticket_of(edited)
    assert len(after.reviews) == len(before.reviews) + 1
    assert [heading.text for heading in edited.scan.headings if heading.text.startswith("Finding")] == [
        heading.text for heading in document.scan.headings if heading.text.startswith("Finding")
    ]
    assert dataclasses.replace(after, reviews=()) == dataclasses.replace(
        before,
        reviews=(),
        resolution=dataclasses.replace(before.resolution, line=after.resolution.line)
        if before.resolution and after.resolution
        else None,
    )
    assert re.sub(rb"\r\n", b"", edited.data).count(b"\n") == (0 if newline == "\r\n" else edited.data.count(b"\n"))


def review_of(document: Document, code: str = "") -> Document:
    return set_review(document, dataclasses.replace(REVIEW, judged=judged_text(ticket_digest(document), code)))


def stale(document: Document, code: str = "") -> bool:
    return is_stale(ticket_of(document).reviews[0], ticket_digest(document), code)


def test_a_review_is_stale_when_the_evidence_changes() -> None:
    reviewed = review_of(parse(ticket_text(fingerprint="p/1/t")))
    assert not stale(reviewed)
    assert not stale(edit_field(reviewed, "assignee", "ada"))
    assert not stale(edit_field(reviewed, "lines", "1-2"))
    assert stale(parse(text_of(reviewed).replace("| `norm` | inf |", "| `norm` | 7 |")))
    # Of a row with measurements below it, the message only retells them, times among them.
    assert not stale(parse(text_of(reviewed).replace("| told |", "| told in 3 s |")))


def test_without_evidence_what_is_claimed_and_where_is_judged() -> None:
    reviewed = review_of(parse(ticket_text()))
    assert not stale(edit_field(reviewed, "severity", "P0"))
    assert not stale(parse(text_of(reviewed).replace("\n", "\r\n")))
    assert stale(edit_field(reviewed, "lines", "1-2"))
    assert stale(parse(text_of(reviewed).replace("- a list item", "- another item")))


def test_a_review_is_stale_when_the_code_changes() -> None:
    reviewed = review_of(parse(ticket_text()), "c" * 12)
    assert ticket_of(reviewed).reviews[0].judged.endswith(f" code:{'c' * 12}")
    assert not stale(reviewed)
    assert not stale(reviewed, "c" * 12)
    assert stale(reviewed, "d" * 12)


def test_a_review_that_says_nothing_of_what_it_judged_is_not_stale() -> None:
    bare = set_review(parse(ticket_text()), NewReview("drl", Verdict.ENDORSE))
    assert not stale(bare)


SOURCE = "import x\n\nclass A:\n    def f(self, n):\n        # why\n        return n + 1\n\ndef f():\n    return 2\n"


def test_the_code_is_the_body_of_the_cited_function() -> None:
    digest = code_digest(SOURCE, "`A.f()`", ())
    assert len(digest) == 12
    assert digest == code_digest("\n\n" + SOURCE.replace("        # why\n", ""), "A.f", ())
    assert digest == code_digest(SOURCE, "f()", ())  # the first of that name
    assert digest != code_digest(SOURCE.replace("n + 1", "n + 2"), "A.f()", ())
    lines = code_digest(SOURCE, "gone()", (LineRange("", 9, 9),))
    assert lines == code_digest("\n" + SOURCE, "", (LineRange("", 10, 10),))
    assert lines not in ("", digest)
    assert code_digest("def f(:", "f", ()) == ""
    assert code_digest(SOURCE, "words", ()) == ""
