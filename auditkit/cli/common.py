"""What every command shares: how errors end it, which options it has, which tickets it means."""

from __future__ import annotations

import contextlib
import functools
import inspect
import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, get_type_hints

import typer

from auditkit.cli.output import INTERRUPTED, complain, complain_of, say
from auditkit.errors import AuditkitError, BadInputError

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


def run_or_exit(command: Callable[..., None], writes: bool = False) -> Callable[..., None]:
    """A command as Typer is to see it: its AuditkitErrors become `error:` and `hint:` and their exit code; with --json
    one object, too.

    Each parameter whose type is a dataclass, a group of options, is replaced by that one's fields. A command that
    `writes` has --dry-run: then it says what it would change, and changes nothing. Ctrl-C ends a command with 130,
    after all that it started is gone.
    """
    options = [*_options_of(command), *([_DRY_RUN] if writes else [])]
    groups: dict[str, Any] = {name: kind for name, kind in get_type_hints(command).items() if is_dataclass(kind)}

    @functools.wraps(command)
    def run(dry_run: bool = False, **given: Any) -> None:
        as_json = bool(given.get("as_json")) or given.get("form") == "json"
        for name, group in groups.items():
            given[name] = group(**{field.name: given.pop(field.name) for field in fields(group)})
        try:
            # A document on stdout stays the only one.
            with _dry_run(complain if as_json else say) if dry_run else contextlib.nullcontext():
                command(**given)
        except KeyboardInterrupt:
            # Typer would end with 130 too, but without a word.
            complain("interrupted")
            raise typer.Exit(INTERRUPTED) from None
        except AuditkitError as error:
            raise typer.Exit(complain_of(error, as_json)) from None

    # Typer reads both: the signature for names and defaults, the annotations for what it cannot find there.
    run.__signature__ = inspect.Signature(options)  # type: ignore[attr-defined]
    run.__annotations__ = {option.name: option.annotation for option in options}
    return run


def command(app: typer.Typer, example: str, name: str | None = None, writes: bool = False) -> Callable[..., Any]:
    """Add a function to an application as a command with an example; see `run_or_exit`."""
    return lambda function: app.command(name, epilog=f"Example: auditkit {example}")(run_or_exit(function, writes))


def _options_of(taker: Callable[..., Any]) -> Iterator[inspect.Parameter]:
    """The parameters of a command or of a group, those of its groups in their place."""
    kinds = get_type_hints(taker, include_extras=True)
    for one in inspect.signature(taker).parameters.values():
        if is_dataclass(kinds[one.name]):
            yield from _options_of(kinds[one.name])
        else:
            # By keyword only, because options with and without a default then mix freely.
            yield one.replace(annotation=kinds[one.name], kind=inspect.Parameter.KEYWORD_ONLY)


@contextlib.contextmanager
def _dry_run(put: Callable[[str], None]) -> Iterator[None]:
    from auditkit.files import dry_run

    complain("dry run: nothing is written; the output shows what would happen")
    ended: typer.Exit | None = None
    with dry_run() as plan:
        try:
            yield
        except typer.Exit as exit_:
            ended = exit_
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

    name = os.path.relpath(path)
    after, before = plan.after[path], plan.before[path]
    if before is None:
        yield f"create {name} ({len(after.splitlines())} lines)"
        return
    was, now = (data.decode("utf-8", "replace").splitlines() for data in (before, after))
    yield from difflib.unified_diff(was, now, name, name, lineterm="")


def ticket_folder(tickets: Path | None, must_exist: bool = True) -> TicketFolder:
    """Return the tickets folder that was named, that of ./auditkit.yaml, or `tickets`. Raises BadInputError."""
    from auditkit.config.config_file import config_in
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
