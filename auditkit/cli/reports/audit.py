"""`auditkit report audit`: an audit report from a run and its tickets."""

from __future__ import annotations

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


@app.command(epilog="Example: auditkit report audit ../trainer@v1.2 --run run.json --output audit.md")
@run_or_exit
def audit(
    checkout: CheckoutArgument = None,
    run_file: RunOption = None,
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
    """Write an audit report: findings by section with their code and figures, what did not reproduce, and priorities.

    Audits CHECKOUT now, or takes a run that was saved with `auditkit audit --json`. It files nothing: tickets
    are read for their status and severity. Exit 0 when it is written, 3 or 5 where the run has no finding and
    questions without an answer.
    """
    from auditkit.workflows.audit import load_failures
    from auditkit.workflows.report_audit import render_audit_report, report_code, report_of

    check_output(output, force, as_json)
    details = (contract, takes, finish, setup, argument, returns)
    asked = Asked(checkout, run_file, target, details, probe, python, device, config, tickets, time_limit)
    request = request_of(asked)
    report = report_of(request)
    if as_json:
        say_json(report.to_json())
    else:
        put_document(render_audit_report(report), output, force)
    for failure in load_failures(request.run):
        complain(f"error: {failure.message}")
    raise typer.Exit(int(report_code(request.run)))
