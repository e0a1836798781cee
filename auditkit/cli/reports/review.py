"""`auditkit report review`: an implementation review, measured at two revisions."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from auditkit.cli.common import JsonOption, TicketsOption, complain, run_or_exit, say_json
from auditkit.cli.comparing import (
    BaseArgument,
    CheckoutArgument,
    DeviceOption,
    HeadArgument,
    ProbesOption,
    compare_revisions,
    read_saved_comparison,
)
from auditkit.cli.options import (
    ArgumentOption,
    ConfigOption,
    ContractOption,
    FinishOption,
    PythonOption,
    ReturnsOption,
    SetupOption,
    TakesOption,
    TargetOption,
    TimeLimitOption,
    make_targets,
)
from auditkit.cli.reports.app import app
from auditkit.cli.reports.output import ForceOption, OutputOption, check_output, put_document


@app.command(
    epilog="Example: auditkit report review ../trainer v1.1 v1.2 --require 'syncs_grow_with_tensors: fixed' "
    "--output review.md"
)
@run_or_exit
def review(
    checkout: CheckoutArgument = None,
    base: BaseArgument = None,
    head: HeadArgument = None,
    comparison: Annotated[
        Path | None, typer.Option("--from", metavar="FILE", help="A comparison, as `compare --json` printed it.")
    ] = None,
    ticket: Annotated[
        str | None, typer.Option("--ticket", metavar="ID", help="Its boxes and claims are requirements.")
    ] = None,
    tickets: TicketsOption = None,
    require: Annotated[
        list[str] | None,
        typer.Option(
            "--require",
            metavar="TEXT",
            help="PROBE: fixed, PROBE: not_reproduced, PROBE law = O(1), answers: same (may be repeated).",
        ),
    ] = None,
    reviewer: Annotated[str, typer.Option("--reviewer", metavar="NAME", help="Who reviews.")] = "",
    plan: Annotated[str, typer.Option("--plan", metavar="TEXT", help="What the change was planned in.")] = "",
    target: TargetOption = None,
    contract: ContractOption = None,
    takes: TakesOption = None,
    finish: FinishOption = None,
    setup: SetupOption = None,
    argument: ArgumentOption = None,
    returns: ReturnsOption = None,
    probe: ProbesOption = None,
    python: PythonOption = None,
    device: DeviceOption = "auto",
    config: ConfigOption = None,
    time_limit: TimeLimitOption = 120.0,
    output: OutputOption = None,
    force: ForceOption = False,
    as_json: JsonOption = False,
) -> None:
    """Write an implementation review: requirements against what was measured, equivalence, before and after, verdict.

    What the commits' messages claim of syncs, launches, memory, overflow and answers is held against the
    measurements, too. Exit 0 when approved, 1 when it needs work or is rejected.
    """
    from auditkit.errors import BadInputError
    from auditkit.workflows.configuration import read_configuration
    from auditkit.workflows.implementation_review import Assessment, ReviewRequest, render_review
    from auditkit.workflows.implementation_review import review as write

    check_output(output, force, as_json)
    configuration = read_configuration(config, checkout)
    details = (contract, takes, finish, setup, argument, returns)
    if comparison is not None:
        if checkout or target or probe or any(details):
            raise BadInputError("--from is a finished comparison, and the other options ask anew")
        compared = read_saved_comparison(comparison)
    else:
        targets = make_targets(target, configuration, *details)
        sides = (checkout, base, head)
        compared = compare_revisions(sides, configuration, targets, probe, python, device, time_limit, force=False)
    folder = tickets or configuration.tickets
    request = ReviewRequest(compared, tuple(require or ()), ticket, folder, reviewer, plan, configuration)
    written = write(request)
    if as_json:
        say_json(written.to_json())
    else:
        put_document(render_review(written), output, force)
    for note in compared.notes:
        complain(f"note: {note}")
    raise typer.Exit(0 if written.assessment is Assessment.APPROVED else 1)
