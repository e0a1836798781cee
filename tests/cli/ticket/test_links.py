"""Links and numbers on the command line: both files change, or none."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from auditkit.cli.ticket import app
from auditkit.store.folder.repository import Repository
from tests.filing_helpers import ROOT, put, ticket_text

pytestmark = pytest.mark.process


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for number in (1, 2):
        put(tmp_path / "tickets", f"batch7/B7-PT-0{number}.md", ticket_text(f"B7-PT-0{number}"))
    return tmp_path / "tickets"


def run(folder: Path, *arguments: object) -> Any:
    return CliRunner().invoke(app, [*map(str, arguments), "--tickets", str(folder)])


def contents(folder: Path) -> dict[str, str]:
    return {path.relative_to(folder).as_posix(): path.read_text() for path in sorted(folder.rglob("*.md"))}


def test_both_sides_say_what_the_other_is(folder: Path) -> None:
    before = contents(folder)
    result = run(folder, "link", "B7-PT-01", "blocks", "b7-pt-02", "--note", "same helper")
    assert (result.exit_code, result.stdout) == (0, "B7-PT-01 blocks B7-PT-02\n")
    first, second = contents(folder).values()
    assert first.endswith("## Related Findings\n\n- blocks B7-PT-02: same helper\n")
    assert second.endswith("## Related Findings\n\n- blocked-by B7-PT-01: same helper\n")
    again = run(folder, "link", "B7-PT-02", "Blocked by", "B7-PT-01", "--json")
    assert json.loads(again.stdout)["changed"] is False
    assert run(folder, "link", "B7-PT-01", "blocks", "B7-PT-02", "--remove").stdout.endswith("not linked any more\n")
    assert all(text.endswith("## Related Findings\n\nNone.\n") for text in contents(folder).values())
    # Everything above the section that the link made is as it was.
    assert {name: text.split("\n\n---\n\n## Related")[0] + "\n" for name, text in contents(folder).items()} == before


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["B7-PT-01", "blocks", "B7-PT-01"], "cannot be linked to itself"),
        (["B7-PT-01", "blocks", "B7-PT-09"], "no ticket B7-PT-09"),
        (["B7-PT-01", "block", "B7-PT-02"], "did you mean block"),
    ],
)
def test_a_link_that_cannot_be_is_refused(folder: Path, arguments: list[str], message: str) -> None:
    before = contents(folder)
    result = run(folder, "link", *arguments)
    assert (result.exit_code, message in result.stderr) == (2, True)
    assert contents(folder) == before


REPORT = "# Report\n\nB7-PT-01, `B7-PT-01`, (B7-PT-01.md) but not B7-PT-011, XB7-PT-01 or B7-PT-01-a.\n"


def test_a_number_changes_everywhere(folder: Path) -> None:
    """File name, rows, mentions in tickets, reports and files that are broken; nothing else."""
    put(folder, "report.md", REPORT)
    put(folder, "batch7/B7-PT-05.md", "# Finding Ticket: broken, see B7-PT-01\n")
    run(folder, "link", "B7-PT-02", "blocks", "B7-PT-01")
    before = contents(folder)
    result = run(folder, "renumber", "B7-PT-01", "--json")
    document = json.loads(result.stdout)
    assert (result.exit_code, document["old"], document["id"]) == (0, "B7-PT-01", "B7-PT-06")
    assert document["path"] == str(folder / "batch7/B7-PT-06.md")
    named = ("batch7/B7-PT-02.md", "batch7/B7-PT-05.md", "report.md")
    assert sorted(document["references"]) == [str(folder / name) for name in named]
    after = contents(folder)
    assert after.pop("report.md") == REPORT.replace("B7-PT-01", "B7-PT-06", 3)
    del before["report.md"]
    moved = "B7-PT-01", "B7-PT-06"
    assert after == {name.replace(*moved): text.replace(*moved) for name, text in before.items()}
    assert run(folder, "renumber", "B7-PT-06", "B7-PT-01").exit_code == 0
    assert contents(folder) == {**before, "report.md": REPORT}


def test_another_batch_and_agent_change_their_rows_and_the_folder(folder: Path) -> None:
    result = run(folder, "renumber", "B7-PT-01", "b8-drl-03")
    assert result.stdout == f"B7-PT-01 -> B8-DRL-03: {folder}/batch8/B8-DRL-03.md\n"
    assert not (folder / "batch7/B7-PT-01.md").exists()
    ticket = Repository(folder).find("B8-DRL-03").ticket
    assert (ticket.batch, ticket.agent) == (8, "drl")


def test_of_two_files_with_one_id_the_named_one_changes(folder: Path) -> None:
    put(folder, "fixed/B7-PT-01.md", ticket_text("B7-PT-01"))
    put(folder, "report.md", REPORT)
    assert run(folder, "renumber", "B7-PT-01").exit_code == 4
    result = run(folder, "renumber", folder / "fixed/B7-PT-01.md")
    assert (result.exit_code, "mentions elsewhere stay" in result.stdout) == (0, True)
    assert (folder / "fixed/B7-PT-03.md").is_file()
    assert (folder / "batch7/B7-PT-01.md").is_file()
    assert (folder / "report.md").read_text() == REPORT


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["B7-PT-01", "B7-PT-02"], "B7-PT-02 is taken here"),
        (["B7-PT-01", "B7-PT-01"], "B7-PT-01 is taken here"),
        (["B7-PT-01", "seven"], "not a ticket id: 'seven'"),
        (["B7-PT-09"], "no ticket B7-PT-09"),
        (["nowhere.md"], "not a ticket id: 'nowhere.md'"),
    ],
)
def test_a_number_that_cannot_be_is_refused(folder: Path, arguments: list[str], message: str) -> None:
    before = contents(folder)
    result = run(folder, "renumber", *arguments)
    assert (result.exit_code, message in result.stderr) == (2, True)
    assert contents(folder) == before


def test_a_number_on_another_branch_is_taken(folder: Path) -> None:
    def git(*arguments: str) -> None:
        subprocess.run(["git", "-c", "user.name=a", "-c", "user.email=a@b", *arguments], cwd=folder, check=True)

    git("init", "--quiet")
    put(folder, "batch7/B7-PT-07.md", ticket_text("B7-PT-07"))
    git("add", "batch7/B7-PT-07.md")
    git("commit", "--quiet", "-m", "seven")
    git("checkout", "--quiet", "--orphan", "other")
    git("rm", "--quiet", "--cached", "batch7/B7-PT-07.md")
    (folder / "batch7/B7-PT-07.md").unlink()
    git("add", "batch7/B7-PT-02.md")
    git("commit", "--quiet", "-m", "two")
    result = run(folder, "renumber", "B7-PT-01", "B7-PT-07")
    assert (result.exit_code, "B7-PT-07 is taken on a local branch" in result.stderr) == (2, True)
    assert "the next free one: B7-PT-08" in result.stderr


def test_where_a_mention_cannot_be_written_nothing_changes(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    put(folder, "batch7/a.md", REPORT)
    put(folder, "batch7/z.md", REPORT)
    before = contents(folder)
    replace = os.replace

    def full_disk(source: str, target: Path) -> None:
        if Path(target).name == "z.md":
            raise OSError(28, "No space left on device", str(target))
        replace(source, target)

    monkeypatch.setattr(os, "replace", full_disk)
    assert run(folder, "renumber", "B7-PT-01").exit_code == 4
    assert contents(folder) == before


KILLED = """
import os, signal, sys
from auditkit.workflows.tickets import renumber
step, calls = sys.argv[1], []
def killing(name, real):
    def run(*words):
        calls.append(name)
        if step == f"{name} {calls.count(name)}":
            os.kill(os.getpid(), signal.SIGKILL)
        return real(*words)
    return run
