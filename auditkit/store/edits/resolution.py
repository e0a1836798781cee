"""How a ticket ended, written into its Resolution section: what was done, commits, tests, sign-offs."""

from __future__ import annotations

import re
from collections.abc import Sequence

from auditkit.store.edits.cells import rows_of, set_cell, split_list
from auditkit.store.edits.spans import inserted, removed, replaced, rule_of
from auditkit.store.markdown.document import Document
from auditkit.store.markdown.lines import lines_of
from auditkit.store.markdown.scan import Heading, Span, next_line
from auditkit.store.reading.resolution import read_resolution

FIX = ("Final Fix Description", "Fix Applied", "Fix Description")
RATIONALE = ("Rationale",)
COMMITS = ("Commits", "Commit")
TESTS = ("Tests Added/Modified", "Tests Added", "Tests")
"""Titles of subsections: the first is the one that is made, all of them are found."""

_CHANGES = "Status Changes"
_ENTRY = re.compile(r"[-*+]\s+`([^`]+)`")
_SIGNED = b"**Sign-off:** "
_PLACEHOLDER = re.compile(
    r"(?:[-*+]\s+)?(?:`[^`]*`\s*[-–:]\s*)?(?:\[[^\]]*\]|\((?:pending|to be determined)\))\.?", re.IGNORECASE
)


def tell(document: Document, titles: Sequence[str], text: str) -> Document:
    """The document with `text` (Markdown that stands on its own) in the subsection with one of `titles`.

    Placeholders there are replaced; what people wrote stays, and `text` follows it unless it is there.
    """
    document, section = with_section(document)
    found = document.child(section, *titles)
    if found is None:
        return inserted(document, _end_of_words(document, section), f"\n\n### {titles[0]}\n\n{text}")
    end = _end_of_words(document, found)
    if _is_placeholder(document, found):
        return replaced(document, Span(found.line.end, end), f"\n\n{text}")
    if text in _text(document, found):
        return document
    return inserted(document, end, f"\n\n{text}")


def name_all(document: Document, titles: Sequence[str], names: Sequence[str]) -> Document:
    """The document with each of `names` as an entry of the list in that subsection: `` - `3f2a9c1` ``."""
    document, section = with_section(document)
    found = document.child(section, *titles)
    said = _text(document, found) if found else ""
    new = [name for name in dict.fromkeys(names) if f"`{name}`" not in said]
    if not new:
        return document
    lines = "\n".join(f"- `{name}`" for name in new)
    if found is None or _is_placeholder(document, found):
        return tell(document, titles, lines)
    return inserted(document, _end_of_words(document, found), f"\n{lines}")


def set_tests(document: Document, value: str) -> Document:
    """The document with these tests, separated by commas, in its list of tests, and no others.

    Entries that stay keep what stands behind them.
    """
    wanted = names_of_tests(value)
    section = document.section("Resolution")
    found = document.child(section, *TESTS) if section else None
    if found is not None:
        body = Span(next_line(document.data, found.line.end), max(_end_of_words(document, found), found.line.end))
        for line in reversed(list(lines_of(document.data, body, document.scan.hidden))):
            entry = _ENTRY.match(line.text)
            if entry is not None and entry[1] not in wanted:
                document = removed(document, Span(line.span.start - 1, line.span.end))
    return name_all(document, TESTS, wanted) if wanted else document


def names_of_tests(value: str) -> list[str]:
    """The tests that a value of the field names."""
    return list(dict.fromkeys(filter(None, (name.strip("` ") for name in split_list(value)))))


def tests_text(document: Document) -> str:
    """The tests that the Resolution names."""
    told = read_resolution(document)
    return ", ".join(told.tests) if told else ""


def name_commits(document: Document, commits: Sequence[str]) -> Document:
    """The document with the commits in the Resolution: in its table's Commit row, else in a list."""
    if not commits:
        return document
    document, section = with_section(document)
    row = next((row for row in rows_of(document, section) if row.label.casefold() in ("commit", "commits")), None)
    if row is None:
        return name_all(document, COMMITS, commits)
    is_free = not row.written or _PLACEHOLDER.fullmatch(row.written.strip("`*")) is not None
    new = [commit for commit in dict.fromkeys(commits) if is_free or commit not in row.written]
    if not new:
        return document
    named = ", ".join(f"`{commit}`" for commit in new)
    return set_cell(document, section, row, named if is_free else f"{row.written}, {named}")


def date_fix(document: Document, date: str) -> Document:
    """The document with `date` in the Fixed Date row of the Resolution's table, where that is empty."""
    section = document.section("Resolution")
    rows = rows_of(document, section) if section else ()
    row = next((row for row in rows if row.label.casefold() == "fixed date" and not row.written), None)
    return set_cell(document, section, row, date) if section and row else document


def sign_off(document: Document, agent: str, date: str, note: str = "") -> Document:
    """The document with a line that says who accepts the resolution; as it is where that line is there."""
    document, section = with_section(document)
    # A reader looks for the name only in front of the dash.
    told = f" — {note}" if note else ""
    line = f"**Sign-off:** Approved by `{agent}` on {date}{told}"
    if line in _text(document, section):
        return document
    return inserted(document, _end_of_section(document, section), f"\n\n{line}")


def with_section(document: Document) -> tuple[Document, Heading]:
    """The document with its Resolution section, made before the Appendix where it is missing."""
    section = document.section("Resolution")
    if section is None:
        appendix = document.section("Appendix")
        end = document.content_end(appendix.line.start if appendix else len(document.data))
        document = inserted(document, end, f"\n\n{rule_of(document)}## Resolution")
        section = document.section("Resolution")
    assert section is not None, "it was made a line above"
    return document, section


def _end_of_section(document: Document, section: Heading) -> int:
    """Where the section ends: before its list of status changes."""
    changes = document.child(section, _CHANGES)
    return document.content_end(changes.line.start if changes else section.section_end)


def _end_of_words(document: Document, section: Heading) -> int:
    """Where the section's own text ends: before the sign-offs at its end."""
    end = _end_of_section(document, section)
    while end > section.line.end:
        start = document.data.rfind(b"\n", 0, end) + 1
        if not document.data.startswith(_SIGNED, start):
            break
        end = document.content_end(start)
    return end


def _text(document: Document, section: Heading) -> str:
    body = document.body(section)
    return document.data[body.start : body.end].decode().replace("\r\n", "\n")


def _is_placeholder(document: Document, section: Heading) -> bool:
    """Whether nothing, or nothing but a template's words in brackets, stands below the heading."""
    body = document.body(section)
    lines = document.data[body.start : max(_end_of_words(document, section), body.start)].decode().split("\n")
    return all(not line.strip() or _PLACEHOLDER.fullmatch(line.strip()) for line in lines)
