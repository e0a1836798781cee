"""Command that tries what a ticket recommends: try-fix."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from auditkit.cli.common import JsonOption, TicketsOption, open_repository, run_or_exit
from auditkit.cli.completion import probe_ids
from auditkit.cli.options import ArmOptions, CheckoutOption, TargetOptions, Words
from auditkit.cli.output import complain, say, say_json
from auditkit.cli.ticket.common import IdArgument, app

if TYPE_CHECKING:
    from auditkit.model.revisions.trial import FixTrial, TriedArm


@app.command("try-fix", epilog="Example: auditkit ticket try-fix B7-PT-01 --checkout ../trainer --base HEAD~1")
@run_or_exit
def try_it(
    ticket_id: IdArgument,
    checkout: CheckoutOption = None,
    base: Annotated[str, typer.Option("--base", metavar="REV", help="The revision with the defect.")] = "",
    fix: Annotated[
        str, typer.Option("--fix", metavar="REV", help="The fix that was made; default: the resolution's commit.")
    ] = "",
    block: Annotated[
        int | None, typer.Option("--block", metavar="N", min=1, help="Only this code block of the Recommended Fix.")
    ] = None,
    probe: Annotated[
        Words,
        typer.Option(
            "--probe",
            metavar="ID",
            help="Ask only this probe, beside the judging ones; repeatable.",
            autocompletion=probe_ids,
        ),
    ] = None,
    finding: Annotated[
        Words,
        typer.Option(
            "--finding", metavar="ID", help="Judge the fix by this probe; default: those that the ticket is bound to."
        ),
    ] = None,
    complete: Annotated[
        bool, typer.Option("--complete", help="Add the sums that a block forgets, and run it so.")
    ] = False,
    *,
    targets: TargetOptions,
    runs: ArmOptions,
    tickets: TicketsOption = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Write nothing into the ticket.")] = False,
    as_json: JsonOption = False,
) -> None:
    """Run a ticket's recommended code before anybody applies it.

    It runs in a copy of the checkout. Compared are the base, each code block of the Recommended Fix, and the fix that
    was made, if there is one. Comes out as sufficient, insufficient, "trades X for Y", does not run or "incomplete:
    forgets X"; exit 0 only for sufficient.
    """
    from auditkit.cli.runs.progress import progress
    from auditkit.errors import ExitCode
    from auditkit.workflows.configuration import checkout_of, read_configuration
    from auditkit.workflows.fixes.try_fix import TryRequest, try_fix, write_trial

    repository = open_repository(tickets)
    configuration = read_configuration(runs.config, checkout, repository)
    request = TryRequest(
        ticket=ticket_id,
        checkout=checkout_of(checkout, configuration),
        options=runs.with_config(configuration),
        base=base,
        fix=fix,
        block=block,
        targets=targets.targets(configuration),
        probes=tuple(probe or ()),
        findings=tuple(finding or ()),
        complete=complete,
    )
    with progress() as told:
        trial = try_fix(repository, request, told)
    change = None if dry_run else write_trial(repository, trial)
    is_written = change is not None and change.is_edit
    path = str(change.after.file) if change is not None else ""
    if as_json:
        say_json(trial.to_json() | {"written": is_written, "path": path})
    else:
        _print_trial(trial)
        if path:
            say(f"{trial.ticket}: {'written into' if is_written else 'stands already in'} {path}")
    if trial.first.judgement.text != "sufficient":
        raise typer.Exit(int(ExitCode.FINDINGS))


def _print_trial(trial: FixTrial) -> None:
    from auditkit.model.text import inert_line
    from auditkit.workflows.fixes.fix_arms import forgotten_in
    from auditkit.workflows.fixes.try_fix import trial_rows

    environment = trial.base.environment
    revision = f" ({environment.revision[:12]})" if environment.revision else ""
    say(f"{trial.ticket}: {trial.target}")
    say(f"base: {inert_line(environment.checkout)}{revision}, torch {environment.torch}")
    say(f"judged by: {', '.join(trial.findings)} ({trial.chosen})")
    for arm in trial.arms:
        _print_arm(arm)
    say("")
    names = ["base", *(arm.name for arm in trial.arms if arm.run is not None)]
    for probe, base, answers in trial_rows(trial):
        say(probe)
        for name, answer in zip(names, [base, *answers], strict=True):
            say(f"  {inert_line(name)}: {inert_line(answer)}")
    say("")
    added = ", ".join(forgotten_in(trial.first.completion))
    say(f"{trial.ticket}: {trial.first.judgement.text}{f', completed with {added}' if added else ''}")
    for note in trial.notes:
        complain(f"note: {inert_line(note)}")


def _print_arm(arm: TriedArm) -> None:
    from auditkit.model.text import inert_line

    say("")
    say(f"{inert_line(arm.name)}: {arm.judgement.text}")
    say(f"  {inert_line(arm.judgement.reason)}")
    for note in arm.completion:
        say(f"  completed: {inert_line(note)}")
