"""Help that can be read: in 80 columns, no word broken, what most need first, and an example that can be copied."""

from __future__ import annotations

import functools
import io
import os
import shlex
from contextlib import redirect_stdout
from typing import Any
from unittest.mock import patch

import pytest
import typer.main

from tests.application import app
from tests.test_no_torch import every_command

COMMANDS = pytest.mark.parametrize("words", list(every_command()), ids=lambda words: " ".join(words) or "auditkit")
ROOT_COMMAND: Any = typer.main.get_command(app)


@functools.cache
def page(*words: str) -> str:
    """What `auditkit WORDS` prints on a terminal of 80 columns."""
    with redirect_stdout(io.StringIO()) as printed, patch.dict(os.environ, COLUMNS="80"):
        assert ROOT_COMMAND.main(list(words), prog_name="auditkit", standalone_mode=False) == 0
    return printed.getvalue()


def lists_of(text: str) -> dict[str, list[str]]:
    """The names below each heading: of commands, options or arguments."""
    lists: dict[str, list[str]] = {}
    for part in text.split("\n\n"):
        heading, _, rows = part.partition(":\n")
        names = [row.split()[0].rstrip(",") for row in rows.splitlines() if row[:3].strip()]
        if rows and not heading.startswith(" "):
            lists[heading] = names
    return lists


@COMMANDS
def test_every_command_has_help_with_h_that_fits_80_columns(words: tuple[str, ...]) -> None:
    assert page(*words, "-h") == page(*words, "--help")
    assert max(map(len, page(*words, "-h").splitlines())) <= 80


@COMMANDS
def test_no_word_is_broken(words: tuple[str, ...]) -> None:
    """Every word of the page stands on a page without end, too, backslashes of long examples aside."""
    command, context = ROOT_COMMAND, ROOT_COMMAND.make_context("auditkit", ["audit"], resilient_parsing=True)
    for word in words:
        command = command.commands[word]
        context = command.make_context(word, [], parent=context, resilient_parsing=True)
    formatter = context.make_formatter()
    formatter.width = 10_000
    command.format_help(context, formatter)
    assert set(page(*words, "--help").split()) - {"\\"} <= set(formatter.getvalue().split())


@COMMANDS
def test_the_example_can_be_copied(words: tuple[str, ...]) -> None:
    """What stands behind `Example:` is one command line of this command for a shell."""
    example = page(*words, "--help").rpartition("\nExample: ")[2]
    assert shlex.split(example.replace("\\\n", ""))[: len(words) + 1] == ["auditkit", *words]


@pytest.mark.parametrize("words", [(), ("ticket",)])
def test_a_group_lists_every_command_once_and_on_one_line(words: tuple[str, ...]) -> None:
    group = ROOT_COMMAND.commands["ticket"] if words else ROOT_COMMAND
    text = page(*words, "--help")
    lists = lists_of(text)
    assert lists.pop("Options")[-1] == "-h"
    listed = [name for names in lists.values() for name in names]
    assert sorted(listed) == sorted(group.commands)
    assert all(line[2:3].strip() for part in text.split("\n\n")[2:-2] for line in part.splitlines()[1:])


def test_audit_shows_ten_options_and_the_rest_under_headings() -> None:
    lists = lists_of(page("audit", "--help"))
    assert len(lists.pop("Options")) <= 10
    assert lists.pop("Arguments") == ["[CHECKOUT[@REV]]"]
    assert list(lists) == [
        "How the --target is called, fed and read", "How probes run", "How tickets are filed", "In CI",
        "What is written for other programs",
    ]  # fmt: skip


def test_few_options_need_no_headings() -> None:
    """`init` has one option of those that other commands list apart."""
    assert "--in-place" in lists_of(page("init", "--help"))["Options"]
