"""The report of a saved run, or of one file of it, with its tickets."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from auditkit.audit.audit import exit_code
from auditkit.config.config import Config
from auditkit.errors import BadInputError, ExitCode, nearest_names
from auditkit.model.runs.run import Run
from auditkit.probing.run.configuration import catalog_of
from auditkit.reports.causes import Sources
from auditkit.reports.findings import rows_of
from auditkit.reports.page import Page
from auditkit.reports.run_page import run_page
from auditkit.tickets.store import TicketFolder


def report(run: Run, file: str, tickets: Path | None, config: Config) -> Page:
    """The page of a run, or of one `file` of it ("" for all), with the status of its tickets in a folder.

    Raises BadInputError for a file without any result, and for a missing folder of tickets.
    """
    if tickets is not None and not tickets.is_dir():
        raise BadInputError(f"no tickets folder: {tickets}", "name the folder: --tickets DIR")
    listing = TicketFolder(tickets).listing() if tickets is not None else None
    notes = tuple(f"not a valid ticket: {one.message}" for one in (listing.broken if listing else ()))
    known = listing.tickets if listing else ()
    return run_page(Sources(only_file(run, file) if file else run, catalog_of(config), known, notes, file))


def report_code(run: Run) -> ExitCode:
    """0 if the run has findings; else what the audit would end with, as errors alone are no pass."""
    return ExitCode.OK if any(result.severity for result in run.results) else exit_code(run)


def only_file(run: Run, file: str) -> Run:
    """Return the run with only the results and functions of one file. Raises BadInputError."""
    places = {row.result.fingerprint: row.place.file for row in rows_of(run)}

    def is_there(place: str) -> bool:
        return place == file or file.endswith(f"/{place}")

    own = {each.call for each in run.candidates if is_there(each.file)}
    results = tuple(one for one in run.results if is_there(places[one.fingerprint]) or one.target in own)
    results = tuple(one for one in results if one.location is None or is_there(one.location.file))
    candidates = tuple(each for each in run.candidates if is_there(each.file))
    if not results and not candidates:
        known = sorted({*places.values(), *(each.file for each in run.candidates)})
        near = nearest_names(file, known) or known[:3]
        raise BadInputError(f"the run has no result for {file}", f"did you mean {' or '.join(near)}?" if near else "")
    return replace(run, results=results, candidates=candidates, notes=())
