"""Rules about what the reviewers say together, until somebody answers them: TK067 to TK069."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from auditkit.model.enums import Severity
from auditkit.model.tickets.page import Page
from auditkit.model.tickets.review import Verdict
from auditkit.rules.lint.positions import at_row, is_finished
from auditkit.rules.lint.rule import Level, LintContext, Problem, rule
from auditkit.rules.tickets.consensus import Consensus, consensus_of, is_answered


@rule("TK067", Level.ERROR, "A majority objects, and the ticket is open")
def objected(page: Page, context: LintContext) -> Iterator[Problem]:
    """Of two reviewers or more, more than half OBJECT to a ticket that is not finished, and nobody answered.

    Why: Somebody will spend a day on what most readers take for no defect.
    Bad: two of three verdicts are OBJECT, and the ticket is open
    Good: the same with a line `Answer: ...` in Resolution, or closed as not-a-bug
    Mend: Answer the objections in the Resolution, or close the ticket.
    """
    ticket = page.ticket
    consensus = _consensus(page, context)
    if consensus.is_objected and not is_finished(page, context.settings) and not is_answered(ticket):
        count = sum(vote.verdict is Verdict.OBJECT for vote in consensus.votes)
        yield at_row(
            page, "Status", f"{count} of {len(consensus.votes)} reviewers object, and it is {ticket.status_written}"
        )


@rule("TK068", Level.ERROR, "A majority asks for another severity")
def severity_of_majority(page: Page, context: LintContext) -> Iterator[Problem]:
    """More than half of two reviewers or more name another severity than the metadata, and nobody answered.

    A severity is named by the review's own row, or by a sentence of the evaluation that asks for it.
    Why: What is worked on next goes by the metadata.
    Bad: | **Severity** | `P1` |, and two of three reviewers write "downgrade to P3"
    Good: the same with | **Severity** | `P3` |, or with a line `Answer: ...` in Resolution
    Mend: Change the severity, or answer in the Resolution why not.
    """
    wanted = _consensus(page, context).wanted
    if wanted and not is_answered(page.ticket):
        yield _at_severity(page, "most reviewers ask for", wanted)


@rule("TK069", Level.INFO, "A minority asks for another severity")
def severity_of_minority(page: Page, context: LintContext) -> Iterator[Problem]:
    """Some reviewers, but not most, name another severity than the metadata, and nobody answered.

    Why: The one who disagrees may be the one who knows.
    Bad: | **Severity** | `P2` |, and one of three reviewers writes "should be P1"
    Good: the same with a line `Answer: ...` in Resolution
    Mend: Answer in the Resolution, or change the severity.
    """
    wanted = _consensus(page, context).minority_wanted
    if wanted and not is_answered(page.ticket):
        yield _at_severity(page, "some reviewers ask for", wanted)


def _consensus(page: Page, context: LintContext) -> Consensus:
    return context.once(("consensus", page.ticket.path), lambda _: consensus_of(page.ticket))


def _at_severity(page: Page, who: str, wanted: Iterable[Severity]) -> Problem:
    levels = " or ".join(level.value for level in wanted)
    return at_row(page, "Severity", f"{who} {levels}, not {page.ticket.severity_written or 'none'}")
