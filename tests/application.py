"""The whole command line, for tests that run commands in their own process, and each of its commands."""

from collections.abc import Iterator
from typing import Any

import typer.main

from auditkit.cli.application import application

app = application()


def _commands(command: Any, words: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Any]]:
    yield words, command
    for name, child in getattr(command, "commands", {}).items():
        yield from _commands(child, (*words, name))


EVERY = dict(_commands(typer.main.get_command(app)))
"""Every group and command by its words, from the application itself."""
COMMANDS = {words: command for words, command in EVERY.items() if not hasattr(command, "commands")}
