"""TK036, TK037, TK051 and TK051b: the code and the commits that a ticket shows are in the repository."""

from __future__ import annotations

import re
import statistics
from collections.abc import Iterator
from dataclasses import dataclass

from auditkit.model.tickets.page import CodeBlock, Page
from auditkit.rules.lint.checks.source import cited_files, line_index, normal_line
from auditkit.rules.lint.rule import Level, LintContext, Problem, rule

_LANGUAGES = frozenset({"python", "py", "python3"})
_HEADINGS = frozenset({"what's wrong", "code evidence"})
_SHORTEST_LINE = 6  # `else:` and the like stand everywhere and prove nothing
_TOLERANCE = 3  # lines that evidence may lie outside the cited range


@dataclass(frozen=True)
class _Evidence:
    """A fence that shows code of the cited files: its first line, and its lines in normal form."""

    line: int
    code: tuple[str, ...]


@rule("TK036", Level.WARN, "Evidence does not match the cited file", needs_tree=True)
def unmatched_evidence(page: Page, context: LintContext) -> Iterator[Problem]:
    """Fewer than half the lines of a Python block that is shown as evidence are in the cited files.

    Looked at are blocks below What's Wrong, Code Evidence, or directly below Detailed Description, with two
    lines or more that count. Blanks and comments are left out of the comparison, and so are lines with
    fewer than six characters or abbreviated with `...`.

    Why: The ticket may be about code that is gone, or was never there.
    Bad: total = gather(everything) where the file says total = collect(parameters)
    Good: total = collect(parameters)
    Mend: Copy the lines from the file at the revision that the ticket speaks of; if they are gone, say so.
    """
    files = cited_files(page, context)
    for block in _evidence(page, files, context):
        present = sum(_is_in(line, files, context) for line in block.code)
        if len(block.code) >= 2 and present * 2 < len(block.code):
            yield Problem(f"evidence block matches {present} of {len(block.code)} lines", block.line)


@rule("TK037", Level.WARN, "Evidence has moved away from the cited lines", needs_tree=True)
def moved_evidence(page: Page, context: LintContext) -> Iterator[Problem]:
    """The lines of an evidence block are in the cited file, but not where the Line(s) row says.

    Counted are lines that the file holds once; none of them lies within three lines of a cited range. Only
    tickets with one file and a number in Line(s) are compared.

    Why: A reader opens the wrong lines; after some edits nobody knows what was meant.
    Bad: | **Line(s)** | `167-180` | for a function that starts in line 197
    Good: | **Line(s)** | `197-204` |
    Mend: Write the lines where the code is now.
    """
    files, ranges = cited_files(page, context), page.ticket.lines
    if len(page.ticket.files) != 1 or len(files) != 1 or not ranges:
        return
    index = line_index(files[0], context)
    for block in _evidence(page, files, context):
        unique = [found[0] for line in block.code if len(found := index.get(line, ())) == 1]
        distances = [min((_distance(number, span.first, span.last) for span in ranges), key=abs) for number in unique]
        if distances and all(abs(distance) > _TOLERANCE for distance in distances):
            yield Problem(
                f"evidence found {statistics.median_high(distances):+d} lines from the cited range", block.line
            )


def _distance(number: int, first: int, last: int) -> int:
    """How far a line lies after a range, negative before it, 0 inside."""
    return min(number - first, 0) or max(number - last, 0)


def _evidence(page: Page, files: list[str], context: LintContext) -> Iterator[_Evidence]:
    for block in page.code_blocks if files else ():
        if block.language in _LANGUAGES and _shows_evidence(block):
            lines = (normal_line(line) for line in block.text.split("\n"))
            code = (line for line in lines if len(line) >= _SHORTEST_LINE and not line.startswith("#"))
            # `tuple[int, ...]` is code; `def f(self, ...)` is an abbreviation, and no file has such a line.
            yield _Evidence(
                block.line, tuple(line for line in code if "..." not in line or _is_in(line, files, context))
            )


def _is_in(line: str, files: list[str], context: LintContext) -> bool:
    return any(line in line_index(path, context) for path in files)


def _shows_evidence(block: CodeBlock) -> bool:
    h2, h3 = (title.casefold().replace("’", "'") for title in (block.h2, block.h3))
    return h3 in _HEADINGS or (not h3 and h2 == "detailed description")


@rule("TK051", Level.ERROR, "A commit in the resolution is not in the repository", needs_tree=True)
def unknown_commit(page: Page, context: LintContext) -> Iterator[Problem]:
    """The resolution names a commit that the repository does not have.

    Without git, and in a shallow clone, the rule is silent.

    Why: Nobody can read what was done; the hash is a slip, or the commit was rewritten and is gone.
    Bad: - `0123abc` - a hash from before a rebase
    Good: - `89ef456` - the hash that `git log` shows for the fix
    Mend: Find the fix with `git log --grep` or `git log -S` and write its hash.
    """
    for commit in _commits(page, context):
        if context.tree and not context.tree.has_commit(commit):
            yield _commit_problem(page, commit, "is not in the repository")


@rule("TK051b", Level.WARN, "A commit in the resolution is not part of the revision", needs_tree=True)
def unmerged_commit(page: Page, context: LintContext) -> Iterator[Problem]:
    """The resolution names a commit that the checked revision does not contain.

    Why: The ticket counts as fixed, but this code does not have the fix, or no longer has it.
    Bad: - `0123abc` - a commit of a branch that was never merged
    Good: - `89ef456` - a commit that `git merge-base --is-ancestor 89ef456 HEAD` accepts
    Mend: Merge the fix, or write the commit by which it came in (after a squash or a cherry-pick).
    """
    for commit in _commits(page, context):
        if context.tree and context.tree.has_commit(commit) and not context.tree.is_ancestor(commit):
            yield _commit_problem(page, commit, "is not an ancestor of the revision")


def _commits(page: Page, context: LintContext) -> tuple[str, ...]:
    resolution = page.ticket.resolution
    return resolution.commits if resolution and context.tree and context.tree.has_history else ()


def _commit_problem(page: Page, commit: str, what: str) -> Problem:
    """Where the resolution names the commit first."""
    start = page.ticket.resolution.line if page.ticket.resolution else 1
    pattern = re.compile(rf"\b{re.escape(commit)}", re.IGNORECASE)
    for number, line in enumerate(page.lines[start - 1 :], start=start):
        match = pattern.search(line)
        if match is not None:
            return Problem(f"commit {commit} {what}", number, match.start() + 1)
    return Problem(f"commit {commit} {what}", start)
