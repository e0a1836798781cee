"""`auditkit ticket stats`: counts in a pipe, on a terminal, as JSON and Markdown, and pages that are wrong."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator
from typer.testing import CliRunner

from auditkit.cli.ticket import app
from auditkit.rules.counting.statistics import statistics_of
from auditkit.store.folder.repository import Repository
from auditkit.workflows.tickets.statistics import folder_statistics
from tests.filing_helpers import ROOT, corpus_folder, put, ticket_text

CORPUS = corpus_folder()
SCHEMA = json.loads((ROOT / "docs" / "schema" / "ticket_stats.schema.json").read_text("utf-8"))
REVIEWS = """
## Cross-Review (DRL Specialist)

| Field | Value |
|-------|-------|
| **Verdict** | **OBJECT** |

**Evaluation:** Not reachable.

## Cross-Review: PyTorch Specialist

| Field | Value |
|-------|-------|
| **Verdict** | **OBJECT** |

**Evaluation:** Guarded by the caller.
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    tickets = tmp_path / "tickets"
    put(tickets, "batch7/B7-PT-01.md", ticket_text("B7-PT-01", extra=REVIEWS))
    put(tickets, "batch7/B7-PT-02.md", ticket_text("B7-PT-02", status="`wontfix`", severity="`P1`"))
    hostile = ticket_text("B6-CR-10", severity="`P1`").replace("`pytorch`", "`code-review`")
    put(tickets, "batch6/B6-CR-10.md", hostile.replace("`train/telemetry`", "`<b>a|b\x1b[2J</b>`"))
    put(tickets, "SUMMARY.md", "# Summary\n\n| Severity | Count |\n|---|---|\n| P1 | 3 |\n| P2 | 1 |\n")
    return tickets


def run(*arguments: object) -> Any:
    return CliRunner().invoke(app, ["stats", *map(str, arguments)])


def test_counts_in_a_pipe(folder: Path) -> None:
    result = run("--tickets", folder, "--by", "severity", "--by", "status", "--by", "consensus")
    assert result.exit_code == 0
    assert result.stdout == (
        "tickets  3\n\n"
        "severity  count     %\n"
        "P1            2  66.7\n"
        "P2            1  33.3\n\n"
        "status    count     %\n"
        "open          2  66.7\n"
        "wont-fix      1  33.3\n\n"
        "consensus  count     %\n"
        "unanimous      1  33.3\n"
        "none           2  66.7\n\n"
        "severity by status  open  wont-fix\n"
        "P1                     1         1\n"
        "P2                     1         0\n"
    )


def test_counts_as_json(folder: Path) -> None:
    result = run("--tickets", folder, "--json")
    document = json.loads(result.stdout)
    Draft202012Validator(SCHEMA).validate(document)
    assert (document["total"], document["votes"], document["broken"]) == (3, 2, [])
    assert document["by"]["verdict"] == [{"label": "OBJECT", "count": 2, "percent": 100.0}]
    assert document["by"]["domain"][0] == {"label": "train", "count": 2, "percent": 66.7}
    assert document["severity_by_status"] == {"P1": {"open": 1, "wont-fix": 1}, "P2": {"open": 1}}


def test_hostile_words_are_inert_in_every_form(folder: Path) -> None:
    for form in ((), ("--markdown",), ("--json",)):
        shown = run("--tickets", folder, *form).stdout
        assert "\x1b" not in shown
    assert "| \\<b>a\\|b\\x1b[2J" in run("--tickets", folder, "--markdown").stdout


