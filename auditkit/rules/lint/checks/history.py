"""Rules about how a ticket came to its status, and what its probes say: TK055 to TK059.

These are auditkit's own: they hold a file that people edit by hand to what the commands enforce.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from auditkit.model.tickets.page import Page
from auditkit.model.tickets.ticket import Status
from auditkit.rules.lint.changes import changes_of, reason_for_status
from auditkit.rules.lint.checks.resolution import has_resolution
from auditkit.rules.lint.positions import at_row, at_text
from auditkit.rules.lint.rule import Level, LintContext, Problem, rule
from auditkit.rules.tickets.lifecycle import check_transition

_REPRODUCED = re.compile(r"\|[ *]*Outcome[ *]*\|\s*`?reproduced`?\s*\|\s*")
_MENDED = (Status.FIXED, Status.ALREADY_FIXED)


@rule("TK055", Level.ERROR, "Fixed, although its probe still reproduces")
def fixed_by_evidence(page: Page, context: LintContext) -> Iterator[Problem]:
    """The evidence blocks of a ticket that is fixed, or already fixed, do not say `reproduced`.

    Why: A fix is what the same probe no longer reproduces; tickets have been closed on a fix that fixed nothing.
    Bad: | **Status** | `fixed` | and | **Outcome** | `reproduced` |
    Good: | **Status** | `fixed` | and | **Outcome** | `not_reproduced` |
    Mend: Run the audit, or `auditkit ticket verify`, on the code with the fix; reopen the ticket if it reproduces.
    """
    if page.ticket.decision in _MENDED:
        for probe, line in _reproduced(page):
            yield at_text(page, line, "reproduced", f"{page.ticket.status_written}, but {probe} last reproduced it")


@rule("TK056", Level.ERROR, "A change of status that the lifecycle does not allow")
def allowed_changes(page: Page, context: LintContext) -> Iterator[Problem]:
    """Each line of Status Changes is a step that `auditkit ticket status` would have taken.

    open, investigating, fix-in-progress, in-review, fixed: one step at a time, and back; decisions at any
    time; finished only back to open.
    Why: A step by hand leaves out what the step asks for: the investigation, the review.
    Bad: - 2026-03-04: open to fixed: done
    Good: - 2026-03-04: in-review to fixed: done in 8e4c59e5
    Mend: Take the step again with the command, or correct the line.
    """
    for change in changes_of(page):
        if change.old is None or change.new is None or change.old is change.new:
            continue
        verdict = check_transition(change.old, change.new, change.reason or "none given")
        if not verdict.is_allowed:
            yield at_text(page, change.line, change.text, verdict.problem)


@rule("TK057", Level.WARN, "A decision without a reason")
def reason_given(page: Page, context: LintContext) -> Iterator[Problem]:
    """A deferred ticket says why: in a line of Status Changes, or in its Resolution.

    Finished tickets without a reason are TK044's.
    Why: Who comes back to it cannot tell whether the cause to wait is gone.
    Bad: | **Status** | `deferred` | and nothing else
    Good: - 2026-03-04: open to deferred: waits for torch 2.15
    Mend: Add the reason.
    """
    if page.ticket.status is Status.DEFERRED and not has_resolution(page) and not reason_for_status(page):
        yield at_row(page, "Status", "deferred, but nothing says why")


@rule("TK059", Level.ERROR, "A box is ticked, although its probe still reproduces")
def ticked_by_evidence(page: Page, context: LintContext) -> Iterator[Problem]:
    """A verification box that is bound to a probe is not ticked while the evidence says `reproduced`.

    A box that is bound to a condition (`<!-- probe: ID NAME > 5 -->`) is `auditkit ticket verify`'s to judge.
    Why: The tick says that somebody checked; the last run says the opposite.
    Bad: - [x] no overflow <!-- probe: norm_overflows --> with | **Outcome** | `reproduced` |
    Good: - [ ] no overflow <!-- probe: norm_overflows --> until the outcome is `not_reproduced`
    Mend: Run the probe on the code with the fix, or take the tick out.
    """
    reproduced = {probe for probe, _ in _reproduced(page)}
    for item in page.ticket.verification:
        if item.is_done and item.probe in reproduced and not item.condition:
            yield at_text(page, item.line, "[", f"ticked, but {item.probe} last reproduced it")


def _reproduced(page: Page) -> Iterator[tuple[str, int]]:
    """The probe of each evidence block whose last run reproduced what may not stay, and the line that says so."""
    for block in page.ticket.evidence:
        if block.fingerprint in page.ticket.may_stay:
            continue
        for number, line in enumerate(page.lines[block.line - 1 :], start=block.line):
            if _REPRODUCED.fullmatch(line) and block.outcome == "reproduced":
                yield block.fingerprint.partition("/")[0], number
                break
