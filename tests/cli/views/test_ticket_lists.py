"""`ticket list`, `show` and `next`: filters, orders, what to take, terminals, and the command lines without Typer."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import typer.main
from typer.testing import CliRunner

from auditkit.cli.ticket import app
from auditkit.cli.views.columns import age_of
from auditkit.cli.views.quick_start import NO, OPTIONS, TEXT, TEXTS, WHOLE, YES, parsed
from auditkit.cli.views.terminal import cut, width_of, wrapped
from auditkit.rules.tickets.consensus import Agreement
from auditkit.store.listing.selection import AGREEMENTS
from tests import terminal
from tests.filing_helpers import ROOT, put, ticket_text
from tests.written_tickets import write_tickets


def review(reviewer: str, verdict: str, words: str = "Seen.") -> str:
    return (
        f"\n## Cross-Review ({reviewer})\n\n| Field | Value |\n|---|---|\n| **Verdict** | `{verdict}` |\n"
        f"| **Reviewer** | {reviewer} |\n\n**Evaluation:** {words}\n"
    )


def related(kind: str, other: str) -> str:
    return (
        "\n## Related Findings\n\n| Ticket ID | Relationship | Notes |\n|---|---|---|\n"
        f"| `{other}` | `{kind}` | first |\n"
    )


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """1 is blocked by 2, 3 blocks 4 but is finished; 5 is objected to; 6 is put off."""
    tickets = tmp_path / "tickets"
    both = review("PyTorch Specialist", "ENDORSE") + review("DRL Specialist", "ENDORSE")
    against = review("PyTorch Specialist", "OBJECT") + review("DRL Specialist", "OBJECT")
    texts = {
        "B7-PT-01": ticket_text("B7-PT-01", severity="`P0`", extra=related("blocked-by", "B7-PT-02")),
        "B7-PT-02": ticket_text("B7-PT-02", severity="`P1`", title="a mask drops rows", extra=both),
        "B7-PT-03": ticket_text("B7-PT-03", status="`fixed`", extra=related("blocks", "B7-PT-04")),
        "B7-PT-04": ticket_text("B7-PT-04", severity="`P1`").replace("2026-01-02", "2025-06-01"),
        "B7-PT-05": ticket_text("B7-PT-05", severity="`P1`", extra=against).replace("2026-01-02", "2024-06-01"),
        "B7-PT-06": ticket_text("B7-PT-06", severity="`P0`", status="`deferred`").replace("ee** | |", "ee** | Kim |"),
    }
    texts["B7-PT-04"] = texts["B7-PT-04"].replace("`src/train/norms.py`", "`src/policy/head.py`")
    texts["B7-PT-04"] = texts["B7-PT-04"].replace("`train/telemetry`", "`policy`")
    for name, text in texts.items():
        put(tickets, f"batch7/{name}.md", text)
    return tickets


def run(*arguments: object) -> Any:
    return CliRunner().invoke(app, [str(argument) for argument in arguments])


def ids(folder: Path, *options: str) -> list[int]:
    result = run("list", "--tickets", folder, "--json", *options)
    assert result.exit_code == 0, result.stderr
    return [int(ticket["id"][-2:]) for ticket in json.loads(result.stdout)["tickets"]]


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        (["--domain", "train"], [1, 2, 3, 5, 6]),
        (["--domain", "tr"], []),
        (["--category", "numerical"], [1, 2, 3, 4, 5, 6]),
        (["--category", "leak"], []),
        (["--assignee", "kim"], [6]),
        (["--assignee", ""], [1, 2, 3, 4, 5]),
        (["--file", "policy/"], [4]),
        (["--file", "head.*"], [4]),
        (["--file", "train/*.py", "--limit", "1"], [1]),
        (["--text", "MASK", "--text", "squares"], [2]),
        (["--reviewer", "PyTorch Expert"], [2, 5]),
        (["--reviewer", "drl", "--verdict", "object"], [5]),
        (["--verdict", "REFINE"], []),
        (["--consensus", "unanimous"], [2, 5]),
        (["--consensus", "needs-answer"], [5]),
        (["--blocked"], [1]),
        (["--unblocked", "--severity", "P1"], [2, 4, 5]),
        (["--sort", "severity"], [1, 6, 2, 4, 5, 3]),
        (["--sort", "status"], [1, 2, 4, 5, 6, 3]),
        (["--sort", "age", "--limit", "2"], [5, 4]),
        (["--sort", "created", "--reverse", "--limit", "1"], [6]),
        (["--sort", "updated", "--limit", "1"], [5]),
        (["--reverse"], [6, 5, 4, 3, 2, 1]),
    ],
)
def test_filters_and_orders(folder: Path, options: list[str], expected: list[int]) -> None:
    assert ids(folder, *options) == expected


def test_a_question_of_the_reviewers_is_marked(folder: Path) -> None:
    lines = run("list", "--tickets", folder, "--severity", "P1").stdout.splitlines()
    assert lines == [
        "B7-PT-02  P1  open  pytorch     a mask drops rows",
        "B7-PT-04  P1  open  pytorch     sum of squares overflows",
        "B7-PT-05  P1  open  pytorch  !  sum of squares overflows",
    ]
    (ticket,) = json.loads(run("show", "B7-PT-05", "--tickets", folder, "--json").stdout)["tickets"]
    assert (ticket["consensus"], ticket["needs_answer"]) == ("unanimous", "2 of 2 reviewers object")


def test_json_says_who_blocks(folder: Path) -> None:
    listed = json.loads(run("list", "--tickets", folder, "--json").stdout)["tickets"]
    assert [ticket["blocked_by"] for ticket in listed] == [["B7-PT-02"], [], [], [], [], []]


def test_next_takes_the_worst_that_nothing_blocks(folder: Path) -> None:
    result = run("next", "--tickets", folder)
    assert result.exit_code == 0
    assert result.stdout == (
        "B7-PT-02  P1  open  pytorch  a mask drops rows\n"
        "  because: P1, unanimous ENDORSE, created 2026-01-02, nothing unfinished blocks it\n"
        "1 of 3 that can be taken; 1 more is blocked\n"
    )


def test_next_goes_on_by_consensus_and_age(folder: Path) -> None:
    document = json.loads(run("next", "--tickets", folder, "--limit", "9", "--json").stdout)
    # Unreviewed goes before one that reviewers object to, though that is older; deferred is not offered.
    assert [ticket["id"][-2:] for ticket in document["tickets"]] == ["02", "04", "05"]
    assert (document["unblocked"], document["blocked"]) == (3, 1)


def test_a_finished_blocker_sets_free(folder: Path) -> None:
    put(folder, "batch7/B7-PT-02.md", ticket_text("B7-PT-02", status="`fixed`"))
    assert run("next", "--tickets", folder).stdout.startswith("B7-PT-01  P0")


def test_nothing_to_take_is_said(folder: Path) -> None:
    result = run("next", "--tickets", folder, "--assignee", "Kim")
    assert (result.exit_code, result.stdout) == (0, "")
    assert result.stderr == "nothing to take: 0 unfinished, 0 of them blocked\n"


def test_next_names_broken_files(folder: Path) -> None:
    put(folder, "B7-PT-09.md", "no ticket\n")
    result = run("next", "--tickets", folder)
    assert result.exit_code == 2
    assert "B7-PT-09.md:1:1: no '## Ticket Metadata' section" in result.stderr


@pytest.mark.parametrize(
    ("options", "message", "hint"),
    [
        (["--sort", "idd"], "no such order: 'idd'", "did you mean id"),
        (["--verdict", "ENDRSE"], "no such verdict: 'ENDRSE'", "did you mean ENDORSE"),
        (["--consensus", "unanimus"], "no such consensus: 'unanimus'", "did you mean unanimous"),
    ],
)
def test_unknown_words_teach(folder: Path, options: list[str], message: str, hint: str) -> None:
    result = run("list", "--tickets", folder, *options)
    assert (result.exit_code, result.stdout) == (2, "")
    assert message in result.stderr
    assert hint in result.stderr


# What is listed, and how.


def listed(folder: Path, *options: str) -> tuple[list[str], str]:
    result = run("list", "--tickets", folder, *options)
    assert result.exit_code == 0, result.stderr
    return [line.split()[0] for line in result.stdout.splitlines()], result.stderr


def test_what_is_finished_is_listed_when_it_is_asked_for(folder: Path) -> None:
    """JSON has all tickets, as it always had: scripts tell them apart by their status."""
    unfinished = [f"B7-PT-0{number}" for number in (1, 2, 4, 5, 6)]
    assert listed(folder) == (unfinished, "1 finished is not listed: --all\n")
    assert listed(folder, "--open") == (unfinished, "")
    assert listed(folder, "--open", "--limit", "2") == (unfinished[:2], "2 of 5 tickets: --limit 5 shows all\n")
    assert listed(folder, "--closed") == (["B7-PT-03"], "")
    assert listed(folder, "--status", "fixed") == (["B7-PT-03"], "")
    assert len(listed(folder, "--all")[0]) == 6
    assert (ids(folder, "--open"), ids(folder, "--closed"), len(ids(folder))) == ([1, 2, 4, 5, 6], [3], 6)
    both = run("list", "--tickets", folder, "--all", "--closed")
    assert (both.exit_code, both.stderr.splitlines()[0]) == (2, "error: --open, --closed and --all exclude each other")


def test_values_with_commas_are_alternatives(folder: Path) -> None:
    assert ids(folder, "--severity", "P0,p1") == [1, 2, 4, 5, 6]
    assert ids(folder, "--status", "fixed,deferred") == [3, 6]
    assert ids(folder, "--batch", "6,7") == [1, 2, 3, 4, 5, 6]
    assert ids(folder, "--assignee", "kim,dana") == [6]
    wrong = run("list", "--tickets", folder, "--batch", "7,x")
    assert (wrong.exit_code, wrong.stderr.splitlines()[0]) == (2, "error: no such batch: 'x'")


def test_what_each_filter_matches_is_said_when_all_of_them_match_nothing(folder: Path) -> None:
    assert listed(folder, "--severity", "P0", "--file", "head.py") == (
        [],
        "no ticket matches all of: --severity P0 (2 of 6), --file head.py (1 of 6)\n",
    )
    assert listed(folder, "--severity", "P2") == ([], "nothing to list: 1 finished ticket is left out (--all)\n")


def test_columns_and_formats(folder: Path) -> None:
    put(folder, "batch7/B7-PT-07.md", ticket_text("B7-PT-07", title="=1+1 a|b <i>"))
    only = ["--severity", "P2", "--columns", "id,assignee,title"]
    assert run("list", "--tickets", folder, *only).stdout == "B7-PT-07    =1+1 a|b <i>\n"
    csv = run("list", "--tickets", folder, *only, "--format", "csv").stdout
    assert csv == "id,assignee,title\nB7-PT-07,,'=1+1 a|b <i>\n"
    assert run("list", "--tickets", folder, *only, "--format", "markdown").stdout == (
        "| id | assignee | title |\n| --- | --- | --- |\n| B7-PT-07 |  | =1+1 a\\|b &lt;i> |\n"
    )
    few = json.loads(run("list", "--tickets", folder, *only, "--json").stdout)
    assert few["tickets"][-1] == {"id": "B7-PT-07", "assignee": "", "title": "=1+1 a|b <i>"}
    wrong = run("list", "--tickets", folder, "--columns", "titel")
    assert (wrong.exit_code, wrong.stderr) == (
        2,
        "error: no such column: 'titel'\nhint: did you mean title, file, waits?\n",
    )
    assert run("list", "--tickets", folder, "--format", "json").stdout.startswith("{")


@pytest.mark.parametrize(
    ("days", "age"), [(-1, ""), (0, "0d"), (13, "13d"), (14, "2w"), (59, "8w"), (60, "2mo"), (729, "24mo"), (730, "2y")]
)
def test_ages_are_said_as_people_do(days: int, age: str) -> None:
    assert age_of(days) == age


# What lies among finished tickets.


def test_next_takes_last_what_lies_among_finished_tickets(folder: Path) -> None:
    """Its status or its folder is wrong; the rest keeps its order, in one table with a reason below each."""
    (folder / "batch7/B7-PT-02.md").rename(put(folder, "fixed/B7-PT-02.md", ""))
    shown = run("next", "--tickets", folder, "--limit", "3").stdout.splitlines()
    assert [line.split()[0] for line in shown[::2]] == ["B7-PT-04", "B7-PT-05", "B7-PT-02", "3"]
    assert shown[5].startswith("  because: unfinished in fixed/, so it comes last: one of the two is wrong, P1")
    told = "3 of 3 that can be taken; 1 of them in a folder for finished tickets, so last; 1 more is blocked"
    assert shown[6] == told


# The board.


def test_the_board_has_a_column_for_each_status_and_counts_what_is_finished(folder: Path) -> None:
    result = run("board", "--tickets", folder, "--limit", "3")
    assert result.stdout == (
        "open (4)\n"
        "  B7-PT-01  P0  open  pytorch     sum of squares overflows\n"
        "  B7-PT-05  P1  open  pytorch  !  sum of squares overflows\n"
        "  B7-PT-04  P1  open  pytorch     sum of squares overflows\n"
        "  1 more\n"
        "deferred (1)\n"
        "  B7-PT-06  P0  deferred  pytorch  sum of squares overflows\n"
    )
    assert result.stderr == "1 fixed (finished: --all)\n"
    document = json.loads(run("board", "--tickets", folder, "--all", "--json").stdout)
    assert {column["status"]: len(column["tickets"]) for column in document["columns"]} == {
        "open": 4, "deferred": 1, "fixed": 1
    }  # fmt: skip


@pytest.mark.process
def test_a_terminal_shows_columns_beside_each_other(folder: Path) -> None:
    settings = {"COLUMNS": "60", "NO_COLOR": "1", "LINES": "80"}
    lines = on_a_terminal(folder, settings, "board").splitlines()
    assert lines[0] == "open 4                         deferred 1"
    assert lines[2:4] == [
        "B7-PT-01 P0                    B7-PT-06 P0 Kim",
        "sum of squares overflows       sum of squares overflows",
    ]


# The whole text.


def found(folder: Path, *words: str) -> tuple[list[str], str]:
    result = run("search", "--tickets", folder, *words)
    assert result.exit_code == 0, result.stderr
    return [line.split()[0] for line in result.stdout.splitlines() if not line.startswith(" ")], result.stderr


def test_search_finds_words_anywhere_in_a_ticket(folder: Path) -> None:
    """Every word has to be there, in any case, and a phrase may go over the end of a line."""
    put(folder, "batch7/B7-PT-07.md", ticket_text("B7-PT-07", extra="\nThe Straße is\n  long and inf.\n"))
    assert found(folder, "STRASSE") == (["B7-PT-07"], "")
    assert found(folder, "is long", "inf") == (["B7-PT-07"], "")
    assert found(folder, "long is") == ([], "no ticket holds 'long is'\n")
    assert found(folder, "long", "mask") == ([], "no ticket holds 'long' and 'mask'\n")
    # The text of a ticket that changes is not the one that was kept.
    put(folder, "batch7/B7-PT-07.md", ticket_text("B7-PT-07", extra="\nshort\n"))
    assert found(folder, "straße") == ([], "no ticket holds 'straße'\n")
    assert found(folder, "short")[0] == ["B7-PT-07"]
    (folder / "batch7/B7-PT-07.md").unlink()
    assert found(folder, "short")[0] == []


def test_search_shows_lines_and_puts_titles_first(folder: Path) -> None:
    result = run("search", "--tickets", folder, "overflow", "--limit", "2")
    assert result.stdout == (
        "B7-PT-01  P0  open      pytorch  sum of squares overflows\n"
        "  33: **One-line summary:** squares of `x | y` overflow.\n"
        "B7-PT-06  P0  deferred  pytorch  sum of squares overflows\n"
        "  33: **One-line summary:** squares of `x | y` overflow.\n"
    )
    assert result.stderr == "2 of 6 tickets that hold 'overflow': --limit 6 shows all\n"
    document = json.loads(run("search", "--tickets", folder, "mask", "--json").stdout)
    assert (document["count"], document["tickets"][0]["id"]) == (1, "B7-PT-02")
    assert document["tickets"][0]["matches"] == [{"line": 1, "text": "# Finding Ticket: a mask drops rows"}]
    assert found(folder, "overflow", "--closed")[0] == ["B7-PT-03"]
    assert found(folder, "mask", "--closed") == ([], "1 ticket holds 'mask', which the filters leave out\n")
    assert run("search", "--tickets", folder, " ").exit_code == 2


# Reviews of other evidence.


@pytest.fixture
def reviewed(folder: Path) -> Path:
    """7 and 8 are judged as they are; then what 8 claims changes."""
    for name in ("B7-PT-07", "B7-PT-08"):
        put(folder, f"batch7/{name}.md", ticket_text(name, fingerprint="p/1/t"))
        assert run("review", name, "--reviewer", "drl", "--verdict", "object", "--tickets", folder).exit_code == 0
    path = folder / "batch7/B7-PT-08.md"
    path.write_text(path.read_text().replace("| `norm` | inf |", "| `norm` | 7 |"))
    return folder


def test_stale_reviews_are_found(reviewed: Path) -> None:
    assert ids(reviewed, "--stale") == [8]
    assert ids(reviewed, "--stale", "--severity", "P0") == []
    listed = json.loads(run("list", "--tickets", reviewed, "--json", "--verdict", "OBJECT").stdout)["tickets"]
    stale = {ticket["id"]: [review["is_stale"] for review in ticket["reviews"]] for ticket in listed}
    assert stale == {"B7-PT-05": [False, False], "B7-PT-07": [False], "B7-PT-08": [True]}


def test_a_stale_review_is_called_so(reviewed: Path) -> None:
    text = (reviewed / "batch7/B7-PT-08.md").read_text()
    line = 1 + text.split("\n").index("| **Verdict** | `OBJECT` |")
    shown = run("show", "B7-PT-08", "--tickets", reviewed)
    assert shown.stdout == text
    assert shown.stderr.startswith("stale: the review by ")
    assert shown.stderr.endswith(f" in line {line} judged other evidence\n")
    assert run("show", "B7-PT-07", "--tickets", reviewed).stderr == ""
    (ticket,) = json.loads(run("show", "B7-PT-08", "--tickets", reviewed, "--json").stdout)["tickets"]
    assert [review["is_stale"] for review in ticket["reviews"]] == [True]


@pytest.mark.process
def test_a_terminal_shows_it_beside_the_review(reviewed: Path) -> None:
    noted = "Verdict   OBJECT  \x1b[33mstale\x1b[0m"
    assert noted in on_a_terminal(reviewed, {"PAGER": "cat"}, "show", "B7-PT-08").split("\n")
    assert "stale" not in on_a_terminal(reviewed, {"PAGER": "cat"}, "show", "B7-PT-07")


# Agents of the project's own.


def test_agents_of_the_configuration_are_known(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = ticket_text("B7-SEC-01").replace("| **Agent** | `pytorch` |", "| **Agent** | `security` |")
    put(folder, "batch7/B7-SEC-01.md", text)
    monkeypatch.chdir(folder.parent)
    # The control: without the file nobody knows that SEC is security.
    assert json.loads(run("list", "--agent", "SEC", "--json").stdout)["tickets"] == []
    put(folder.parent, "auditkit.yaml", "agents:\n  SEC: security\n")
    for words in ("SEC", "security", "Security"):
        (ticket,) = json.loads(run("list", "--agent", words, "--json").stdout)["tickets"]
        assert ticket["id"] == "B7-SEC-01"
        assert run("next", "--agent", words).stdout.startswith("B7-SEC-01")
    assert "B7-PT-02" in run("next", "--agent", "PT").stdout


# Files with several problems.


def test_every_problem_of_a_broken_file_is_named(folder: Path) -> None:
    rows = "| **Severity** | `P1` |\n<<<<<<< ours\n| **Status** | `open` |\n=======\n>>>>>>> theirs\n"
    text = ticket_text("B7-PT-09") + rows + "<<<<<<< ours\n=======\n>>>>>>> theirs\n"
    put(folder, "B7-PT-09.md", text)
    result = run("list", "--tickets", folder, "--json")
    problems = [f"{one['path']}:{one['line']}:{one['column']}" for one in json.loads(result.stdout)["broken"]]
    conflicts = [number for number, line in enumerate(text.split("\n"), start=1) if line.startswith("<<<<<<<")]
    assert problems == [f"B7-PT-09.md:{line}:1" for line in conflicts]
    assert [f"{folder}/{problem}: " in result.stderr for problem in problems] == [True, True]


# Without Typer.


def options_of(command: Any) -> Iterator[tuple[str, tuple[str, str]]]:
    """What Typer itself knows of a command's options, in the words of the table."""
    for parameter in command.params:
        if parameter.param_type_name != "option" or parameter.name == "help":
            continue
        kind = WHOLE if parameter.type.name.startswith("int") else TEXTS if parameter.multiple else TEXT
        for name in parameter.opts:
            yield name, (parameter.name, YES if parameter.is_flag else kind)
        for name in parameter.secondary_opts:
            yield name, (parameter.name, NO)


