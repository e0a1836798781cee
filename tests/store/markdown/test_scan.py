"""The line scanner against a real CommonMark parser, and where it must not be fooled."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from markdown_it import MarkdownIt

from auditkit.store.markdown.scan import scan


def headings_of_a_parser(text: str) -> list[tuple[int, int]]:
    tokens = MarkdownIt("commonmark").parse(text)
    return [
        (int(token.tag[1]), token.map[0])
        for token in tokens
        if token.type == "heading_open" and token.map and token.markup.startswith("#") and token.level == 0
    ]


def headings_of_the_scanner(text: str) -> list[tuple[int, int]]:
    data = text.encode()
    return [(heading.level, data.count(b"\n", 0, heading.line.start)) for heading in scan(data).headings]


CASES = {
    "plain": "# a\n\n## b\n",
    "fence": "```\n# no\n```\n# yes\n",
    "longer fence": "````\n```\n# no\n````\n# yes\n",
    "tildes": "~~~ text\n# no\n```\n~~~\n# yes\n",
    "open fence": "# yes\n```\n# no\n",
    "inline backticks": "```not``` a fence\n\n# yes\n",
    "fence in an item": "- item\n\n    ```\n    # no\n    ```\n\n# yes\n",
    "fence on the item's line": "- ```\n  # no\n  ```\n\n# yes\n",
    "numbered item": "10. item\n\n    ```\n    # no\n    ```\n\n# yes\n",
    "fence ends with its item": "- ```\n  # no\n\n# yes\n",
    "indented code": "text\n\n    ```\n\n# yes\n",
    "comment": "<!--\n# no\n-->\n# yes\n",
    "comment on one line": "<!-- x -->\n# yes\n",
    "no blank": "#no\n#\n# yes\n####### no\n",
    "crlf": "# a\r\n```\r\n# no\r\n```\r\n## b\r\n",
}


@pytest.mark.parametrize("text", CASES.values(), ids=CASES.keys())
def test_headings_are_those_of_a_commonmark_parser(text: str) -> None:
    assert headings_of_the_scanner(text) == headings_of_a_parser(text)


@settings(max_examples=400)
@given(
    st.lists(
        st.sampled_from(["# h", "## h2", "text", "", "```", "````", "```python", "~~~", "| a | b |", "---", "`x`"])
    )
)
def test_headings_agree_on_any_mix_of_lines_at_top_level(lines: list[str]) -> None:
    text = "\n".join(lines)
    assert headings_of_the_scanner(text) == headings_of_a_parser(text)


def test_sections_end_at_the_next_heading_of_their_level() -> None:
    data = b"# a\n## b\n### c\n## d\n# e\n"
    ends = {heading.text: heading.section_end for heading in scan(data).headings}
    assert ends == {"a": 20, "b": 15, "c": 15, "d": 20, "e": 24}


def test_markers_count_outside_fences_and_comments_only() -> None:
    marker = "<!-- auditkit:evidence -->"
    data = f"```\n{marker}\n```\n<!--\n{marker}\n-->\ntext {marker}\n\n{marker}\r\n".encode()
    markers = scan(data).markers
    assert [data[found.line.start : found.line.end] for found in markers] == [marker.encode()]


def test_a_byte_order_mark_hides_no_heading() -> None:
    assert [heading.text for heading in scan(b"\xef\xbb\xbf# a\n").headings] == ["a"]
