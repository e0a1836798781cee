"""`auditkit audit`: run every probe on every collector of a checkout, and file what reproduced."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from auditkit.cli.common import JsonOption, TicketsOption, run_or_exit
from auditkit.cli.options import (
    AgentOption,
    ArgumentOption,
    BatchOption,
    ConfigOption,
    ContractOption,
    DevicesOption,
    FailOnOption,
    FinishOption,
    PythonsOption,
    ReturnsOption,
    SetupOption,
    TakesOption,
    TargetOption,
    TimeLimitOption,
    VerboseOption,
    make_targets,
    parse_choices,
    typed_command,
)

EXAMPLE = "Example: auditkit audit ../trainer@v1.2 --tickets tickets --batch 7"
DEMO_FOLDER = Path("auditkit-demo")


@run_or_exit
def audit(
    checkout: Annotated[
        str | None, typer.Argument(metavar="[CHECKOUT[@REV]]", help="Without it: the bundled specimen.")
    ] = None,
    checkout_option: Annotated[str | None, typer.Option("--checkout", metavar="DIR[@REV]", hidden=True)] = None,
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
    batch: BatchOption = None,
    agent: AgentOption = None,
    time_limit: TimeLimitOption = 120.0,
    fail_on: FailOnOption = "P4",
    verbose: VerboseOption = False,
    as_json: JsonOption = False,
) -> None:
    """Audit a checkout: find its gradient collectors, run the probes, and file a ticket for each finding.

    Without CHECKOUT the bundled specimen is audited, into the folder auditkit-demo.
    """
    from auditkit.cli.report import run_and_finish
    from auditkit.model.run import BUNDLED
    from auditkit.workflows.audit import AuditRequest, specimen_dir
    from auditkit.workflows.configuration import checkout_of, read_configuration

    named = checkout or checkout_option
    demo = named is None and config is None
    configuration = read_configuration(config, specimen_dir() if demo else named)
    arms, lowest = parse_choices(configuration, time_limit, python, device, fail_on, batch, agent)
    request = AuditRequest(
        checkout=checkout_of(named, configuration),
        targets=make_targets(target, configuration, contract, takes, finish, setup, argument, returns),
        probes=tuple(probe or ()),
        arms=arms,
        tickets=tickets or configuration.tickets or (DEMO_FOLDER / "tickets" if demo else Path("tickets")),
        batch=batch,
        agent=agent,
        command=typed_command(),
        label=BUNDLED if demo else None,
    )
    run_and_finish(request, lowest, as_json, verbose)
