"""TK000: what cannot be read as a ticket at all. Reading finds it; no rule can look at such a file."""

from __future__ import annotations

from collections.abc import Iterable

from auditkit.model.page import Page
from auditkit.rules.lint.rule import Level, LintContext, Problem, rule

UNREADABLE = "TK000"


@rule(UNREADABLE, Level.ERROR, "The file cannot be read as a ticket")
def readable(page: Page, context: LintContext) -> Iterable[Problem]:
    """A file that is named or headed as a ticket is UTF-8, has a Ticket Metadata table and an id, no merge
    conflict, and evidence blocks that close.

    It is reported whatever is selected, and makes the command exit 2.
    Why: No other rule can look at it, and no list shows it.
    Bad: a file with <<<<<<< HEAD in it
    Good: the same with the conflict resolved
    Mend: Mend the file by hand; the message says where.
    """
    return ()
