"""`auditkit report code-audit`: a code audit from a run, with what changed since an older revision."""

from __future__ import annotations

from typing import Annotated

import typer

from auditkit.cli.common import run_or_exit
from auditkit.cli.option_groups import with_groups
from auditkit.cli.reports.app import app
from auditkit.cli.reports.output import OutputOptions
from auditkit.cli.reports.run_source import ReportOptions, end


@app.command("code-audit", epilog="Example: auditkit report code-audit ../trainer --since v1.1 --output code-audit.md")
@run_or_exit
@with_groups
def code_audit(
    *,
    options: ReportOptions,
    since: Annotated[
        str | None, typer.Option("--since", metavar="REV", help="Tell what changed in each function from there on.")
    ] = None,
    out: OutputOptions,
) -> None:
    """Write a code audit: scope, numbered findings with risk, impact and recommendation, what is no issue, and fixes.

    Audits CHECKOUT now, or takes a run that was saved with `auditkit audit --json`. It files nothing: tickets
    are read for their status. Exit 0 when it is written, 3 or 5 where the run has no finding and questions
    without an answer.
    """
    from auditkit.workflows.reports.code_audit import code_audit_of, render_code_audit

    out.check()
    request = options.request()
    out.put(code_audit_of(request, since), render_code_audit)
    end(request.run)
