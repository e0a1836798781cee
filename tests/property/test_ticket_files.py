"""Files of any bytes below a tickets folder: nothing crashes, nothing is hidden, and an edit can be undone."""

from __future__ import annotations

from pathlib import Path, PurePath

import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from auditkit.store.folder.repository import Repository
from auditkit.store.markdown.document import BrokenFileError, Document
from auditkit.store.markdown.pages import page_of
from auditkit.store.reading.reader import ticket_of
from auditkit.store.reading.relations import read_relations
from auditkit.store.reading.reviews import read_reviews
from tests.filing_helpers import corpus_folder, ticket_text

EXTRA = """
## Cross-Review (DRL Specialist)

| Verdict | **OBJECT** |
|---------|------------|
| **Evaluation** | text |

**Verdict:** ENDORSE

## Related Findings

- B7-PT-02: a note
| `B7-PT-03` | `blocks` | x |

## Resolution

**Status:** Fixed in `8e4c59e5`
**Sign-off:** approved (pending)
"""
WHOLE = ticket_text(fingerprint="p/1/t", extra=EXTRA).encode()
PIECES = [
    b"# Finding Ticket: x\n", b"## Ticket Metadata\n", b"| **Ticket ID** | `B7-PT-01` |\n", b"|", b"`", b"```\n",
    b"~~~", b"<!--", b"-->", b"<!-- auditkit:evidence -->\n", b"<!-- /auditkit:evidence -->\n", b"<<<<<<< a\n",
    b"\r\n", b"\n", b"\t", b"    ", b"- [x] ", b"## Cross-Review\n", b"| Verdict | OBJECT |\n|---|---|\n", b"\\|",
    b"**Verdict:** ", b"**", b"\xff", b"\xef\xbb\xbf", b"\x00", b"\x1b[2J", "é".encode(), b"1. ", b"###### ",
]  # fmt: skip
ANY_FILE = st.one_of(st.binary(max_size=300), st.lists(st.sampled_from(PIECES), max_size=40).map(b"".join))
QUICK = settings(max_examples=200, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])


def _samples() -> list[bytes]:
    folder = corpus_folder()
    real = sorted((folder / "tickets").rglob("B*-*-*.md"))[::19] if folder else []
    return [WHOLE, WHOLE.replace(b"\n", b"\r\n"), *(path.read_bytes() for path in real)]


SAMPLES = _samples()


@st.composite
def changed_tickets(draw: st.DrawFn) -> bytes:
    """A ticket with stretches removed, doubled, moved or replaced."""
    data = draw(st.sampled_from(SAMPLES))
    for _ in range(draw(st.integers(1, 4))):
        first, second = sorted((draw(st.integers(0, len(data))), draw(st.integers(0, len(data)))))
        second = min(second, first + draw(st.sampled_from([0, 1, 7, 80, 1000])))
        between = draw(st.one_of(st.just(b""), st.sampled_from(PIECES), st.just(data[first:second] * 2)))
        data = data[:first] + between + data[second:]
    return data


@QUICK
@given(st.one_of(ANY_FILE, changed_tickets()))
def test_a_file_named_as_a_ticket_is_listed_whatever_it_holds(tmp_path: Path, data: bytes) -> None:
    (tmp_path / "batch7").mkdir(exist_ok=True)
    (tmp_path / "batch7" / "B7-PT-99.md").write_bytes(data)
    listing = Repository(tmp_path).listing()
    assert [*(ticket.path for ticket in listing.tickets), *(broken.path for broken in listing.broken)] == [
        PurePath("batch7/B7-PT-99.md")
    ]
    for broken in listing.broken:
        lines = data.count(b"\n") + 1
        assert all(1 <= problem.line <= lines and problem.column >= 1 for problem in broken.problems)


@QUICK
@given(st.one_of(ANY_FILE, changed_tickets()))
def test_whatever_can_be_read_has_places_inside_the_file(data: bytes) -> None:
    try:
        document = Document.parse(data)
        page = page_of(document)
    except BrokenFileError:
        return
    count = len(page.lines)
    assert len(page.visible) == count
    assert all(1 <= section.line <= count and section.line < section.end_line <= count + 1 for section in page.sections)
    assert all(1 <= item.line <= count for item in page.ticket.verification)
    for at in read_reviews(document):
        assert 0 <= at.verdict.start <= at.verdict.end <= len(data)
        assert 1 <= at.review.line <= count
    for relation in read_relations(document):
        assert data[relation.line.start : relation.line.end].decode().strip() == relation.relation.written


@QUICK
@given(changed_tickets(), st.sampled_from(["fixed", "in-review", "a | b", "é"]))
def test_an_edit_changes_one_line_and_its_undo_restores_the_bytes(data: bytes, value: str) -> None:
    try:
        document = Document.parse(data)
        ticket_of(document)
    except BrokenFileError:
        assume(False)
    row = document.field("Status")
    assume(row is not None and row.text and "`" not in row.text and row.text == row.text.strip())
    assert row is not None
    try:
        edited = document.set_field("Status", value)
    except BrokenFileError:
        pytest.fail("a status is no text that breaks a file")
    before, after = data.split(b"\n"), edited.data.split(b"\n")
    changed = [number for number, pair in enumerate(zip(before, after, strict=True)) if pair[0] != pair[1]]
    assert len(changed) <= 1
    restored = edited.replace(edited.field("Status").value, data[row.value.start : row.value.end])  # type: ignore[union-attr]
    assert restored.data == data
