"""Where on a page a problem stands, and which folder a page lies in: what the rules share."""

from __future__ import annotations

import datetime
from collections.abc import Iterator

from auditkit.model.tickets.page import Cell, Page
from auditkit.model.tickets.ticket import Status
from auditkit.rules.lint.rule import LintContext, LintSettings, Problem
from auditkit.rules.tickets.lifecycle import BATCH_FOLDER

_NEW_DAYS = 7


def at_cell(cell: Cell | None, message: str) -> Problem:
    """A problem with the value of a row, or with the whole file where there is no such row."""
    return Problem(message, cell.line, cell.column) if cell else Problem(message)


def at_row(page: Page, label: str, message: str) -> Problem:
    """A problem with a metadata row, or with the whole file where it has no such row."""
    return at_cell(page.cell(label), message)


def at_text(page: Page, line: int, text: str, message: str) -> Problem:
    """A problem with `text` in a line of the page: the column is where it stands there, else the first."""
    source = page.lines[line - 1] if 0 < line <= len(page.lines) else ""
    return Problem(message, line, max(source.find(text), 0) + 1 if text else 1)


def at_resolution(page: Page, message: str) -> Problem:
    """A problem with how the ticket ended: at the section that tells of it, else at the status."""
    resolution = page.ticket.resolution
    return Problem(message, resolution.line) if resolution else at_row(page, "Status", message)


def visible_lines(page: Page, title: str) -> Iterator[tuple[int, str]]:
    """The lines of `## title` with their numbers, those in fences and comments left out."""
    section = page.section(title)
    if section is None:
        return
    for number in range(section.line + 1, section.end_line):
        if page.visible[number - 1]:
            yield number, page.lines[number - 1]


def batch_of_folder(page: Page) -> int | None:
    """The N of the `batchN` folder that the page lies in, None outside any."""
    matches = (BATCH_FOLDER.fullmatch(part) for part in reversed(page.ticket.path.parent.parts))
    match = next((match for match in matches if match), None)
    return int(match[1]) if match else None


def folder_of(page: Page, settings: LintSettings) -> str:
    """The folder for finished tickets that the page lies in, "" outside any."""
    folders = reversed(page.ticket.path.parent.parts)
    return next((part for part in folders if part in settings.folders), "")


def is_for_finished(folder: str, settings: LintSettings) -> bool:
    """Whether every status that is filed in `folder` is a finished one."""
    return bool(folder) and all(Status(name).is_finished for name in settings.folders[folder] if name in set(Status))


def is_finished(page: Page, settings: LintSettings) -> bool:
    """Whether the ticket is finished by its status or by the folder that it lies in."""
    return page.ticket.is_finished or is_for_finished(folder_of(page, settings), settings)


def is_new(page: Page, context: LintContext) -> bool:
    """Whether the ticket is open and of the last seven days: what takes others, or a second look, may still come."""
    try:
        created = datetime.date.fromisoformat(page.ticket.created)
    except ValueError:
        return False
    return page.ticket.status is Status.OPEN and 0 <= (context.today - created).days < _NEW_DAYS
