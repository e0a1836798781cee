"""The command that git runs where two branches edited one ticket: merge."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from auditkit.cli.common import TicketsOption, open_repository, write_or_exit
from auditkit.cli.output import complain, say
from auditkit.cli.ticket.common import app


@app.command(epilog="Example: auditkit ticket merge --install")
@write_or_exit
def merge(
    base: Annotated[Path | None, typer.Argument(metavar="[BASE]", help="The text that both sides edited.")] = None,
    ours: Annotated[Path | None, typer.Argument(metavar="[OURS]", help="Our text; gets the result.")] = None,
    theirs: Annotated[Path | None, typer.Argument(metavar="[THEIRS]", help="The other side's text.")] = None,
    path: Annotated[str, typer.Option("--path", help="The ticket's path, for messages.", show_default=False)] = "",
    marker_size: Annotated[
        int | None, typer.Option("--marker-size", min=1, help="How long conflict markers are.", show_default="7")
    ] = None,
    install: Annotated[bool, typer.Option("--install", help="Let git run this for the tickets folder.")] = False,
    tickets: TicketsOption = None,
) -> None:
    """Merge two edits of a ticket, as git's merge driver.

    Edits of different rows never conflict, `Updated` is the later date, and everything else is merged as git
    does. Exits 1 where conflicts are left, with git's markers around them.

    --install writes a line into the .gitattributes of the tickets folder (commit it) and sets
    merge.auditkit of this clone (each clone needs its own).
    """
    from auditkit.errors import BadInputError, ExitCode
    from auditkit.workflows.tickets import merge_driver as merging

    files = [file for file in (base, ours, theirs) if file is not None]
    if install and not files:
        installed = merging.install(open_repository(tickets).folder)
        say(f"{installed.attributes}: {'written, commit it' if installed.is_new_line else 'says so already'}")
        say(f"merge.auditkit.driver: {installed.command}{'' if installed.is_new_setting else ', as before'}")
        return
    if install or base is None or ours is None or theirs is None:
        raise BadInputError("merge which files?", "auditkit ticket merge BASE OURS THEIRS, or --install alone")
    done = merging.merge_files(base, ours, theirs, path, marker_size)
    for row in done.rows:
        complain(f"{path or ours}: both sides changed {row}")
    if done.has_conflicts:
        raise typer.Exit(int(ExitCode.FINDINGS))
