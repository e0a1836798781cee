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
def test_an_item_opens_no_fence_heading_table_or_html(text: str) -> None:
    item = "\n".join(markdown.opens_nothing(markdown.line(part)) for part in text.split("\n"))
    assert not block_types(item) & {"fence", "heading_open", "table_open", "html_block"}


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
