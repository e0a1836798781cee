"""`auditkit report audit`: an audit report from a run and its tickets."""

from __future__ import annotations

from auditkit.cli.common import run_or_exit
from auditkit.cli.option_groups import with_groups
from auditkit.cli.reports.app import app
from auditkit.cli.reports.output import OutputOptions
from auditkit.cli.reports.run_source import ReportOptions, end


@app.command(epilog="Example: auditkit report audit ../trainer@v1.2 --run run.json --output audit.md")
@run_or_exit
@with_groups
def audit(
    *,
    options: ReportOptions,
    out: OutputOptions,
) -> None:
    """Write an audit report: findings by section with their code and figures, what did not reproduce, and priorities.

    Audits CHECKOUT now, or takes a run that was saved with `auditkit audit --json`. It files nothing: tickets
    are read for their status and severity. Exit 0 when it is written, 3 or 5 where the run has no finding and
    questions without an answer.
    """
    from auditkit.workflows.reports.audit_report import render_audit_report, report_of

    out.check()
    request = options.request()
    out.put(report_of(request), render_audit_report)
    end(request.run)
