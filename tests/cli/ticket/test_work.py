"""`ticket start`, `done` and `from-commits`: taken, mended, and resolved by what commits say, never unproven."""

from __future__ import annotations

import json
import os
import pty
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from auditkit.cli.ticket import app
from auditkit.workflows.tickets.from_commits import Commit, fixes_in, tickets_named
from tests.filing_helpers import put, ticket_text
from tests.project_files import our_environment
from tests.verify_helpers import git

pytestmark = pytest.mark.process


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for number in range(1, 6):
        put(tmp_path, f"tickets/batch7/B7-PT-{number:02d}.md", ticket_text(f"B7-PT-{number:02d}"))
    git(tmp_path, "init", "-q", "--template=")
    git(tmp_path, "config", "user.name", "ada")
    git(tmp_path, "add", "-A")
    git(tmp_path, "commit", "-qm", "found")
    git(tmp_path, "tag", "start")
    monkeypatch.chdir(tmp_path)
    return tmp_path / "tickets"


def commit(folder: Path, message: str) -> str:
    git(folder.parent, "commit", "-q", "--allow-empty", "-m", message)
    return git(folder.parent, "rev-parse", "HEAD")


def run(folder: Path, *arguments: object) -> Any:
    return CliRunner().invoke(app, [*map(str, arguments), "--tickets", str(folder)])


def statuses(folder: Path) -> dict[str, str]:
    tickets = json.loads(run(folder, "list", "--json").stdout)["tickets"]
    return {ticket["id"]: ticket["status"] for ticket in tickets}


def test_start_takes_a_ticket_once_and_from_others_only_when_told(folder: Path) -> None:
    assert run(folder, "start", "B7-PT-01").stdout == "B7-PT-01: open -> investigating, assigned to ada\n"
    again = run(folder, "start", "B7-PT-01")
    assert (again.exit_code, again.stdout) == (0, "B7-PT-01: is investigating already, assigned to ada\n")
    refused = run(folder, "start", "B7-PT-01", "--assignee", "bob")
    assert (refused.exit_code, "assigned to ada" in refused.stderr, "--take" in refused.stderr) == (2, True, True)
    taken = run(folder, "start", "B7-PT-01", "--assignee", "bob", "--take", "--fix").stdout
    assert taken == "B7-PT-01: investigating -> fix-in-progress, assigned to bob\n"
    assert run(folder, "start", "B7-PT-02", "--fix").stdout.startswith("B7-PT-02: open -> fix-in-progress,")
    assert run(folder, "status", "B7-PT-03", "wont-fix", "--reason", "no").exit_code == 0
    assert "does not go from wont-fix" in run(folder, "start", "B7-PT-03").stderr


def test_done_goes_as_far_as_the_proof_and_says_what_is_missing(folder: Path) -> None:
    nothing = run(folder, "done", "B7-PT-01")
    assert (nothing.exit_code, "nothing says what was done" in nothing.stderr) == (2, True)
    unknown = run(folder, "done", "B7-PT-01", "--commit", "0123456")
    assert (unknown.exit_code, "has no revision '0123456'" in unknown.stderr) == (2, True)
    fix = commit(folder, "the norm in float64")
    named = run(folder, "resolve", "B7-PT-05", "--as", "already-fixed", "--text", "seen", "--commit", "HEAD", "--json")
    assert json.loads(named.stdout)["ticket"]["resolution"]["commits"] == [fix[:12]]
    first = run(folder, "done", "B7-PT-01", "--commit", fix)
    assert (first.exit_code, first.stdout) == (1, "B7-PT-01: open -> in-review\n")
    assert "not fixed yet: not verified: a test" in first.stderr
    assert "the norm in float64" in (folder / "batch7/B7-PT-01.md").read_text()
    assert run(folder, "edit", "B7-PT-01", "verified", "all").exit_code == 0
    assert "no sign-off by pytorch" in run(folder, "done", "B7-PT-01").stderr
    assert run(folder, "sign-off", "B7-PT-01", "--yes").exit_code == 0
    last = run(folder, "done", "B7-PT-01")
    assert (last.exit_code, last.stdout) == (0, f"B7-PT-01: in-review -> fixed, now {folder}/fixed/B7-PT-01.md\n")


