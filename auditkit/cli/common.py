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
INTERRUPTED = 130
"""What a shell reports for a program that Ctrl-C ended."""

TicketsOption = Annotated[
    Path | None,
    typer.Option("--tickets", metavar="DIR", help="Folder of the tickets.", show_default="tickets"),
]
JsonOption = Annotated[bool, typer.Option("--json", help="Print one JSON document.")]

_P = ParamSpec("_P")
_R = TypeVar("_R")


def run_or_exit(command: Callable[_P, _R]) -> Callable[_P, _R]:
    """A command whose AuditkitErrors become `error:` and `hint:` on stderr and the error's exit code.

    Ctrl-C ends it with 130, after all that the command started is gone.
    """

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
        except KeyboardInterrupt:
            # Typer would end with 130 too, but without a word.
            complain("interrupted")
            raise typer.Exit(INTERRUPTED) from None

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

    _put(sys.stdout, json.dumps(document, indent=2, allow_nan=False) + "\n")


def wants_colour() -> bool:
    """Whether stdout is a terminal that may be styled."""
    return sys.stdout.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"


def choose(parse: Callable[[str], _R], text: str, known: Iterable[str], what: str = "") -> _R:
    """`parse(text)`, its ValueError turned into one that names the nearest of `known`.

    The message is "no such `what`", or without it the error's own. Raises BadInputError.
    """
    from auditkit.errors import BadInputError, nearest_names

    try:
        return parse(text)
    except ValueError as error:
        names = list(known)
        near = nearest_names(text, names)
        hint = f"did you mean {', '.join(near)}?" if near else f"one of {', '.join(names)}"
        raise BadInputError(f"no such {what}: '{text}'" if what else str(error), hint) from None


def open_repository(tickets: Path | None) -> Repository:
    """The tickets folder that a command means: the named one, that of ./auditkit.yaml, or `tickets`.

    Raises BadInputError where it is not there.
    """
    from auditkit.errors import BadInputError
    from auditkit.store.config import find_config, read_config
    from auditkit.store.repository import Repository

    config = find_config(Path()) if tickets is None else None
    folder = tickets or (read_config(config).tickets if config else None) or DEFAULT_TICKETS
    if not folder.is_dir():
        problem = f"{folder} is no folder" if folder.exists() else f"no tickets folder: {folder}"
        raise BadInputError(problem, "name the folder: --tickets DIR")
    return Repository(folder)


def _write(stream: IO[str], text: str) -> None:
    from auditkit.model.text import inert

    shown = inert(text) + "\n"
    encoding = getattr(stream, "encoding", None) or "utf-8"
    # A terminal in an ASCII locale gets escapes rather than a traceback.
    _put(stream, shown.encode(encoding, "backslashreplace").decode(encoding))


def _put(stream: IO[str], text: str) -> None:
    try:
        stream.write(text)
    except BrokenPipeError:
        discard(stream)


def discard(stream: IO[str]) -> None:
    """Let a stream whose reader has left (`| head -1`) swallow the rest, so that the exit code is kept."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, stream.fileno())
    os.close(nowhere)