@pytest.mark.parametrize("command", sorted(OPTIONS))
def test_the_table_of_options_is_typers(command: str) -> None:
    known = dict(options_of(typer.main.get_command(app).commands[command]))  # type: ignore[attr-defined]
    assert known == OPTIONS[command]


def test_the_kinds_of_consensus_are_those_of_the_rules() -> None:
    assert list(AGREEMENTS[:-1]) == [kind.value for kind in Agreement]


@pytest.mark.parametrize(
    ("words", "values"),
    [
        ("ticket list", {}),
        ("ticket list --status open --status fixed --limit 3", {"status": ["open", "fixed"], "limit": 3}),
        ("ticket list --unblocked --json --batch 7", {"blocked": False, "as_json": True, "batch": ["7"]}),
        ("ticket show B7-PT-01 --tickets x", {"ticket_id": "B7-PT-01", "tickets": "x"}),
        ("ticket next --limit 2", {"limit": 2}),
        ("ticket search norm inf --open", {"words": ["norm", "inf"], "unfinished": True}),
        ("ticket board --all", {"every": True}),
        # Anything else is Typer's: help, mistakes, other commands, other spellings.
        ("ticket list --help", None),
        ("ticket list --status", None),
        ("ticket list --status --json", None),
        ("ticket list --limit 0", None),
        ("ticket list --status=open", None),
        ("ticket list more", None),
        ("ticket show", None),
        ("ticket show one two", None),
        ("ticket search --open", None),
        ("ticket board more", None),
        ("ticket status B7-PT-01", None),
        ("ticket", None),
        ("", None),
    ],
)
def test_plain_command_lines_are_read_and_others_left_to_typer(words: str, values: dict[str, Any] | None) -> None:
    assert parsed(words.split()) == values


