"""`auditkit ticket`, through Typer's runner, through a real pipe and on a terminal."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from auditkit.cli.ticket import app
from tests.filing_helpers import ROOT, corpus_folder, put, ticket_text
from tests.terminal import on_a_terminal

pytestmark = pytest.mark.process

CORPUS = corpus_folder()


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    tickets = tmp_path / "tickets"
    put(tickets, "batch7/B7-PT-01.md", ticket_text("B7-PT-01", fingerprint="p/1/t"))
    put(tickets, "batch7/B7-PT-02.md", ticket_text("B7-PT-02", status="`wontfix`", severity="`P1`"))
    cr = ticket_text("B6-CR-10", title="[bold]not markup[/bold] \x1b[31m").replace("`pytorch`", "`code-review`")
    put(tickets, "batch6/B6-CR-10.md", cr.replace("**Batch** | 7", "**Batch** | 6"))
    return tickets


def run(*arguments: object) -> Any:
    return CliRunner().invoke(app, [str(argument) for argument in arguments])


def program(*arguments: object) -> list[str]:
    return [sys.executable, "-c", "from auditkit.cli.ticket import app; app()", *map(str, arguments)]


def test_list_prints_one_line_for_each_ticket_by_id(folder: Path) -> None:
    result = run("list", "--tickets", folder, "--all")
    assert result.exit_code == 0
    assert result.stdout == (
        "B6-CR-10  P2  open      code-review  [bold]not markup[/bold] \\x1b[31m\n"
        "B7-PT-01  P2  open      pytorch      sum of squares overflows\n"
        "B7-PT-02  P1  wont-fix  pytorch      sum of squares overflows\n"
    )


@pytest.mark.parametrize(
    ("options", "ids"),
    [
        (["--status", "open"], ["B6-CR-10", "B7-PT-01"]),
        (["--status", "Wont Fix"], ["B7-PT-02"]),
        (["--status", "open", "--status", "wont-fix", "--batch", "7"], ["B7-PT-01", "B7-PT-02"]),
        (["--severity", "p1"], ["B7-PT-02"]),
        (["--agent", "CR"], ["B6-CR-10"]),
        (["--agent", "pytorch", "--severity", "P2"], ["B7-PT-01"]),
        (["--batch", "9"], []),
    ],
)
def test_filters(folder: Path, options: list[str], ids: list[str]) -> None:
    result = run("list", "--tickets", folder, "--json", *options)
    assert result.exit_code == 0
    assert [ticket["id"] for ticket in json.loads(result.stdout)["tickets"]] == ids


def test_json_is_one_document_with_its_version(folder: Path) -> None:
    document = json.loads(run("list", "--tickets", folder, "--batch", "7", "--severity", "P2", "--json").stdout)
    (ticket,) = document.pop("tickets")
    assert document == {"schema_version": 1, "broken": []}
    assert (ticket["id"], ticket["path"], ticket["fingerprints"]) == ("B7-PT-01", "batch7/B7-PT-01.md", ["p/1/t"])
    assert "\x1b" not in run("list", "--tickets", folder, "--json").stdout


def test_broken_files_are_named_and_the_rest_is_listed(folder: Path) -> None:
    put(folder, "batch7/B7-PT-03.md", b"# Finding Ticket: caf\xe9\n")
    put(folder, "B7-PT-04.md", ticket_text("B7-PT-04") + "\n<!-- auditkit:evidence -->\n")
    for options in (["--all"], ["--json"]):
        result = run("list", "--tickets", folder, *options)
        assert result.exit_code == 2
        assert result.stdout.count("B7-PT-0") == (2 if options == ["--all"] else 6)
        assert result.stderr == (
            f"{folder}/B7-PT-04.md:60:1: evidence block is not closed\n"
            "    <!-- auditkit:evidence -->\n    ^\n"
            f"{folder}/batch7/B7-PT-03.md:1:22: not UTF-8: byte 0xe9\n"
            "    # Finding Ticket: caf\ufffd\n                         ^\n"
        )
    places = [(entry["path"], entry["line"], entry["column"]) for entry in json.loads(result.stdout)["broken"]]
    assert places == [("B7-PT-04.md", 60, 1), ("batch7/B7-PT-03.md", 1, 22)]


def test_a_word_nobody_knows_is_shown_with_a_warning(folder: Path) -> None:
    put(folder, "B7-PT-03.md", ticket_text("B7-PT-03", status="`brewing`"))
    result = run("list", "--tickets", folder, "--batch", "7", "--open")
    assert result.exit_code == 0
    assert "B7-PT-03  P2  brewing " in result.stdout
    assert result.stderr == "warning: B7-PT-03: no such status: 'brewing'\n"


@pytest.mark.parametrize(
    ("arguments", "message", "hint"),
    [
        (["list", "--status", "opn"], "no such status: 'opn'", "did you mean open"),
        (["list", "--severity", "P7"], "no such severity: 'P7'", "did you mean P"),
        (["show", "B7-PT-11"], "no ticket B7-PT-11 in", "did you mean B7-PT-01"),
        (["show", "seven\x1b[2J"], "not a ticket id: 'seven\\x1b[2J'", "auditkit ticket list"),
        (["status", "B7-PT-01", "fixd"], "no such status: 'fixd'", "did you mean fixed"),
        (["status", "B7-PT-01", "fixed"], "does not go from open to fixed", "investigating"),
        (["status", "B7-PT-01", "wont-fix"], "open to wont-fix needs a reason", "--reason"),
    ],
)
def test_errors_teach_and_exit_2(folder: Path, arguments: list[str], message: str, hint: str) -> None:
    before = {path: path.read_bytes() for path in folder.rglob("*.md")}
    result = run(*arguments, "--tickets", folder)
    assert result.exit_code == 2
    assert result.stdout == ""
    error, advice = result.stderr.splitlines()
    assert error.startswith("error: ")
    assert message in error
    assert advice.startswith("hint: ")
    assert hint in advice
    assert {path: path.read_bytes() for path in folder.rglob("*.md")} == before


def test_a_missing_folder_is_an_error(tmp_path: Path) -> None:
    result = run("list", "--tickets", tmp_path / "none")
    assert (result.exit_code, result.stderr.count("no tickets folder")) == (2, 1)


def test_show_prints_the_file_inert(folder: Path) -> None:
    result = run("show", "b6-cr-10", "--tickets", folder)
    text = (folder / "batch6" / "B6-CR-10.md").read_text()
    assert result.stdout == text.replace("\x1b", "\\x1b")
    fields = json.loads(run("show", "B6-CR-10", "--tickets", folder, "--json").stdout)["tickets"][0]
    assert (fields["id"], fields["text"]) == ("B6-CR-10", text)


def test_show_of_a_broken_ticket_says_where(folder: Path) -> None:
    put(folder, "B7-PT-03.md", "no ticket\n")
    result = run("show", "B7-PT-03", "--tickets", folder)
    assert result.exit_code == 2
    assert result.stderr.startswith(f"error: {folder}/B7-PT-03.md:1:1: no '## Ticket Metadata' section\n")


def test_status_is_shown_and_changed_step_by_step(folder: Path) -> None:
    assert run("status", "B7-PT-01", "--tickets", folder).stdout == "open\n"
    for old, new in (("open", "investigating"), ("investigating", "fix-in-progress"), ("fix-in-progress", "in-review")):
        assert run("status", "B7-PT-01", new, "--tickets", folder).stdout == f"B7-PT-01: {old} -> {new}\n"
    before = (folder / "batch7/B7-PT-01.md").read_bytes()
    assert run("status", "B7-PT-01", "in-review", "--tickets", folder).stdout == "B7-PT-01: is in-review already\n"
    assert run("status", "B7-PT-01", "fixed", "--tickets", folder).exit_code == 2
    assert (folder / "batch7/B7-PT-01.md").read_bytes() == before


def test_a_status_change_that_cannot_be_written_exits_4(folder: Path) -> None:
    put(folder, ".auditkit", "a file where the lock's folder should be")
    result = run("status", "B7-PT-01", "investigating", "--tickets", folder)
    assert result.exit_code == 4
    assert result.stderr.startswith("error: cannot lock ")


@pytest.mark.parametrize("command", ["list", "show", "status"])
def test_every_command_helps_with_an_example(command: str) -> None:
    result = run(command, "--help")
    assert result.exit_code == 0
    assert f"Example: auditkit ticket {command}" in re.sub(r"\s+", " ", result.stdout)


@pytest.mark.parametrize("arguments", [["list"], ["list", "--json"], ["show", "B7-PT-01"], ["status", "B7-PT-01"]])
def test_reading_tickets_imports_nothing_heavy(folder: Path, arguments: list[str]) -> None:
    code = (
        "import sys\nfrom auditkit.cli.ticket import app\n"
        "try:\n    app()\nfinally:\n"
        "    heavy = ['torch', 'numpy', 'jinja2', 'rich', 'yaml', 'pydantic']\n"
        "    print([name for name in heavy if name in sys.modules], file=sys.stderr)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, *arguments, "--tickets", str(folder)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stderr.splitlines()[-1] == "[]"
    assert done.stdout != ""


def test_a_pipe_gets_every_line_whole(tmp_path: Path) -> None:
    title = "x" * 500
    for number in range(1, 301):
        name = f"B7-PT-{number:02d}"
        put(tmp_path, f"{name}.md", ticket_text(name, title=title))
    done = subprocess.run(program("list", "--tickets", tmp_path), cwd=ROOT, capture_output=True, check=True)
    lines = done.stdout.decode().splitlines()
    assert len(lines) == 300
    assert all(line.endswith(title) for line in lines)


def test_an_ascii_pipe_gets_escapes_and_no_traceback(tmp_path: Path) -> None:
    put(tmp_path, "B7-PT-01.md", ticket_text(title="naïve ∑"))
    done = subprocess.run(
        program("list", "--tickets", tmp_path),
        cwd=ROOT,
        capture_output=True,
        check=True,
        env={**os.environ, "PYTHONIOENCODING": "ascii"},
    )
    assert done.stdout.endswith(b"na\\xefve \\u2211\n")


def test_a_terminal_gets_a_table_with_inert_text(folder: Path) -> None:
    shown = on_a_terminal(["ticket", "list", "--tickets", str(folder)], columns=120)
    assert "\x1b[1m" in shown
    assert "\x1b[31m" not in shown
    assert "[bold]not markup[/bold] \\x1b[31m" in shown


def test_a_terminal_without_colour_gets_plain_lines(folder: Path) -> None:
    shown = on_a_terminal(["ticket", "list", "--tickets", str(folder)], columns=120, NO_COLOR="1")
    assert "\x1b" not in shown
    assert shown.splitlines()[2].startswith("B7-PT-01  P2   open    pytorch")


@pytest.mark.skipif(CORPUS is None, reason="the corpus of real tickets is not on this machine")
def test_real_tickets_are_listed_without_their_reports() -> None:
    assert CORPUS is not None
    result = run("list", "--tickets", CORPUS / "tickets", "--json")
    assert (result.exit_code, result.stderr) == (0, "")
    assert len(json.loads(result.stdout)["tickets"]) == 152


def test_the_configurations_folder_is_the_default(tmp_path: Path) -> None:
    """In a folder with an auditkit.yaml, its `tickets` are meant; --tickets still wins."""
    (tmp_path / "auditkit.yaml").write_text("tickets: found/here\n", encoding="utf-8")
    (tmp_path / "found" / "here").mkdir(parents=True)
    command = [sys.executable, "-m", "auditkit", "ticket", "list", "--json"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert (done.returncode, json.loads(done.stdout)["tickets"]) == (0, [])
    command += ["--tickets", "nowhere"]
    other = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert (other.returncode, other.stderr.splitlines()[0]) == (2, "error: no tickets folder: nowhere")
