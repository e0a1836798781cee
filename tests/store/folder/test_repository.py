"""A folder of tickets: what is listed, found, numbered and changed."""

from __future__ import annotations

import os
import re
import subprocess
from datetime import date
from pathlib import Path

import pytest

from auditkit.errors import BadInputError, StoreConflictError
from auditkit.model.tickets.ids import parse_ticket_id
from auditkit.model.tickets.ticket import Status
from auditkit.store.edits.status import with_status
from auditkit.store.folder.repository import Change, Repository
from auditkit.store.markdown.document import BrokenFileError
from tests.filing_helpers import put, ticket_text

TODAY = date(2026, 3, 4)


def test_tickets_are_listed_by_id_and_broken_ones_with_their_place(tmp_path: Path) -> None:
    put(tmp_path, "batch7/B7-PT-10.md", ticket_text("B7-PT-10"))
    put(tmp_path, "fixed/B7-PT-09.md", ticket_text("B7-PT-09"))
    put(tmp_path, "batch6/B6-DRL-01.md", ticket_text("B6-DRL-01"))
    put(tmp_path, "batch7/B7-PT-11.md", b"# Finding Ticket: \xff\n")
    put(tmp_path, "README.md", "# What lies here\n")
    put(tmp_path, ".auditkit/B9-PT-01.md", ticket_text("B9-PT-01"))
    listing = Repository(tmp_path).listing()
    assert [ticket.id for ticket in listing.tickets] == ["B6-DRL-01", "B7-PT-09", "B7-PT-10"]
    assert [(b.path.as_posix(), b.line, b.column) for b in listing.broken] == [("batch7/B7-PT-11.md", 1, 19)]


def test_what_is_no_regular_file_is_broken_and_does_not_hang(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "B7-PT-01.md")
    (tmp_path / "B7-PT-02.md").symlink_to("nowhere")
    messages = [broken.message for broken in Repository(tmp_path).listing().broken]
    assert messages == ["not a regular file", "cannot be read: No such file or directory"]


def test_links_that_lead_nowhere_or_out_hide_no_ticket_and_show_no_secret(tmp_path: Path) -> None:
    """The control is a link inside the folder, which is read."""
    tickets = tmp_path / "tickets"
    put(tickets, "B7-PT-01.md", ticket_text("B7-PT-01"))
    put(tmp_path, "secret.md", "root:x:0:0\n")
    (tickets / "B7-PT-02.md").symlink_to(tmp_path / "secret.md")
    (tickets / "B7-PT-03.md").symlink_to("B7-PT-03.md")
    (tickets / "B7-PT-04.md").symlink_to("B7-PT-01.md")
    listing = Repository(tickets).listing()
    assert [ticket.path.name for ticket in listing.tickets] == ["B7-PT-01.md", "B7-PT-04.md"]
    outside, itself = (broken.describe() for broken in listing.broken)
    assert outside.endswith("a link to a file outside of the tickets folder, which is not read")
    assert itself.endswith("cannot be read: Too many levels of symbolic links")


def test_of_a_long_line_only_what_is_around_the_problem_is_shown(tmp_path: Path) -> None:
    put(tmp_path, "B7-PT-01.md", b"# a" + b"x" * 50_000 + b"\xff" + b"y" * 50_000)
    (broken,) = Repository(tmp_path).listing().broken
    head, line, caret = broken.describe().splitlines()
    assert (len(line) < 200, line[caret.index("^")], line[caret.index("^") + 1]) == (True, "\ufffd", "y")
    assert head.startswith("B7-PT-01.md:1:50004: ")


@pytest.mark.parametrize("label", ["Line(s)", "Batch", "File(s)", "Severity", "Created", "Status"])
def test_a_number_that_python_refuses_takes_no_ticket_down(label: str, tmp_path: Path) -> None:
    """int() of more than 4,300 digits raises ValueError."""
    text = re.sub(rf"(\| \*\*{re.escape(label)}\*\* \|)[^\n]*", rf"\1 {'9' * 4301} |", ticket_text())
    assert "9" * 4301 in text
    put(tmp_path, "B7-PT-01.md", text)
    repository = Repository(tmp_path)
    assert [ticket.id for ticket in repository.listing().tickets] == ["B7-PT-01"]
    assert (repository.find(parse_ticket_id("B7-PT-01")).ticket.lines == ()) == (label == "Line(s)")


