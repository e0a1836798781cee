"""Relations, boxes, resolutions, reports and the page as a whole, in documents of our own."""

from __future__ import annotations

import pytest

from auditkit.model.tickets.relation import RelationKind
from auditkit.store.markdown.document import Document
from auditkit.store.markdown.pages import page_of
from auditkit.store.reading.relations import read_relations
from auditkit.store.reading.resolution import read_reports, read_resolution, read_verification
from tests.filing_helpers import ticket_text

TABLE = """## Related Findings

| Ticket ID | Relationship | Notes |
|-----------|--------------|-------|
| `B2-PT-01` | `Blocked by` | waits |
| B2-CR-02 | sibling | |
| `B{x}-{agent}-{yy}` | `duplicate` / `related` | [brief note] |
| the other one | related | no id |
| | | |
"""
LIST = """## Related Findings

- B3-PT-02: a graph break
- Duplicate of `B3-PT-03` - the same line
- **Related:** B3-PT-04, see B3-PT-05
- Said in the report, too
- None known

Also B3-CR-01 and B3-CR-02 are near.
"""
RESOLUTION = """## Resolution

| Field | Value |
|-------|-------|
| **Commit** | (pending) |

**Status:** Won't Fix
On 2026-01-02 it was mended in `8e4c59e5` and commit 0123456789abcdef; `deadline` and `abcdefabcdef` are words.
- `tests/test_norms.py::test_large` - a test

```
`aaaaaaa1` (pending) approved
```

### Sign-Off

**PyTorch Expert:** "the fix is right" (2026-01-03)

---

### Status Changes

- 2026-02-02: open to wont-fix: approved by nobody in `bbbbbbb1`

## Closure Notes

**Sign-off:** Approved by `code-review`
"""


def parse(text: str) -> Document:
    return Document.parse(text.encode())


def test_relations_of_a_table() -> None:
    found = [one.relation for one in read_relations(parse(TABLE))]
    assert [(one.id, one.kind, one.kind_written, one.note, one.line) for one in found] == [
        ("B2-PT-01", RelationKind.BLOCKED_BY, "Blocked by", "waits", 5),
        ("B2-CR-02", None, "sibling", "", 6),
        ("", RelationKind.RELATED, "related", "no id", 8),
    ]


def test_relations_of_a_list_and_of_prose() -> None:
    found = [one.relation for one in read_relations(parse(LIST))]
    assert [(one.id, one.kind, one.note, one.form, one.line) for one in found] == [
        ("B3-PT-02", None, "a graph break", "bullet", 3),
        ("B3-PT-03", RelationKind.DUPLICATE, "the same line", "bullet", 4),
        ("B3-PT-04", RelationKind.RELATED, "see B3-PT-05", "bullet", 5),
        ("", None, "Said in the report, too", "bullet", 6),
        ("B3-CR-01", None, "and B3-CR-02 are near.", "text", 9),
        ("B3-CR-02", None, "and B3-CR-02 are near.", "text", 9),
    ]


def test_a_resolution_is_read_from_all_its_sections_and_not_from_fences_or_status_changes() -> None:
    found = read_resolution(parse(RESOLUTION))
    assert found is not None
    assert found.sections == ("Resolution", "Closure Notes")
    assert found.disposition == "Won't Fix"
    assert found.commits == ("8e4c59e5", "0123456789abcdef")
    assert found.tests == ("tests/test_norms.py::test_large",)
    assert found.dates == ("2026-01-02", "2026-01-03")
    assert found.placeholders == (("(pending)", 5),)
    assert [(one.agent, one.date, one.line) for one in found.sign_offs] == [
        ("pytorch", "2026-01-03", 17),
        ("codereview", "", 27),
    ]
    assert found.line == 1


def test_without_a_section_there_is_no_resolution() -> None:
    assert read_resolution(parse("## Summary\n\nResolution: fixed in `8e4c59e5`\n")) is None


def test_boxes_and_the_probes_they_are_bound_to() -> None:
    text = (
        "## Verification\n\n- [x] done\n  - [ ] open <!-- probe: norm_overflows -->\n```\n- [ ] no\n```\n* [X] three\n"
    )
    assert [(item.is_done, item.text, item.probe, item.line) for item in read_verification(parse(text))] == [
        (True, "done", "", 3),
        (False, "open", "norm_overflows", 4),
        (True, "three", "", 8),
    ]


def test_reports_and_the_sections_they_quote() -> None:
    text = (
        '**Report file:** `docs/a.md`\n**Section:** "One" - two\n\n'
        "```\n**Report file:** `no.md`\n```\n**Report:** docs/b.md\n"
    )
    found = [(one.file, one.section, one.line) for one in read_reports(parse(text))]
    assert found == [("docs/a.md", '"One" - two', 1), ("docs/b.md", "", 7)]


@pytest.mark.parametrize("newline", ["\n", "\r\n"])
@pytest.mark.parametrize("mark", ["", "\ufeff"])
@pytest.mark.parametrize("last", ["\n", ""])
def test_a_page_has_the_lines_and_parts_of_the_file(newline: str, mark: str, last: str) -> None:
    text = ticket_text().rstrip("\n") + last
    page = page_of(Document.parse((mark + text.replace("\n", newline)).encode()))
    lines = text.split("\n")[:-1] if last else text.split("\n")
    assert list(page.lines) == lines
    assert page.ends_with_newline is bool(last)
    severity = page.cell("severity")
    assert severity is not None
    assert lines[severity.line - 1][severity.column - 1 :].startswith("P2`")
    verification = page.section("Verification")
    assert verification is not None
    assert lines[verification.line - 1] == "## Verification"
    assert verification.end_line == len(lines) + 1
    assert page.text_of(verification) == "\n- [ ] a test"
    hidden = [line for line, is_visible in zip(lines, page.visible, strict=True) if not is_visible]
    assert hidden == [
        "```python", "# Lines 10-12", "## Ticket Metadata", "| **Status** | `fixed` |",
        "<!-- auditkit:evidence -->", "```", "    ```", "    # not a heading", "    ```",
    ]  # fmt: skip
    first, second = page.code_blocks
    assert (first.language, first.h2, first.h3) == ("python", "Detailed Description", "")
    assert lines[first.line - 1] == "```python"
    assert first.text.startswith("# Lines 10-12\n")
    assert first.text.endswith("evidence -->\n")
    assert second.text == "    # not a heading\n"
