"""What `ticket lint --fix` changes: bytes of a status, a final newline, the folder that a file lies in."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from pathlib import Path

from auditkit.model.codec import Record
from auditkit.model.tickets.ids import TicketId, id_parts
from auditkit.model.tickets.page import Page
from auditkit.model.tickets.ticket import parse_status
from auditkit.rules.lint.catalog import all_rules
from auditkit.rules.lint.checks.folders import folders_for
from auditkit.rules.lint.checks.resolution import disposition_of, has_resolution
from auditkit.rules.lint.rule import LintContext, LintSettings
from auditkit.store.folder.files import move_file
from auditkit.store.folder.repository import Entry, Repository
from auditkit.store.markdown.document import Document
from auditkit.store.markdown.pages import page_of
from auditkit.store.markdown.scan import Span

FOLDER_RULES = ("TK040", "TK041", "TK042", "TK043")


@dataclass(frozen=True)
class LintChange(Record, keys="rule path=file message moved_to"):
    """One thing that was mended, by the rule that asked for it; `moved_to` is where the file went."""

    rule: str
    file: Path
    message: str
    moved_to: Path | None = None


def fix_entries(
    repository: Repository, entries: Sequence[Entry], settings: LintSettings, rules: Collection[str]
) -> tuple[LintChange, ...]:
    """Mend what `rules` find on `entries` and can be mended without a person, under one lock.

    Each file is read again under the lock. Raises StoreConflictError where one cannot be written or moved;
    what was mended before it stays mended.
    """
    changes: list[LintChange] = []
    with repository.writing():
        for entry in entries:
            current = repository.read(entry.file)
            if isinstance(current, Entry):
                changes += _fix(repository, current, settings, rules)
    return tuple(changes)


def _fix(repository: Repository, entry: Entry, settings: LintSettings, rules: Collection[str]) -> list[LintChange]:
    document, changes = entry.document, []
    page = page_of(document)
    spelling = _spelling_for(page, settings)
    if "TK011" in rules and spelling and _finds("TK011", page, settings):
        document = document.set_field("Status", spelling)
        changes.append(LintChange("TK011", entry.file, f"status '{page.ticket.status_written}' is now '{spelling}'"))
    if "TK008" in rules and _finds("TK008", page, settings):
        document = _with_final_newline(document)
        changes.append(LintChange("TK008", entry.file, "added the newline at the end"))
    entry = repository.save(entry, document)
    page = page_of(document, entry.ticket)
    rule = next((rule for rule in FOLDER_RULES if rule in rules and _finds(rule, page, settings)), None)
    folder = _folder_for(page, settings)
    if rule and folder:
        new = repository.folder / folder / entry.file.name
        move_file(entry.file, new)
        changes.append(LintChange(rule, entry.file, f"moved to {new}", new))
    return changes


def _finds(rule: str, page: Page, settings: LintSettings) -> bool:
    pages: dict[TicketId, Sequence[Page]] = {page.ticket.id: [page]}
    return any(True for _ in all_rules()[rule].check(page, LintContext(settings, pages)))


def _with_final_newline(document: Document) -> Document:
    end = len(document.data)
    return document.replace(Span(end, end), document.newline)


def _spelling_for(page: Page, settings: LintSettings) -> str | None:
    """The project's spelling of the page's status, None where the word means none that the project has."""
    cell = page.cell("Status")
    try:
        status = parse_status(cell.text if cell else "")
    except ValueError:
        return None
    return status.value if status.value in settings.statuses else None


def _folder_for(page: Page, settings: LintSettings) -> str | None:
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
