"""Every command has help that fits a terminal of 80 columns, with an example that can be copied."""

from __future__ import annotations

import shlex

import pytest
from typer.testing import CliRunner

from tests.application import COMMANDS, EVERY, app


@pytest.mark.parametrize("words", EVERY, ids=lambda words: " ".join(words) or "auditkit")
def test_every_command_has_help_with_an_example(words: tuple[str, ...], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    page = CliRunner().invoke(app, [*words, "-h"])
    assert page.exit_code == 0
    assert max(map(len, page.stdout.splitlines())) <= 80
    example = EVERY[words].epilog.removeprefix("Example: ")
    assert shlex.split(example)[: len(words) + 1] == ["auditkit", *words]


def test_there_are_few_commands_and_options() -> None:
    """28 commands and 200 options at most: nobody finds one among more."""
    options = [sum(one.param_type_name == "option" for one in each.params) for each in COMMANDS.values()]
    assert (len(options) <= 28, sum(options) <= 200) == (True, True)
