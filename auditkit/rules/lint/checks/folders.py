"""Rules about the folder that a ticket lies in: TK015, TK040 to TK043 and TK050."""

from __future__ import annotations

from collections.abc import Iterator

from auditkit.model.tickets.ids import id_parts
from auditkit.model.tickets.page import Page
from auditkit.rules.lint.positions import at_row, batch_of_folder, folder_of, is_for_finished
from auditkit.rules.lint.rule import Level, LintContext, LintSettings, Problem, rule

FIXED = "fixed"
"""The folder that TK040 and TK046 speak of; the others for finished tickets are TK041's."""


@rule("TK015", Level.ERROR, "The batch folder differs from the id")
def batch_folder(page: Page, context: LintContext) -> Iterator[Problem]:
    """A ticket in `batchN` has N in its id.

    Why: Who works through a batch by its folder misses the ticket.
    Bad: batch6/B7-PT-01.md
    Good: batch7/B7-PT-01.md
    Mend: Move the file.
    """
    folder = batch_of_folder(page)
    if folder is not None and folder != id_parts(page.ticket.id)[0]:
        yield at_row(page, "Ticket ID", f"{page.ticket.id} lies in batch{folder}")


@rule("TK040", Level.ERROR, "In fixed/ with a status that is not finished", is_fixable=True)
def unfinished_in_fixed(page: Page, context: LintContext) -> Iterator[Problem]:
    """A ticket in `fixed/` has a finished status.

    Why: One of the two is wrong. A count by folder and a count by status then differ.
    Bad: fixed/B7-PT-01.md with | **Status** | `open` |
    Good: fixed/B7-PT-01.md with | **Status** | `fixed` |
    Mend: Set the status if the finding is mended. `--fix` moves the file to its batch folder, unless it has a
    resolution: then the status may be what was forgotten.
    """
    if folder_of(page, context.settings) == FIXED:
        yield from _unfinished(page, FIXED, context.settings)


@rule("TK041", Level.ERROR, "In closed/ with a status that is not finished", is_fixable=True)
def unfinished_in_closed(page: Page, context: LintContext) -> Iterator[Problem]:
    """A ticket in `closed/`, or another folder for finished tickets than `fixed/`, has a finished status.

    Why: One of the two is wrong. A count by folder and a count by status then differ.
    Bad: closed/B7-PT-01.md with | **Status** | `open` |
    Good: closed/B7-PT-01.md with | **Status** | `wont-fix` |
    Mend: Set the status if it was decided. `--fix` moves the file to its batch folder, unless it has a
    resolution: then the status may be what was forgotten.
    """
    folder = folder_of(page, context.settings)
    if folder != FIXED and is_for_finished(folder, context.settings):
        yield from _unfinished(page, folder, context.settings)


@rule("TK042", Level.ERROR, "Finished, but not in a folder for finished tickets", is_fixable=True)
def finished_elsewhere(page: Page, context: LintContext) -> Iterator[Problem]:
    """A ticket with a finished status lies in the folder for that status, not in its batch folder.

    The folders are `fixed/` and `closed/`, or those under `lint: folders` in auditkit.yaml; an empty
    mapping there says that tickets stay where they are.
    Why: The batch folder is what is left to do.
    Bad: batch7/B7-PT-01.md with | **Status** | `fixed` |
    Good: fixed/B7-PT-01.md with | **Status** | `fixed` |
    Mend: `--fix` moves the file where one folder alone is for the status and the resolution does not contradict.
    """
    settings, status = context.settings, page.ticket.status
    if settings.folders and status and status.is_finished and not folder_of(page, settings):
        where = " or ".join(f"{folder}/" for folder in folders_for(page, settings) or settings.folders)
        yield at_row(page, "Status", f"{page.ticket.status_written}, but not in {where}")


@rule("TK043", Level.WARN, "The folder is not the one for this status", is_fixable=True)
def folder_for_status(page: Page, context: LintContext) -> Iterator[Problem]:
    """A finished ticket lies in a folder that is for its status: mended ones in `fixed/`, others in `closed/`.

    `closed` alone says too little and may lie in both, unless `lint: folders` says otherwise.
    Why: The folder says that something was mended that was not, or the other way round.
    Bad: fixed/B7-PT-01.md with | **Status** | `wont-fix` |
    Good: closed/B7-PT-01.md with | **Status** | `wont-fix` |
    Mend: `--fix` moves the file where one folder alone is for the status and the resolution does not contradict.
    """
    settings, status = context.settings, page.ticket.status
    folder = folder_of(page, settings)
    if folder and status and status.is_finished and status.value not in settings.folders[folder]:
        listed = ", ".join(settings.folders[folder]) or "no status"
        yield at_row(page, "Status", f"{page.ticket.status_written} in {folder}/, which is for {listed}")


@rule("TK050", Level.ERROR, "In no folder for tickets")
def known_folder(page: Page, context: LintContext) -> Iterator[Problem]:
    """A ticket lies in `batchN`, or in a folder for finished tickets (`fixed`, `closed`).

    Why: Who looks through the folders does not find it.
    Bad: archive/B7-PT-01.md
    Good: batch7/B7-PT-01.md
    Mend: Move the file, or add its folder and the statuses filed there to `lint: folders`.
    """
    if context.settings.folders and not folder_of(page, context.settings) and batch_of_folder(page) is None:
        folder = page.ticket.path.parent.as_posix()
        yield Problem(f"in no batch folder nor {', '.join(context.settings.folders)}, but in {folder}/")


def folders_for(page: Page, settings: LintSettings) -> list[str]:
    """The folders that the page's status may lie in, none where it belongs in its batch folder."""
    status = page.ticket.status
    return [folder for folder, statuses in settings.folders.items() if status and status.value in statuses]


def _unfinished(page: Page, folder: str, settings: LintSettings) -> Iterator[Problem]:
    status = page.ticket.status
    if status is not None and not status.is_finished and status.value not in settings.folders[folder]:
        yield at_row(page, "Status", f"{page.ticket.status_written} in {folder}/")
