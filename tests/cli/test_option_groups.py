"""A group of options is a dataclass: Typer sees its fields, the command gets it filled in."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

import pytest
import typer
import typer.main
from typer.testing import CliRunner

from auditkit.cli.option_groups import with_groups
from tests.application import app


@dataclass(frozen=True)
class Where:
    """Two options."""

    host: Annotated[str, typer.Option("--host", metavar="NAME", help="Whom to ask.")]
    port: Annotated[int, typer.Option("--port", min=1, help="Which door.")] = 80


@dataclass(frozen=True, kw_only=True)
class Call:
    """A group in a group, and an option after it."""

    where: Where
    word: Annotated[list[str] | None, typer.Option("--word")] = None


def shout(
    name: Annotated[str, typer.Argument(metavar="NAME")] = "you",
    *,
    call: Call,
    loud: Annotated[bool, typer.Option("--loud")] = False,
) -> None:
    """Shout."""
    typer.echo(repr((name, call, loud)))


def run(command: object, *words: str) -> tuple[int, str]:
    application = typer.Typer()
    application.command()(command)  # type: ignore[type-var]
    ended = CliRunner().invoke(application, words)
    return ended.exit_code, ended.output


def test_the_command_gets_its_groups_filled_in() -> None:
    """Groups in groups, what was typed and what was not."""
    typed = ("me", "--host", "there", "--word", "a", "--word", "b", "--loud")
    assert run(with_groups(shout), *typed) == (
        0,
        repr(("me", Call(where=Where("there"), word=["a", "b"]), True)) + "\n",
    )
    expected = repr(("you", Call(where=Where("here", 8)), False)) + "\n"
    assert run(with_groups(shout), "--host", "here", "--port", "8") == (0, expected)


def test_typer_knows_every_option_of_a_group() -> None:
    """Names, help, metavar, limits and order are those of the fields; without the decorator there is no command."""
    application = typer.Typer()
    application.command()(with_groups(shout))
    parameters = typer.main.get_command(application).params
    assert [one.name for one in parameters if one.name not in ("install_completion", "show_completion")] == [
        "name", "host", "port", "word", "loud",
    ]  # fmt: skip
    code, text = run(with_groups(shout), "--help")
    assert code == 0
    assert [word for word in ("--host", "NAME", "Whom to ask.") if word not in text] == []
    with pytest.raises(RuntimeError, match="Type not yet supported"):
        run(shout, "--help")


@pytest.mark.parametrize("words", [(), ("--host", "x", "--port", "0"), ("--host", "x", "--nonsense")])
def test_wrong_usage_of_a_group_exits_2(words: tuple[str, ...]) -> None:
    """A missing option, a value out of its limits, an option that is none."""
    assert run(with_groups(shout), *words)[0] == 2


def test_two_options_of_one_name_are_refused() -> None:
    """A group that brings an option which the command has already is a mistake of ours, found on import."""

    def twice(host: Annotated[str, typer.Option("--host")] = "", *, where: Where) -> None:
        """Never run."""

    with pytest.raises(ValueError, match="duplicate parameter name: 'host'"):
        with_groups(twice)


TARGET_OPTIONS = ["target", "contract", "takes", "finish", "setup", "argument", "returns"]
ARM_OPTIONS = ["python", "device", "config", "time_limit"]


@pytest.mark.parametrize("line", ["audit", "probe run"])
def test_what_runs_probes_has_the_same_options(line: str) -> None:
    """Every command that measures takes the target's options and says how to run, each under one name."""
    command = typer.main.get_command(app)
    for word in line.split():
        command = command.commands[word]  # type: ignore[attr-defined]
    names = [parameter.name for parameter in command.params]
    assert [name for name in names if name in TARGET_OPTIONS] == TARGET_OPTIONS
    assert [name for name in names if name in ARM_OPTIONS] == ARM_OPTIONS
    assert {f"--{name.replace('_', '-')}" for name in [*TARGET_OPTIONS, *ARM_OPTIONS]} <= {
        option for parameter in command.params for option in parameter.opts
    }
