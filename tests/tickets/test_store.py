"""A folder of tickets under writers that compete, are killed, or fill the disk; nothing that was written is lost."""

from __future__ import annotations

import contextlib
import os
import resource
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from auditkit.errors import BadInputError, StoreConflictError
from auditkit.tickets.store import TicketFolder, locked
from tests.filing_helpers import put, ticket_text
from tests.verify_helpers import git

pytestmark = pytest.mark.process
Start = Callable[..., subprocess.Popen[str]]


@pytest.fixture
def folder(tmp_path: Path) -> TicketFolder:
    for number in (1, 2, 10):
        put(tmp_path / "tickets", f"B7-PT-{number:02d}.md", ticket_text(f"B7-PT-{number:02d}"))
    put(tmp_path / "tickets", "README.md", "no ticket")
    return TicketFolder(tmp_path / "tickets")


@pytest.fixture
def python() -> Iterator[Callable[..., subprocess.Popen[str]]]:
    """Start Python with code that knows the folder; every process is gone at the end of the test."""
    with contextlib.ExitStack() as stack:

        def start(code: str, *arguments: object) -> subprocess.Popen[str]:
            process = stack.enter_context(_python(code, *arguments))
            stack.callback(process.kill)
            return process

        yield start


def _python(code: str, *arguments: object) -> subprocess.Popen[str]:
    head = "import sys\nfrom pathlib import Path\nfrom auditkit.tickets.store import TicketFolder\n"
    words = [sys.executable, "-c", head + code, *map(str, arguments)]
    return subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)


def test_a_listing_has_the_valid_tickets_and_names_the_others(folder: TicketFolder) -> None:
    put(folder.folder, "B7-PT-03.md", "# no front matter\n")
    put(folder.folder, "B7-PT-04.md", ticket_text("B7-PT-04").replace("status: open", "status: opne"))
    listing = folder.listing()
    assert [ticket.id for ticket in listing.tickets] == ["B7-PT-01", "B7-PT-02", "B7-PT-10"]
    assert [error.path.name for error in listing.broken] == ["B7-PT-03.md", "B7-PT-04.md"]


def test_writers_at_the_same_time_lose_nothing(folder: TicketFolder, python: Start) -> None:
    """Six processes append a label each, and create a ticket each."""
    code = """
folder = TicketFolder(Path(sys.argv[1]))
for turn in range(5):
    folder.change("B7-PT-01", lambda d: d.edited(labels=(*d.ticket.labels, f"{sys.argv[2]}-{turn}")))
text = folder.read("B7-PT-02").text
from auditkit.tickets.document import parse_document
make = lambda name: parse_document(text.replace("B7-PT-02", name).encode(), folder.path(name))
print(folder.create(7, "PT", make).ticket.id)
"""
    writers = [python(code, folder.folder, name) for name in "abcdef"]
    created = [writer.communicate(timeout=120)[0].strip() for writer in writers]
    assert sorted(folder.read("B7-PT-01").ticket.labels) == sorted(
        f"{name}-{turn}" for name in "abcdef" for turn in range(5)
    )
    assert sorted(created) == [f"B7-PT-{number}" for number in range(11, 17)]


def test_a_writer_that_is_killed_leaves_the_old_file_and_no_lock(folder: TicketFolder, python: Start) -> None:
    """Killed between the temporary file and its new name."""
    code = """
import os, time
def stop(*_, **__):
    print("ready", flush=True); time.sleep(600)
os.rename = stop
TicketFolder(Path(sys.argv[1])).change("B7-PT-01", lambda d: d.edited(assignee="kim"))
"""
    with folder.writing():
        before = folder.path("B7-PT-01").read_bytes()
    writer = python(code, folder.folder)
    assert writer.stdout is not None
    assert writer.stdout.readline() == "ready\n"
    writer.send_signal(signal.SIGKILL)
    writer.wait()
    assert folder.path("B7-PT-01").read_bytes() == before
    assert [name for name in os.listdir(folder.folder) if name.startswith(".B7")], "the known-bad control"
    folder.change("B7-PT-02", lambda document: document.edited(assignee="ada"))


