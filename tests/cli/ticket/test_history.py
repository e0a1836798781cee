"""`ticket log`: who changed what, from real commits, over moves and another id; and comments that two branches make."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from auditkit.cli.ticket import app
from tests.cli.ticket.test_merge import clone
from tests.filing_helpers import put, ticket_text
from tests.verify_helpers import git

pytestmark = pytest.mark.process


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    put(tmp_path, "tickets/batch7/B7-PT-01.md", ticket_text("B7-PT-01"))
    put(tmp_path, "tickets/batch7/B7-PT-02.md", ticket_text("B7-PT-02", title="another"))
    git(tmp_path, "init", "-q", "--template=")
    save(tmp_path, "found")
    return tmp_path / "tickets"


def save(top: Path, message: str) -> None:
    git(top, "add", "-A")
    git(top, "commit", "-qm", message, "--author", f"{message.split()[0]} <x@y>")


def run(folder: Path, *arguments: object, stdin: str | None = None) -> Any:
    result = CliRunner().invoke(app, [*map(str, arguments), "--tickets", str(folder)], input=stdin)
    assert result.exit_code in (0, 1), result.output
    return result


def changes(folder: Path, ticket_id: str = "B7-PT-01") -> list[tuple[str, list[str]]]:
    entries = json.loads(run(folder, "log", ticket_id, "--json").stdout)["entries"]
    return [(entry["author"], entry["changes"]) for entry in entries]


def test_each_commit_is_a_line_with_its_fields_over_a_move_and_another_id(folder: Path) -> None:
    top = folder.parent
    run(folder, "status", "B7-PT-01", "investigating")
    run(folder, "set", "B7-PT-01", "assignee=ada", "severity=P1", "labels=amp")
    save(top, "ada works")
    run(folder, "review", "B7-PT-01", "--verdict", "endorse", "--reviewer", "drl")
    run(folder, "comment", "B7-PT-01", "seen", "--by", "bob")
    save(top, "bob reviews")
    run(folder, "edit", "B7-PT-02", "severity", "P0")
    save(top, "eve elsewhere")
    run(folder, "renumber", "B7-PT-01", "B7-PT-09")
    save(top, "cy numbers")
    run(folder, "link", "B7-PT-09", "blocks", "B7-PT-02")
    run(folder, "edit", "B7-PT-09", "verified", "1")
    run(folder, "status", "B7-PT-09", "wont-fix", "--reason", "no")
    save(top, "dan closes")
    run(folder, "edit", "B7-PT-09", "title", "sums overflow")
    assert changes(folder, "B7-PT-09") == [
        ("found", ["created: P2, open"]),
        ("ada", ["severity P2 -> P1", "status open -> investigating", "assignee none -> ada", "labels none -> amp"]),
        ("bob", ["review by drl: ENDORSE", "comment by bob"]),
        ("cy", ["id B7-PT-01 -> B7-PT-09"]),
        (
            "dan",
            [
                "status investigating -> wont-fix",
                "blocks B7-PT-02",
                "verified 0 -> 1 of 1",
                "resolution",
                "moved to closed/",
            ],
        ),
        ("", ["title 'sum of squares overflows' -> 'sums overflow'"]),
    ]
    lines = run(folder, "log", "B7-PT-09").stdout.splitlines()
    assert lines[2].endswith("  bob    review by drl: ENDORSE, comment by bob")
    assert lines[-1].startswith("not committed ")


def test_a_folder_with_another_name_is_followed(folder: Path) -> None:
    run(folder, "edit", "B7-PT-01", "severity", "P0")
    save(folder.parent, "ada works")
    new = folder.with_name("issues")
    folder.rename(new)
    save(folder.parent, "bob moves")
    assert changes(new) == [
        ("found", ["created: P2, open"]),
        ("ada", ["severity P2 -> P0"]),
        ("bob", ["moved to batch7/"]),
    ]


def test_what_is_no_field_is_text_and_a_file_that_broke_is_said(folder: Path) -> None:
    file = folder / "batch7/B7-PT-01.md"
    whole = file.read_text()
    file.write_text(whole.replace("# not a heading", "# still none"))
    save(folder.parent, "ada words")
    file.write_text(whole.replace("## Ticket Metadata", "## Nothing", 1))
    save(folder.parent, "bob breaks")
    file.write_text(whole)
    save(folder.parent, "cy mends")
    assert changes(folder)[1:] == [
        ("ada", ["description"]),
        ("bob", ["cannot be read as a ticket"]),
        ("cy", ["can be read as a ticket again"]),
    ]


def test_a_folder_outside_of_git_and_a_ticket_that_is_not_committed(tmp_path: Path, folder: Path) -> None:
    put(folder, "batch7/B7-PT-03.md", ticket_text("B7-PT-03"))
    assert changes(folder, "B7-PT-03") == [("", ["created: P2, open"])]
    elsewhere = tmp_path.with_name("elsewhere")
    put(elsewhere, "B7-PT-01.md", ticket_text("B7-PT-01"))
    result = CliRunner().invoke(app, ["log", "B7-PT-01", "--tickets", str(elsewhere)])
    assert (result.exit_code, "is in no git repository" in result.stderr) == (2, True)


@pytest.mark.parametrize("has_driver", [True, False])
def test_comments_of_two_branches_merge_with_the_driver(tmp_path: Path, has_driver: bool) -> None:
    """Without it both stand at one place, which git leaves to people."""
    made = clone(tmp_path, has_driver)
    is_merged = made.merge(
        lambda _: made.run("comment", "B7-PT-01", "ours", "--by", "ada"),
        lambda _: made.run("comment", "B7-PT-01", "theirs", "--by", "bob"),
    )
    assert is_merged is has_driver
    if has_driver:
        told = json.loads(made.run("show", "B7-PT-01", "--json").stdout)["tickets"][0]["comments"]
        assert sorted((one["author"], one["text"]) for one in told) == [("ada", "ours"), ("bob", "theirs")]


def test_a_comment_comes_from_stdin_and_from_the_editor(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run(folder, "comment", "B7-PT-01", "-", "--by", "ada", stdin="two\nlines\n")
    monkeypatch.delenv("VISUAL", raising=False)
    monkeypatch.setenv("EDITOR", "sh -c 'echo edited >> \"$0\"'")
    run(folder, "comment", "B7-PT-01", "--by", "bob")
    told = json.loads(run(folder, "show", "B7-PT-01", "--json").stdout)["tickets"][0]["comments"]
    assert [(one["author"], one["text"]) for one in told] == [("ada", "two\nlines"), ("bob", "edited")]
    monkeypatch.setenv("EDITOR", "true")
    empty = CliRunner().invoke(app, ["comment", "B7-PT-01", "--by", "bob", "--tickets", str(folder)])
    assert (empty.exit_code, "the comment is empty" in empty.stderr) == (2, True)
