"""Rules about the Discussion: TK024."""

from __future__ import annotations

from collections.abc import Iterator

from auditkit.model.tickets.page import Page
from auditkit.rules.lint.positions import at_text
from auditkit.rules.lint.rule import Level, LintContext, Problem, rule


@rule("TK024", Level.INFO, "A comment without a date or a name")
def comment_signed(page: Page, context: LintContext) -> Iterator[Problem]:
    """Each heading of the Discussion says when something was said, and by whom.

    Why: A merge puts comments in the order of their times; nobody can be asked about one of nobody.
    Bad: ### Another thought, below ## Discussion
    Good: ### 2026-03-04 14:05, ada
    Mend: Write the date and the name, or say it again with `auditkit ticket comment`.
    """
    for comment in page.ticket.comments:
        if not comment.date or not comment.author:
            yield at_text(page, comment.line, "", "a comment whose heading has no date or no name")
