"""Rules about cross-reviews, whether they are out of date, and comments: TK024, TK058, TK060 to TK066."""

from __future__ import annotations

from collections.abc import Iterator

from auditkit.model.tickets.page import Page
from auditkit.model.tickets.review import Review
from auditkit.rules.lint.checks.origin import read_date
from auditkit.rules.lint.checks.source import locate
from auditkit.rules.lint.positions import at_text, is_finished
from auditkit.rules.lint.rule import Level, LintContext, Problem, rule
from auditkit.rules.tickets.code_digest import code_digest, is_stale


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


@rule("TK058", Level.WARN, "A review of what has changed since")
def review_up_to_date(page: Page, context: LintContext) -> Iterator[Problem]:
    """What a review of an unfinished ticket judged is what the ticket says now.

    `auditkit ticket review` records a digest of the evidence, and of the code where it was looked at; with
    `--checkout` both are compared, otherwise the evidence alone. Reviews without a digest are left out.
    Why: The reviewer endorsed other numbers, or other code.
    Bad: | **Judged** | 0123456789ab | above evidence that a later run has changed
    Good: the same after a review of the new evidence
    Mend: Ask the reviewer to look again: `auditkit ticket review --replace`.
    """
    digest = context.digests.get(page.ticket.path, "")
    judging = [review for review in page.ticket.reviews if review.judged]
    if not digest or not judging or is_finished(page, context.settings):
        return
    code = _code_now(page, context)
    for review in judging:
        if is_stale(review, digest, code):
            yield _at_verdict(page, review, "what this review judged has changed since")


@rule("TK060", Level.WARN, "No cross-review", waits=True)
def reviewed(page: Page, context: LintContext) -> Iterator[Problem]:
    """Somebody gave a verdict on the ticket; the empty sections of a new one are none.

    `lint: reviewers: 0` in auditkit.yaml says that the project does without.
    Why: One reader's finding is an opinion until another one agrees.
    Bad: a ticket without a verdict
    Good: | **Verdict** | **ENDORSE** | below ## Cross-Review (DRL Specialist)
    Mend: `auditkit ticket review`.
    """
    if context.settings.reviewers and not page.ticket.reviews:
        yield Problem("nobody reviewed it")


@rule("TK061", Level.WARN, "Fewer reviewers than the project asks for")
def enough_reviewers(page: Page, context: LintContext) -> Iterator[Problem]:
    """A reviewed ticket has verdicts of at least three reviewers who can be told apart.

    `lint: reviewers` in auditkit.yaml is another number.
    Why: Two who disagree decide nothing, and two of the same trade see the same half.
    Bad: verdicts of drl and pytorch alone
    Good: verdicts of drl, pytorch and codereview
    Mend: Ask the one who is missing.
    """
    needed, reviews = context.settings.reviewers, page.ticket.reviews
    known = sorted({review.reviewer for review in reviews if context.settings.knows_agent(review.reviewer)})
    if reviews and len(known) < needed:
        who = f": {', '.join(known)}" if known else ""
        yield Problem(f"{len(known)} of {needed} reviewers identified{who}", reviews[0].line)


@rule("TK062", Level.WARN, "A reviewer who cannot be identified")
def reviewer_known(page: Page, context: LintContext) -> Iterator[Problem]:
    """Each verdict says which agent gave it, in its Reviewer row or in the heading above it.

    `agents` in auditkit.yaml names the ones that only the project has; write those in backticks.
    Why: A verdict of nobody counts for nobody.
    Bad: ## Cross-Review with | **Reviewer** | cross-review-agent |
    Good: ## Cross-Review (DRL Specialist)
    Mend: Name the agent in the heading.
    """
    for review in page.ticket.reviews:
        if not context.settings.knows_agent(review.reviewer):
            named = review.reviewer_written or review.section
            yield _at_verdict(page, review, f"no reviewer can be told from '{named}'")


@rule("TK063", Level.INFO, "A verdict with other text in its cell, or an unknown one")
def verdict_alone(page: Page, context: LintContext) -> Iterator[Problem]:
    """A verdict is ENDORSE, REFINE, NEUTRAL or OBJECT, and nothing beside it.

    Why: What stands in brackets behind a verdict often takes it back.
    Bad: | **Verdict** | **NEUTRAL** (with caveat) |
    Good: | **Verdict** | **NEUTRAL** |
    Mend: Move the rest to the evaluation.
    """
    for review in page.ticket.reviews:
        if review.verdict is None and review.verdict_written:
            yield _at_verdict(page, review, f"no such verdict: '{review.verdict_written}'")
        elif review.extra:
            yield _at_verdict(page, review, f"the verdict says more than that: '{review.verdict_written}'")


@rule("TK064", Level.WARN, "A verdict without an evaluation")
def verdict_explained(page: Page, context: LintContext) -> Iterator[Problem]:
    """Each verdict has an evaluation.

    Why: A verdict without reasons cannot be answered.
    Bad: | **Verdict** | **OBJECT** | and nothing below it
    Good: | **Verdict** | **OBJECT** |, and **Evaluation:** with the reason
    Mend: Ask the reviewer.
    """
    for review in page.ticket.reviews:
        if not review.evaluation.strip():
            yield _at_verdict(page, review, "a verdict without an evaluation")


@rule("TK065", Level.INFO, "A verdict that is not in a table's row")
def verdict_in_table(page: Page, context: LintContext) -> Iterator[Problem]:
    """A verdict stands in a row of a Field and Value table, or of one table for all reviewers.

    In a table's header, a bold paragraph or a row outside any table it is read, but easily missed.
    Why: A search for `| **Verdict** |` finds fewer than half of those that people write.
    Bad: | Verdict | **ENDORSE** | as the first row, above |---|---|
    Good: | Field | Value |, |---|---|, | **Verdict** | **ENDORSE** |
    Mend: Put a header row above it.
    """
    for review in page.ticket.reviews:
        if not review.form.is_tabular:
            yield _at_verdict(page, review, f"the verdict is no row of a table: {review.form.replace('-', ' ')}")


@rule("TK066", Level.INFO, "A review from before the repository")
def review_after_first_commit(page: Page, context: LintContext) -> Iterator[Problem]:
    """No review is dated before the first commit of the repository, or before `lint: first_commit`.

    Why: The year is usually last year's.
    Bad: | **Date** | 2024-12-27 | in a repository that began on 2025-11-26
    Good: | **Date** | 2025-12-27 | in a repository that began on 2025-11-26
    Mend: Correct the year.
    """
    first = context.settings.first_commit
    for review in page.ticket.reviews:
        date = read_date(review.date)
        if date and first and date < first:
            yield _at_verdict(page, review, f"reviewed {date}, before the first commit of the repository {first}")


def _code_now(page: Page, context: LintContext) -> str:
    """The digest of the code that the ticket cites, as it is in the checkout; "" without one."""
    paths = (path for file in page.ticket.files if (path := locate(file, context)))
    lines = (context.tree.lines(path) for path in paths if context.tree)
    digests = (code_digest("\n".join(text), page.ticket.function, page.ticket.lines) for text in lines)
    return next(filter(None, digests), "")


def _at_verdict(page: Page, review: Review, message: str) -> Problem:
    return at_text(page, review.line, review.verdict_written, message)
