"""`auditkit ticket lint` on the command line: what it prints, where, and how it ends."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from auditkit.cli.ticket import app
from tests.filing_helpers import put
from tests.rules.lint.lint_pages import OPEN, changed
from tests.test_no_torch import HEAVY, run_watched

pytestmark = pytest.mark.process


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A ticket with a warning (TK011), an error (TK010) and an info (TK008), in the current folder's tickets."""
    bad = changed(OPEN, ("`open`", "`Wont fix`"), ("`P1`", "`high\x1b[2J`"), ("`20260304-1`\n", "`20260304-1`"))
    put(tmp_path, "tickets/batch7/B7-PT-01.md", bad)
    monkeypatch.chdir(tmp_path)
    return tmp_path / "tickets"


def run(*arguments: object) -> Any:
    return CliRunner().invoke(app, ["lint", *map(str, arguments)])


FORMS = ["--select", "TK008,TK010", "--select", "tk011"]


def test_a_line_for_each_finding_by_place_and_a_summary_on_stderr(folder: Path) -> None:
    result = run(*FORMS)
    assert result.exit_code == 1
    assert result.stdout == (
        "tickets/batch7/B7-PT-01.md:8:19: TK010 error: severity 'high\\x1b[2J' is not one of P0, P1, P2, P3, P4\n"
        "tickets/batch7/B7-PT-01.md:9:17: TK011 warn: status 'Wont fix' is not one of open, investigating, "
        "fix-in-progress, in-review, deferred, fixed, closed, wont-fix, already-fixed, not-a-bug, duplicate\n"
        "tickets/batch7/B7-PT-01.md:111:22: TK008 info: no newline at the end of the file\n"
    )
    assert result.stderr == "1 ticket checked: 1 error, 1 warn, 1 info\n"


@pytest.mark.parametrize(
    ("options", "code"),
    [
        (["--select", "TK010"], 1),
        (["--select", "TK011"], 1),
        (["--select", "TK008"], 0),
        (["--select", "TK008", "--fail-on", "info"], 1),
        (["--select", "TK011", "--fail-on", "error"], 0),
        (["--select", "TK010", "--fail-on", "error"], 1),
        (["--select", "TK001"], 0),
    ],
)
def test_the_exit_code_says_how_bad_it_is(folder: Path, options: list[str], code: int) -> None:
    assert run(*options).exit_code == code
    assert run(*options, "--json").exit_code == code
    assert run(*options, "--sarif").exit_code == code


@pytest.mark.parametrize("form", [[], ["--json"], ["--sarif"]])
def test_a_file_that_cannot_be_read_makes_it_exit_2(folder: Path, form: list[str]) -> None:
    put(folder, "batch7/B7-PT-02.md", b"# Finding Ticket: caf\xe9\n")
    result = run("--select", "TK001", *form)
    assert (result.exit_code, "not UTF-8: byte 0xe9" in result.stdout) == (2, True)
    assert result.stderr == "1 ticket checked: 1 error, 0 warn, 0 info; 1 cannot be read\n"


def test_json_and_sarif_are_one_document_each(folder: Path) -> None:
    document = json.loads(run(*FORMS, "--json").stdout)
    assert document["summary"] == {"tickets": 1, "broken": 0, "error": 1, "warn": 1, "info": 1}
    assert document["findings"][2] == {
        "rule": "TK008",
        "level": "info",
        "path": "tickets/batch7/B7-PT-01.md",
        "line": 111,
        "column": 22,
        "message": "no newline at the end of the file",
    }
    (sarif,) = json.loads(run(*FORMS, "--sarif").stdout)["runs"]
    assert [result["ruleId"] for result in sarif["results"]] == ["TK010", "TK011", "TK008"]
    both = run("--json", "--sarif")
    assert (both.exit_code, json.loads(both.stdout)["exit_code"]) == (2, 2)


def test_groups_and_counts_by_rule(folder: Path) -> None:
    """Errors come first; a message that all findings of a rule share stands beside the rule."""
    path = "tickets/batch7/B7-PT-01.md"
    grouped = run(*FORMS, "--by", "rule").stdout.split("\n\n")
    assert [group.split("\n")[1].split(": ")[0] for group in grouped] == [
        f"  {path}:8:19",
        f"  {path}:9:17",
        f"  {path}:111:22",
    ]
    assert grouped[2] == f"TK008 info: no newline at the end of the file (1)\n  {path}:111:22\n"
    assert (
        run(*FORMS, "--by", "count").stdout.splitlines()[0]
        == "TK010  error  1  in 1 file  The Severity is not P0 to P4"
    )
    assert run("--by", "rle").stderr == "error: no such grouping: 'rle'\nhint: did you mean rule, file?\n"


