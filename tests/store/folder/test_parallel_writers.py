"""Processes that wait for each other, and that are killed between the steps of a move: who comes first, what mends."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from auditkit.errors import ExitCode
from auditkit.store.folder.locks import locked
from auditkit.store.folder.repository import Repository
from auditkit.store.listing.index import read_index
from auditkit.store.listing.rows import ID
from tests.filing_helpers import ROOT, corpus_folder, put, ticket_text
from tests.project_files import Ended, auditkit, our_environment

pytestmark = pytest.mark.process
CORPUS = corpus_folder()

NEW_TICKETS = """
import sys
from pathlib import Path
from auditkit.errors import AuditkitError
from auditkit.model.enums import Severity
from auditkit.store.folder.repository import Repository
from auditkit.workflows.tickets.new_ticket import make_draft, new_ticket
refused = 0
for number in range(int(sys.argv[2])):
    try:
        new_ticket(Repository(Path(sys.argv[1])), make_draft("overflow", Severity.P2, "", ()), 7, "pytorch")
    except AuditkitError as error:
        print(error, file=sys.stderr)
        refused += 1
sys.exit(refused)
"""


def refused(folder: Path, writers: int, each: int) -> int:
    """How many new tickets several processes at once do not get, each after the other as fast as it can."""
    command = [sys.executable, "-c", NEW_TICKETS, str(folder), str(each)]
    running = [subprocess.Popen(command, cwd=ROOT, env=our_environment()) for _ in range(writers)]
    return sum(process.wait() for process in running)


def test_several_writers_of_new_tickets_are_not_refused(tmp_path: Path) -> None:
    assert refused(tmp_path, writers=3, each=5) == 0
    assert sorted(path.stem for path in tmp_path.rglob("*.md")) == [f"B7-PT-{n:02d}" for n in range(1, 16)]


@pytest.mark.slow
@pytest.mark.skipif(CORPUS is None, reason="the corpus of real tickets is not on this machine")
def test_sixteen_writers_of_a_hundred_new_tickets_are_not_refused(tmp_path: Path) -> None:
    assert CORPUS is not None
    folder = shutil.copytree(CORPUS / "tickets", tmp_path / "tickets")
    before = len(Repository(folder).used_ids())
    assert refused(folder, writers=16, each=100) == 0
    assert len(Repository(folder).used_ids()) == before + 1600


WAITER = """
import sys, time
from pathlib import Path
from auditkit.store.folder import locks
locks.tell = lambda told: open("told", "w").write(told)
sys.argv = ["/usr/bin/auditkit", "ticket", "assign", sys.argv[1]]
folder = Path.cwd()
with locks.locked(folder):
    with open("order", "a") as file:
        file.write(sys.argv[-1])
    time.sleep(0.03)
"""


def waiter(folder: Path, name: str) -> subprocess.Popen[bytes]:
    """A process that waits for the lock of the folder, once it has its place in the line."""
    environment = {**our_environment(), "PYTHONPATH": str(ROOT)}
    before = (folder / ".auditkit" / "lock-line").stat().st_size
    words = [sys.executable, "-c", WAITER, name]
    process = subprocess.Popen(words, cwd=folder, env=environment)
    while (folder / ".auditkit" / "lock-line").stat().st_size == before:
        time.sleep(0.005)
    return process


def test_who_comes_first_writes_first(tmp_path: Path) -> None:
    """Eight processes wait; in another order than they came they would write once in 40,320 times by chance."""
    with locked(tmp_path):
        waiting = [waiter(tmp_path, name) for name in "abcdefgh"]
    assert [process.wait() for process in waiting] == [0] * 8
    assert (tmp_path / "order").read_text() == "abcdefgh"


def test_a_waiter_that_was_killed_holds_up_nobody(tmp_path: Path) -> None:
    with locked(tmp_path):
        dead, living = waiter(tmp_path, "a"), waiter(tmp_path, "b")
        dead.kill()
        dead.wait()
    assert living.wait() == 0
    assert (tmp_path / "order").read_text() == "b"


def test_a_wait_of_a_second_is_told_with_its_holder(tmp_path: Path) -> None:
    with locked(tmp_path):
        waiting = waiter(tmp_path, "a")
        while not (tmp_path / "told").exists():
            time.sleep(0.05)
    assert waiting.wait() == 0
    told = (tmp_path / "told").read_text()
    assert re.fullmatch(rf"waiting for process {os.getpid()} \(.+\), which writes to .+", told)
    assert re.fullmatch(r"\d+ \(auditkit ticket assign a\)\n", (tmp_path / ".auditkit" / "lock").read_text())


KILLED = """
import os, signal, sys
name, count = sys.argv[1].split()
real, calls = getattr(os, name), []
def killing(*words, **more):
    calls.append(words)
    if len(calls) == int(count):
        os.kill(os.getpid(), signal.SIGKILL)
    return real(*words, **more)
