"""A code audit: the report of a run in the order of its causes, with what changed since an older revision."""

from __future__ import annotations

from auditkit.errors import BadInputError
from auditkit.probing.checkouts.checkout import CheckoutSpec, open_checkout, parse_checkout
from auditkit.probing.source_code.history.function_history import FunctionHistories
from auditkit.rendering.code_audit import render_code_audit
from auditkit.rules.reports.code_audit import CodeAudit, code_audit
from auditkit.store.folder.repository import Repository
from auditkit.workflows.reports.audit_report import ReportRequest, own_checkout, report_of

__all__ = ["code_audit_of", "render_code_audit"]


def code_audit_of(request: ReportRequest, since: str | None = None) -> CodeAudit:
    """The code audit of a run; with `since` each finding says what changed in its function from that revision on.

    Raises BadInputError for a revision that is not there, or where the checkout is in no git repository.
    """
    report = report_of(request)
    tickets = Repository(request.tickets).listing().tickets if request.tickets is not None else ()
    if since is None:
        return code_audit(report, request.run, tickets)
    checkout = request.checkout or own_checkout(request.run)
    if checkout is None:
        raise BadInputError("--since compares with the checkout, which is not here", "name it: CHECKOUT[@REV]")
    spec = parse_checkout(checkout)
    older = CheckoutSpec(f"{spec.directory}@{since}", spec.directory, since)
    with open_checkout(spec) as head, open_checkout(older) as base:
        histories = FunctionHistories(base, head, since, request.config.import_roots)
        return code_audit(report, request.run, tickets, since, histories.at)
