"""Comments: where they stand, in which order, what they may not hide, and that two sides of a merge come together."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from auditkit.errors import BadInputError
from auditkit.model.tickets.comment import Comment
from auditkit.rendering.markdown import prose
from auditkit.store.edits.comments import add_comment, align_comments
from auditkit.store.markdown.document import Document
from auditkit.store.reading.reader import ticket_of
from tests.filing_helpers import ticket_text

REVIEWED = """
---

## Cross-Review (DRL Specialist)

| Field | Value |
|-------|-------|
| **Verdict** | `ENDORSE` |

**Evaluation:** yes

---

## Resolution

| Field | Value |
|-------|-------|
| **Fixed By** | |

---

## Appendix

x
"""
TICKET = Document.parse(ticket_text(extra=REVIEWED).encode())


def said(text: str, author: str = "ada", date: str = "2026-03-04 10:00") -> Comment:
    return Comment(author, date, text, 0)


def comments_of(document: Document) -> list[tuple[str, str, str]]:
    return [(one.date, one.author, one.text) for one in ticket_of(document).comments]


def test_a_comment_stands_between_review_and_resolution_and_changes_nothing_else() -> None:
    changed = add_comment(TICKET, said("seen in run 12"))
    headings = [heading.text for heading in changed.scan.headings if heading.level == 2]
    assert headings[-4:] == ["Cross-Review (DRL Specialist)", "Discussion", "Resolution", "Appendix"]
    added = b"\n\n---\n\n## Discussion\n\n### 2026-03-04 10:00, ada\n\nseen in run 12"
    assert changed.data.count(added) == 1
    assert changed.data.replace(added, b"") == TICKET.data
    before, after = ticket_of(TICKET), ticket_of(changed)
    assert replace(after, comments=(), resolution=before.resolution) == before
    assert comments_of(changed) == [("2026-03-04 10:00", "ada", "seen in run 12")]


def test_comments_are_in_the_order_of_their_times() -> None:
    document = TICKET
    for text, date in [
        ("b", "2026-03-04 10:00"),
        ("c", "2026-03-04 10:00"),
        ("d", "2026-03-05 09:00"),
        ("a", "2026-01-01"),
    ]:
        document = add_comment(document, said(text, date=date))
    assert [text for _, _, text in comments_of(document)] == ["a", "b", "c", "d"]


def test_line_ends_and_a_file_without_other_sections_are_kept() -> None:
    crlf = Document.parse(TICKET.data.replace(b"\n", b"\r\n"))
    changed = add_comment(crlf, said("two\nlines"))
    assert changed.data.count(b"\n") == changed.data.count(b"\r\n")
    assert comments_of(changed) == [("2026-03-04 10:00", "ada", "two\nlines")]
    bare = Document.parse(ticket_text().encode().rstrip(b"\n"))
    assert add_comment(bare, said("x")).data.endswith(b"ada\n\nx")


@pytest.mark.parametrize("text", ["## Resolution\n\nfixed", "### 2026-01-01, bob\n\nno", "```\nopen", "<!-- hidden"])
def test_a_text_that_is_more_than_one_comment_is_refused_and_harmless_as_prose(text: str) -> None:
    with pytest.raises(BadInputError):
        add_comment(TICKET, said(text))
    assert comments_of(add_comment(TICKET, said(prose(text)))) == [("2026-03-04 10:00", "ada", prose(text))]


def test_two_sides_of_a_merge_get_all_comments_in_one_order() -> None:
    base = add_comment(TICKET, said("first", date="2026-03-01 08:00"))
    ours = add_comment(add_comment(base, said("ours", "ada")), said("later", "ada", "2026-03-06 10:00"))
    theirs = add_comment(add_comment(base, said("theirs", "bob")), said("between", "bob", "2026-03-05 10:00"))
    aligned = align_comments(base, ours, theirs)
    assert aligned[0].data == aligned[1].data == aligned[2].data
    assert [text for _, _, text in comments_of(aligned[0])] == ["first", "ours", "theirs", "between", "later"]
    first = align_comments(TICKET, add_comment(TICKET, said("ours")), add_comment(TICKET, said("theirs", "bob")))
    assert first[0].data == first[1].data == first[2].data


def test_what_one_side_changed_is_left_to_git() -> None:
    base = add_comment(TICKET, said("first"))
    changed = Document.parse(base.data.replace(b"ada\n\nfirst", b"ada\n\nfirst, mended"))
    assert align_comments(base, changed, base) == (base, changed, base)
    assert align_comments(base, TICKET, base) == (base, TICKET, base)


@settings(max_examples=150, deadline=None)
@given(st.lists(st.tuples(st.text(max_size=60), st.sampled_from(["ada", "bob"]), st.integers(1, 28)), max_size=4))
def test_any_text_is_read_back_as_it_was_written(given_comments: list[tuple[str, str, int]]) -> None:
    document, wanted = TICKET, []
    for text, author, day in given_comments:
        if not (told := prose(text).strip()):
            continue
        comment = said(told, author, f"2026-03-{day:02d} 10:00")
        try:
            document = add_comment(document, comment)
        except BadInputError:
            continue
        wanted.append((comment.date, author, told))
    assert sorted(comments_of(document)) == sorted(wanted)
    assert [date for date, _, _ in comments_of(document)] == sorted(date for date, _, _ in wanted)