LOADED = """
import sys
sys.argv = ["auditkit", *sys.argv[1:]]
from auditkit.cli.main import main
try:
    main()
finally:
    names = ("torch", "numpy", "jinja2", "rich", "yaml", "pydantic", "typer", "click", "dataclasses", "re")
    print([name for name in names if name in sys.modules], file=sys.stderr)
"""


@pytest.mark.process
@pytest.mark.parametrize(
    "words", ["list", "list --status open --text mask", "show B1-PT-01", "next", "next --limit 5", "board"]
)
def test_a_warm_command_loads_next_to_nothing(tmp_path: Path, words: str) -> None:
    write_tickets(tmp_path, 5)
    for path in tmp_path.rglob("*.md"):
        os.utime(path)
    command = [sys.executable, "-c", LOADED, "ticket", *words.split(), "--tickets", str(tmp_path)]
    subprocess.run(command, cwd=ROOT, check=True, capture_output=True)
    import time

    # Until the files are older than a tick of their clock, they are read again.
    time.sleep(0.15)
    subprocess.run([*command[:4], "list", *command[-2:]], cwd=ROOT, check=True, capture_output=True)
    done = subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True)
    assert done.stderr.splitlines()[-1] == "[]"
    assert done.stdout


@pytest.mark.process
def test_both_ways_print_the_same(folder: Path) -> None:
    lines = ("list", "list --json", "list --all --columns id,age", "show B7-PT-01", "next --limit 2", "show B7-PT-99")
    for words in map(str.split, (*lines, "search squares --limit 1", "board", "show B7-PT-99 --json")):
        command = [sys.executable, "-m", "auditkit", "ticket", *words, "--tickets", str(folder)]
        direct = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
        typed = run(*words, "--tickets", folder)
        assert (direct.returncode, direct.stdout, direct.stderr) == (typed.exit_code, typed.stdout, typed.stderr)


