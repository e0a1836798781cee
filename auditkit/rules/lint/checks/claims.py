"""Rules about the numbers that a ticket claims: TK100 to TK103."""

from __future__ import annotations

from collections.abc import Iterator

from auditkit.model.tickets.claim import ClaimState, JudgedClaim, parse_condition
from auditkit.model.tickets.page import Page
from auditkit.rules.lint.positions import at_text, is_finished
from auditkit.rules.lint.rule import Level, LintContext, Problem, rule
from auditkit.rules.tickets.claims import judge_claim


@rule("TK100", Level.ERROR, "A claim is refuted by the evidence")
def refuted_claims(page: Page, context: LintContext) -> Iterator[Problem]:
    """A number that an unfinished ticket claims is not what the ticket's own evidence measured.

    Why: People weigh a finding, and its fix, by its numbers.
    Bad: 400MB at 100M params <!-- claim: peak_memory_grows_with_params peak_extra_bytes = 400 MB @ params=100M -->
    Good: 1.2 GiB at 100M params, with the claim = 1.2 GiB ±5%
    Mend: Correct the number and its claim; or take the claim out, if it is about something else.
    """
    if not is_finished(page, context.settings):
        yield from (_at_claim(one) for one in _judged(page) if one.state is ClaimState.REFUTED)


@rule("TK101", Level.ERROR, "A claim or a box's condition cannot be read")
def malformed_claims(page: Page, context: LintContext) -> Iterator[Problem]:
    """Every `claim:` comment is a claim, and what stands behind the probe of a `probe:` comment is a condition.

    Why: What cannot be read is never checked, and looks as if it were.
    Bad: <!-- claim: about 400MB -->
    Good: <!-- claim: peak_memory_grows_with_params peak_extra_bytes = 400 MB @ params=100M -->
    Mend: `auditkit ticket claim ID TEXT CLAIM`; docs/claims.md has the forms.
    """
    yield from (_at_claim(one) for one in _judged(page) if one.state is ClaimState.MALFORMED)
    for item in page.ticket.verification:
        if item.condition:
            try:
                parse_condition(item.condition)
            except ValueError as error:
                yield at_text(page, item.line, "<!--", f"condition of a box: {error}")


@rule("TK102", Level.INFO, "A claim that nothing was measured about")
def untested_claims(page: Page, context: LintContext) -> Iterator[Problem]:
    """The ticket's evidence has no row that a claim speaks of: no such probe, case or run.

    Why: Nobody knows whether the number is right.
    Bad: <!-- claim: peak_memory_grows_with_params peak_extra_bytes = 4 GB @ params=7B -->, measured up to 1B
    Good: the same @ params=1B
    Mend: Run the probe (`auditkit ticket verify ID --probe CLAIM`), or claim what it measures.
    """
    yield from (_at_claim(one) for one in _judged(page) if one.state is ClaimState.UNTESTED)


@rule("TK103", Level.WARN, "A finished ticket holds a refuted claim")
def refuted_afterwards(page: Page, context: LintContext) -> Iterator[Problem]:
    """A number that a finished ticket claims is not what its evidence measured.

    Why: The next ticket quotes it.
    Bad: 24-33x faster <!-- claim: launches_grow_with_tensors launch_count base/fix = 24..33 x -->, measured 5x
    Good: 5x fewer launches, with the claim base/fix = 5 x ±5%
    Mend: Correct the number, or say beside it what was measured.
    """
    if is_finished(page, context.settings):
        yield from (_at_claim(one) for one in _judged(page) if one.state is ClaimState.REFUTED)


def _judged(page: Page) -> Iterator[JudgedClaim]:
    return (judge_claim(claim, page.ticket.evidence) for claim in page.claims)


def _at_claim(judged: JudgedClaim) -> Problem:
    claim = judged.claim
    what = f"'{claim.beside}'" if claim.beside else claim.written
    return Problem(f"claim {what} is {judged.state.value.lower()}: {judged.message}", claim.line, claim.column)
