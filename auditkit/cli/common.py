"""What every command shares: how errors end it, which options it has, which tickets it means."""

from __future__ import annotations

import functools
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from auditkit.cli.option_groups import with_groups
from auditkit.cli.output import INTERRUPTED, complain, complain_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from auditkit.model.tickets.ticket import BrokenTicket
    from auditkit.store.folder.repository import Repository

TicketsOption = Annotated[
    Path | None,
    typer.Option("--tickets", metavar="DIR", help="Folder of the tickets.", show_default="tickets"),
]
JsonOption = Annotated[bool, typer.Option("--json", help="Print one JSON document.")]


def run_or_exit(command: Callable[..., None]) -> Callable[..., None]:
    """A command with its groups of options, whose AuditkitErrors become `error:` and `hint:` and their exit code.

    Ctrl-C ends it with 130, after all that the command started is gone.
    """
    filled = with_groups(command)

    @functools.wraps(filled)
    def run(**given: Any) -> None:
        try:
            from auditkit.errors import AuditkitError

            filled(**given)
        except KeyboardInterrupt:
            # Typer would end with 130 too, but without a word.
            complain("interrupted")
            raise typer.Exit(INTERRUPTED) from None
        except AuditkitError as error:
            raise typer.Exit(complain_of(error)) from None

    return run


def open_repository(tickets: Path | None) -> Repository:
    """The tickets folder that a command means: the named one, that of ./auditkit.yaml, or `tickets`.

    Raises BadInputError where it is not there.
    """
    from auditkit.cli.lookups import tickets_folder
    from auditkit.store.folder.repository import Repository

    return Repository(Path(tickets_folder(tickets)))


def end_if_broken(broken: Sequence[BrokenTicket], folder: Path) -> None:
    """Name every file that cannot be read as a ticket, and end with exit code 2 if there is one."""
    from auditkit.errors import ExitCode

    for entry in broken:
        complain(entry.describe(folder / entry.path))
    if broken:
        raise typer.Exit(int(ExitCode.BAD_INPUT))
