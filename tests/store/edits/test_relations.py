"""Links between tickets: written in the form that the file has, and taken out without a trace."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from auditkit.errors import BadInputError
from auditkit.model.tickets.ids import parse_ticket_id
from auditkit.model.tickets.relation import RelationKind
from auditkit.rendering.markdown import line
from auditkit.store.edits.relations import link, unlink
from auditkit.store.markdown.document import Document
from auditkit.store.reading.reader import ticket_of
from tests.filing_helpers import PATH, ticket_text
from tests.rendering.hostile import HOSTILE

OTHER = parse_ticket_id("B7-PT-02")
BULLETS = "\n## Related Findings\n\n- B7-PT-03: first\n  goes on\n- **B7-PT-04**: second\n\n---\n\n## Appendix\n"
TABLE = (
    "\n## Related Findings\n\n| Ticket ID | Relationship | Notes |\n|-----------|--------------|-------|\n"
    "| `B7-PT-03` | `related` | first |\n\n---\n\n## Appendix\n"
)
EMPTY_TABLE = TABLE.replace("| `B7-PT-03` | `related` | first |\n", "")
NEW = "blocks B7-PT-04: new"
EMPTY = "\n## Related Findings\n\n---\n\n## Appendix\n"
NONE = "\n## Related Findings\n\nNone.\n\n---\n\n## Appendix\n"
MISSING = "\n## Appendix\n"


def parse(extra: str, newline: str = "\n") -> Document:
    return Document.parse(ticket_text(extra=extra).replace("\n", newline).encode(), PATH)


def section(document: Document) -> str:
    return document.data.decode().split("- [ ] a test\n")[1]


@pytest.mark.parametrize(
    ("extra", "kind", "expected"),
    [
        (BULLETS, RelationKind.RELATED, BULLETS.replace("second\n", "second\n- B7-PT-02: why | so\n")),
        (BULLETS, RelationKind.BLOCKED_BY, BULLETS.replace("second\n", "second\n- blocked-by B7-PT-02: why | so\n")),
        (TABLE, RelationKind.BLOCKS, TABLE.replace("first |\n", "first |\n| `B7-PT-02` | `blocks` | why \\| so |\n")),
        (
            EMPTY_TABLE,
            RelationKind.RELATED,
            EMPTY_TABLE.replace("-|\n\n", "-|\n| `B7-PT-02` | `related` | why \\| so |\n\n"),
        ),
        (EMPTY, RelationKind.DUPLICATE, EMPTY.replace("Findings\n", "Findings\n\n- duplicate B7-PT-02: why | so\n")),
        (NONE, RelationKind.RELATED, NONE.replace("None.", "- B7-PT-02: why | so")),
        (MISSING, RelationKind.RELATED, "\n---\n\n## Related Findings\n\n- B7-PT-02: why | so\n" + MISSING),
    ],
)
def test_a_link_has_the_form_of_the_section(extra: str, kind: RelationKind, expected: str) -> None:
    document = parse(extra)
    linked = link(document, OTHER, kind, "why | so")
    assert section(linked) == expected
    (relation,) = [relation for relation in ticket_of(linked).related if relation.id == OTHER]
    assert relation.kind in (kind, None)
    assert relation.note == "why | so"
    assert link(linked, OTHER, kind, "why | so").data == linked.data
    assert link(linked, OTHER, kind).data == linked.data


@pytest.mark.parametrize(
    ("extra", "expected"),
    [
        (BULLETS, BULLETS.replace("- **B7-PT-04**: second", "- blocks **B7-PT-04**: new")),
        (TABLE.replace("03", "04"), TABLE.replace("`B7-PT-03` | `related` | first", "`B7-PT-04` | `blocks` | new")),
        (BULLETS.replace("**B7-PT-04**", "**Blocked by** B7-PT-04"), BULLETS.replace("**B7-PT-04**: second", NEW)),
    ],
)
def test_another_kind_or_note_is_put_in_the_place_of_the_old(extra: str, expected: str) -> None:
    assert section(link(parse(extra), parse_ticket_id("B7-PT-04"), RelationKind.BLOCKS, "new")) == expected


def test_a_ticket_in_a_sentence_is_left_to_people() -> None:
    text = "\n## Related Findings\n\nSee B7-PT-02 and B7-PT-03.\n"
    with pytest.raises(BadInputError, match="named in a sentence"):
        link(parse(text), OTHER, RelationKind.RELATED)
    with pytest.raises(BadInputError, match="named in a sentence"):
        unlink(parse(text), OTHER)


@pytest.mark.parametrize("extra", [EMPTY, MISSING])
def test_a_section_without_a_link_left_says_none(extra: str) -> None:
    """An empty section, and one that `link` made, are told apart by nobody; lint asks for the section."""
    cleared = unlink(link(parse(extra), OTHER, RelationKind.BLOCKS), OTHER)
    assert section(cleared).strip("-\n").startswith("## Related Findings\n\nNone.\n\n")
    assert section(cleared).endswith(MISSING)
    assert ticket_of(cleared).related == ()
    assert unlink(link(cleared, OTHER, RelationKind.RELATED, "why"), OTHER).data == cleared.data


@given(
    st.sampled_from([BULLETS, TABLE, EMPTY_TABLE, NONE]),
    st.sampled_from(RelationKind),
    HOSTILE,
    st.sampled_from(["\n", "\r\n"]),
)
def test_a_link_that_is_taken_out_leaves_the_bytes_as_they_were(
    extra: str, kind: RelationKind, note: str, newline: str
) -> None:
    document = parse(extra, newline)
    try:
        linked = link(document, OTHER, kind, line(note))
    except BadInputError:
        return
    before, after = ticket_of(document), ticket_of(linked)
    assert OTHER in [relation.id for relation in after.related]
    assert (after.status, after.reports, len(linked.scan.headings)) == (
        before.status, before.reports, len(document.scan.headings),
    )  # fmt: skip
    assert unlink(linked, OTHER).data == document.data
    assert unlink(document, OTHER).data == document.data
