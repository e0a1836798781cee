"""The reports of a run: an audit report and a code audit, from a saved run or a new one, its tickets and its source."""

from __future__ import annotations

import datetime
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from auditkit.errors import BadInputError, ExitCode
from auditkit.model.module_page import ModulePage
from auditkit.model.runs.run import BUNDLED, Run
from auditkit.model.ticket import Ticket
from auditkit.probing.checkouts.checkout import CheckoutSpec, OpenCheckout, open_checkout, parse_checkout
from auditkit.probing.source_code.history.function_history import FunctionHistories
from auditkit.probing.source_code.index import SourceIndex
from auditkit.probing.source_probes.module_page import module_pages
from auditkit.rendering.audit_report import render_audit_report
from auditkit.rendering.code_audit import render_code_audit
from auditkit.rules.reports.audit import Sources, audit_report, audited_modules
from auditkit.rules.reports.audit_parts import AuditReport
from auditkit.rules.reports.code_audit import CodeAudit, code_audit
from auditkit.store.config.config import Config
from auditkit.tickets.store import TicketFolder
from auditkit.workflows.audit.audit import AuditRequest, audit, exit_code, specimen_dir
from auditkit.workflows.audit.measurement import Progress
from auditkit.workflows.configuration import catalog_of

__all__ = [
    "ReportRequest", "code_audit_of", "new_run", "render_audit_report", "render_code_audit",
    "report_code", "report_of",
]  # fmt: skip


@dataclass(frozen=True)
class ReportRequest:
    """What a report is written from.

    `checkout` is where the audited modules are read (`DIR` or `DIR@REV`); None takes the run's own word.
    `tickets` is their folder, None for no tickets.
    """

    run: Run
    checkout: str | None = None
    tickets: Path | None = None
    config: Config = field(default_factory=Config)


def new_run(request: AuditRequest, progress: Progress | None = None) -> Run:
    """Audit now, and file nothing. Raises what `audit` raises."""
    return audit(replace(request, tickets=None), progress)


def report_of(request: ReportRequest) -> AuditReport:
    """The report of a run; where its checkout is not here, that is said in it.

    Raises BadInputError for a named checkout that is not there.
    """
    run = request.run
    pages, notes = _pages(request, audited_modules(run))
    listing = TicketFolder(request.tickets).listing() if request.tickets is not None else None
    tickets: Sequence[Ticket] = listing.tickets if listing else ()
    broken = listing.broken if listing else ()
    notes = (*notes, *(f"not a valid ticket: {one.message}" for one in broken))
    today = datetime.date.today().isoformat()
    return audit_report(Sources(run, catalog_of(request.config), tickets, pages, notes, today))


def code_audit_of(request: ReportRequest, since: str | None = None) -> CodeAudit:
    """The code audit of a run; with `since` each finding says what changed in its function from that revision on.

    Raises BadInputError for a revision that is not there, or where the checkout is in no git repository.
    """
    report = report_of(request)
    tickets = TicketFolder(request.tickets).listing().tickets if request.tickets is not None else ()
    if since is None:
        return code_audit(report, request.run, tickets)
    checkout = request.checkout or _own_checkout(request.run)
    if checkout is None:
        raise BadInputError("--since compares with the checkout, which is not here", "name it: CHECKOUT[@REV]")
    spec = parse_checkout(checkout)
    older = CheckoutSpec(f"{spec.directory}@{since}", spec.directory, since)
    with open_checkout(spec) as head, open_checkout(older) as base:
        histories = FunctionHistories(base, head, since, request.config.import_roots)
        return code_audit(report, request.run, tickets, since, histories.at)


def report_code(run: Run) -> ExitCode:
    """0 where the run has findings; else what the audit would end with, as errors without any are no pass."""
    return ExitCode.OK if any(result.severity for result in run.results) else exit_code(run)


def _pages(request: ReportRequest, modules: Sequence[str]) -> tuple[Sequence[ModulePage], tuple[str, ...]]:
    """The pages of the audited modules, and what the reader must know of where they were read."""
    checkout = request.checkout or _own_checkout(request.run)
    if checkout is None:
        return (), ()
    try:
        with open_checkout(checkout) as opened:
            pages = module_pages(SourceIndex(opened.path, request.config.import_roots), modules)
            return pages, _difference(request.run, opened)
    except BadInputError as error:
        if request.checkout is not None:
            raise
        return (), (f"the run's checkout was not read: {error.message}",)


def _own_checkout(run: Run) -> str | None:
    """Where the run was made, at its revision; None where that is not here, or was not committed."""
    environment = run.environment
    if environment.checkout == BUNDLED:
        return str(specimen_dir())
    try:
        spec = parse_checkout(environment.checkout)
    except BadInputError:
        return None
    if spec.revision or not environment.revision or environment.dirty:
        return spec.text
    return f"{spec.directory}@{environment.revision}"


def _difference(run: Run, opened: OpenCheckout) -> tuple[str, ...]:
    """What a reader must know where the source that was read is not the one that was audited."""
    if run.environment.revision == opened.revision and run.environment.dirty == opened.dirty:
        return ()
    audited, seen = (revision[:12] or "no revision" for revision in (run.environment.revision, opened.revision))
    if audited == seen:
        return (f"importers and call flow were read at {seen}, where uncommitted changes may differ from the run's",)
    return (f"importers and call flow were read at {seen}, the run is of {audited}",)
