"""What a command writes into a ticket's Resolution, in the forms that tickets have."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from auditkit.errors import BadInputError
from auditkit.rendering.markdown import line, prose
from auditkit.store.edits import resolution
from auditkit.store.markdown.document import Document
from auditkit.store.reading.reader import ticket_of
from tests.filing_helpers import PATH, ticket_text
from tests.rendering.hostile import HOSTILE

TEMPLATE = """
## Resolution

### Final Fix Description

[What was actually done to fix the issue]

### Commits

- `abc1234` - [commit message]
- `def5678` - [commit message]

### Tests Added/Modified

- `tests/...` - [description]

### Status Changes

- 2026-01-03: open to deferred: waits

---

## Appendix
"""
TABLE = """
## Resolution

| Field | Value |
|-------|-------|
| **Fixed By** | |
| **Fixed Date** | |
| **Commit** | (pending) |

---

## Appendix
"""


def parse(extra: str) -> Document:
    return Document.parse(ticket_text(extra=extra).encode(), PATH)


def added(old: Document, new: Document) -> str:
    """What stands in `new` behind the ticket's own text."""
    return new.data.decode().removeprefix(ticket_text().removesuffix("\n"))


def test_a_templates_placeholders_are_replaced() -> None:
    document = resolution.tell(parse(TEMPLATE), resolution.FIX, "Scaled the sum.\n\nTwice.")
    document = resolution.name_commits(document, ["3f2a9c1", "3f2a9c1", "0123abc"])
    document = resolution.name_all(document, resolution.TESTS, ["tests/test_a.py"])
    document = resolution.sign_off(document, "pytorch", "2026-03-04", "seen, by drl too")
    assert document.data.decode() == ticket_text(
        extra="""
## Resolution

### Final Fix Description

Scaled the sum.

Twice.

### Commits

- `3f2a9c1`
- `0123abc`

### Tests Added/Modified

- `tests/test_a.py`

**Sign-off:** Approved by `pytorch` on 2026-03-04 — seen, by drl too

### Status Changes

- 2026-01-03: open to deferred: waits

---

## Appendix
"""
    )
    told = ticket_of(document).resolution
    assert told is not None
    assert (told.commits, told.tests) == (("3f2a9c1", "0123abc"), ("tests/test_a.py",))
    assert [(one.agent, one.date) for one in told.sign_offs] == [("pytorch", "2026-03-04")]
    assert told.placeholders == ()


def test_a_table_gets_commit_and_date() -> None:
    document = resolution.date_fix(resolution.name_commits(parse(TABLE), ["3f2a9c1"]), "2026-03-04")
    assert "| **Fixed Date** | 2026-03-04 |\n| **Commit** | `3f2a9c1` |\n" in document.data.decode()
    both = resolution.name_commits(document, ["3f2a9c1", "0123abc"])
    assert "| **Commit** | `3f2a9c1`, `0123abc` |\n" in both.data.decode()
    assert resolution.date_fix(both, "2026-03-05").data == both.data


@pytest.mark.parametrize(
    ("extra", "before", "after"),
    [
        ("", "- [ ] a test\n\n---\n\n## Resolution", "\n"),
        ("\n## Appendix\n", "- [ ] a test\n\n---\n\n## Resolution", "\n\n## Appendix\n"),
        ("\n## Resolution\n", "- [ ] a test\n\n## Resolution", "\n"),
    ],
)
def test_a_missing_section_is_made_before_the_appendix(extra: str, before: str, after: str) -> None:
    text = resolution.tell(parse(extra), resolution.RATIONALE, "A demo.").data.decode()
    assert text.endswith(f"{before}\n\n### Rationale\n\nA demo.{after}")


@pytest.mark.parametrize("newline", ["\n", "\r\n"])
@pytest.mark.parametrize("end", ["", "\n", "\n\n## Appendix\n"])
def test_code_at_the_end_of_the_section_above_stays_code(newline: str, end: str) -> None:
    text = (ticket_text().rstrip() + "\n\n```python\n# code\n```").replace("\n", newline)
    document = Document.parse((text + end.replace("\n", newline)).encode(), PATH)
    edited = resolution.tell(document, resolution.FIX, "Done.")
    assert edited.data.decode().startswith(f"{text}{newline}{newline}---{newline}{newline}## Resolution{newline}")


def test_saying_it_again_changes_nothing() -> None:
    once = resolution.sign_off(resolution.tell(parse(""), resolution.FIX, "Done."), "drl", "2026-03-04")
    once = resolution.name_all(once, resolution.TESTS, ["a/test_b.py"])
    again = resolution.sign_off(resolution.tell(once, resolution.FIX, "Done."), "drl", "2026-03-04")
    assert resolution.name_all(again, resolution.TESTS, ["a/test_b.py"]).data == once.data
    more = resolution.tell(once, resolution.FIX, "And more.").data.decode()
    assert "### Final Fix Description\n\nDone.\n\nAnd more.\n" in more


@given(HOSTILE, HOSTILE, st.sampled_from(["", TABLE, TEMPLATE]), st.sampled_from(["\n", "\r\n"]))
def test_hostile_text_stays_in_its_section(text: str, note: str, extra: str, newline: str) -> None:
    document = Document.parse(ticket_text(extra=extra).replace("\n", newline).encode(), PATH)
    try:
        edited = resolution.tell(document, resolution.FIX, prose(text))
        edited = resolution.sign_off(edited, "drl", "2026-03-04", line(note))
    except BadInputError:
        return
    titles = [heading.text for heading in edited.scan.headings]
    assert [title for title in titles if title not in ("Resolution", resolution.FIX[0])] == [
        heading.text for heading in document.scan.headings if heading.text not in ("Resolution", resolution.FIX[0])
    ]
    before, after = ticket_of(document), ticket_of(edited)
    assert (after.status, after.verification, after.reviews) == (before.status, before.verification, before.reviews)
    assert after.resolution is not None
    assert "drl" in [one.agent for one in after.resolution.sign_offs]
