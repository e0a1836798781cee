"""Rules about how a ticket ended: TK044 to TK049 and TK052 to TK054."""

from __future__ import annotations

import re
from collections.abc import Iterator

from auditkit.model.tickets.page import Page
from auditkit.model.tickets.ticket import Resolution, Status
from auditkit.rules.lint.changes import reason_for_status
from auditkit.rules.lint.checks.folders import FIXED
from auditkit.rules.lint.positions import at_resolution, at_row, at_text, batch_of_folder, folder_of, is_finished
from auditkit.rules.lint.rule import Level, LintContext, LintSettings, Problem, rule
from auditkit.rules.tickets.lifecycle import DECISIONS, says_something

_DISPOSITIONS = (
    (re.compile(r"already[ -]fixed", re.IGNORECASE), Status.ALREADY_FIXED),
    (re.compile(r"won'?t[ -]?fix", re.IGNORECASE), Status.WONT_FIX),
    (re.compile(r"no fix needed|not[ -]a[ -]bug|\binvalid|false positive", re.IGNORECASE), Status.NOT_A_BUG),
    (re.compile(r"\bduplicate", re.IGNORECASE), Status.DUPLICATE),
    (re.compile(r"\bfixed\b|\bresolved\b", re.IGNORECASE), Status.FIXED),
)


@rule("TK044", Level.ERROR, "Finished without saying how")
def resolution_there(page: Page, context: LintContext) -> Iterator[Problem]:
    """A ticket that is finished, by its status or its folder, says how it ended.

    A Resolution or Closure section does, and so do a Resolution row of the metadata and, for a decision, its
    reason in Status Changes. A form that nobody filled in does not.
    Why: Nobody can check a decision without its reason, and the finding is filed again.
    Bad: fixed/B7-PT-01.md without ## Resolution
    Good: ## Resolution with what was changed, in which commit, and who accepted it
    Mend: Write the section.
    """
    if is_finished(page, context.settings) and not _says_how(page):
        yield at_row(page, "Status", "finished, but no Resolution or Closure section says how")


@rule("TK045", Level.ERROR, "Finished without sign-off")
def signed_off(page: Page, context: LintContext) -> Iterator[Problem]:
    """The resolution of a finished ticket says who signed it off: a line with "sign-off" or "approved".

    Why: Who found the defect must agree that it is gone; otherwise the next audit finds it again.
    Bad: ## Resolution without a sign-off
    Good: **Sign-off:** pytorch, 2026-03-04
    Mend: `auditkit ticket sign-off`, or the line by hand.
    """
    resolution = page.ticket.resolution
    if is_finished(page, context.settings) and _says_how(page) and not (resolution and resolution.sign_offs):
        yield at_resolution(page, "finished without a sign-off")


@rule("TK046", Level.WARN, "In fixed/ without a commit")
def commit_named(page: Page, context: LintContext) -> Iterator[Problem]:
    """The resolution of a ticket in `fixed/` names the commit that mended it.

    Why: Without it nobody can look at the change, or see whether a release has it.
    Bad: | **Commit** | |
    Good: | **Commit** | `8e4c59e5` |
    Mend: Write the commit's hash into the resolution.
    """
    resolution = page.ticket.resolution
    if folder_of(page, context.settings) == FIXED and not (resolution and resolution.commits):
        yield at_resolution(page, f"in {FIXED}/, but no commit is named")


@rule("TK047", Level.WARN, "Finished with boxes of Verification that are not ticked")
def verification_ticked(page: Page, context: LintContext) -> Iterator[Problem]:
    """Every box of the Verification section of a finished ticket is ticked.

    Why: A fix that was not checked may be none.
    Bad: - [ ] gradients of 1e20 give a finite norm
    Good: - [x] gradients of 1e20 give a finite norm
    Mend: Do what the box says, and tick it; or say in the resolution why it does not apply, and tick it.
    """
    items = page.ticket.verification
    undone = [item for item in items if not item.is_done]
    if undone and is_finished(page, context.settings):
        yield at_text(
            page, undone[0].line, "[ ]", f"finished, but {len(undone)} of {len(items)} verification boxes unticked"
        )


@rule("TK048", Level.WARN, "Has a resolution, but is open")
def open_with_resolution(page: Page, context: LintContext) -> Iterator[Problem]:
    """An open ticket in a batch folder does not say how it ended.

    A form that nobody filled in is no resolution, nor is the list of status changes.
    Why: Either the decision is made and the ticket was left behind, or a recommendation stands in the wrong
    section.
    Bad: ## Resolution, **Wont-fix**, and | **Status** | `open` |
    Good: the same with | **Status** | `wont-fix` |
    Mend: Move the ticket to the status that it says, or the text to Recommended Fix.
    """
    is_open = page.ticket.status is Status.OPEN and batch_of_folder(page) is not None
    if is_open and not folder_of(page, context.settings) and has_resolution(page):
        yield at_resolution(page, "has a resolution, but is open")