def test_a_folder_that_is_not_there_holds_nothing(tmp_path: Path) -> None:
    assert Repository(tmp_path / "none").listing().tickets == ()


def test_a_file_that_changed_is_read_again(tmp_path: Path) -> None:
    repository = Repository(tmp_path)
    path = put(tmp_path, "B7-PT-01.md", ticket_text(title="one"))
    assert repository.find("B7-PT-01").ticket.title == "one"
    path.write_text(ticket_text(title="two"))
    assert repository.find("B7-PT-01").ticket.title == "two"


def test_a_ticket_is_found_by_file_name_or_by_its_metadata(tmp_path: Path) -> None:
    put(tmp_path, "batch7/B7-PT-01.md", ticket_text("B7-PT-01"))
    put(tmp_path, "batch7/overflow.md", ticket_text("B7-PT-02"))
    repository = Repository(tmp_path)
    assert repository.find("b7-pt-01").file == tmp_path / "batch7" / "B7-PT-01.md"
    assert repository.find("B7-PT-02").file == tmp_path / "batch7" / "overflow.md"


def test_an_unknown_id_names_the_nearest(tmp_path: Path) -> None:
    put(tmp_path, "batch7/B7-PT-01.md", ticket_text("B7-PT-01"))
    for text in ("B7-PT-11", "B7-PT1"):
        with pytest.raises(BadInputError) as caught:
            Repository(tmp_path).find(text)
        assert caught.value.hint == "did you mean B7-PT-01?"


def test_an_id_in_two_files_and_a_broken_file_are_errors_that_name_them(tmp_path: Path) -> None:
    put(tmp_path, "batch7/B7-PT-01.md", ticket_text("B7-PT-01"))
    put(tmp_path, "fixed/B7-PT-01.md", ticket_text("B7-PT-01"))
    put(tmp_path, "B7-PT-02.md", "no ticket\n")
    with pytest.raises(StoreConflictError, match=r"batch7/B7-PT-01\.md, .*fixed/B7-PT-01\.md"):
        Repository(tmp_path).find("B7-PT-01")
    with pytest.raises(BadInputError, match=r"B7-PT-02\.md:1:1: no '## Ticket Metadata' section"):
        Repository(tmp_path).find("B7-PT-02")


@pytest.mark.process
def test_the_next_id_follows_file_names_and_metadata_wherever_they_lie(tmp_path: Path) -> None:
    put(tmp_path, "batch7/B7-PT-03.md", ticket_text("B7-PT-03"))
    put(tmp_path, "fixed/other-name.md", ticket_text("B7-PT-05"))
    put(tmp_path, "closed/B7-PT-07.md", "broken, but the name is taken\n")
    put(tmp_path, "batch7/B7-CR-20.md", ticket_text("B7-CR-20"))
    repository = Repository(tmp_path)
    assert repository.next_id(7, "PT") == "B7-PT-08"
    assert repository.next_id(8, "PT") == "B8-PT-01"


def git(folder: Path, *arguments: str) -> None:
    identity = ["-c", "user.name=Tester", "-c", "user.email=tester@example.org", "-c", "commit.gpgsign=false"]
    subprocess.run(["git", "-C", str(folder), *identity, *arguments], check=True, capture_output=True)