renumber.replace_file = killing("replace", renumber.replace_file)
renumber.move_file = killing("move", renumber.move_file)
sys.argv = ["auditkit", *sys.argv[2:]]
from auditkit.cli.main import main
main()
"""


@pytest.mark.parametrize("new", [(), ("B7-PT-06",)], ids=["next", "named"])
@pytest.mark.parametrize("name", ["B7-PT-01.md", "odd.md"])
@pytest.mark.parametrize("step", ["replace 1", "replace 2", "replace 3", "move 1"])
def test_a_renumbering_that_was_killed_is_finished_by_the_same_command(
    folder: Path, step: str, name: str, new: tuple[str, ...]
) -> None:
    """Before each write: no id is in two files in between, and afterwards nothing tells of the kill."""
    (folder / "batch7/B7-PT-01.md").rename(folder / "batch7" / name)
    put(folder, "batch7/B7-PT-05.md", ticket_text("B7-PT-05"))
    put(folder, "a_report.md", REPORT)
    run(folder, "link", "B7-PT-02", "blocks", "B7-PT-01")
    words = ["ticket", "renumber", "B7-PT-01", *new, "--tickets", str(folder)]
    before = contents(folder)
    expected = {n.replace(name, "B7-PT-06.md"): t.replace("B7-PT-01", "B7-PT-06") for n, t in before.items()}
    expected["a_report.md"] = REPORT.replace("B7-PT-01", "B7-PT-06", 3)
    killed = subprocess.run([sys.executable, "-c", KILLED, step, *words], cwd=ROOT, capture_output=True, check=False)
    assert killed.returncode == -signal.SIGKILL
    ids = [ticket.id for ticket in Repository(folder).listing().tickets]
    assert len(ids) == len(set(ids)) == 3
    is_begun = step not in ("replace 1", *(["move 1"] if name == "odd.md" else []))
    if is_begun:
        # What was begun keeps its number, whatever the next free one is now.
        expected["batch7/B7-PT-07.md"] = put(folder, "batch7/B7-PT-07.md", ticket_text("B7-PT-07")).read_text()
    result = run(folder, *words[1:-2])
    assert result.exit_code == 0, result.stderr
    assert contents(folder) == expected


def test_a_renumbering_killed_while_the_file_had_both_names_is_finished(folder: Path) -> None:
    before = contents(folder)
    words = ["ticket", "renumber", "B7-PT-01", "--tickets", str(folder)]
    old, new = folder / "batch7/B7-PT-01.md", folder / "batch7/B7-PT-03.md"
    old.write_text(before["batch7/B7-PT-01.md"].replace("B7-PT-01", "B7-PT-03"))
    os.link(old, new)
    assert run(folder, *words[1:-2]).stdout == f"B7-PT-01 -> B7-PT-03: {new}\n"
    assert contents(folder) == {
        name.replace("01", "03"): text.replace("B7-PT-01", "B7-PT-03") for name, text in before.items()
    }


def test_a_misnamed_ticket_beside_another_of_its_id_is_no_unfinished_job(folder: Path) -> None:
    (folder / "batch7/B7-PT-01.md").write_text(ticket_text("B7-PT-02"))
    result = run(folder, "renumber", "B7-PT-01")
    assert result.stdout.startswith(f"B7-PT-02 -> B7-PT-03: {folder}/batch7/B7-PT-03.md\n")
    assert (folder / "batch7/B7-PT-02.md").read_text() == ticket_text("B7-PT-02")
