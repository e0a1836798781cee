"""TK030 to TK035, TK038 and TK039: the place that a ticket names is there."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterator
from pathlib import PurePosixPath

from auditkit.model.text import CODE_SPAN
from auditkit.model.tickets.page import Page
from auditkit.model.tickets.ticket import LineRange
from auditkit.rules.lint.checks.source import cited_files, is_path, length_of, locate, without_prefix, words_of
from auditkit.rules.lint.positions import at_cell
from auditkit.rules.lint.rule import Level, LintContext, Problem, rule

_NAMED_FILE = re.compile(r"([\w./-]*\.[A-Za-z]\w*)`?\s*:")
_PATH_AND_LINE = re.compile(r"(?<![\w./-])(/?[\w./-]+\.[A-Za-z]\w*):(\d{1,9})(?:[-–](\d{1,9}))?(?!\w)")
_SOURCE_PATH = re.compile(r"(?<![\w./-])(?:src|tests)/[\w./-]+\.py\b")
_ARGUMENTS = re.compile(r"\([^()]*\)")
_IDENTIFIER = re.compile(r"[^\W\d]\w*")


@rule("TK030", Level.ERROR, "A path in File(s) is not in the tree", needs_tree=True)
def missing_file(page: Page, context: LintContext) -> Iterator[Problem]:
    """A path in the File(s) row is neither a file nor a folder of the checkout.

    The absolute path of the checkout in front of it is left out first (`prefix` in the configuration).

    Why: Nobody can open the place, and no rule can compare the evidence with it.
    Bad: | **File(s)** | `src/pkg/colector.py` |
    Good: | **File(s)** | `src/pkg/collector.py` |
    Mend: Write the path that the file has at the revision the ticket speaks of; after a rename, the new one.
    """
    for path in page.ticket.files:
        if is_path(path) and locate(path, context) is None:
            shown = without_prefix(path, context.settings.prefix)
            yield at_cell(page.place("File(s)"), f"{shown} is not in the tree")


@rule("TK031", Level.ERROR, "Line(s) lies beyond the end of the file", needs_tree=True)
def line_beyond_end(page: Page, context: LintContext) -> Iterator[Problem]:
    """A range in the Line(s) row ends after the last line of the file that it is about.

    A range that names no file is compared with the longest of those in File(s).

    Why: The code has moved or the number is a slip; a reader finds nothing there.
    Bad: | **Line(s)** | `980-990` | where the file has 640 lines
    Good: | **Line(s)** | `580-590` |
    Mend: Look the code up again and write its lines.
    """
    files = cited_files(page, context)
    for span in page.ticket.lines:
        length = _length_for(span, files, context)
        if length is not None and max(span.first, span.last) > length:
            message = f"line {max(span.first, span.last)} is beyond the end of the file ({length} lines)"
            yield at_cell(page.place("Line(s)"), message)


def _length_for(span: LineRange, files: list[str], context: LintContext) -> int | None:
    if context.tree is None:
        return None
    meant = [path for path in files if not span.file or _is_same_file(path, span.file)]
    return max((length_of(path, context.tree) for path in meant), default=None)


def _is_same_file(path: str, named: str) -> bool:
    """Whether one of the two is the end of the other: `ppo.py` and `src/agent/ppo.py`."""
    longer, shorter = sorted((f"/{path.lstrip('/')}", f"/{named.lstrip('/')}"), key=len, reverse=True)
    return longer.endswith(shorter)


@rule("TK031b", Level.ERROR, "A line range ends before it starts")
def reversed_range(page: Page, context: LintContext) -> Iterator[Problem]:
    """A range in the Line(s) row has a last line before its first one.

    Why: It holds no line at all; one of the numbers is wrong.
    Bad: | **Line(s)** | `320-25` |
    Good: | **Line(s)** | `320-325` |
    Mend: Write both numbers in full, the smaller one first.
    """
    for span in page.ticket.lines:
        if span.last < span.first:
            yield at_cell(page.place("Line(s)"), f"the range {span.first}-{span.last} ends before it starts")


@rule("TK031c", Level.WARN, "A path:line in the text lies beyond the end of the file", needs_tree=True)
def text_line_beyond_end(page: Page, context: LintContext) -> Iterator[Problem]:
    """The text names `path:line`, the file is there, and it has fewer lines than that.

    A bare file name means the file of that name in File(s); any other path must be in the tree.

    Why: A reader follows such references; one that leads nowhere hides what was meant.
    Bad: See `collector.py:980`. (The file has 640 lines.)
    Good: See `collector.py:580`.
    Mend: Look the code up again and write its line.
    """
    if context.tree is None:
        return
    cited = cited_files(page, context)
    for number, line in _body(page, ":"):
        for match in _PATH_AND_LINE.finditer(line):
            path = _text_path(match[1], cited, context)
            last = max(int(match[2]), int(match[3] or 0))
            if path is not None and last > (length := length_of(path, context.tree)):
                message = f"{match[0]} is beyond the end of the file ({length} lines)"
                yield Problem(message, number, match.start() + 1)


def _text_path(written: str, cited: list[str], context: LintContext) -> str | None:
    found = locate(written, context)
    if found is None:
        same = [path for path in cited if _is_same_file(path, written)]
        found = same[0] if len(same) == 1 else None
    return found if context.tree and found in context.tree.paths else None


def _body(page: Page, part: str) -> Iterator[tuple[int, str]]:
    """Every line that holds `part` but those of the Location table, with its number."""
    rows = {cell.line for cell in page.location}
    numbered = enumerate(page.lines, start=1)
    return ((number, line) for number, line in numbered if part in line and number not in rows)


@rule("TK032", Level.INFO, "Line(s) has no number", waits=True)
def no_line_number(page: Page, context: LintContext) -> Iterator[Problem]:
    """The Line(s) row says in words where the code is, or nothing.

    Why: Without lines a ticket is compared with neither the source nor the other tickets of its file.
    Bad: | **Line(s)** | Multiple |
    Good: | **Line(s)** | `320-325`, `410` |
    Mend: Write the lines, the main place first; separate several with commas.
    """
    cell = page.place("Line(s)")
    if cell is not None and not page.ticket.lines:
        yield at_cell(cell, f"no numeric line: {cell.written or '(empty)'}")


@rule("TK033", Level.WARN, "A path in File(s) lacks the checkout's absolute path")
def relative_path(page: Page, context: LintContext) -> Iterator[Problem]:
    """The project writes absolute paths in File(s) (`prefix` is configured), and this one is not.

    Without a configured prefix the rule is silent.

    Why: People and scripts that look for one form miss the tickets in the other.
    Bad: | **File(s)** | `src/pkg/collector.py` |
    Good: | **File(s)** | `/home/me/project/src/pkg/collector.py` |
    Mend: Put the checkout's path in front.
    """
    prefix = context.settings.prefix
    for path in page.ticket.files:
        if prefix and is_path(path) and without_prefix(path, prefix) == path:
            yield at_cell(page.place("File(s)"), f"path not absolute with repository prefix: {path}")


@rule("TK034", Level.WARN, "File(s) has no path", waits=True)
def no_path(page: Page, context: LintContext) -> Iterator[Problem]:
    """The File(s) row says in words which files are meant, or nothing.

    Why: Such a ticket is found by no search for a file, and no rule compares it with the source.
    Bad: | **File(s)** | Multiple files |
    Good: | **File(s)** | `src/pkg/collector.py`, `src/pkg/report.py` |
    Mend: Name at least the file where a mend would start.
    """
    cell = page.place("File(s)")
    if cell is not None and not any(is_path(path) for path in page.ticket.files):
        yield at_cell(cell, f"no file path in File(s): {cell.written or '(empty)'}")


@rule("TK035", Level.WARN, "Line(s) names a file that is not in File(s)")
def unlisted_file(page: Page, context: LintContext) -> Iterator[Problem]:
    """The Line(s) row gives lines of a file that the File(s) row does not name.

    Why: One of the two rows is wrong, or the ticket is about a file that no search by File(s) finds.
    Bad: | **File(s)** | `src/pkg/a.py` | with | **Line(s)** | b.py: `12` |
    Good: | **File(s)** | `src/pkg/a.py`, `src/pkg/b.py` | with | **Line(s)** | b.py: `12` |
    Mend: Add the file to File(s), or correct its name in Line(s).
    """
    cell = page.place("Line(s)")
    if cell is None or not any(is_path(path) for path in page.ticket.files):
        return
    for named in dict.fromkeys(_NAMED_FILE.findall(cell.written)):
        if not any(_is_same_file(path, named) for path in page.ticket.files):
            yield at_cell(cell, f"Line(s) names {named}, which is not in File(s)")


@rule("TK038", Level.WARN, "A symbol of Function/Class is in none of the cited files", needs_tree=True)
def missing_symbol(page: Page, context: LintContext) -> Iterator[Problem]:
    """A name in a code span of the Function/Class row occurs nowhere in the files of File(s).

    Arguments are left out, words outside code spans too.

    Why: The code was renamed or moved, or the ticket was written from memory.
    Bad: | **Function/Class** | `Collector.gather()` | where the file says `collect`
    Good: | **Function/Class** | `Collector.collect()` |
    Mend: Write the name as the source has it at the revision that the ticket speaks of.
    """
    cell, files = page.place("Function/Class"), cited_files(page, context)
    if cell is None or not files:
        return
    missing = [name for name in _symbols(cell.written) if not any(name in words_of(path, context) for path in files)]
    if missing:
        yield at_cell(cell, f"symbol(s) {missing} not in cited file(s)")


def _symbols(written: str) -> list[str]:
    """The identifiers in the code spans of a cell, each once, without arguments."""
    names: dict[str, None] = {}
    for _, code in CODE_SPAN.findall(written):
        bare, count = code, 1
        while count:
            bare, count = _ARGUMENTS.subn("", bare)
        names |= dict.fromkeys(_IDENTIFIER.findall(bare))
    return list(names)


@rule("TK039", Level.INFO, "A path in the text is not in the tree", needs_tree=True)
def missing_text_path(page: Page, context: LintContext) -> Iterator[Problem]:
    """The text names a Python file below `src/` or `tests/` that the checkout does not have.

    The Location table is left to TK030. A test that is still to be written is found too.

    Why: A reader looks for the file in vain; often it was renamed, or a promised test was never added.
    Bad: - `tests/test_colector.py` - add a case
    Good: - `tests/test_collector.py` - add a case
    Mend: Write the file's path, or say that it is to be made and leave the finding.
    """
    if context.tree is None:
        return
    root = f"{context.settings.prefix.rstrip('/')}/" if context.settings.prefix else ""
    for number, line in _body(page, ".py"):
        # Blanks keep the columns where they were.
        text = line.replace(root, " " * len(root)) if root else line
        for match in _SOURCE_PATH.finditer(text):
            if _is_missing(match[0], context.tree.paths):
                yield Problem(f"path {match[0]} not in tree", number, match.start() + 1)


def _is_missing(path: str, paths: frozenset[str]) -> bool:
    is_elided = "..." in PurePosixPath(path).parts
    return not is_elided and posixpath.normpath(path) not in paths
