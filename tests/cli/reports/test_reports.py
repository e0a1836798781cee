"""`auditkit report`: what is written where, what is refused, and pages that `ticket stats --against` finds right."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from auditkit.cli.reports import app
from tests.filing_helpers import ROOT, corpus_folder, put, ticket_text
from tests.rules.reports.runs import RUN
from tests.source_helpers import write

CORPUS = corpus_folder()
OLD_AUDIT = ROOT / "tests" / "data" / "old_audit"
LOOP = """import torch


def layer_norms(grads):
    return [g.norm(2).item() for g in grads]
"""
USER = "from norms import layer_norms\n\n\ndef step(grads):\n    return layer_norms(grads)\n"


@pytest.fixture
def saved(tmp_path: Path) -> Path:
    return put(tmp_path, "run.json", json.dumps(RUN.to_json()))


def run(*arguments: object) -> Any:
    return CliRunner().invoke(app, list(map(str, arguments)))


def test_a_file_is_not_replaced_without_force(tmp_path: Path) -> None:
    tickets = put(tmp_path / "folder", "B7-PT-01.md", ticket_text()).parent
    page = put(tmp_path, "SUMMARY.md", "by hand\n")
    refused = run("tickets", "--tickets", tickets, "--output", page)
    assert (refused.exit_code, refused.stdout, page.read_text()) == (2, "", "by hand\n")
    assert refused.stderr == f"error: {page} exists already; nothing was written\nhint: --force replaces it\n"
    forced = run("tickets", "--tickets", tickets, "--output", page, "--force")
    assert (forced.exit_code, forced.stdout, forced.stderr) == (0, "", f"wrote {page}\n")
    assert page.read_text("utf-8").startswith("# Tickets: folder\n")
    assert [path.name for path in tmp_path.iterdir() if path.is_file()] == ["SUMMARY.md"]


def test_a_document_of_a_file_is_that_of_stdout(tmp_path: Path, saved: Path) -> None:
    page = tmp_path / "new" / "audit.md"
    result = run("audit", "--run", saved, "--output", page)
    assert (result.exit_code, result.stdout) == (0, "")
    assert run("audit", "--run", saved).stdout == page.read_text("utf-8")


def test_a_saved_run_with_its_tickets(saved: Path, tmp_path: Path) -> None:
    name = "syncs_grow_with_tensors/1/train.norms:total_norm"
    put(tmp_path, "tickets/B7-PT-01.md", ticket_text(status="in-review", fingerprint=name))
    put(tmp_path, "tickets/B7-PT-02.md", b"# Finding Ticket: caf\xe9\n")
    result = run("audit", "--run", saved, "--tickets", tmp_path / "tickets")
    assert result.exit_code == 0
    assert "| MEDIUM (P2) | total_norm: The norm overflows on finite gradients (3.1, 8.1); " in result.stdout
    assert " | B7-PT-01 | in-review |\n" in result.stdout
    assert "B7-PT-02.md:1: the byte 0xe9 is not UTF-8" in result.stdout


@pytest.mark.process
def test_a_checkout_is_read_for_the_appendix(saved: Path, tmp_path: Path) -> None:
    """Of another revision than the run's, which is said."""
    files = {"train/__init__.py": "", "train/norms.py": LOOP, "loop.py": USER.replace("norms", "train.norms", 1)}
    result = run("audit", write(tmp_path / "trainer", files), "--run", saved)
    assert "| `loop.py` | code | `layer_norms` | `layer_norms` called in `step()` (line 5) |" in result.stdout
    assert "loop.py:step  (no caller in the checkout's own code)\n  -> layer_norms()  [line 5]\n" in result.stdout
    assert "- importers and call flow were read at no revision, the run is of aaaaaaaaaaaa\n" in result.stdout


@pytest.mark.process
def test_a_checkout_that_lost_the_revision_is_a_note(
    saved: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The run names `../trainer`; what lies there now has no such commit."""
    write(tmp_path / "trainer", {"train/norms.py": LOOP})
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    result = run("audit", "--run", saved)
    assert result.exit_code == 0
    assert "The checkout is not here, so who imports the audited modules was not read." in result.stdout
    assert "is not in a git repository, so it has no revision" in result.stdout


@pytest.mark.process
def test_auditing_now_files_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A probe of the source needs no interpreter."""
    monkeypatch.chdir(tmp_path)
    checkout = write(tmp_path / "trainer", {"norms.py": LOOP, "loop.py": USER})
    result = run("audit", checkout, "--probe", "sync_in_loop")
    assert result.exit_code == 0
    assert (
        "### 3.1 layer_norms: A loop over tensors waits for the device at every turn - **MEDIUM** (P2)" in result.stdout
    )
    assert "# norms: Module Audit Report" in result.stdout
    assert "| `loop.py` | code | `layer_norms` |" in result.stdout
    assert [path.name for path in tmp_path.iterdir()] == ["trainer"]


def test_a_run_without_an_answer_is_no_success(tmp_path: Path) -> None:
    errors = [result for result in RUN.to_json()["results"] if result["outcome"] == "error"]
    saved = put(tmp_path, "run.json", json.dumps({**RUN.to_json(), "results": errors}))
    result = run("audit", "--run", saved)
    assert result.exit_code == 3
    assert "**Overall Assessment:** No verdict: no probe gave an answer." in result.stdout
    assert result.stderr == "error: nothing was measured: ended by signal 11\n"


def test_wrong_usage_under_json_is_json(saved: Path) -> None:
    result = run("audit", "--run", saved, "--json", "-o", saved.parent / "x.md")
    assert result.exit_code == 2
    assert json.loads(result.stdout)["error"] == "--output and --json exclude each other"
    assert not (saved.parent / "x.md").exists()


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (
            ("audit",),
            "error: neither a checkout nor a run is named\nhint: name CHECKOUT, or --run FILE\n",
        ),
        (("audit", "--run", "none.json"), "error: none.json: No such file or directory\n"),
        (("audit", "--run", "no.json"), "error: no.json:1:1: not JSON: Expecting value\n"),
        (("audit", "--run", "part.json"), "error: part.json is no saved run: 'run' is missing\nhint: auditkit audit "),
        (("audit", "--run", "run.json", "--probe", "sync_in_loop"), "error: --run is a finished run, and the other"),
        (("audit", "--run", "run.json", "--tickets", "none"), "error: no tickets folder: none\n"),
        (("audit", "none", "--run", "run.json"), "error: no such directory: none\n"),
        (("tickets", "--tickets", "none"), "error: there is no tickets folder none\n"),
        (("tickets", "--tickets", ".", "-o", "."), "error: . is a folder\nhint: name a file: --output FILE\n"),
    ],
)
def test_wrong_usage_is_one_line(
    words: tuple[object, ...], message: str, saved: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(saved.parent)
    put(saved.parent, "no.json", "")
    put(saved.parent, "part.json", '{"schema_version": 1}')
    result = run(*words)
    assert (result.exit_code, result.stdout) == (2, "")
    assert result.stderr.startswith(message)
    assert not (saved.parent / "x.md").exists()
