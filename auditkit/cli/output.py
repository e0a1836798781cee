"""How text reaches the terminal or a pipe. Nothing here is slow to import: every command starts with it."""

from __future__ import annotations

import os
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import IO

    from auditkit.errors import AuditkitError

INTERRUPTED = 130
"""What a shell reports for a program that Ctrl-C ended."""
_WIDEST = 100
"""Longer lines of text are hard to read, however wide the terminal is."""


def say(text: str) -> None:
    """One text on stdout, inert and without markup: data for the user or for a pipe."""
    _write(sys.stdout, text)


def complain(text: str) -> None:
    """One text on stderr, inert: talk, never data. Lines are broken between words on a terminal that is narrower."""
    width = terminal_width(sys.stderr)
    _write(sys.stderr, "\n".join(fitted(line, width) for line in text.split("\n")))


def complain_of(error: AuditkitError, as_json: bool = False) -> int:
    """Print `error:` and `hint:` on stderr; return the error's exit code.

    With --json also print one object on stdout, with the place that the message begins with, if any.
    """
    code = int(error.exit_code)
    if as_json:
        import re

        match = re.search(r"^(?P<path>[^\s:][^:\n]*):(?P<line>\d+):(?:(?P<column>\d+):)? ", error.message, re.MULTILINE)
        place = match and {"path": match["path"], "line": int(match["line"]), "column": int(match["column"] or 1)}
        known = {"error": error.message, "location": place, "hint": error.hint, "exit_code": code}
        say_json({"schema_version": 1, **known})
    complain(f"error: {error.message}")
    if error.hint:
        complain(f"hint: {error.hint}")
    return code


def say_json(document: object) -> None:
    """One strict JSON document on stdout; in pure ASCII, so that no text in it can reach a terminal raw."""
    import json

    _put(sys.stdout, json.dumps(document, indent=2, allow_nan=False) + "\n")


def terminal_width(stream: IO[str] | None = None) -> int | None:
    """How wide text on the stream (stdout) may be: that of its terminal, at most 100 columns; None for a pipe."""
    if not (stream or sys.stdout).isatty():
        return None
    import shutil

    return min(shutil.get_terminal_size().columns, _WIDEST)


def fitted(line: str, width: int | None) -> str:
    """The line broken between words where it is wider, its further lines further in; as it is without a width.

    A path or another long word is never broken: it stands on a line of its own.
    """
    if width is None or len(line) <= width:
        return line
    import textwrap

    text = line.lstrip(" ")
    indent = " " * (len(line) - len(text))
    return textwrap.fill(text, width, initial_indent=indent, subsequent_indent=f"{indent}  ", break_long_words=False,
                         break_on_hyphens=False)  # fmt: skip


def discard(stream: IO[str]) -> None:
    """Let a stream whose reader has left (`| head -1`) swallow the rest, so that the exit code is kept."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, stream.fileno())
    os.close(nowhere)


def _write(stream: IO[str], text: str) -> None:
    if not (text.isascii() and text.replace("\n", "").replace("\t", "").isprintable()):
        from auditkit.model.text import inert

        encoding = getattr(stream, "encoding", None) or "utf-8"
        text = inert(text).encode(encoding, "backslashreplace").decode(encoding)  # a terminal may be ASCII only
    _put(stream, text + "\n")


def _put(stream: IO[str], text: str) -> None:
    try:
        stream.write(text)
    except BrokenPipeError:
        discard(stream)
