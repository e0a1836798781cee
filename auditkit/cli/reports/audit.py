"""`auditkit report audit`: an audit report from a run and its tickets."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

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
    make_targets,
    parse_choices,
)
from auditkit.cli.reports.app import app
from auditkit.cli.reports.output import ForceOption, OutputOption, check_output, put_document

if TYPE_CHECKING:
    from auditkit.store.config import Config

_DEFAULT_TICKETS = Path("tickets")


@app.command(epilog="Example: auditkit report audit ../trainer@v1.2 --run run.json --output audit.md")
@run_or_exit
def audit(
    checkout: Annotated[
        str | None,
        typer.Argument(metavar="[CHECKOUT[@REV]]", help="What to audit; with --run: where to read the source."),
    ] = None,
    run_file: Annotated[
        Path | None, typer.Option("--run", metavar="FILE", help="A finished run, as `audit --json` printed it.")
    ] = None,
    target: TargetOption = None,
    contract: ContractOption = None,
    takes: TakesOption = None,
    finish: FinishOption = None,
    setup: SetupOption = None,
    argument: ArgumentOption = None,
    returns: ReturnsOption = None,
    probe: Annotated[
        list[str] | None, typer.Option("--probe", metavar="ID", help="Only this probe (may be repeated).")
    ] = None,
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
    from auditkit.cli.report import progress_on_terminal
    from auditkit.errors import BadInputError
    from auditkit.workflows.audit import AuditRequest, load_failures
    from auditkit.workflows.configuration import read_configuration
    from auditkit.workflows.report_audit import (
        ReportRequest,
        new_run,
        read_saved_run,
        render_audit_report,
        report_code,
        report_of,
    )

    if checkout is None and run_file is None:
        raise BadInputError("neither a checkout nor a run is named", "auditkit report audit CHECKOUT, or --run FILE")
    check_output(output, force, as_json)
    configuration = read_configuration(config, checkout)
    folder = _tickets_folder(tickets, configuration)
    details = (contract, takes, finish, setup, argument, returns)
    if run_file is not None:
        if any((target, *details, probe, python, device)):
            raise BadInputError("--run is a finished run, and the other options ask anew", "leave one of them out")
        run = read_saved_run(run_file)
    else:
        arms, _ = parse_choices(python, device, "P4", None, None)
        request = AuditRequest(
            checkout=str(checkout),
            config=configuration,
            targets=make_targets(target, configuration, *details),
            probes=tuple(probe or ()),
            arms=arms,
            time_limit_s=time_limit,
        )
        with progress_on_terminal() as progress:
            run = new_run(request, progress)
    report = report_of(ReportRequest(run, checkout, folder, configuration))
    if as_json:
        say_json(report.to_json())
    else:
        put_document(render_audit_report(report), output, force)
    for failure in load_failures(run):
        complain(f"error: {failure.message}")
    raise typer.Exit(int(report_code(run)))


def _tickets_folder(named: Path | None, configuration: Config) -> Path | None:
    """The named folder, the configuration's, or `tickets`; None where none is named and none is there.

    Raises BadInputError for a named one that is not there.
    """
    from auditkit.errors import BadInputError

    folder = named or configuration.tickets
    if folder is None:
        return _DEFAULT_TICKETS if _DEFAULT_TICKETS.is_dir() else None
    if named is not None and not folder.is_dir():
        raise BadInputError(f"no tickets folder: {folder}", "name the folder: --tickets DIR")
    return folder if folder.is_dir() else None
