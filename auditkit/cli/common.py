"""What every command shares: how errors end it, how text reaches the terminal, which tickets it means."""

from __future__ import annotations

import functools
import os
import sys
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import IO, TYPE_CHECKING, Annotated, ParamSpec, TypeVar

import typer

if TYPE_CHECKING:
    from auditkit.store.repository import Repository

DEFAULT_TICKETS = Path("tickets")

TicketsOption = Annotated[
    Path | None,
    typer.Option("--tickets", metavar="DIR", help="Folder of the tickets.", show_default="tickets"),
]
JsonOption = Annotated[bool, typer.Option("--json", help="Print one JSON document.")]

_P = ParamSpec("_P")
_R = TypeVar("_R")


def run_or_exit(command: Callable[_P, _R]) -> Callable[_P, _R]:
    """A command whose AuditkitErrors become `error:` and `hint:` on stderr and the error's exit code."""

    @functools.wraps(command)
    def run(*args: _P.args, **kwargs: _P.kwargs) -> _R:
        from auditkit.errors import AuditkitError

        try:
            return command(*args, **kwargs)
        except AuditkitError as error:
            complain(f"error: {error.message}")
            if error.hint:
                complain(f"hint: {error.hint}")
            raise typer.Exit(int(error.exit_code)) from None

    return run


def say(text: str) -> None:
    """One text on stdout, inert and without markup: data for the user or for a pipe."""
    _write(sys.stdout, text)


def complain(text: str) -> None:
    """One text on stderr, inert: talk, never data."""
    _write(sys.stderr, text)


def say_json(document: object) -> None:
    """One strict JSON document on stdout; in pure ASCII, so that no text in it can reach a terminal raw."""
    import json

    sys.stdout.write(json.dumps(document, indent=2, allow_nan=False) + "\n")


def wants_colour() -> bool:
    """Whether stdout is a terminal that may be styled."""
    return sys.stdout.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"


def choose(parse: Callable[[str], _R], text: str, known: Iterable[str]) -> _R:
    """`parse(text)`, its ValueError turned into one that names the nearest of `known`.

    Raises BadInputError.
    """
    from auditkit.errors import BadInputError, nearest_names

    try:
        return parse(text)
    except ValueError as error:
        names = list(known)
        near = nearest_names(text, names) or names
        raise BadInputError(str(error), f"did you mean {', '.join(near)}?") from None


def open_repository(tickets: Path | None) -> Repository:
    """The tickets folder that a command means; raises BadInputError where it is not there."""
    from auditkit.errors import BadInputError
    from auditkit.store.repository import Repository

    folder = tickets or DEFAULT_TICKETS
    if not folder.is_dir():
        raise BadInputError(f"no tickets folder: {folder}", "name the folder: --tickets DIR")
    return Repository(folder)


def _write(stream: IO[str], text: str) -> None:
    from auditkit.model.text import inert

    shown = inert(text) + "\n"
    encoding = getattr(stream, "encoding", None) or "utf-8"
    # A terminal in an ASCII locale gets escapes rather than a traceback.
    stream.write(shown.encode(encoding, "backslashreplace").decode(encoding))