def test_a_full_disk_changes_nothing_and_says_so(folder: TicketFolder) -> None:
    before = folder.path("B7-PT-01").read_bytes()
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    handler = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    try:
        resource.setrlimit(resource.RLIMIT_FSIZE, (100, limits[1]))
        with pytest.raises(StoreConflictError, match=r"B7-PT-01\.md cannot be written: File too large"):
            folder.change("B7-PT-01", lambda document: document.edited(assignee="kim"))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
        signal.signal(signal.SIGXFSZ, handler)
    assert folder.path("B7-PT-01").read_bytes() == before
    assert not [name for name in os.listdir(folder.folder) if name.startswith(".B7")]


def test_the_lock_is_waited_for_and_then_given_up(
    folder: TicketFolder, python: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A clock that jumps changes nothing: the time that is waited is that of a monotonic clock."""
    holder = python(
        "with TicketFolder(Path(sys.argv[1])).writing():\n  print('held', flush=True); sys.stdin.read()", folder.folder
    )
    assert holder.stdout is not None
    assert holder.stdout.readline() == "held\n"
    monkeypatch.setattr(time, "time", lambda: 0.0)
    began = time.monotonic()
    with (
        pytest.raises(StoreConflictError, match=r"locked by another auditkit for more than 0\.2 s"),
        locked(folder.folder, 0.2),
    ):
        pass
    assert time.monotonic() - began < 60
    holder.kill()
    holder.wait()
    with locked(folder.folder, 5.0):
        pass


def test_a_file_that_changed_meanwhile_is_not_overwritten(folder: TicketFolder) -> None:
    before = folder.read("B7-PT-01")
    other = before.edited(assignee="ada")
    put(folder.folder, "B7-PT-01.md", other.text)
    with pytest.raises(StoreConflictError, match="was changed by another program"):
        folder.save(before.edited(assignee="kim"), before)
    assert folder.read("B7-PT-01").text == other.text


def test_nothing_is_written_through_a_link(folder: TicketFolder, tmp_path: Path) -> None:
    put(tmp_path, "outside.md", ticket_text("B7-PT-03"))
    folder.path("B7-PT-03").symlink_to(tmp_path / "outside.md")
    with pytest.raises(BadInputError, match="is a symbolic link"):
        folder.change("B7-PT-03", lambda document: document.edited(assignee="kim"))
    assert "kim" not in (tmp_path / "outside.md").read_text()


def test_two_reviews_on_two_branches_are_an_ordinary_conflict_in_which_both_stay(folder: TicketFolder) -> None:
    """git's own commands resolve it; different tickets merge by themselves; lint names the marks that are left."""
    place = folder.folder.parent
    put(place, ".gitignore", ".auditkit/\n")
    git(place, "init", "-q", "--template=")
    git(place, "add", ".")
    git(place, "commit", "-qm", "tickets")
    for branch, review in (
        ("one", "- **ENDORSE** P2 · ada · 2026-01-02 · at 1234567"),
        ("two", "- **OBJECT** P4 · bo · 2026-01-03 · at 1234567: no"),
    ):
        git(place, "checkout", "-q", "-b", branch, "main")
        folder.change("B7-PT-01", lambda document, review=review: document.with_section("Cross-review", review))  # type: ignore[misc]
        other = "B7-PT-02" if branch == "one" else "B7-PT-10"
        folder.change(other, lambda document: document.edited(assignee="kim"))
        git(place, "commit", "-qam", branch)
    with pytest.raises(subprocess.CalledProcessError):
        git(place, "merge", "-q", "one")
    assert git(place, "diff", "--name-only", "--diff-filter=U") == "tickets/B7-PT-01.md"
    assert [error.path.name for error in folder.listing().broken] == []
    from auditkit.tickets.lint import lint

    assert {one.rule for one in lint(folder, None)} == {"conflict-marks"}
    git(place, "checkout", "-q", "--merge", "--conflict=merge", "tickets/B7-PT-01.md")
    text = folder.path("B7-PT-01").read_text()
    put(
        folder.folder,
        "B7-PT-01.md",
        "".join(line for line in text.splitlines(True) if line[:7] not in ("<<<<<<<", "=======", ">>>>>>>")),
    )
    git(place, "commit", "-qam", "both")
    assert [review.reviewer for review in folder.read("B7-PT-01").ticket.reviews] == ["bo", "ada"]
    assert [folder.read(name).ticket.assignee for name in ("B7-PT-02", "B7-PT-10")] == ["kim", "kim"]
    assert lint(folder, None) == []
