"""With --json what a command finds wrong is one object on stdout, and its exit code is that of the process."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from tests.application import app
from tests.filing_helpers import put, ticket_text


def error_of(result: Any) -> dict[str, Any]:
    document: dict[str, Any] = json.loads(result.stdout)
    assert sorted(document) == ["error", "exit_code", "hint", "location", "schema_version"]
    assert document["exit_code"] == result.exit_code
    return document


def test_what_a_command_finds_wrong_is_told_with_its_place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    put(tmp_path / "tickets", "B7-PT-01.md", ticket_text("B7-PT-01"))
    monkeypatch.chdir(tmp_path)
    missing = error_of(CliRunner().invoke(app, ["ticket", "show", "B7-PT-02", "--json"]))
    assert (missing["error"], missing["hint"]) == ("there is no ticket B7-PT-02 in tickets", "did you mean B7-PT-01?")
    put(tmp_path, "auditkit.yaml", "tickets: tickets\nbatch: many\n")
    wrong = error_of(CliRunner().invoke(app, ["ticket", "list", "--format", "json"]))
    assert wrong["location"] == {"path": "auditkit.yaml", "line": 2, "column": 8}
