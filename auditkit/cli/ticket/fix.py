"""Command that runs the diff of a ticket, and applies it: fix."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from auditkit.cli.common import JsonOption, TicketsOption, open_repository, write_or_exit
from auditkit.cli.options import ArmOptions, ProbesOption
from auditkit.cli.output import say, say_json
from auditkit.cli.ticket.common import IdArgument, app

if TYPE_CHECKING:
    from auditkit.workflows.fixes.shown_fix import ShownFix


@app.command("fix", epilog="Example: auditkit ticket fix B7-PT-01 ../trainer --apply")
@write_or_exit
def fix(
    ticket_id: IdArgument,
    checkout: Annotated[
        str | None,
        typer.Argument(metavar="[CHECKOUT[@REV]]", help="Default: the configuration's, else this folder."),
    ] = None,
    apply: Annotated[
        bool, typer.Option("--apply", help="Change the files, where they are as committed and the fix is sufficient.")
    ] = False,
    probe: ProbesOption = None,
    *,
    runs: ArmOptions,
    tickets: TicketsOption = None,
    as_json: JsonOption = False,
) -> None:
    """Show the diff that a ticket recommends, and run it again.

    It runs in a copy of the checkout: the ticket's own probes and all others, without it and with it. Exit 0 only where
    it is sufficient. --apply then changes the files of the work tree; it commits nothing.
    """
    from auditkit.cli.runs.progress import progress
    from auditkit.errors import ExitCode
    from auditkit.workflows.configuration import checkout_of, read_configuration
    from auditkit.workflows.fixes.shown_fix import FixRequest, run_shown_fix

    repository = open_repository(tickets)
    configuration = read_configuration(runs.config, checkout, repository)
    where = checkout_of(checkout, configuration)
    with progress() as told:
        request = FixRequest(ticket_id, where, runs.with_config(configuration), apply, tuple(probe or ()))
        shown = run_shown_fix(repository, request, told)
    if as_json:
        say_json(shown.to_json())
    else:
        _print(shown, apply)
    if not shown.suffices:
        raise typer.Exit(int(ExitCode.FINDINGS))


def _print(shown: ShownFix, apply: bool) -> None:
    from auditkit.model.text import inert, inert_line

    say(inert(shown.difference.rstrip("\n")))
    for target in shown.targets:
        say("")
        say(f"{inert_line(target.target)}: {target.verdict}")
        for row in target.rows:
            say(f"  {row.probe}")
            say(f"    base: {inert_line(row.base)}")
            say(f"    patched: {inert_line(row.patched)}")
        if target.verdict != "sufficient":
            say(f"  {inert_line(target.reason)}")
    say("")
    say(f"{shown.ticket}: {shown.verdict}")
    files = ", ".join(map(inert_line, shown.files))
    if shown.applied:
        say(f"{shown.ticket}: changed {files}; nothing is committed")
    elif apply:
        say(f"{shown.ticket}: {files} stays as it was")
