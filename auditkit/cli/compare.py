"""`auditkit compare`: the same probes at two revisions, and what became of each answer."""

from __future__ import annotations

from typing import Annotated

import typer

from auditkit.cli.common import JsonOption, complain, run_or_exit, say, say_json
from auditkit.cli.comparing import (
    BaseArgument,
    CheckoutArgument,
    DeviceOption,
    ForceOption,
    HeadArgument,
    ProbesOption,
    compare_revisions,
    compare_saved,
)
from auditkit.cli.options import (
    ArgumentOption,
    ConfigOption,
    ContractOption,
    FailOnOption,
    FinishOption,
    PythonOption,
    ReturnsOption,
    SetupOption,
    TakesOption,
    TargetOption,
    TimeLimitOption,
    VerboseOption,
    make_targets,
)

EXAMPLE = "Example: auditkit compare ../trainer v1.1 v1.2 --target trainer.stats:grad_norm --takes module"


@run_or_exit
def compare(
    checkout: CheckoutArgument = None,
    base: BaseArgument = None,
    head: HeadArgument = None,
    runs: Annotated[
        bool, typer.Option("--runs", help="Compare two saved runs instead: --runs BASE.json HEAD.json.")
    ] = False,
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
    force: ForceOption = False,
    fail_on: FailOnOption = "P4",
    verbose: VerboseOption = False,
    as_json: JsonOption = False,
) -> None:
    """Run the same probes on the same targets at two revisions: fixed, introduced, better, worse, unchanged.

    Both revisions are checked out apart; nothing in the repository changes. Without --target its collectors are
    found at both. Exits 1 where a finding is new or worse.
    """
    from auditkit.cli.common import choose
    from auditkit.model.enums import Severity
    from auditkit.workflows.compare import exit_code, in_words
    from auditkit.workflows.configuration import read_configuration

    lowest = choose(Severity, fail_on.upper(), [severity.value for severity in Severity], "severity")
    if runs:
        _refuse_more(head, target, probe)
        found = compare_saved(checkout, base, force)
    else:
        configuration = read_configuration(config, checkout)
        details = (contract, takes, finish, setup, argument, returns)
        targets = make_targets(target, configuration, *details)
        sides = (checkout, base, head)
        found = compare_revisions(sides, configuration, targets, probe, python, device, time_limit, force)
    if as_json:
        say_json(found.to_json())
    else:
        for line in in_words(found, verbose):
            say(line)
    for note in found.notes:
        complain(f"note: {note}")
    raise typer.Exit(int(exit_code(found, lowest)))


def _refuse_more(head: str | None, target: list[str] | None, probe: list[str] | None) -> None:
    from auditkit.errors import BadInputError

    if head is not None:
        raise BadInputError("--runs takes two files", "auditkit compare --runs base.json head.json")
    if target or probe:
        raise BadInputError("--runs measures nothing, so it takes no --target or --probe")
