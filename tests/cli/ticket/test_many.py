"""One command for many tickets: which are meant, what is shown and asked, and that it is all of them or none."""

from __future__ import annotations

import json
import os
import pty
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from auditkit.cli.ticket import app
from tests.filing_helpers import ROOT, put, ticket_text

pytestmark = pytest.mark.process

IDS = [f"B7-PT-{number:02d}" for number in range(1, 21)]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for number, ticket_id in enumerate(IDS):
        severity = "`P1`" if number % 4 == 0 else "`P3`"
        put(tmp_path / "tickets", f"batch7/{ticket_id}.md", ticket_text(ticket_id, severity=severity))
    return tmp_path / "tickets"


def run(folder: Path, *arguments: object, stdin: str | None = None) -> Any:
    return CliRunner().invoke(app, [*map(str, arguments), "--tickets", str(folder)], input=stdin)


def contents(folder: Path) -> dict[str, bytes]:
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in sorted(folder.rglob("*.md"))}


def ids_of(folder: Path, *conditions: str) -> list[str]:
    words = [word for condition in conditions for word in ("--where", condition)]
    return [line.split()[0] for line in run(folder, "list", *words).stdout.splitlines()]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["status", "B7-PT-01", "B7-PT-02", "investigating"], "B7-PT-01: open -> investigating\n"),
        (["assign", "B7-PT-01", "B7-PT-02", "ada"], "B7-PT-01: assigned to ada\n"),
        (["label", "B7-PT-01,B7-PT-02", "amp,overflow"], "B7-PT-01: labels: amp, overflow\n"),
        (["link", "B7-PT-01", "B7-PT-02", "blocks", "B7-PT-03"], "B7-PT-01: blocks B7-PT-03\n"),
        (
            ["review", "B7-PT-01", "B7-PT-02", "--verdict", "endorse", "--reviewer", "drl"],
            "B7-PT-01: ENDORSE written\n",
        ),
        (["set", "B7-PT-01", "B7-PT-02", "severity=P0", "due=2026-12-01"], "severity: P0, due: 2026-12-01\n"),
    ],
)
def test_without_yes_nothing_is_written_and_with_it_both_are(folder: Path, words: list[str], said: str) -> None:
    """In a pipe nobody can be asked; what would be done is shown all the same. Undo takes all of it back."""
    before = contents(folder)
    refused = run(folder, *words)
    assert (refused.exit_code, refused.stdout) == (2, "")
    assert said in refused.stderr
    assert "nothing was written: 2 tickets would change\nhint: --yes" in refused.stderr
    assert contents(folder) == before
    done = run(folder, *words, "--yes")
    assert (done.exit_code, said in done.stdout) == (0, True), done.output
    changed = [path for path, data in contents(folder).items() if before[path] != data]
    assert changed == [f"batch7/{ticket_id}.md" for ticket_id in IDS[: 3 if words[0] == "link" else 2]]
    assert run(folder, "undo").exit_code == 0
    assert contents(folder) == before


def test_ids_come_from_stdin_as_list_prints_them(folder: Path) -> None:
    listed = run(folder, "list", "--severity", "P1").stdout
    done = run(folder, "assign", "-", "ada", "--yes", stdin=listed)
    assert done.stdout.splitlines() == [f"{ticket_id}: assigned to ada" for ticket_id in IDS[::4]]
    assert ids_of(folder, "assignee=ada") == IDS[::4]
    wrong = run(folder, "assign", "-", "ada", "--yes", stdin="B7-PT-01 x\nnone of ours\n")
    assert (wrong.exit_code, "line 2 of stdin does not begin with a ticket id" in wrong.stderr) == (2, True)
    assert run(folder, "assign", "-", "ada", "--yes", stdin="").stderr == "no ticket is meant; nothing to change\n"