def test_commits_propose_and_with_yes_resolve_but_never_close_without_proof(folder: Path) -> None:
    commit(folder, "fix(telemetry): B7-PT-01 - the norm in float64")
    commit(folder, "sums\n\nFixes B7-PT-02, B7-PT-03.\nRefs: B7-PT-04")
    commit(folder, "closes B9-PT-01")
    before = {path: path.read_bytes() for path in folder.rglob("*.md")}
    shown = run(folder, "from-commits", "start..")
    assert shown.exit_code == 1
    assert shown.stdout.startswith("B7-PT-01: open -> in-review, resolved by ")
    assert "  for fixed: no sign-off by pytorch\n" in shown.stdout
    assert "B7-PT-04: mentioned (" in shown.stdout
    assert "B9-PT-01: no ticket B9-PT-01" in shown.stdout
    assert shown.stderr == "nothing was written: 3 tickets would change; --yes writes without asking\n"
    assert {path: path.read_bytes() for path in folder.rglob("*.md")} == before
    assert run(folder, "from-commits", "start..", "--yes").exit_code == 1
    assert list(statuses(folder).values()) == ["in-review"] * 3 + ["open"] * 2
    after = {path: path.read_bytes() for path in folder.rglob("*.md")}
    assert run(folder, "from-commits", "start..", "--yes").exit_code == 1
    assert {path: path.read_bytes() for path in folder.rglob("*.md")} == after
    assert run(folder, "edit", "B7-PT-02", "verified", "all").exit_code == 0
    assert run(folder, "sign-off", "B7-PT-02", "--yes").exit_code == 0
    assert run(folder, "from-commits", "start..", "--yes").exit_code == 1
    assert statuses(folder)["B7-PT-02"] == "fixed"
    document = json.loads(run(folder, "from-commits", "start..", "--json").stdout)
    told = {one["id"]: (one["from"], one["to"], one["changed"]) for one in document["tickets"]}
    assert told["B7-PT-02"] == ("fixed", "fixed", False)
    assert told["B9-PT-01"] == (None, None, False)


def test_a_range_that_git_does_not_know(folder: Path) -> None:
    for words, told in [(["nowhere.."], "git knows no commits nowhere.."), (["start..start"], "names a ticket")]:
        assert told in run(folder, "from-commits", *words).stderr


@pytest.mark.parametrize(
    ("message", "ids"),
    [
        ("Fixes B7-PT-03", ["B7-PT-03"]),
        ("fixed: #B7-PT-03, B7-CR-04 and B7-DRL-105", ["B7-PT-03", "B7-CR-04", "B7-DRL-105"]),
        ("x\n\nCloses B7-PT-03\nresolves B7-PT-04.", ["B7-PT-03", "B7-PT-04"]),
        ("fix(telemetry): B3-PT-01 - the norm", ["B3-PT-01"]),
        ("fix: b3-pt-01 lower case", ["B3-PT-01"]),
        ("refs B7-PT-03", []),
        ("does not fix B7-PT-03", []),
        ("this doesn't fully fix B7-PT-03", []),
        ("partly fixes B7-PT-03", []),
        ("prefix B7-PT-03, unfixed B7-PT-04", []),
        ("fix the test of B7-PT-03", []),
        ("feat: B7-PT-03", []),
        ("fixes B7-PT-03-extra", []),
    ],
)
def test_words_of_commits(message: str, ids: list[str]) -> None:
    assert list(fixes_in(message)) == ids


def test_what_is_reverted_fixes_nothing() -> None:
    fix = Commit("a" * 40, "fixes B7-PT-03", "fixes B7-PT-03")
    other = Commit("c" * 40, "fixes B7-PT-04", "fixes B7-PT-04")
    back = Commit("b" * 40, 'Revert "x"', f'Revert "fixes B7-PT-03"\n\nThis reverts commit {"a" * 40}.')
    named = {str(one.id): one.fixed_by for one in tickets_named([fix, other, back])}
    assert named == {"B7-PT-03": [], "B7-PT-04": [other]}


def test_json_at_a_terminal_follows_the_answer(folder: Path) -> None:
    """Asked on stderr, with what would be done; the one document on stdout says what was."""
    commit(folder, "fixes B7-PT-01")
    command = [sys.executable, "-m", "auditkit", "ticket", "from-commits", "start..", "--json"]
    for answer, is_written in ((b"n\n", False), (b"y\n", True)):
        ours, theirs = pty.openpty()
        os.write(ours, answer)
        done = subprocess.run(
            command, cwd=folder.parent, stdin=theirs, stdout=subprocess.PIPE, stderr=theirs, env=our_environment()
        )
        asked = os.read(ours, 65536).decode()
        os.close(ours)
        os.close(theirs)
        assert "B7-PT-01: open -> in-review" in asked
        assert "resolve 1 ticket?" in asked
        assert [one["changed"] for one in json.loads(done.stdout)["tickets"]] == [is_written]
        assert (statuses(folder)["B7-PT-01"] == "in-review") is is_written
