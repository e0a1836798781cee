"""The report of a saved run, or of one file of it, with its tickets."""

from __future__ import annotations

from dataclasses import replace

from auditkit.audit.audit import exit_code
from auditkit.errors import BadInputError, ExitCode, nearest_names
from auditkit.model.runs.run import Run
from auditkit.probing.engine.catalog import load_catalog
from auditkit.reports.causes import Sources
from auditkit.reports.findings import rows_of
from auditkit.reports.page import Page
from auditkit.reports.run_page import run_page
from auditkit.tickets.store import TicketFolder


def report(run: Run, file: str, folder: TicketFolder | None) -> tuple[Page, ExitCode]:
    """The page of a run, or of one `file` of it ("" for all), with the status of its tickets in a folder.

    The exit code is 0 if the run has findings; else that of the audit, as errors alone are no pass. Raises
    BadInputError for a file without any result.
    """
    listing = folder.listing() if folder is not None else None
    notes = tuple(f"not a valid ticket: {one.message}" for one in (listing.broken if listing else ()))
    known = listing.tickets if listing else ()
    code = ExitCode.OK if any(result.severity for result in run.results) else exit_code(run)
    return run_page(Sources(only_file(run, file) if file else run, load_catalog(), known, notes, file)), code


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