# On a terminal.


def on_a_terminal(folder: Path, environment: dict[str, str], *words: str) -> str:
    settings = {"LINES": "40"} | environment
    return terminal.on_a_terminal(["ticket", *words, "--tickets", str(folder)], columns=60, **settings)


@pytest.mark.process
def test_a_terminal_gets_colours_and_titles_that_end_between_words(tmp_path: Path) -> None:
    """The agent and the age give way to the title, which takes one line; NO_COLOR is the same without colours."""
    text = ticket_text("B7-PT-01", severity="`P0`", title="seven words " * 7).replace("2026-01-02", "soon")
    put(tmp_path, "B7-PT-01.md", text)
    (line,) = on_a_terminal(tmp_path, {}, "list").splitlines()[1:]
    assert line == ("B7-PT-01  \x1b[1;91mP0\x1b[0m   \x1b[1mopen\x1b[0m    seven words seven words seven words…")
    plain = on_a_terminal(tmp_path, {"NO_COLOR": "1"}, "list").splitlines()
    assert plain == ["id        sev  status  title", "B7-PT-01  P0   open    seven words seven words seven words…"]


@pytest.mark.process
@pytest.mark.parametrize("width", [40, 60, 80, 120])
def test_nothing_is_wider_than_the_terminal_or_cut_inside_a_word(tmp_path: Path, width: int) -> None:
    write_tickets(tmp_path, 12)
    told = {word for path in tmp_path.rglob("*.md") for word in path.read_text().split()}
    settings = {"COLUMNS": str(width), "NO_COLOR": "1", "PAGER": "cat", "LINES": "400"}
    for words in ("list --all", "board --all", "next --limit 3", "search gradient"):
        lines = on_a_terminal(tmp_path, settings, *words.split()).splitlines()
        assert max(map(len, lines)) <= width, words
        if words.startswith("list"):
            titles = {word for line in lines[1:] for word in line.split()[-4:] if word[0].islower()}
            assert {title.removesuffix("…") for title in titles} <= told | {word.lower() for word in told}


