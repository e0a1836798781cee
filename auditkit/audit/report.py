"""The report of a saved run, or of one file of it, with its tickets and who imports the file."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from pathlib import Path

from auditkit.audit.audit import exit_code, specimen_dir
from auditkit.config.config import Config
from auditkit.errors import BadInputError, ExitCode, nearest_names
from auditkit.model.runs.run import BUNDLED, Run
from auditkit.probing.checkout.checkout import open_checkout, parse_checkout
from auditkit.probing.run.configuration import catalog_of
from auditkit.probing.source.index import SourceIndex
from auditkit.probing.source.links import Links
from auditkit.reports.causes import Sources
from auditkit.reports.findings import places_of
from auditkit.reports.html.page import html_page
from auditkit.reports.page import markdown_page
from auditkit.reports.run_page import run_page
from auditkit.tickets.store import TicketFolder


@dataclass(frozen=True)
class ReportRequest:
    """What a report is written from.

    `file` is the one file that it covers, "" for the whole run; `checkout` is where that file's importers are read
    (None: where the run was made). `tickets` is their folder, None for none.
    """

    run: Run
    file: str = ""
    checkout: str | None = None
    tickets: Path | None = None
    config: Config = field(default_factory=Config)


def report(request: ReportRequest, is_html: bool = False) -> bytes:
    """The page of the run, as Markdown or HTML.

    Raises BadInputError for a file of which the run says nothing, and for a missing folder of tickets.
    """
    if request.tickets is not None and not request.tickets.is_dir():
        raise BadInputError(f"no tickets folder: {request.tickets}", "name the folder: --tickets DIR")
    run, notes = request.run, list[str]()
    used_by: tuple[str, ...] = ()
    if request.file:
        run = only_file(run, request.file)
        used_by, note = _used_by(request)
        notes += [note] if note else []
    listing = TicketFolder(request.tickets).listing() if request.tickets is not None else None
    notes += [f"not a valid ticket: {one.message}" for one in (listing.broken if listing else ())]
    tickets = listing.tickets if listing else ()
    probes = catalog_of(request.config)
    page = run_page(Sources(run, probes, tickets, tuple(notes), request.file, used_by=used_by))
    return html_page(page) if is_html else markdown_page(page)


def report_code(run: Run) -> ExitCode:
    """0 if the run has findings; else what the audit would end with, as errors alone are no pass."""
    return ExitCode.OK if any(result.severity for result in run.results) else exit_code(run)


def only_file(run: Run, file: str) -> Run:
    """What the run found in one file, and what else it asked of the functions there. Raises BadInputError."""
    places = {fingerprint: place.file for fingerprint, place in places_of(run).items()}

    def is_there(place: str) -> bool:
        return place == file or file.endswith(f"/{place}")

    own = {each.call for each in run.candidates if is_there(each.file)}
    results = tuple(one for one in run.results if is_there(places[one.fingerprint]) or one.target in own)
    results = tuple(one for one in results if one.location is None or is_there(one.location.file))
    candidates = tuple(each for each in run.candidates if is_there(each.file))
    if not results and not candidates:
        known = sorted({*places.values(), *(each.file for each in run.candidates)})
        near = nearest_names(file, known) or known[:3]
        raise BadInputError(f"the run says nothing of {file}", f"did you mean {' or '.join(near)}?" if near else "")
    return replace(run, results=results, candidates=candidates, notes=())


def _used_by(request: ReportRequest) -> tuple[tuple[str, ...], str]:
    """The files that import the request's file, code before tests; or why they could not be read."""
    try:
        with open_checkout(request.checkout or _own_checkout(request.run)) as opened:
            index = SourceIndex(opened.path, request.config.import_roots)
            module = next((each for each in index.modules if each.file == request.file), None)
            if module is None:
                return (), ""
            links = Links(reversed(index.modules))
            users = [
                each
                for each in index.modules
                if each is not module
                and any(origin == module.name for item in each.imports for origin, _ in links.targets(item))
            ]
            return tuple(each.file for each in sorted(users, key=lambda each: (each.is_test, each.file))), ""
    except BadInputError as error:
        if request.checkout is not None:
            raise
        return (), f"the checkout of the run was not read: {error.message}"


def _own_checkout(run: Run) -> str:
    """Where the run was made, at its revision if that was committed."""
    environment = run.environment
    if environment.checkout == BUNDLED:
        return str(specimen_dir())
    spec = parse_checkout(environment.checkout)
    if spec.revision or not environment.revision or environment.dirty:
        return spec.text
    return f"{spec.directory}@{environment.revision}"