setattr(os, name, killing)
sys.argv = ["auditkit", *sys.argv[2:]]
from auditkit.cli.main import main
main()
"""
WONT_FIX = ("status", "B7-PT-01", "wont-fix", "--reason", "only in a demo")


def killed(folder: Path, step: str, *words: str) -> None:
    """Run a ticket command that is killed before the call of a function of `os`: `unlink 2` is the second one."""
    command = [sys.executable, "-c", KILLED, step, "ticket", *words, "--tickets", str(folder)]
    ended = subprocess.run(command, cwd=ROOT, env=our_environment(), capture_output=True, check=False)
    assert ended.returncode == -signal.SIGKILL, ended


def run(folder: Path, *words: str) -> Ended:
    return auditkit("ticket", *words, "--tickets", folder, cwd=folder.parent)


def files(folder: Path) -> list[str]:
    return sorted(path.relative_to(folder).as_posix() for path in folder.rglob("*.md"))


@pytest.mark.parametrize("step", ["fsync 1", "replace 1", "fsync 2", "link 1", "unlink 1"])
def test_a_change_of_status_that_was_killed_is_finished_by_the_same_command(tmp_path: Path, step: str) -> None:
    """At each step one ticket is listed, git sees no temporary file, and afterwards nothing tells of the kill."""
    folder = tmp_path / "tickets"
    put(folder, "batch7/B7-PT-01.md", ticket_text())
    subprocess.run(["git", "init", "-q", str(tmp_path)], check=True)
    killed(folder, step, *WONT_FIX)
    assert [row[ID] for row in read_index(str(folder)).rows] == ["B7-PT-01"]
    assert run(folder, "list", "--all").stdout.count("B7-PT-01") == 1
    status = ["git", "-C", str(tmp_path), "status", "--porcelain", "-uall"]
    assert "tmp" not in subprocess.run(status, capture_output=True, text=True, check=True).stdout
    assert run(folder, *WONT_FIX).code == ExitCode.OK
    assert files(folder) == ["closed/B7-PT-01.md"]
    assert (folder / "closed/B7-PT-01.md").read_text().count("only in a demo") == 1
    assert [name for name in os.listdir(folder / ".auditkit") if "tmp" in name] == []


@pytest.mark.parametrize(
    ("words", "left"),
    [
        (("assign", "B7-PT-02", "Kim"), ["batch7/B7-PT-02.md", "closed/B7-PT-01.md"]),
        (("renumber", "B7-PT-01", "B7-PT-09"), ["batch7/B7-PT-02.md", "closed/B7-PT-09.md"]),
        (("renumber", "batch7/B7-PT-01.md", "B7-PT-09"), ["batch7/B7-PT-02.md"]),
    ],
    ids=["another ticket", "a new number", "its second name"],
)
def test_a_ticket_under_two_names_stays_one(tmp_path: Path, words: tuple[str, ...], left: list[str]) -> None:
    """Whatever is written next: the name that its status calls for stays, and no number is given twice."""
    put(tmp_path, "batch7/B7-PT-02.md", ticket_text("B7-PT-02"))
    old = put(tmp_path, "batch7/B7-PT-01.md", ticket_text(status="`wont-fix`"))
    (tmp_path / "closed").mkdir()
    os.link(old, tmp_path / "closed/B7-PT-01.md")
    assert run(tmp_path, "list", "--all").stdout.count("B7-PT-01") == 1
    assert run(tmp_path, "show", "B7-PT-01").code == ExitCode.OK
    ended = run(tmp_path, *words)
    assert ended.code in (ExitCode.OK, ExitCode.BAD_INPUT), ended
    found = files(tmp_path)
    assert set(left) <= set(found)
    assert len(found) == len({os.stat(tmp_path / name).st_ino for name in found}) == 2


def test_a_temporary_file_is_removed_when_its_writer_is_gone(tmp_path: Path) -> None:
    """That of a writer that runs stays: this one's, and one of an older release names nobody."""
    with locked(tmp_path):
        side = tmp_path / ".auditkit"
        gone = subprocess.run([sys.executable, "-c", "import os; print(os.getpid())"], capture_output=True, check=True)
        names = [f".B7-PT-01.md.{pid}-0a1b.auditkit-tmp" for pid in (os.getpid(), int(gone.stdout))]
        for name in (*names, ".B7-PT-01.md.0a1b.auditkit-tmp"):
            put(side, name, "")
    with locked(tmp_path):
        left = [path.name for path in side.glob(".*tmp")]
    assert left == names[:1]
