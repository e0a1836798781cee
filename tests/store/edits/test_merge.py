"""Three texts of one ticket: each row is merged by itself, and nothing else is touched."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from auditkit.store.edits.merge import align_rows
from auditkit.store.markdown.document import Document
from tests.filing_helpers import PATH, ticket_text

ROWS = {
    "Severity": ("| **Severity** | `P2` |", "`P1`", "**P0** (was P2)"),
    "Status": ("| **Status** | `open` |", "`fixed`", "`investigating`"),
    "Assignee": ("| **Assignee** | |", "Kim", "Zoë \\| Kim"),
    "Updated": ("| **Updated** | 2026-01-02 |", "2026-02-03", "2026-02-10"),
    "Line(s)": ("| **Line(s)** | norms.py: `10-12`, loop.py: `7`, `9` |", "1", "2"),
}


def text_with(values: dict[str, int]) -> str:
    """The ticket with the value of each row by its number: 0 as it was, 1 and 2 the two others."""
    text = ticket_text()
    for label, number in values.items():
        row = ROWS[label]
        assert row[0] in text
        if number:
            text = text.replace(row[0], f"| **{label}** | {row[number]} |")
    return text


def parse(text: str, newline: str = "\n") -> Document:
    return Document.parse(text.replace("\n", newline).encode(), PATH)


SIDE = st.fixed_dictionaries({label: st.integers(0, 2) for label in ROWS})


@given(SIDE, SIDE, SIDE, st.sampled_from(["\n", "\r\n"]))
def test_every_row_is_merged_by_itself(
    base: dict[str, int], ours: dict[str, int], theirs: dict[str, int], newline: str
) -> None:
    """Where only rows differ, the three texts are the same afterwards, but for rows that both sides changed."""
    done = align_rows(*(parse(text_with(side), newline) for side in (base, ours, theirs)))
    merged: dict[str, int] = {}
    for label, old in base.items():
        first, second = ours[label], theirs[label]
        if first in (second, old):
            merged[label] = second
        elif second == old:
            merged[label] = first
        elif label == "Updated":
            # The three dates ascend with their numbers.
            merged[label] = max(first, second)
    assert set(done.open) == set(ROWS) - set(merged)
    for side, text in ((base, done.base), (ours, done.ours), (theirs, done.theirs)):
        assert text == text_with({**side, **merged}).replace("\n", newline).encode()


def test_rows_that_a_text_lacks_or_has_twice_stay() -> None:
    base = ticket_text()
    ours = base.replace("| **Severity** | `P2` |\n", "")
    theirs = base.replace("`P2`", "`P1`").replace("| **Batch** | 7 |", "| **Status** | `fixed` |")
    texts = [base, ours, theirs]
    done = align_rows(*map(parse, texts))
    assert [done.base, done.ours, done.theirs] == [text.encode() for text in texts]
    assert done.open == ()


def test_dates_that_are_none_are_left_to_people() -> None:
    base = ticket_text()
    old = "| **Updated** | 2026-01-02 |"
    texts = [base, base.replace(old, "| **Updated** | soon |"), base.replace(old, "| **Updated** | 2026-02-03 |")]
    done = align_rows(*map(parse, texts))
    assert (done.open, done.ours) == (("Updated",), texts[1].encode())


def test_rows_in_a_fence_are_no_rows() -> None:
    base = ticket_text()
    in_fence = base.replace("| **Status** | `fixed` |", "| **Status** | `open` |")
    texts = [base, in_fence, base.replace("`open`", "`fixed`")]
    done = align_rows(*map(parse, texts))
    assert done.ours.decode() == texts[1].replace("| **Status** | `open` |", "| **Status** | `fixed` |", 1)