def test_where_takes_the_words_of_list_and_any_row(folder: Path) -> None:
    assert run(folder, "label", "--where", "severity=P1", "release,amp", "--yes").exit_code == 0
    assert run(folder, "set", IDS[0], "Team=infra", "--new-row").stdout == f"{IDS[0]}: Team: infra\n"
    assert run(folder, "set", IDS[0], IDS[4], "due=2026-12-01", "--yes").exit_code == 0
    for conditions, ids in [
        (["label=amp"], IDS[::4]),
        (["label=amp", "team!=infra"], IDS[4::4]),
        (["team=infra,other"], IDS[:1]),
        (["due<2026-12-02"], [IDS[0], IDS[4]]),
        (["due<2026-12-01"], []),
        (["severity<=P2", "due="], IDS[8::4]),
        (["title~OVERFLOWS", "severity=P1"], IDS[::4]),
        (["text=nowhere,Squares", "severity=P1"], IDS[::4]),
        (["unblocked", "label="], [ticket_id for ticket_id in IDS if ticket_id not in IDS[::4]]),
    ]:
        assert ids_of(folder, *conditions) == ids, conditions
    assert run(folder, "label", "--where", "label=amp", "amp", "--remove", "--yes").exit_code == 0
    assert ids_of(folder, "label=amp") == []
    assert ids_of(folder, "label=release") == IDS[::4]


@pytest.mark.parametrize(
    ("condition", "told"),
    [
        ("labl=x", "no ticket has a field 'labl'\nhint: did you mean label"),
        ("status=opn", "no such status: 'opn'"),
        ("due<soon", "not a condition: 'due<soon'\nhint: due<2026-12-01"),
        ("title<x", "not a condition"),
        ("nonsense", "not a condition"),
        ("batch=x", "no such batch: 'x'"),
    ],
)
def test_conditions_nobody_knows(folder: Path, condition: str, told: str) -> None:
    result = run(folder, "status", "--where", condition, "wont-fix", "--reason", "x", "--yes")
    assert (result.exit_code, told in result.stderr) == (2, True), result.stderr


def test_one_that_cannot_be_changed_leaves_all_as_they_were(folder: Path) -> None:
    """The seventh of twenty is in another state; every reason is named."""
    assert run(folder, "status", IDS[6], "wont-fix", "--reason", "no").exit_code == 0
    before = contents(folder)
    result = run(folder, "status", *IDS, "investigating", "--yes")
    assert result.exit_code == 2
    assert result.stderr.splitlines()[:2] == [
        "error: 1 of 20 tickets cannot be changed, so none was:",
        "  B7-PT-07: a ticket does not go from wont-fix to investigating",
    ]
    assert contents(folder) == before


def test_a_seventh_that_cannot_be_written_leaves_all_as_they_were(folder: Path) -> None:
    """Its new place is taken by a folder that looks free until it is written."""
    (folder / "closed").mkdir()
    (folder / "closed").chmod(0o500)
    before = contents(folder)
    if os.geteuid() == 0:
        (folder / "closed").rmdir()
        (folder / "closed").write_text("in the way")
    result = run(folder, "status", *IDS, "wont-fix", "--reason", "no", "--yes")
    assert result.exit_code == 4, result.output
    assert contents(folder) == before


def test_json_is_one_document_with_every_ticket(folder: Path) -> None:
    document = json.loads(run(folder, "assign", *IDS[:2], "ada", "--yes", "--json").stdout)
    assert (document["schema_version"], document["changed"]) == (1, 2)
    assert [(one["id"], one["changed"], one["ticket"]["assignee"]) for one in document["tickets"]] == [
        (IDS[0], True, "ada"),
        (IDS[1], True, "ada"),
    ]


def test_a_dry_run_of_many_shows_the_differences_and_asks_nothing(folder: Path) -> None:
    before = contents(folder)
    result = run(folder, "assign", *IDS[:2], "ada", "--dry-run")
    assert (result.exit_code, result.stdout.count("+| **Assignee** | ada |")) == (0, 2)
    assert contents(folder) == before