@rule("TK049", Level.ERROR, "A placeholder in the resolution")
def no_placeholder(page: Page, context: LintContext) -> Iterator[Problem]:
    """The resolution holds no `(pending)` and no `[To be filled ...]`; one finding for each.

    Why: Somebody meant to come back.
    Bad: | **Commit** | (pending) |
    Good: | **Commit** | `8e4c59e5` |
    Mend: Write what belongs there.
    """
    resolution = page.ticket.resolution
    for text, line in resolution.placeholders if resolution else ():
        yield at_text(page, line, text, f"placeholder in the resolution: {text}")


@rule("TK052", Level.WARN, "The resolution contradicts the status")
def disposition_of_status(page: Page, context: LintContext) -> Iterator[Problem]:
    """What the resolution of a finished ticket says it was closed as fits its status.

    Two statuses fit each other if some folder is for both: in a project that closes only what it mended,
    "Won't fix" contradicts `closed`.
    Why: Statistics count the status, people believe the text.
    Bad: ## Resolution, **Status:** Won't Fix, and | **Status** | `fixed` |
    Good: the same with | **Status** | `wont-fix` |
    Mend: Correct the one that is wrong.
    """
    status, said = page.ticket.status, disposition_of(page)
    if said is None or status is None or not status.is_finished:
        return
    if not _fits(said, status, context.settings):
        yield at_resolution(page, f"the resolution says '{_words(page)}', the status {page.ticket.status_written}")


@rule("TK053", Level.WARN, "The resolution contradicts the folder")
def disposition_of_folder(page: Page, context: LintContext) -> Iterator[Problem]:
    """What the resolution says the ticket was closed as is a status that its folder is for.

    Why: Who counts the folder counts it wrong.
    Bad: fixed/B7-PT-01.md whose resolution says Won't Fix
    Good: closed/B7-PT-01.md whose resolution says Won't Fix
    Mend: Move the file, or correct the resolution.
    """
    folder, said = folder_of(page, context.settings), disposition_of(page)
    if folder and said and said.value not in context.settings.folders[folder]:
        yield at_resolution(page, f"the resolution says '{_words(page)}', but the ticket lies in {folder}/")


@rule("TK054", Level.WARN, "Signed off only by others than the agent that filed it")
def signed_off_by_originator(page: Page, context: LintContext) -> Iterator[Problem]:
    """The agent that filed a finished ticket is among those who signed it off.

    A sign-off that names nobody known is not counted against it.
    Why: Others accept that something changed; the one who found the defect knows what had to.
    Bad: | **Agent** | `pytorch` | and **Sign-off:** drl
    Good: | **Agent** | `pytorch` | and **Sign-off:** pytorch
    Mend: Have it signed off by its agent.
    """
    resolution = page.ticket.resolution
    signers = [one for one in resolution.sign_offs if context.settings.knows_agent(one.agent)] if resolution else []
    if not signers or not is_finished(page, context.settings):
        return
    if page.ticket.agent not in {one.agent for one in signers}:
        names = ", ".join(sorted({one.agent for one in signers}))
        yield Problem(f"signed off by {names}, not by {page.ticket.agent}", signers[0].line)


def _says_how(page: Page) -> bool:
    if has_resolution(page) or page.ticket.disposition:
        return True
    return page.ticket.status in DECISIONS and bool(reason_for_status(page))


def has_resolution(page: Page) -> bool:
    """Whether a section says how the ticket ended, and is no form that nobody filled in."""
    resolution = page.ticket.resolution
    return resolution is not None and _is_section_of_end(resolution) and says_something(resolution)


def _is_section_of_end(resolution: Resolution) -> bool:
    return any(not title.casefold().startswith("correction") for title in resolution.sections)


def _words(page: Page) -> str:
    resolution = page.ticket.resolution
    return (resolution.disposition if resolution else "") or page.ticket.disposition


def disposition_of(page: Page) -> Status | None:
    """The status that the resolution's own words mean, None where they mean none."""
    words = _words(page)
    return next((status for pattern, status in _DISPOSITIONS if pattern.search(words)), None)


def _fits(said: Status, status: Status, settings: LintSettings) -> bool:
    if said is status or not settings.folders:
        return said is status or status is Status.CLOSED
    return any(said.value in filed and status.value in filed for filed in settings.folders.values())
