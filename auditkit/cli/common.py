"""What every command shares: how errors end it, which options it has, which tickets it means."""

from __future__ import annotations

import functools
import inspect
import os
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from auditkit.cli.option_groups import with_groups
from auditkit.cli.output import INTERRUPTED, complain, complain_of, say

if TYPE_CHECKING:
    from auditkit.files import Plan
    from auditkit.tickets.document import TicketFileError
    from auditkit.tickets.store import TicketFolder


def option(flags: str, text: str, metavar: str | None = None, panel: str | None = None, **more: Any) -> Any:
    """An option with its help: `flags` are such as `--output -o`, `more` what else Typer takes."""
    return typer.Option(*flags.split(), help=text, metavar=metavar, rich_help_panel=panel, **more)


TicketsOption = Annotated[Path | None, option("--tickets", "Folder of the tickets.", "DIR", show_default="tickets")]
_DRY_RUN = inspect.Parameter(
    "dry_run",
    inspect.Parameter.KEYWORD_ONLY,
    default=False,
    annotation=Annotated[bool, option("--dry-run", "Write nothing: show what would be changed.")],
)
JsonOption = Annotated[bool, option("--json", "Print one JSON document.")]


def run_or_exit(command: Callable[..., None]) -> Callable[..., None]:
    """A command with its groups of options, whose AuditkitErrors become `error:` and `hint:` and their exit code, with
    --json one object, too.

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
            raise typer.Exit(complain_of(error, bool(given.get("as_json")) or given.get("form") == "json")) from None

    return run


def write_or_exit(command: Callable[..., None]) -> Callable[..., None]:
    """`run_or_exit` for a command that may write: with --dry-run it says what it would change, and changes nothing."""
    filled = with_groups(command)
    options = [*inspect.signature(filled).parameters.values(), _DRY_RUN]

    @functools.wraps(filled)
    def run(dry_run: bool, **given: Any) -> None:
        if dry_run:
            _run_dry(filled, given)
        else:
            filled(**given)

    run.__signature__ = inspect.Signature(options)  # type: ignore[attr-defined]
    run.__annotations__ = {option.name: option.annotation for option in options}
    return run_or_exit(run)


def _run_dry(command: Callable[..., None], given: dict[str, Any]) -> None:
    from auditkit.files import dry_run

    complain("dry run: nothing is written; the output shows what would happen")
    ended: typer.Exit | None = None
    with dry_run() as plan:
        try:
            command(**given)
        except typer.Exit as exit_:
            ended = exit_
    # A document on stdout stays the only one.
    put = complain if given.get("as_json") else say
    lines = [line for path in plan.after for line in _of_file(plan, path)]
    for line in lines:
        put(line)
    if not lines:
        complain("dry run: nothing would be changed")
    if ended is not None:
        raise ended


def _of_file(plan: Plan, path: Path) -> Iterator[str]:
    """Yield a line for a new file, and a unified diff for a changed one."""
    import difflib

    after, before = plan.after[path], plan.before[path]
    if before is None:
        yield f"create {_shown(path)} ({len(after.splitlines())} lines)"
        return
    was, now = (data.decode("utf-8", "replace").splitlines() for data in (before, after))
    yield from difflib.unified_diff(was, now, _shown(path), _shown(path), lineterm="")


def _shown(path: Path) -> str:
    """Return the path as the user would write it from here."""
    near = os.path.relpath(path)
    return str(path) if near.startswith("..") else near


def ticket_folder(tickets: Path | None, must_exist: bool = True) -> TicketFolder:
    """Return the tickets folder that was named, that of ./auditkit.yaml, or `tickets`. Raises BadInputError."""
    from auditkit.config.config_file import config_in
    from auditkit.errors import BadInputError
    from auditkit.tickets.store import TicketFolder

    folder = Path(tickets) if tickets else None
    config = config_in("") if folder is None else None
    if config is not None:
        from auditkit.config.config import read_config

        folder = read_config(config).tickets
    folder = folder or Path("tickets")
    if must_exist and not folder.is_dir():
        told = f"{folder} is not a folder" if folder.exists() else f"there is no tickets folder {folder}"
        raise BadInputError(told, "name it: --tickets DIR; `auditkit audit --tickets DIR` creates it")
    return TicketFolder(folder)


def end_if_broken(broken: Sequence[TicketFileError]) -> None:
    """Name each file that is not a valid ticket, and end the command with 2 if there is one."""
    for error in broken:
        complain(f"error: {error.message}")
    if broken:
        raise typer.Exit(2)