def columns(text: str, width: int) -> list[int]:
    lines = wrapped(text, width)
    assert "".join(lines).replace(" ", "") == text.replace(" ", "")
    return [width_of(line) for line in lines]


def test_long_words_are_cut_to_the_width() -> None:
    assert wrapped("one two three", 7) == ["one two", "three"]
    assert wrapped("a" * 10 + " b c", 4) == ["aaaa", "aaaa", "aa b", "c"]
    assert wrapped("compute_grad_norm", 10) == ["compute_", "grad_norm"]
    assert [cut("one two three", width) for width in (13, 12, 8, 3)] == ["one two three", "one two…", "one two…", "on…"]
    assert (wrapped("日本語", 4), wrapped("日本", 1), wrapped("", 4)) == (["日本", "語"], ["日", "本"], [""])
    assert columns("x" * 1_000_000, 20) == [20] * 50_000
    assert columns("日" * 300_000 + "x", 20) == [20] * 30_000 + [1]
    assert columns("x " * 300_000 + "x", 20) == [19] * 30_000 + [1]


@pytest.mark.process
def test_a_long_list_goes_through_the_pager(tmp_path: Path) -> None:
    write_tickets(tmp_path, 30)
    pager = {"PAGER": "sed s/^/paged:/", "LINES": "10", "COLUMNS": "200"}
    assert on_a_terminal(tmp_path, pager, "list", "--all").count("paged:") > 30
    assert "paged:" not in on_a_terminal(tmp_path, pager, "list", "--limit", "3")
    assert "paged:" not in on_a_terminal(tmp_path, {"PAGER": "cat", "LINES": "10"}, "list")
    assert on_a_terminal(tmp_path, {"PAGER": "/no/such/pager", "LINES": "10"}, "list", "--all").count("B1-") == 30


