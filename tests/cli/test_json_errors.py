"""With --json an error is one object on stdout, of every command, and its exit code is that of the process."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import typer.main
from typer.testing import CliRunner

from tests.application import app
from tests.filing_helpers import put, ticket_text
from tests.test_no_torch import every_command

ROOT_COMMAND: Any = typer.main.get_command(app)


def options_of(words: tuple[str, ...]) -> list[str]:
    command = ROOT_COMMAND
    for word in words:
        command = command.commands[word]
    return [name for parameter in command.params for name in parameter.opts]


WITH_JSON = [words for words in every_command() if "--json" in options_of(words)]


def error_of(result: Any) -> dict[str, Any]:
    document: dict[str, Any] = json.loads(result.stdout)
    assert sorted(document) == ["error", "exit_code", "hint", "location", "schema_version"]
    assert document["exit_code"] == result.exit_code
    return document


@pytest.mark.parametrize("words", WITH_JSON, ids=" ".join)
def test_wrong_usage_of_any_command_is_told_as_json(words: tuple[str, ...]) -> None:
    result = CliRunner().invoke(app, [*words, "--nonsense", "--json"])
    told = error_of(result)
    assert (told["exit_code"], told["location"]) == (2, None)
    assert "--nonsense" in told["error"]
    assert told["hint"].endswith(f"{' '.join(words)} --help")
    assert "Usage: " in result.stderr
    # The control: without --json stdout stays empty.
    assert CliRunner().invoke(app, [*words, "--nonsense"]).stdout == ""


def test_what_a_command_finds_wrong_is_told_with_its_place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    put(tmp_path / "tickets", "B7-PT-01.md", ticket_text("B7-PT-01"))
    monkeypatch.chdir(tmp_path)
    missing = error_of(CliRunner().invoke(app, ["ticket", "show", "B7-PT-02", "--json"]))
    assert (missing["error"], missing["hint"]) == ("there is no ticket B7-PT-02 in tickets", "did you mean B7-PT-01?")
    put(tmp_path, "auditkit.yaml", "tickets: tickets\nbatch: many\n")
    wrong = error_of(CliRunner().invoke(app, ["ticket", "list", "--format", "json"]))
    assert wrong["location"] == {"path": "auditkit.yaml", "line": 2, "column": 8}