@pytest.mark.process
def test_ids_on_other_local_branches_are_taken(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    git(tmp_path, "init", "-q", "-b", "main")
    put(tmp_path, "tickets/batch7/B7-PT-01.md", ticket_text("B7-PT-01"))
    git(tmp_path, "add", "-A")
    git(tmp_path, "commit", "-qm", "one")
    git(tmp_path, "checkout", "-qb", "side")
    put(tmp_path, "tickets/batch7/B7-PT-02.md", ticket_text("B7-PT-02"))
    git(tmp_path, "add", "-A")
    git(tmp_path, "commit", "-qm", "two")
    git(tmp_path, "checkout", "-q", "main")
    # A hook that runs auditkit exports its own repository; ours is the one around the folder.
    monkeypatch.setenv("GIT_DIR", str(tmp_path / "nowhere"))
    assert Repository(tmp_path / "tickets").next_id(7, "PT") == "B7-PT-03"
    assert Repository(tmp_path / "tickets" / "not-yet").next_id(7, "PT") == "B7-PT-03"


def test_a_new_ticket_must_say_the_id_it_is_filed_under(tmp_path: Path) -> None:
    repository = Repository(tmp_path)
    with pytest.raises(BrokenFileError, match="says B7-PT-02, should say B7-PT-01"):
        repository.create(parse_ticket_id("B7-PT-01"), ticket_text("B7-PT-02").encode())
    assert repository.listing().tickets == ()


def test_no_ticket_is_made_behind_a_link(tmp_path: Path) -> None:
    """A repository can hold one that leads anywhere, and what lies behind it is never listed."""
    (tmp_path / "outside").mkdir()
    (tmp_path / "tickets").mkdir()
    (tmp_path / "tickets/batch7").symlink_to(tmp_path / "outside")
    repository = Repository(tmp_path / "tickets")
    new = (parse_ticket_id("B7-PT-01"), ticket_text("B7-PT-01").encode())
    with repository.writing():
        with pytest.raises(StoreConflictError, match="batch7 is a link"):
            repository.create(*new)
        assert os.listdir(tmp_path / "outside") == []
        (tmp_path / "tickets/batch7").unlink()
        assert repository.create(*new).file.read_bytes() == new[1]


def set_status(repository: Repository, new: Status, reason: str) -> Change:
    return repository.change("B7-PT-01", lambda entry: with_status(entry.document, new, reason, TODAY))


def test_a_status_change_writes_status_and_date_and_nothing_else(tmp_path: Path) -> None:
    path = put(tmp_path, "B7-PT-01.md", ticket_text().rstrip().replace("\n", "\r\n"))
    before = path.read_bytes()
    change = set_status(Repository(tmp_path), Status.INVESTIGATING, "")
    assert (change.before.ticket.status, change.after.ticket.status) == (Status.OPEN, Status.INVESTIGATING)
    expected = before.replace(b"**Status** | `open`", b"**Status** | `investigating`")
    assert path.read_bytes() == expected.replace(b"**Updated** | 2026-01-02", b"**Updated** | 2026-03-04")


def test_a_reason_is_kept_in_the_ticket_as_one_inert_line(tmp_path: Path) -> None:
    path = put(tmp_path, "B7-PT-01.md", ticket_text())
    repository = Repository(tmp_path)
    set_status(repository, Status.WONT_FIX, "a demo\n## Fake <!-- x \x1b[1m")
    set_status(repository, Status.OPEN, "no demo after all")
    assert path.read_text().endswith(
        "\n---\n\n## Resolution\n\n### Status Changes\n\n"
        "- 2026-03-04: open to wont-fix: a demo ## Fake &lt;!-- x \\x1b[1m\n"
        "- 2026-03-04: wont-fix to open: no demo after all\n"
    )


def test_a_change_of_nothing_writes_nothing(tmp_path: Path) -> None:
    path = put(tmp_path, "B7-PT-01.md", ticket_text())
    stamp = path.stat().st_mtime_ns
    Repository(tmp_path).change("B7-PT-01", lambda entry: entry.document)
    assert path.stat().st_mtime_ns == stamp


def test_an_unwritable_folder_is_known_before_anything_is_measured(tmp_path: Path) -> None:
    (tmp_path / "tickets").write_bytes(b"")
    with pytest.raises(StoreConflictError):
        Repository(tmp_path / "tickets").ensure_writable()
    Repository(tmp_path / "other").ensure_writable()
    assert sorted(os.listdir(tmp_path)) == ["tickets"]