@pytest.mark.process
def test_show_colours_headings_but_not_what_a_fence_holds(folder: Path) -> None:
    shown = on_a_terminal(folder, {"PAGER": "cat"}, "show", "B7-PT-01")
    assert "\x1b[1m\x1b[36m## Location\x1b[0m" in shown
    assert "\x1b[2m# Lines 10-12\x1b[0m" in shown
    plain = on_a_terminal(folder, {"PAGER": "cat", "NO_COLOR": "1"}, "show", "B7-PT-01")
    assert "\x1b" not in plain
    raw = on_a_terminal(folder, {"PAGER": "cat", "NO_COLOR": "1"}, "show", "B7-PT-01", "--raw")
    assert raw == (folder / "batch7/B7-PT-01.md").read_text()


@pytest.mark.process
def test_show_begins_with_what_decides_and_leaves_out_what_says_nothing(folder: Path) -> None:
    settings = {"PAGER": "cat", "NO_COLOR": "1", "COLUMNS": "80"}
    head, _, body = on_a_terminal(folder, settings, "show", "B7-PT-01").partition("\n\n")
    lines = head.splitlines()
    assert lines[0] == "B7-PT-01  sum of squares overflows"
    assert (lines[1].split()[:2], lines[1].split()[-1]) == (["P0", "open"], "pytorch")
    assert lines[2:] == ["reviews: none", "blocked by: B7-PT-02", "file: batch7/B7-PT-01.md"]
    # The row without an assignee goes, and of the categories the one that nobody ticked; what is to be done stays.
    assert "Assignee" not in body
    assert "- [X] Numerical stability\n(1 not ticked)\n" in body
    assert "- [ ] a test" in body
    assert on_a_terminal(folder, settings, "show", "B7-PT-02").splitlines()[2:4] == [
        "reviews: unanimous: ENDORSE by pytorch, ENDORSE by drl",
        "blocks: B7-PT-01",
    ]
