"""What commands wrote is kept: it can be taken back, and what a killed one left half done is mended."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from auditkit.errors import BadInputError, StoreConflictError
from auditkit.store.folder.files import move_file
from auditkit.store.folder.journal import LAST, UNFINISHED, mend_if_killed, take_back, write_together
from auditkit.store.folder.repository import Repository
from tests.filing_helpers import ROOT, put, ticket_text


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for number in range(1, 21):
        put(tmp_path, f"tickets/batch7/B7-PT-{number:02d}.md", ticket_text(f"B7-PT-{number:02d}"))
    return tmp_path / "tickets"


def contents(folder: Path) -> dict[str, bytes]:
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in folder.rglob("*.md")}


def undo(folder: Path) -> None:
    with Repository(folder).writing():
        take_back(folder)


def assign(folder: Path, who: str, ticket_id: str = "B7-PT-01") -> None:
    Repository(folder).change(ticket_id, lambda entry: entry.document.set_field("Assignee", who))


def test_undo_restores_bytes_place_and_mode_and_a_second_one_repeats(folder: Path) -> None:
    """A ticket that was changed and moved in two locked sections of one command."""
    before = contents(folder)
    old, new = folder / "batch7/B7-PT-01.md", folder / "closed/B7-PT-01.md"
    old.chmod(0o640)
    repository = Repository(folder)
    repository.change("B7-PT-01", lambda entry: entry.document.set_field("Assignee", "ada"))
    with repository.writing():
        move_file(old, new)
    after = contents(folder)
    undo(folder)
    assert contents(folder) == before
    assert old.stat().st_mode & 0o777 == 0o640
    undo(folder)
    assert contents(folder) == after
    assert new.stat().st_mode & 0o777 == 0o640


def test_only_the_last_command_is_taken_back(folder: Path) -> None:
    assign(folder, "ada", "B7-PT-02")
    between = contents(folder)
    assign(folder, "bob", "B7-PT-02")
    undo(folder)
    assert contents(folder) == between


def test_undo_is_refused_where_a_file_changed_since(folder: Path) -> None:
    assign(folder, "ada")
    file = folder / "batch7/B7-PT-01.md"
    file.write_bytes(file.read_bytes() + b"by hand\n")
    before = contents(folder)
    with pytest.raises(StoreConflictError, match=r"B7-PT-01\.md has changed since"):
        undo(folder)
    assert contents(folder) == before


def test_there_is_nothing_to_undo_at_first(folder: Path) -> None:
    with pytest.raises(BadInputError, match="nothing to undo"):
        undo(folder)


def test_a_failure_in_the_middle_leaves_every_file_as_it_was(folder: Path) -> None:
    before = contents(folder)
    paths = sorted((folder / "batch7").glob("*.md"))
    held = {path: path.read_bytes() for path in paths}
    (folder / "taken").write_text("no folder")
    wanted: dict[Path, bytes | None] = {path: data + b"x\n" for path, data in held.items()}
    wanted[folder / "taken" / "B7-PT-99.md"] = b"new\n"
    with Repository(folder).writing(), pytest.raises(StoreConflictError, match="taken"):
        write_together(folder, {**held, folder / "taken" / "B7-PT-99.md": None}, wanted)
    assert contents(folder) == before
    assert not (folder / ".auditkit" / UNFINISHED).exists()


def test_a_file_that_changed_since_it_was_read_refuses_all(folder: Path) -> None:
    paths = sorted((folder / "batch7").glob("*.md"))
    held = {path: path.read_bytes() for path in paths}
    paths[6].write_bytes(b"meanwhile\n")
    before = contents(folder)
    with Repository(folder).writing(), pytest.raises(StoreConflictError, match=r"B7-PT-07\.md changed"):
        write_together(folder, held, {path: data + b"x\n" for path, data in held.items()})
    assert contents(folder) == before


@pytest.mark.parametrize("path", ["../x.md", "/tmp/auditkit-x.md", ".git/hooks/x.md", "batch7/x.txt", "link/x.md"])
def test_a_journal_that_somebody_made_up_reaches_nothing_but_tickets(folder: Path, path: str) -> None:
    """A repository can hold one: it must not lead out of the folder."""
    outside = folder.with_name("outside")
    outside.mkdir()
    (folder / "link").symlink_to(outside)
    side = folder / ".auditkit"
    side.mkdir()
    (side / ".gitignore").touch()
    lines = [{"session": "x", "words": [], "time": ""}, {"path": path, "before": "eA==", "after": ""}]
    for name in (LAST, UNFINISHED):
        (side / name).write_text("".join(json.dumps(line) + "\n" for line in lines))
    before = {found for found in folder.parent.rglob("*") if side not in found.parents}
    mend_if_killed(folder)
    with pytest.raises(BadInputError, match="nothing to undo"):
        undo(folder)
    assert {found for found in folder.parent.rglob("*") if side not in found.parents} == before
    assert not Path(path).exists()


KILLED = """
import os, signal, sys
from pathlib import Path
from auditkit.store.folder.journal import write_together
from auditkit.store.folder.repository import Repository

folder, calls = Path(sys.argv[1]), [int(sys.argv[2])]

def dying(call):
    def die_or_call(*arguments, **more):
        calls[0] -= 1
        if calls[0] == 0:
            os.kill(os.getpid(), signal.SIGKILL)
        return call(*arguments, **more)
    return die_or_call

held = {path: path.read_bytes() for path in sorted((folder / "batch7").glob("*.md"))}
first, second, *others = held
after = {path: held[path] + b"x\\n" for path in others}
after |= {first: None, folder / "closed" / first.name: held[first] + b"y\\n", second: held[second] + b"z\\n"}
before = held | {folder / "closed" / first.name: None}
os.replace, os.link, os.unlink = dying(os.replace), dying(os.link), dying(os.unlink)
with Repository(folder).writing():
    write_together(folder, before, after)
"""


@pytest.mark.process
def test_killed_at_any_step_it_is_all_or_none_at_the_next_command(folder: Path) -> None:
    """Every call that gives a file its name or takes it away is once the last; the control is a run that ends."""
    before, ends = contents(folder), set()
    for step in (1, 9, 37, 39, 40, 41, 42, 43, 44, 99):
        done = subprocess.run([sys.executable, "-c", KILLED, str(folder), str(step)], cwd=ROOT, check=False)
        left = contents(folder)
        mend_if_killed(folder)
        if done.returncode == 0:
            assert len([1 for path, data in contents(folder).items() if before.get(path) != data]) == 20
            break
        assert done.returncode == -signal.SIGKILL
        now = contents(folder)
        assert now in (before, left), step
        ends.add(now == before and left != before)
        if now != before:
            undo(folder)
        assert contents(folder) == before
        assert not [name for name in os.listdir(folder / ".auditkit") if name == UNFINISHED]
    else:
        pytest.fail("it never ended by itself")
    assert True in ends, "no kill met a write half done"
