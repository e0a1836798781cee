"""Every edit on every real ticket, where this machine has them: nothing but the edit changes."""

from __future__ import annotations

import difflib

import pytest

from auditkit.errors import BadInputError
from auditkit.model.tickets.ids import parse_ticket_id
from auditkit.model.tickets.relation import RelationKind
from auditkit.model.tickets.review import Verdict
from auditkit.store.edits import resolution
from auditkit.store.edits.fields import edit_field, field_text
from auditkit.store.edits.relations import link, unlink
from auditkit.store.edits.reviews import NewReview, set_review
from auditkit.store.markdown.document import Document
from auditkit.store.markdown.evidence import ticket_digest
from auditkit.store.reading.reader import ticket_of
from tests.filing_helpers import corpus_folder

CORPUS = corpus_folder()
FILES = sorted((CORPUS / "tickets").rglob("B?-*.md")) if CORPUS else []

pytestmark = pytest.mark.skipif(not FILES, reason="the corpus of real tickets is not on this machine")


def documents() -> list[Document]:
    return [Document.parse(file.read_bytes(), file) for file in FILES]


def only_added(old: Document, new: Document) -> bool:
    """Whether every line of `old` is in `new`, in the same order."""
    before, after = (document.data.decode().splitlines() for document in (old, new))
    tags = {code[0] for code in difflib.SequenceMatcher(None, before, after, autojunk=False).get_opcodes()}
    return tags <= {"equal", "insert"}


@pytest.mark.parametrize(
    ("field", "value"),
    [("severity", "P0"), ("assignee", "ada | co"), ("files", "a.py, b.py"), ("function", "f(a, b)"), ("title", "x")],
)
def test_a_field_is_set_and_set_back(field: str, value: str) -> None:
    assert len(FILES) == 152
    for document in documents():
        before = field_text(document, field)
        edited = edit_field(document, field, value)
        assert len(edited.scan.headings) == len(document.scan.headings), document.path
        assert ticket_of(edited).reviews == ticket_of(document).reviews, document.path
        try:
            assert edit_field(edited, field, before).data == document.data, document.path
        except BadInputError:
            assert "|" in before or "`" in before, document.path  # written in a way that no command writes


def test_a_review_is_added_to_each() -> None:
    for document in documents():
        said = ticket_of(document)
        review = NewReview("ada", Verdict.OBJECT, "No.", None, "2026-03-04", ticket_digest(document))
        edited = set_review(document, review)
        assert only_added(document, edited), document.path
        after = ticket_of(edited)
        assert len(after.reviews) == len(said.reviews) + 1, document.path
        written = [relation.written for relation in said.related]
        assert [relation.written for relation in after.related] == written, document.path
        assert ticket_digest(edited) == ticket_digest(document), document.path


def test_a_link_is_made_and_taken_out() -> None:
    other = parse_ticket_id("B99-XY-01")
    for document in documents():
        linked = link(document, other, RelationKind.BLOCKS, "why")
        assert other in [relation.id for relation in ticket_of(linked).related], document.path
        assert other not in [relation.id for relation in ticket_of(unlink(linked, other)).related], document.path


def test_a_resolution_is_written_to_each() -> None:
    for document in documents():
        edited = resolution.tell(document, resolution.FIX, "Scaled.")
        edited = resolution.name_commits(edited, ["3f2a9c1"])
        edited = resolution.sign_off(edited, "drl", "2026-03-04")
        told = ticket_of(edited).resolution
        assert told is not None
        assert "3f2a9c1" in told.commits, document.path
        assert "drl" in [one.agent for one in told.sign_offs], document.path
        assert [heading.text for heading in edited.scan.headings if heading.level == 1] == [
            heading.text for heading in document.scan.headings if heading.level == 1
        ]
