"""`auditkit report code-audit`: a code audit from a run, with what changed since an older revision."""

from __future__ import annotations

from typing import Annotated

import typer

from auditkit.cli.common import JsonOption, TicketsOption, complain, run_or_exit, say_json
from auditkit.cli.options import (
    ArgumentOption,
    ConfigOption,
    ContractOption,
    DevicesOption,
    FinishOption,
    PythonsOption,
    ReturnsOption,
    SetupOption,
    TakesOption,
    TargetOption,
    TimeLimitOption,
)
from auditkit.cli.reports.app import app
from auditkit.cli.reports.asked import Asked, CheckoutArgument, ProbesOption, RunOption, request_of
from auditkit.cli.reports.output import ForceOption, OutputOption, check_output, put_document


@app.command("code-audit", epilog="Example: auditkit report code-audit ../trainer --since v1.1 --output code-audit.md")
@run_or_exit
def code_audit(
    checkout: CheckoutArgument = None,
    run_file: RunOption = None,
    since: Annotated[
        str | None, typer.Option("--since", metavar="REV", help="Tell what changed in each function from there on.")
    ] = None,
    target: TargetOption = None,
    contract: ContractOption = None,
    takes: TakesOption = None,
    finish: FinishOption = None,
    setup: SetupOption = None,
    argument: ArgumentOption = None,
    returns: ReturnsOption = None,
    probe: ProbesOption = None,
    python: PythonsOption = None,
    device: DevicesOption = None,
    config: ConfigOption = None,
    tickets: TicketsOption = None,
    time_limit: TimeLimitOption = 120.0,
    output: OutputOption = None,
    force: ForceOption = False,
    as_json: JsonOption = False,
) -> None:
    """Write a code audit: scope, numbered findings with risk, impact and recommendation, what is no issue, and fixes.

    Audits CHECKOUT now, or takes a run that was saved with `auditkit audit --json`. It files nothing: tickets
    are read for their status. Exit 0 when it is written, 3 or 5 where the run has no finding and questions
    without an answer.
    """
    from auditkit.workflows.audit import load_failures
    from auditkit.workflows.report_audit import report_code
    from auditkit.workflows.report_code_audit import code_audit_of, render_code_audit

    check_output(output, force, as_json)
    details = (contract, takes, finish, setup, argument, returns)
    asked = Asked(checkout, run_file, target, details, probe, python, device, config, tickets, time_limit)
    request = request_of(asked)
    audit = code_audit_of(request, since)
    if as_json:
        say_json(audit.to_json())
    else:
        put_document(render_code_audit(audit), output, force)
    for failure in load_failures(request.run):
        complain(f"error: {failure.message}")
    raise typer.Exit(int(report_code(request.run)))