def test_a_baseline_leaves_out_what_is_known_wherever_it_has_moved(folder: Path) -> None:
    """To another line, and with the file to another folder; what is new is found, what is gone is said."""
    words = [*FORMS, "--baseline", "known.txt"]
    assert run(*words).stderr == "error: no such file: known.txt\nhint: --write-baseline makes it\n"
    assert run(*FORMS, "--write-baseline").stderr.startswith("error: --write-baseline does not say where")
    written = run(*words, "--write-baseline")
    assert (written.exit_code, written.stdout) == (0, "")
    assert written.stderr == "3 findings are known now: known.txt\n1 ticket checked: 0 error, 0 warn, 0 info\n"
    assert (folder.parent / "known.txt").read_text().count("B7-PT-01.md TK0") == 3

    old = folder / "batch7/B7-PT-01.md"
    new = put(
        folder,
        "batch8/B7-PT-01.md",
        old.read_text().replace("## Metadata", "\n## Metadata").replace("## L", "\n\n## L"),
    )
    old.unlink()
    moved = run(*words)
    assert (moved.exit_code, moved.stdout) == (0, "")
    assert moved.stderr == "1 ticket checked: 0 error, 0 warn, 0 info; 3 known already\n"
    assert json.loads(run(*words, "--json").stdout)["summary"]["known"] == 3

    new.write_text(new.read_text().replace("`Wont fix`", "`Wont do`") + "\n")
    changed_since = run(*words)
    assert (changed_since.exit_code, changed_since.stdout.count("\n")) == (1, 1)
    assert "TK011 warn: status 'Wont do'" in changed_since.stdout
    assert changed_since.stderr.splitlines()[0] == "2 findings of known.txt are gone: --write-baseline takes them out"
    # The control: a second ticket with the finding that the first one had is not known.
    put(folder, "batch8/B7-PT-02.md", new.read_text().replace("B7-PT-01", "B7-PT-02"))
    assert "B7-PT-02.md" in run(*words).stdout


def test_a_baseline_never_knows_a_file_that_cannot_be_read(folder: Path) -> None:
    put(folder, "batch7/B7-PT-02.md", b"# Finding Ticket: caf\xe9\n")
    assert run(*FORMS, "--baseline", "known.txt", "--write-baseline").exit_code == 2
    assert run(*FORMS, "--baseline", "known.txt").exit_code == 2


def test_fix_says_what_it_changed(folder: Path) -> None:
    result = run(*FORMS, "--fix")
    assert result.stdout.count("\n") == 1
    assert result.stderr == (
        "fixed tickets/batch7/B7-PT-01.md: TK011 status 'Wont fix' is now 'wont-fix'\n"
        "fixed tickets/batch7/B7-PT-01.md: TK008 added the newline at the end\n"
        "1 ticket checked: 1 error, 0 warn, 0 info\n"
    )
    assert "`wont-fix` |" in (folder / "batch7" / "B7-PT-01.md").read_text("utf-8")
    assert run(*FORMS, "--fix").stderr == "1 ticket checked: 1 error, 0 warn, 0 info\n"


@pytest.mark.parametrize(
    ("arguments", "error", "hint"),
    [
        (["--select", "TK9x"], "no rule is named 'TK9x'", "did you mean TK09"),
        (["--ignore", "TK011,nonsense"], "no rule is named 'nonsense'", "docs/lint.md"),
        (["--fail-on", "eror"], "no such level: 'eror'", "did you mean error"),
        (["tickets/batch8"], "no such file or folder: tickets/batch8", "did you mean batch7"),
        (["B7-PT-11"], "no ticket B7-PT-11 in tickets", "did you mean B7-PT-01"),
        (["--tickets", "nowhere"], "no tickets folder: nowhere", "--tickets"),
        (["--checkout", "nowhere"], "no such directory: nowhere", ""),
    ],
)
def test_errors_teach_and_exit_2(folder: Path, arguments: list[str], error: str, hint: str) -> None:
    result = run(*arguments)
    assert (result.exit_code, result.stdout) == (2, "")
    assert result.stderr.startswith(f"error: {error}")
    assert hint in result.stderr


def test_lint_needs_nothing_that_is_slow_to_load(folder: Path) -> None:
    ended, loaded = run_watched(HEAVY, "ticket", "lint", "--select", "TK008", "--tickets", folder)
    assert (ended.code, loaded) == (0, [])
