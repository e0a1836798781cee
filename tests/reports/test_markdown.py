"""Hostile text stays text, in a real CommonMark parser as in our scanner."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from markdown_it import MarkdownIt

from auditkit.tickets import markdown

PARTS = [
    "```", "~~~", "# Heading", "<!-- auditkit:evidence -->", "<!--", "- ```", "1. ~~~", "> ```", "| **S** | a |",
    "---", "===", "    ```", "\t# x", "\x1b[31m", "<script>", "`", "\\", "\r", "",
]  # fmt: skip
HOSTILE = st.lists(st.one_of(st.sampled_from(PARTS), st.text(max_size=12)), max_size=8)


def block_types(text: str) -> set[str]:
    return {token.type for token in MarkdownIt("commonmark").enable("table").parse(text)}


@given(HOSTILE.map("\n".join))
def test_prose_opens_no_fence_heading_table_or_html(text: str) -> None:
    prose = markdown.paragraphs(text)
    assert not block_types(prose) & {"fence", "heading_open", "table_open", "html_block"}


@given(HOSTILE.map("\n".join))
def test_a_fence_holds_everything_inside(text: str) -> None:
    fenced = markdown.fence(text, "python")
    tokens = MarkdownIt("commonmark").parse(fenced)
    assert [token.type for token in tokens] == ["fence"]


@given(HOSTILE.map("\n".join))
def test_a_cell_is_one_cell(text: str) -> None:
    row = f"| a | b |\n|---|---|\n| {markdown.cell(text)} | end |\n"
    tokens = MarkdownIt("commonmark").enable("table").parse(row)
    cells = [tokens[i + 1].content for i, token in enumerate(tokens) if token.type == "td_open"]
    assert len(cells) == 2
    assert cells[1] == "end"


def test_closed_fences_of_prose_stay_and_open_ones_become_text() -> None:
    """A reviewer may quote code; what is left open would swallow the rest of the ticket."""
    text = "see\n```python\n# no heading\n| x |\n```\nand # this\n# that\n~~~\nopen"
    assert markdown.prose(text) == ("see\n\n```python\n# no heading\n| x |\n```\n\nand # this\n\\# that\n\\~~~\nopen")


@given(HOSTILE.map("\n".join))
def test_prose_with_code_hides_nothing_behind_it(text: str) -> None:
    tokens = MarkdownIt("commonmark").parse(f"{markdown.prose(text)}\n\n# behind")
    assert [token.type for token in tokens].count("heading_open") == 1
