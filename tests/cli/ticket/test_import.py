"""Tickets from elsewhere: what is read, what is broken, and that copies are the same bytes."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from auditkit.cli.ticket import app
from auditkit.workflows.tickets.ticket_import import MOST_BYTES
from tests.filing_helpers import corpus_folder, put, ticket_text

CORPUS = corpus_folder()


@pytest.fixture
def elsewhere(tmp_path: Path) -> Path:
    put(tmp_path / "old", "batch7/B7-PT-01.md", ticket_text("B7-PT-01").replace("\n", "\r\n"))
    put(tmp_path / "old", "fixed/B7-PT-02.md", ticket_text("B7-PT-02", status="`wontfix`").rstrip())
    put(tmp_path / "old", "SUMMARY.md", "# Summary\n")
    return tmp_path / "old"


def run(*arguments: object) -> Any:
    return CliRunner().invoke(app, ["import", *map(str, arguments)])


def contents(folder: Path) -> dict[str, bytes]:
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in folder.rglob("*.md")}


def test_in_place_says_what_is_read_and_writes_nothing(elsewhere: Path) -> None:
    before = contents(elsewhere)
    result = run(elsewhere)
    assert (result.exit_code, result.stdout) == (0, f"{elsewhere}: 2 tickets, 0 broken, 1 other pages\n")
    put(elsewhere, "B7-PT-03.md", "no ticket\n")
    result = run(elsewhere, "--in-place", "--json")
    document = json.loads(result.stdout)
    assert (result.exit_code, [one["id"] for one in document["tickets"]]) == (2, ["B7-PT-01", "B7-PT-02"])
    assert result.stderr == f"{elsewhere}/B7-PT-03.md:1:1: no '## Ticket Metadata' section\n    no ticket\n    ^\n"
    assert contents(elsewhere) == {**before, "B7-PT-03.md": b"no ticket\n"}
    assert not (elsewhere / ".auditkit").exists()


def test_copies_are_the_same_bytes(elsewhere: Path, tmp_path: Path) -> None:
    folder = tmp_path / "tickets"
    result = run(elsewhere, "--copy", "--tickets", folder)
    assert result.exit_code == 0
    assert result.stdout.endswith(": 2 tickets, 0 broken, 1 other pages, 2 copied, 0 there already\n")
    expected = contents(elsewhere)
    del expected["SUMMARY.md"]
    assert contents(folder) == expected


def test_ids_that_exist_are_refused_or_skipped(elsewhere: Path, tmp_path: Path) -> None:
    folder = tmp_path / "tickets"
    theirs = put(folder, "elsewhere/B7-PT-01.md", ticket_text("B7-PT-01", title="theirs"))
    result = run(elsewhere, "--copy", "--tickets", folder)
    assert (result.exit_code, "B7-PT-01 exist already; nothing was copied" in result.stderr) == (4, True)
    assert [path.name for path in folder.rglob("*.md")] == ["B7-PT-01.md"]
    document = json.loads(run(elsewhere, "--copy", "--skip-existing", "--tickets", folder, "--json").stdout)
    assert document["skipped"] == ["B7-PT-01"]
    assert [one["to"] for one in document["copied"]] == [str(folder / "fixed/B7-PT-02.md")]
    assert "theirs" in theirs.read_text()


def test_all_or_nothing(elsewhere: Path, tmp_path: Path) -> None:
    """A file in the way of the second copy: the first one is taken back."""
    folder = tmp_path / "tickets"
    put(folder, "fixed/B7-PT-02.md", "# Another page that happens to stand there\n")
    result = run(elsewhere, "--copy", "--skip-existing", "--tickets", folder)
    assert result.exit_code == 4
    assert list(contents(folder)) == ["fixed/B7-PT-02.md"]
    assert not (folder / "batch7").exists()


def test_a_copy_that_was_cut_off_goes_on(elsewhere: Path, tmp_path: Path) -> None:
    """What it had copied already is no conflict; a file that somebody has changed since is one."""
    folder = tmp_path / "tickets"
    assert run(elsewhere, "--copy", "--tickets", folder).exit_code == 0
    whole = contents(folder)
    (folder / "fixed/B7-PT-02.md").unlink()
    result = run(elsewhere, "--copy", "--tickets", folder)
    assert (result.exit_code, contents(folder)) == (0, whole)
    assert result.stdout.endswith(": 2 tickets, 0 broken, 1 other pages, 1 copied, 1 there already\n")
    (folder / "fixed/B7-PT-02.md").write_text(ticket_text("B7-PT-02"))
    assert run(elsewhere, "--copy", "--tickets", folder).exit_code == 4


def test_broken_files_can_be_left_out_and_are_named(elsewhere: Path, tmp_path: Path) -> None:
    put(elsewhere, "B7-PT-03.md", "no ticket\n")
    result = run(elsewhere, "--copy", "--skip-broken", "--tickets", tmp_path / "tickets")
    assert (result.exit_code, sorted(contents(tmp_path / "tickets"))) == (
        0,
        ["batch7/B7-PT-01.md", "fixed/B7-PT-02.md"],
    )
    assert f"left out: {elsewhere}/B7-PT-03.md:1:1: no '## Ticket Metadata' section" in result.stderr
    assert run(elsewhere, "--skip-broken").exit_code == 2


@pytest.mark.parametrize("kind", ["broken", "link", "big", "twice"])
def test_what_is_not_copied(elsewhere: Path, tmp_path: Path, kind: str) -> None:
    outside = put(tmp_path, "outside/B7-PT-09.md", ticket_text("B7-PT-09"))
    if kind == "broken":
        put(elsewhere, "B7-PT-03.md", "no ticket\n")
    elif kind == "link":
        os.symlink(outside, elsewhere / "B7-PT-09.md")
    elif kind == "big":
        put(elsewhere, "B7-PT-03.md", ticket_text("B7-PT-03") + "x" * MOST_BYTES)
    else:
        put(elsewhere, "B7-PT-02.md", ticket_text("B7-PT-02"))
    result = run(elsewhere, "--copy", "--tickets", tmp_path / "tickets")
    assert (result.exit_code, "nothing was copied" in result.stderr) == (2, True)
    assert contents(tmp_path / "tickets") == {}
    told = run(elsewhere).stderr
    wanted = {"broken": "no '## Ticket Metadata'", "link": "leads out of the folder", "big": "too much", "twice": ""}
    assert wanted[kind] in told


@pytest.mark.parametrize(
    ("options", "message"),
    [(["--skip-existing"], "goes with --copy"), (["--copy", "--tickets", "SAME"], "holds the tickets folder itself")],
)
def test_options_that_do_not_fit(elsewhere: Path, options: list[str], message: str) -> None:
    result = run(elsewhere, *[str(elsewhere) if option == "SAME" else option for option in options])
    assert (result.exit_code, message in result.stderr) == (2, True)


def test_a_folder_that_is_not_there(tmp_path: Path) -> None:
    assert run(tmp_path / "none").exit_code == 2


@pytest.mark.skipif(CORPUS is None, reason="the corpus of real tickets is not on this machine")
def test_real_tickets_are_copied_byte_by_byte(tmp_path: Path) -> None:
    assert CORPUS is not None
    result = run(CORPUS / "tickets", "--copy", "--tickets", tmp_path / "tickets", "--json")
    document = json.loads(result.stdout)
    assert (result.exit_code, len(document["copied"]), document["broken"]) == (0, 152, [])
    for one in document["copied"]:
        assert Path(one["to"]).read_bytes() == Path(one["from"]).read_bytes()
