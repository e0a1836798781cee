"""Fields set by a command: one span of bytes, read back, and undone without a trace."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from auditkit.errors import BadInputError
from auditkit.model.text import inert_line
from auditkit.store.edits.fields import LOCATION, METADATA, ROWS, edit_field, field_text
from auditkit.store.markdown.document import Document
from auditkit.store.reading.reader import ticket_of
from tests.filing_helpers import PATH, ticket_text

OF_TABLES = [row for row in ROWS if row.section in (METADATA, LOCATION) and row.label not in ("Ticket ID", "Status")]
FIELDS = ["title", "summary", *(row.names[0] for row in OF_TABLES)]


def parse(text: str) -> Document:
    return Document.parse(text.encode(), PATH)


def changed_lines(old: Document, new: Document) -> list[tuple[str, str]]:
    before, after = old.data.decode().split("\n"), new.data.decode().split("\n")
    assert len(before) == len(after)
    return [pair for pair in zip(before, after, strict=True) if pair[0] != pair[1]]


@pytest.mark.parametrize(
    ("field", "value", "line"),
    [
        ("severity", "p0", "| **Severity** | `P0` |"),
        ("Assignee", "bob | co", "| **Assignee** | bob \\| co |"),
        ("File(s)", "a.py, src/b.py", "| **File(s)** | `a.py`, `src/b.py` |"),
        ("files", "only.py", "| **File(s)** | `only.py` |"),
        ("lines", "3-4", "| **Line(s)** | `3-4` |"),
        ("lines", "norms.py: `3`, words", "| **Line(s)** | norms.py: `3`, words |"),
        ("function", "f(a, b), g()", "| **Function/Class** | `f(a, b)`, `g()` |"),
        ("function", "", "| **Function/Class** | |"),
        ("created", "2026-01-01", "| **Created** | 2026-01-01 |"),
        ("agent", "PT", "| **Agent** | `PT` |"),
        ("title", "a `new` | title", "# Finding Ticket: a `new` | title"),
        ("summary", "it is [wrong]", "**One-line summary:** it is [wrong]"),
    ],
)
def test_an_edit_changes_one_line(field: str, value: str, line: str) -> None:
    document = parse(ticket_text())
    ((_, after),) = changed_lines(document, edit_field(document, field, value))
    assert after == line


def test_updated_is_not_bumped() -> None:
    """Two people who edit different fields must be able to merge."""
    document = parse(ticket_text())
    assert ticket_of(edit_field(document, "severity", "P0")).updated == "2026-01-02"


@pytest.mark.parametrize(
    ("field", "value", "message", "hint"),
    [
        ("severity", "P9", "no such severity: 'P9'", "one of P0, P1, P2, P3, P4"),
        ("severity", "", "no such severity: ''", "P0"),
        ("sevrity", "P1", "no field 'sevrity'", "did you mean severity"),
        ("status", "fixed", "'Status' is not edited", "auditkit ticket status B7-PT-01"),
        ("Ticket ID", "B7-PT-09", "'Ticket ID' is not edited", "renumber B7-PT-01"),
        ("batch", "8", "the batch of B7-PT-01 is 7", "renumber"),
        ("agent", "drl", "the agent of B7-PT-01 is pytorch", "renumber"),
        ("created", "2026-02-30", "not a date: '2026-02-30'", "2026-03-04"),
        ("updated", "20260304", "not a date: '20260304'", "2026-03-04"),
        ("assignee", "two\nlines", "not a value for the row 'Assignee'", "one line"),
        ("assignee", "\x1b[31mred", "not a value for the row 'Assignee'", "visible"),
        ("assignee", "a\\|b", "not a value for the row 'Assignee'", "no backslash"),
        ("files", "`a.py", "not a value for the row 'File(s)'", "pairs"),
        ("title", "", "a ticket needs a title", ""),
        ("title", "two\n# lines", "not a value for the row 'title'", ""),
    ],
)
def test_what_a_field_cannot_say_is_refused(field: str, value: str, message: str, hint: str) -> None:
    with pytest.raises(BadInputError) as caught:
        edit_field(parse(ticket_text()), field, value)
    assert message in caught.value.message
    assert hint in (caught.value.hint or "")


@pytest.mark.parametrize(
    ("row", "field", "value", "neighbours"),
    [
        (
            "| **Assignee** | |\n",
            "assignee",
            "bob",
            ("| **Domain** | `train/telemetry` |", "| **Created** | 2026-01-02 |"),
        ),
        ("| **Severity** | `P2` |\n", "severity", "P3", ("| **Ticket ID** | `B7-PT-01` |", "| **Status** | `open` |")),
        (
            "| **Function/Class** | `total_norm()` |\n",
            "function",
            "f()",
            ("| **Line(s)** | norms.py: `10-12`, loop.py: `7`, `9` |", ""),
        ),
    ],
)
def test_a_missing_row_is_added_in_its_place(row: str, field: str, value: str, neighbours: tuple[str, str]) -> None:
    text = ticket_text()
    assert row in text
    lines = edit_field(parse(text.replace(row, "")), field, value).data.decode().split("\n")
    place = next(number for number, line in enumerate(lines) if line.startswith(row.partition(" | ")[0]))
    assert value in lines[place]
    assert (lines[place - 1], lines[place + 1]) == neighbours


def test_a_row_of_the_projects_own_is_set_by_its_label() -> None:
    text = ticket_text().replace("| **Created** |", "| **Sprint** | `4` |\n| **Created** |")
    document = parse(text)
    assert changed_lines(document, edit_field(document, "sprint", "5")) == [
        ("| **Sprint** | `4` |", "| **Sprint** | `5` |")
    ]


HOSTILE = st.lists(
    st.one_of(
        st.text(max_size=10),
        st.sampled_from(
            ["|", "\\", "`", "``", "**", "<!--", "-->", "\n", "\n# x", "---", ",", "\r", "Finding Ticket: "]
        ),
    ),
    max_size=5,
).map("".join)
CELLS = st.sampled_from(
    ["`open`", "**op**", "open", "", " ", "`a`, `b`", "words, `a`", r"`a \| b`", r"a \| b", "**`x`** (why)", "``a`b``"]
)


@given(st.sampled_from(FIELDS), HOSTILE, CELLS, st.sampled_from(["\n", "\r\n"]), st.sampled_from(["", "\n"]))
def test_an_edit_reads_back_and_its_undo_restores_the_bytes(
    field: str, value: str, cell: str, newline: str, end: str
) -> None:
    """Whatever the text: it is refused, or it is what the field says then, and every other field is as before."""
    text = (
        ticket_text(status=cell)
        .replace("`total_norm()`", cell)
        .replace("| **Assignee** | |", f"| **Assignee** |{cell}|")
    )
    document = parse((text.rstrip() + end).replace("\n", newline))
    before = ticket_of(document).to_json()
    try:
        edited = edit_field(document, field, value)
    except BadInputError:
        return
    assert value == inert_line(value)
    after = ticket_of(edited).to_json()
    changed = {key for key in after if after[key] != before.get(key)}
    own = {
        "files": {"files"},
        "lines": {"lines", "lines_written"},
        "domain": {"domains"},
        "severity": {"severity", "severity_written"},
        "labels": {"labels", "verification"},  # whose lines are further down
        "due": {"due", "verification"},
    }
    assert changed <= own.get(field, {field})
    assert len(edited.scan.headings) == len(document.scan.headings)
    old = field_text(document, field)
    is_added = field in ("labels", "due")  # whose empty row stays
    if not is_added and (value or field == "assignee"):  # an emptied cell that is filled gets the row's own decoration
        assert edit_field(edited, field, old).data == document.data
