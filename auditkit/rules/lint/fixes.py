"""What lint can mend by itself: the status's spelling, and the folder that a file lies in."""

from __future__ import annotations

from auditkit.model.tickets.ids import id_parts
from auditkit.model.tickets.page import Page
from auditkit.model.tickets.ticket import parse_status
from auditkit.rules.lint.checks.folders import folders_for
from auditkit.rules.lint.checks.resolution import disposition_of, has_resolution
from auditkit.rules.lint.rule import LintSettings


def spelling_for(page: Page, settings: LintSettings) -> str | None:
    """The project's spelling of the page's status, None where the word means none that the project has."""
    cell = page.cell("Status")
    try:
        status = parse_status(cell.text if cell else "")
    except ValueError:
        return None
    return status.value if status.value in settings.statuses else None


def folder_for(page: Page, settings: LintSettings) -> str | None:
    """The folder, below the tickets folder, where the page's status is filed.

    None where it may be several, and where the resolution says otherwise than the status: then a person has
    to say which of the two is right.
    """
    status = page.ticket.status
    if status is None:
        return None
    folders = folders_for(page, settings)
    if not folders and not status.is_finished:
        return None if has_resolution(page) else f"batch{id_parts(page.ticket.id)[0]}"
    said = disposition_of(page)
    if len(folders) != 1 or (said is not None and said.value not in settings.folders[folders[0]]):
        return None
    return folders[0]
