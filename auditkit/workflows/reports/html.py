"""A run or two runs as a page for a browser, and their pictures as files beside a document."""

from __future__ import annotations

from pathlib import Path

from auditkit.errors import BadInputError
from auditkit.files import ensure_writable, write_file
from auditkit.model.runs.run import Run
from auditkit.rendering.html.run_page import pictures_by_file, run_page
from auditkit.rules.reports.audit import Sources
from auditkit.store.config.config import Config
from auditkit.tickets.store import TicketFolder
from auditkit.workflows.configuration import catalog_of
from auditkit.workflows.history.compare import compare_runs


def run_html(run: Run, config: Config, tickets: Path | None = None, base: Run | None = None) -> bytes:
    """The page of a run; `tickets` are read for what became of its findings, `base` is what it is compared with.

    Runs of different machines are compared all the same, and the page says what differs. Raises BadInputError for a
    folder that is not there, or a run of several arms beside a base.
    """
    if tickets is not None and not tickets.is_dir():
        raise BadInputError(f"no tickets folder: {tickets}", "name the folder: --tickets DIR")
    known = TicketFolder(tickets).listing().tickets if tickets is not None else ()
    comparison = compare_runs(base, run, force=True) if base is not None else None
    return run_page(Sources(run, catalog_of(config), known), comparison)


def write_pictures(run: Run, folder: Path) -> list[Path]:
    """Each picture of the run's findings as a file of its own; the same bytes for the same numbers.

    Raises StoreConflictError where the folder cannot be written.
    """
    ensure_writable(folder)
    written = []
    for name, picture in pictures_by_file(run).items():
        write_file(folder / name, picture.file())
        written.append(folder / name)
    return written