@pytest.mark.parametrize(("answer", "changed"), [("y\n", 3), ("n\n", 0)])
def test_a_terminal_is_asked(folder: Path, answer: str, changed: int) -> None:
    before = contents(folder)
    command = [sys.executable, "-m", "auditkit", "ticket", "assign", *IDS[:3], "ada", "--tickets", str(folder)]
    above, below = pty.openpty()
    with subprocess.Popen(command, cwd=ROOT, stdin=below, stdout=below, stderr=below, close_fds=True) as asking:
        os.close(below)
        shown = b""
        while b"change 3 tickets? [y/N]" not in shown:
            shown += os.read(above, 4096)
        assert shown.count(b"assigned to ada") == 3
        os.write(above, answer.encode())
        asking.wait(30)
    os.close(above)
    assert sum(before[path] != data for path, data in contents(folder).items()) == changed


def test_killed_in_the_middle_the_next_command_finds_all_or_none(folder: Path) -> None:
    """Real processes, killed at moments all over their writing; the next command only reads."""
    command = [sys.executable, "-m", "auditkit", "ticket", "status", *IDS, "wont-fix", "--reason", "no", "--yes"]
    command += ["--tickets", str(folder)]
    begun = time.monotonic()
    assert subprocess.run(command, cwd=ROOT, capture_output=True, check=False).returncode == 0
    whole = time.monotonic() - begun
    run(folder, "undo")
    before, half = contents(folder), 0
    for part in (0.6, 0.7, 0.75, 0.8, 0.85, 0.9):
        writing = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        time.sleep(whole * part)
        writing.send_signal(signal.SIGKILL)
        writing.wait()
        moved = len(list(folder.glob("closed/*.md")))
        half += 0 < moved < 20
        listed = run(folder, "list", "--all")
        # Killed behind its last move it is taken back, too: it had not said yet that all is done.
        is_taken_back = "was stopped in the middle" in listed.stderr
        assert listed.stdout.count("wont-fix") == (20 if moved == 20 and not is_taken_back else 0)
        assert is_taken_back or moved in (0, 20)
        if "wont-fix" in listed.stdout:
            assert run(folder, "undo").exit_code == 0
        assert contents(folder) == before


def test_words_that_do_not_go_together(folder: Path) -> None:
    for words, told in [
        (["status", "--where", "status=open", IDS[0], "investigating"], "by --where, not both"),
        (["assign", "--none"], "which tickets?"),
        (["label", IDS[0]], "which label?"),
        (["link", IDS[0], "blocks"], "no such relation: 'B7-PT-01'"),
        (["set", IDS[0]], "set what?"),
        (["set", IDS[0], "sevrity=P1"], "no field 'sevrity'\nhint: did you mean severity"),
        (["set", IDS[0], "status=fixed"], "'Status' is not edited"),
        (["set", IDS[0], "due=tomorrow"], "not a date"),
    ]:
        result = run(folder, *words)
        assert (result.exit_code, told in result.stderr) == (2, True), (words, result.output)


def test_many_at_once_and_single_edits_beside_them_lose_nothing(folder: Path) -> None:
    """Four processes label the same tickets while others edit them one by one: every change is there afterwards."""
    command = [sys.executable, "-m", "auditkit", "ticket"]
    where = ["--tickets", str(folder)]
    running = [
        subprocess.Popen([*command, "label", *IDS, f"l{number}", "--yes", *where], cwd=ROOT, stdout=subprocess.DEVNULL)
        for number in range(4)
    ]
    edits = [
        subprocess.Popen(
            [*command, "comment", ticket_id, "seen", "--by", "ada", *where], cwd=ROOT, stdout=subprocess.DEVNULL
        )
        for ticket_id in IDS[:4]
    ]
    assert [process.wait() for process in [*running, *edits]] == [0] * 8
    tickets = json.loads(run(folder, "list", "--json").stdout)["tickets"]
    assert [sorted(ticket["labels"]) for ticket in tickets] == [["l0", "l1", "l2", "l3"]] * 20
    assert sum("comments" in ticket for ticket in tickets) == 4
