"""A document: where its values lie, and edits that touch nothing else."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from auditkit.errors import BadInputError
from auditkit.store.markdown.document import BrokenFileError, Document
from tests.filing_helpers import PATH, evidence_block, ticket_text


def parse(text: str) -> Document:
    return Document.parse(text.encode(), PATH)


def changed_lines(old: bytes, new: bytes) -> list[tuple[bytes, bytes]]:
    before, after = old.split(b"\n"), new.split(b"\n")
    assert len(before) == len(after)
    return [pair for pair in zip(before, after, strict=True) if pair[0] != pair[1]]


@pytest.mark.parametrize(
    ("cell", "value"),
    [
        ("`open`", "open"),
        ("**open**", "open"),
        ("**`open`**", "open"),
        ("`open` (since May)", "open"),
        ("**NEUTRAL** (with caveat)", "NEUTRAL"),
        ("open", "open"),
        ("``a`b``", "a`b"),
        ("`a | b`", "a | b"),
        (r"a \| b", "a | b"),
        ("", ""),
    ],
)
def test_a_value_is_read_inside_its_decoration(cell: str, value: str) -> None:
    field = parse(ticket_text(status=cell)).field("Status")
    assert field is not None
    assert field.text == value


@pytest.mark.parametrize("newline", ["\n", "\r\n"])
@pytest.mark.parametrize("end", ["", "\n", "\n\n  \n"])
@pytest.mark.parametrize("cell", ["`open`", "**open**", "open", "`open` (since May)"])
def test_a_status_edit_changes_one_line_and_its_undo_restores_the_bytes(newline: str, end: str, cell: str) -> None:
    text = (ticket_text(status=cell).rstrip() + end).replace("\n", newline)
    document = parse(text)
    edited = document.set_field("Status", "in-review")
    lines = changed_lines(document.data, edited.data)
    assert lines == [
        (
            f"| **Status** | {cell} |{newline[:-1]}".encode(),
            f"| **Status** | {cell.replace('open', 'in-review')} |{newline[:-1]}".encode(),
        )
    ]
    assert edited.set_field("Status", "open").data == document.data


def test_a_fence_does_not_pass_for_metadata() -> None:
    document = parse(ticket_text())
    assert [row.text for row in document.metadata if row.label == "Status"] == ["open"]


def test_an_empty_cell_is_filled_with_blanks_around() -> None:
    edited = parse(ticket_text()).set_field("Assignee", "a | b")
    assert b"| **Assignee** | a \\| b |\n" in edited.data
    field = edited.field("assignee")
    assert field is not None
    assert field.text == "a | b"


@pytest.mark.parametrize("value", ["two\nlines", "tick`", "\x1b[31m", " blank "])
def test_a_value_that_no_cell_can_hold_is_refused(value: str) -> None:
    with pytest.raises(BadInputError, match="not a value for the row 'Status'"):
        parse(ticket_text()).set_field("Status", value)


def test_a_row_that_is_not_there_is_refused_with_what_to_add() -> None:
    with pytest.raises(BadInputError, match="no row 'Colour'"):
        parse(ticket_text()).set_field("Colour", "red")


def test_evidence_is_replaced_and_nothing_else() -> None:
    text = ticket_text(fingerprint="p/1/t").replace("\n", "\r\n")
    document = parse(text)
    (block,) = document.evidence
    assert block.fingerprint == "p/1/t"
    edited = document.set_evidence(block, evidence_block("p/1/t", "| `n` | 1 | count |  | measured |").encode())
    assert edited.data.count(b"\n") == edited.data.count(b"\r\n")
    before, after = text.encode().split(b"| `norm`"), edited.data.split(b"| `n`")
    assert before[0] == after[0]
    assert before[1].split(b"\r\n", 1)[1] == after[1].split(b"\r\n", 1)[1]


def test_history_is_read_from_the_block() -> None:
    text = ticket_text(fingerprint="p/1/t").replace(
        "<!-- /auditkit:evidence -->", "\n**History**\n\n- one\n- two\n<!-- /auditkit:evidence -->"
    )
    assert parse(text).evidence[0].history == ("one", "two")
    assert parse(text.replace("\n", "\r\n")).evidence[0].history == ("one", "two")


@pytest.mark.parametrize(
    ("text", "line", "column", "message"),
    [
        (b"# a\n\xe9\xff b", 2, 1, "not UTF-8: byte 0xe9"),
        (b"# a\n<<<<<<< HEAD\n", 2, 1, "unresolved merge conflict"),
        (b"a\n\n<!-- auditkit:evidence -->\n", 3, 1, "evidence block is not closed"),
        (b"a\n\n <!-- /auditkit:evidence -->\n", 3, 1, "evidence marker out of place: no start before it"),
        (
            b"<!-- auditkit:evidence -->\n\n<!-- auditkit:evidence -->\n",
            3,
            1,
            "evidence marker out of place: the block before it is not closed",
        ),
    ],
)
def test_what_cannot_be_read_says_where(text: bytes, line: int, column: int, message: str) -> None:
    with pytest.raises(BrokenFileError) as caught:
        Document.parse(text, PATH)
    broken = caught.value.broken
    assert (broken.line, broken.column, broken.message) == (line, column, message)


@pytest.mark.parametrize("newline", ["\n", "\r\n"])
def test_a_line_is_appended_to_a_subsection_that_is_made_where_missing(newline: str) -> None:
    text = ticket_text().rstrip().replace("\n", newline)
    once = parse(text).append_to_subsection("Resolution", "Status Changes", "- one")
    added = newline.join(["", "", "---", "", "## Resolution", "", "### Status Changes", "", "- one"])
    assert once.data == (text + added).encode()
    twice = once.append_to_subsection("Resolution", "Status Changes", "- two")
    assert twice.data == once.data + f"{newline}- two".encode()


def test_a_subsection_goes_before_the_rule_that_ends_its_section() -> None:
    text = "## Resolution\n\nwords\n\n---\n\n## Appendix\n\nend\n"
    edited = parse(text).append_to_subsection("Resolution", "Status Changes", "- one")
    assert edited.data == (b"## Resolution\n\nwords\n\n### Status Changes\n\n- one\n\n---\n\n## Appendix\n\nend\n")


@given(st.binary(max_size=200))
def test_any_bytes_are_a_document_or_broken(data: bytes) -> None:
    try:
        read = Document.parse(data, PATH).data
    except BrokenFileError as error:
        read = data
        broken = error.broken
        lines = data.split(b"\n")
        assert 1 <= broken.line <= len(lines)
        assert broken.column <= len(lines[broken.line - 1]) + 1
    assert read == data


def test_all_problems_of_a_file_are_told_together() -> None:
    data = (
        b"# a\n<<<<<<< HEAD\n\xe9\n<!-- /auditkit:evidence -->\n>>>>>>> b\n<<<<<<< HEAD\n<!-- auditkit:evidence -->\n"
    )
    with pytest.raises(BrokenFileError) as caught:
        Document.parse(data, PATH)
    assert [(one.line, one.message) for one in caught.value.broken.problems] == [
        (2, "unresolved merge conflict"),
        (3, "not UTF-8: byte 0xe9"),
        (4, "evidence marker out of place: no start before it"),
        (6, "unresolved merge conflict"),
        (7, "evidence block is not closed"),
    ]
    told = caught.value.broken.describe()
    assert told.count("^") == 5
    assert told.splitlines()[:3] == [f"{PATH}:2:1: unresolved merge conflict", "    <<<<<<< HEAD", "    ^"]
