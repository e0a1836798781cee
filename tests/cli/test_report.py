"""`auditkit report`: what is written where, what is refused, and the pages of one file and of tickets."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from tests.application import app
from tests.filing_helpers import put, ticket_text
from tests.reports.exported_runs import ERROR, WORST, result, run_of

pytestmark = pytest.mark.process


@pytest.fixture
def saved(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return put(tmp_path, "run.json", json.dumps(run_of(result(), WORST).to_json()))


def run(*arguments: object) -> Any:
    return CliRunner().invoke(app, ["report", *map(str, arguments)])


def test_the_name_of_the_file_chooses_the_form(saved: Path, tmp_path: Path) -> None:
    page = tmp_path / "new" / "audit.html"
    done = run(saved, "--output", page)
    assert (done.exit_code, done.stdout, done.stderr) == (0, "", f"wrote {page}\n")
    assert page.read_text("utf-8").startswith("<!DOCTYPE html>")
    assert run(saved).stdout.startswith("# trainer at aaaaaaaaaaaa\n")


def test_one_file_has_its_findings_alone(saved: Path) -> None:
    done = run(saved, "--file", "stats.py")
    assert done.exit_code == 0
    assert done.stdout.startswith("# stats.py: The norm overflows on finite gradients and 1 more finding\n")
    wrong = run(saved, "--file", "stat.py")
    assert (wrong.exit_code, wrong.stdout) == (2, "")
    assert "the run has no result for stat.py\nhint: did you mean stats.py?" in wrong.stderr


def test_the_tickets_of_a_run_have_their_status(saved: Path, tmp_path: Path) -> None:
    put(tmp_path, "tickets/B7-PT-01.md", ticket_text(status="in-review", fingerprint=result().fingerprint))
    put(tmp_path, "tickets/B7-PT-02.md", b"# Finding Ticket: caf\xe9\n")
    done = run(saved, "--tickets", tmp_path / "tickets")
    assert "ticket B7-PT-01 (in-review)" in done.stdout
    assert "B7-PT-02.md:1: the byte 0xe9 is not UTF-8" in " ".join(done.stdout.split())


def test_a_folder_of_tickets_is_a_page(tmp_path: Path) -> None:
    put(tmp_path / "tickets", "B7-PT-01.md", ticket_text())
    page = tmp_path / "tickets.html"
    assert run("--tickets", tmp_path / "tickets", "--output", page).exit_code == 0
    assert "1 open of 1 (1 P2); finished: none." in page.read_text("utf-8")
    assert run("--tickets", tmp_path / "tickets").stdout.startswith("# Tickets: tickets\n")
    put(tmp_path / "tickets", "B7-PT-02.md", "# Finding Ticket: x\n")
    assert run("--tickets", tmp_path / "tickets").exit_code == 2


def test_a_run_without_a_result_is_no_success(tmp_path: Path) -> None:
    done = run(put(tmp_path, "run.json", json.dumps(run_of(ERROR).to_json())))
    assert done.exit_code == 3
    assert "No probe returned a result, which is not a pass." in done.stdout


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("none.json",), "error: none.json: No such file or directory\n"),
        (("part.json",), "error: part.json is not a saved run: "),
        (("run.json", "--tickets", "none"), "error: there is no tickets folder none\n"),
        (("run.json", "-o", "."), "error: . is a folder\nhint: name a file: --output FILE\n"),
    ],
)
def test_wrong_usage_is_one_line(
    words: tuple[object, ...], message: str, saved: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(saved.parent)
    put(saved.parent, "part.json", '{"schema_version": 1}')
    done = run(*words)
    assert (done.exit_code, done.stdout) == (2, "")
    assert done.stderr.startswith(message)