def test_the_page_that_stats_writes_is_right(folder: Path, tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text(run("--tickets", folder, "--markdown").stdout, encoding="utf-8")
    result = run("--tickets", folder, "--against", page)
    assert (result.exit_code, result.stdout) == (0, "")
    assert result.stderr.endswith(": 33 right, 0 wrong, 0 contradictions, 0 not checked\n")
    page.write_text(page.read_text("utf-8").replace("| P1 | 2 |", "| P1 | 9 |"), encoding="utf-8")
    assert run("--tickets", folder, "--against", page).exit_code == 1


def test_a_page_that_is_wrong(folder: Path) -> None:
    page = folder / "SUMMARY.md"
    result = run("--tickets", folder, "--against", page)
    assert result.exit_code == 1
    assert result.stdout == f"{page}:5:8: says 3, is 2: P1 tickets\n"
    assert result.stderr == f"{page}: 1 right, 1 wrong, 0 contradictions, 0 not checked\n"
    document = json.loads(run("--tickets", folder, "--against", page, "--json").stdout)
    Draft202012Validator(SCHEMA).validate(document)
    assert document["pages"] == [
        {
            "path": page.as_posix(),
            "right": 1,
            "wrong": [{"line": 5, "column": 8, "message": "says 3, is 2: P1 tickets"}],
            "contradictions": [],
            "not_checked": [],
        }
    ]


def test_what_could_not_be_checked_is_named_and_is_no_error(folder: Path) -> None:
    page = put(folder, "notes.md", "# Notes\n\nWe closed 12 tickets.\n")
    result = run("--tickets", folder, "--against", page)
    assert result.exit_code == 0
    assert result.stdout.startswith(f"{page}:3:11: not checked: 12: ")


def test_a_contradiction_is_an_error(folder: Path) -> None:
    page = put(folder, "notes.md", "# Notes\n\nAll 3 tickets.\n\n| Severity | Count |\n|---|---|\n| P1 | 2 |\n")
    result = run("--tickets", folder, "--against", page)
    assert result.exit_code == 1
    assert result.stdout == f"{page}:7:8: contradiction: the counts by severity sum up to 2, the total says 3\n"


def test_a_broken_file_makes_every_form_exit_2(folder: Path) -> None:
    put(folder, "B7-PT-03.md", b"# Finding Ticket: caf\xe9\n")
    for form in ((), ("--json",), ("--markdown",), ("--against", folder / "SUMMARY.md")):
        result = run("--tickets", folder, *form)
        assert result.exit_code == 2
        assert "B7-PT-03.md:1:22: " in result.stderr


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--by", "sevrity"), "error: no such field: 'sevrity'\nhint: did you mean severity"),
        (("--against", "none.md"), "error: cannot read none.md: No such file or directory"),
        (("--against", "."), "error: cannot read .: Is a directory"),
        (("--against", "x.md", "--markdown"), "error: --against goes with neither --by nor --markdown"),
        (("--json", "--markdown"), "error: --json and --markdown exclude each other"),
    ],
)
def test_wrong_usage_is_one_line(folder: Path, options: tuple[str, ...], message: str) -> None:
    result = run("--tickets", folder, *options)
    assert (result.exit_code, bool(result.stdout)) == (2, "--json" in options)
    assert result.stderr.startswith(message)


# The corpus is a part of its project, so nearly every figure of that page is wrong here. These were counted
# by other means: `grep -l` over the files for severities and agents.
@pytest.mark.skipif(CORPUS is None, reason="no corpus on this machine")
def test_a_real_summary_page() -> None:
    assert CORPUS is not None
    page = CORPUS / "tickets" / "SUMMARY.md"
    result = run("--tickets", CORPUS / "tickets", "--against", page, "--json")
    assert result.exit_code == 1
    (checked,) = json.loads(result.stdout)["pages"]
    wrong = {(one["line"], one["column"]): one["message"] for one in checked["wrong"]}
    assert wrong[12, 31] == "says 326, is 152: tickets"
    assert wrong[23, 12] == wrong[32, 24] == "says 34, is 9: P1 tickets"
    assert wrong[38, 56] == "says 64%, is 70.4% (107 of 152): P3/P4 tickets"
    assert wrong[47, 21] == "says 95, is 46: codereview tickets"
    assert wrong[75, 49] == "says 29, is 9: Correctness bug tickets"
    assert wrong[124, 6] == "says 35, is 9: P0/P1 tickets"
    assert [(one["line"], one["message"]) for one in checked["contradictions"]] == [
        (22, "the counts by severity sum up to 302, the total says 326"),
        (46, "the counts by agent sum up to 292, the total says 326"),
    ]
    unchecked = [one["line"] for one in checked["not_checked"]]
    assert unchecked == [14, 92, 93, 94, 95, 96, 118]
    # 7 of 152 happen to be the 4.6% that the page says of 326.
    assert (checked["right"], len(wrong)) == (1, 65)


@pytest.mark.skipif(CORPUS is None, reason="no corpus on this machine")
def test_real_batch_reports() -> None:
    assert CORPUS is not None
    tickets = CORPUS / "tickets"
    result = run("--tickets", tickets, "--against", tickets / "batch6-codereview.md")
    assert result.exit_code == 1
    assert [line.rpartition("/")[2] for line in result.stdout.splitlines()] == [
        "batch6-codereview.md:23:23: says 4, is 5: batch 6, codereview, P3 tickets"
    ]
    assert run("--tickets", tickets, "--against", tickets / "batch2-drl.md").exit_code == 0


@pytest.mark.skipif(CORPUS is None, reason="the corpus of real tickets is not on this machine")
def test_figures_by_the_index_are_those_of_the_tickets() -> None:
    assert CORPUS is not None
    repository = Repository(CORPUS / "tickets")
    assert folder_statistics(repository).statistics == statistics_of(repository.listing().tickets)
