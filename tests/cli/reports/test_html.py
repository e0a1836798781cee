"""`auditkit report html` and `--html`: what is written where, and what is refused."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from tests.application import app
from tests.exporters.exported_runs import RUNS, run_of
from tests.filing_helpers import put, ticket_text
from tests.rendering.html.test_run_page import OVERFLOW, waiting

pytestmark = pytest.mark.process


def run(*arguments: object) -> Any:
    return CliRunner().invoke(app, list(map(str, arguments)))


def test_a_run_two_runs_and_a_folder(tmp_path: Path) -> None:
    base, head = (
        put(tmp_path, name, json.dumps(run_of(*results).to_json()))
        for name, results in (("base.json", (waiting(), OVERFLOW)), ("head.json", (waiting(3, 1),)))
    )
    page = tmp_path / "audit.html"
    done = run("report", "html", base, "-o", page, "--pictures", tmp_path / "pictures")
    assert (done.exit_code, done.stdout) == (0, "")
    first = page.read_bytes()
    pictures = {file.name: file.read_bytes() for file in (tmp_path / "pictures").iterdir()}
    assert len(pictures) == 2
    assert run("report", "html", base, "-o", page).exit_code == 2
    assert run("report", "html", base, "-o", page, "--force", "--pictures", tmp_path / "pictures").exit_code == 0
    assert page.read_bytes() == first
    assert pictures == {file.name: file.read_bytes() for file in (tmp_path / "pictures").iterdir()}
    assert run("export", base, "--html", tmp_path / "same.html").exit_code == 0
    assert (tmp_path / "same.html").read_bytes() == first

    both = run("report", "html", base, head)
    assert both.exit_code == 0
    assert "<p>sync_count: 4 -&gt; 13 (tensors=4): worse</p>" in both.stdout
    assert run("report", "html", base, head, base).exit_code == 2
    assert run("report", "html", "--pictures", tmp_path).exit_code == 2

    put(tmp_path / "tickets", "B7-PT-01.md", ticket_text())
    board = run("report", "tickets", "--html", "--tickets", tmp_path / "tickets")
    assert board.exit_code == 0
    assert "1 of 1 tickets are open" in board.stdout
    put(tmp_path / "tickets", "B7-PT-02.md", "# Finding Ticket: x\n")
    assert run("report", "tickets", "--html", "--tickets", tmp_path / "tickets").exit_code == 2


def test_the_tickets_of_a_run_have_their_status(tmp_path: Path) -> None:
    found = replace(waiting(), ticket=None)
    saved = put(tmp_path, "run.json", json.dumps(run_of(found).to_json()))
    put(tmp_path / "tickets", "B7-PT-01.md", ticket_text(status="in-review", fingerprint=found.fingerprint))
    done = run("report", "html", saved, "--tickets", tmp_path / "tickets")
    assert "ticket <b>B7-PT-01</b> in-review" in done.stdout
    assert run("report", "html", saved, "--tickets", tmp_path / "none").exit_code == 2


def test_a_run_of_hostile_words_is_written(tmp_path: Path) -> None:
    saved = put(tmp_path, "run.json", json.dumps(RUNS["hostile"].to_json()))
    assert run("report", "html", saved, "-o", tmp_path / "page.html").exit_code == 0
