"""What git knows of a folder of tickets: counts at each commit, over moves, merges and files that are no tickets."""

from __future__ import annotations

from pathlib import Path

import pytest

from auditkit.store.folder.repository import Repository
from auditkit.workflows.tickets.folder_history import folder_history
from tests.filing_helpers import put, ticket_text
from tests.verify_helpers import git

pytestmark = pytest.mark.process


def test_counts_events_moves_and_merges(tmp_path: Path) -> None:
    folder = tmp_path / "notes" / "tickets"

    def commit(words: str) -> None:
        git(tmp_path, "add", "-A")
        git(tmp_path, "commit", "-qm", words)

    git(tmp_path, "init", "-q", "--template=")
    put(folder, "batch7/B7-PT-01.md", ticket_text())
    put(folder, "README.md", "# Tickets\n")
    put(folder, "batch7/B7-PT-09.md", "no ticket at all\n")
    commit("first")
    put(folder, "batch7/B7-PT-02 a\tb.md", ticket_text("B7-PT-02"))
    put(folder, "\x01a\n:b.md", "no ticket either\n")
    put(tmp_path, "elsewhere.md", ticket_text("B7-PT-03"))
    commit("second")
    git(tmp_path, "checkout", "-qb", "other")
    (folder / "batch7/B7-PT-01.md").unlink()
    put(folder, "done/B7-PT-01.md", ticket_text(status="`fixed`"))
    commit("moved and fixed")
    git(tmp_path, "checkout", "-q", "main")
    put(tmp_path, "code.py", "")
    commit("code alone")
    git(tmp_path, "merge", "-q", "--no-ff", "-m", "merge", "other")
    (folder / "batch7/B7-PT-02 a\tb.md").unlink()
    commit("removed")

    history = folder_history(Repository(folder))
    assert [(one.unfinished, one.all) for one in history.moments] == [(1, 1), (2, 2), (1, 2), (0, 1)]
    said = {name: [event.what for event in events] for name, events in history.events.items()}
    assert said == {
        "B7-PT-01": ["filed: P2, open", "status open → fixed"],
        "B7-PT-02": ["filed: P2, open", "removed"],
    }


def test_outside_of_git_there_is_no_history(tmp_path: Path) -> None:
    put(tmp_path, "B7-PT-01.md", ticket_text())
    assert folder_history(Repository(tmp_path)).moments == ()
