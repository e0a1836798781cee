"""The file of a ticket follows its status: to fixed/ or closed/, and back when it opens again."""

from __future__ import annotations

import datetime
from pathlib import Path

import pytest

from auditkit.errors import StoreConflictError
from auditkit.model.tickets.ticket import Status
from auditkit.rules.lint.rule import FOLDERS
from auditkit.rules.tickets.lifecycle import home_of
from auditkit.store.folder.repository import Repository
from auditkit.store.folder.status_folders import put_in_place
from auditkit.workflows.tickets.resolution import Move, move
from tests.filing_helpers import put, ticket_text

TODAY = datetime.date(2026, 3, 4)
ID = "B7-PT-01"


def places(folder: Path) -> list[str]:
    return sorted(file.relative_to(folder).as_posix() for file in folder.rglob("*.md"))


def decide(folder: Path, status: Status) -> Path:
    return move(Repository(folder), ID, Move(status, "because"), TODAY).change.after.file


def test_a_decided_ticket_moves_to_closed_and_back_when_it_opens(tmp_path: Path) -> None:
    put(tmp_path, "batch7/B7-PT-01.md", ticket_text())
    put(tmp_path, "batch7/B7-PT-02.md", ticket_text("B7-PT-02"))
    assert decide(tmp_path, Status.WONT_FIX) == tmp_path / "closed" / "B7-PT-01.md"
    assert places(tmp_path) == ["batch7/B7-PT-02.md", "closed/B7-PT-01.md"]
    assert decide(tmp_path, Status.OPEN) == tmp_path / "batch7" / "B7-PT-01.md"
    assert places(tmp_path) == ["batch7/B7-PT-01.md", "batch7/B7-PT-02.md"]


def test_a_folder_inside_the_tickets_folder_keeps_its_place(tmp_path: Path) -> None:
    put(tmp_path, "2026/batch7/B7-PT-01.md", ticket_text())
    assert decide(tmp_path, Status.DUPLICATE) == tmp_path / "2026" / "closed" / "B7-PT-01.md"


def test_a_project_that_keeps_files_where_they_are_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    put(tmp_path, "tickets/batch7/B7-PT-01.md", ticket_text())
    put(tmp_path, "auditkit.yaml", "tickets: tickets\nlint:\n  folders: {}\n")
    monkeypatch.chdir(tmp_path)
    assert decide(tmp_path / "tickets", Status.WONT_FIX).parent.name == "batch7"


@pytest.mark.parametrize(
    ("path", "status", "home"),
    [
        ("batch7/x.md", "`fixed`", "fixed"),
        ("batch7/x.md", "`already-fixed`", "fixed"),
        ("batch7/x.md", "`not-a-bug`", "closed"),
        ("batch7/x.md", "`deferred`", None),
        ("batch7/x.md", "`closed`", None),
        ("batch7/x.md", "`nonsense`", None),
        ("fixed/x.md", "`open`", "batch7"),
        ("fixed/x.md", "`fixed`", None),
        ("notes/x.md", "`fixed`", None),
        ("x.md", "`fixed`", None),
    ],
)
def test_where_a_status_calls_for(tmp_path: Path, path: str, status: str, home: str | None) -> None:
    put(tmp_path, path.replace("x.md", "B7-PT-01.md"), ticket_text(status=status))
    assert home_of(Repository(tmp_path).find(ID).ticket, FOLDERS) == home


def test_nothing_is_written_over(tmp_path: Path) -> None:
    put(tmp_path, "batch7/B7-PT-01.md", ticket_text(status="`wont-fix`"))
    put(tmp_path, "closed/B7-PT-01.md/keep", "in the way")
    repository = Repository(tmp_path)
    with pytest.raises(StoreConflictError, match="exists already"):
        put_in_place(repository, repository.find(ID), FOLDERS)
    assert (tmp_path / "batch7" / "B7-PT-01.md").is_file()
