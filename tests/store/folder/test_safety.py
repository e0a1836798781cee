"""Writers at once, killed, without room or with a disk that fails; and naive writers that the same checks catch."""

from __future__ import annotations

import ctypes
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from auditkit.errors import ExitCode
from auditkit.store.folder.repository import Repository
from tests.filing_helpers import ROOT, put, ticket_text
from tests.project_files import our_environment

pytestmark = pytest.mark.process

# Adds lines to one section of a few tickets, one edit at a time, each line once.
OURS = """
def edit(repository, ticket_id, line):
    repository.change(ticket_id, lambda entry: entry.document.append_to_section("Verification", [line]))
"""
NAIVE = """
def edit(repository, ticket_id, line):
    entry = repository.find(ticket_id)
    entry.file.write_bytes(entry.document.append_to_section("Verification", [line]).data)
"""
WRITER = """
import sys
from pathlib import Path
from auditkit.store.folder.repository import Repository
{edit}
folder, writer, edits, tickets = Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]), int(sys.argv[4])
repository = Repository(folder, lock_timeout_s=600)
print("ready", flush=True)
sys.stdin.readline()
for number in range(edits):
    edit(repository, f"B7-PT-{{(writer + number) % tickets + 1:02d}}", f"- [ ] line {{writer}}.{{number}}")
"""


def lost_lines(folder: Path, edit: str, writers: int, edits: int, tickets: int) -> int:
    """How many edits of several processes at once are not in the files afterwards; files that broke count whole."""
    for number in range(1, tickets + 1):
        put(folder, f"B7-PT-{number:02d}.md", ticket_text(f"B7-PT-{number:02d}"))
    program = WRITER.format(edit=edit)
    command = [sys.executable, "-c", program, str(folder)]
    running = [
        subprocess.Popen(
            [*command, str(writer), str(edits), str(tickets)], cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
        )
        for writer in range(writers)
    ]  # fmt: skip
    for process in running:
        assert process.stdout is not None
        process.stdout.readline()
    for process in running:
        assert process.stdin is not None
        process.stdin.write(b"go\n")
        process.stdin.flush()
    for process in running:
        process.communicate()
    text = "".join(path.read_text() for path in folder.glob("*.md"))
    return writers * edits - len(set(re.findall(r"line \d+\.\d+", text)))


def test_writers_at_once_lose_nothing(tmp_path: Path) -> None:
    assert lost_lines(tmp_path, OURS, writers=4, edits=15, tickets=3) == 0
    assert sorted(os.listdir(tmp_path)) == [".auditkit", "B7-PT-01.md", "B7-PT-02.md", "B7-PT-03.md"]


def test_a_writer_without_the_lock_loses_lines(tmp_path: Path) -> None:
    assert lost_lines(tmp_path, NAIVE, writers=4, edits=15, tickets=1) > 0


@pytest.mark.slow
def test_sixteen_writers_lose_none_of_ten_thousand_edits(tmp_path: Path) -> None:
    assert lost_lines(tmp_path, OURS, writers=16, edits=625, tickets=200) == 0


KILLED = """
import sys
from pathlib import Path
from auditkit.store.folder.repository import Repository
{edit}
repository = Repository(Path(sys.argv[1]))
print("ready", flush=True)
for number in range(1000):
    edit(repository, "B7-PT-01", f"- [ ] {{number:05d} " + "x" * 2000)
"""


def test_a_writer_killed_among_many_writes_leaves_a_whole_ticket_and_nothing_else(tmp_path: Path) -> None:
    """The next writer gets the dead one's lock at once and removes what it left."""
    put(tmp_path, "B7-PT-01.md", ticket_text())
    program = KILLED.replace("{edit}", OURS).replace("{{number:05d}", "{number:05d}").replace("}}", "}")
    for kill in range(5):
        writing = subprocess.Popen([sys.executable, "-c", program, str(tmp_path)], cwd=ROOT, stdout=subprocess.PIPE)
        with writing:
            assert writing.stdout is not None
            assert writing.stdout.readline() == b"ready\n"
            time.sleep(0.03 + 0.017 * kill)
            writing.send_signal(signal.SIGKILL)
        assert writing.returncode == -signal.SIGKILL
        text = (tmp_path / "B7-PT-01.md").read_text()
        assert all(line.endswith("x" * 2000) for line in text.splitlines() if re.match(r"- \[ \] \d{5} ", line))
        repository = Repository(tmp_path, lock_timeout_s=1)
        repository.change("B7-PT-01", lambda entry: entry.document.append_to_section("Verification", ["- [ ] after"]))
        assert sorted(os.listdir(tmp_path)) == [".auditkit", "B7-PT-01.md"]


FAILING = """
import errno, os, sys
failing = sys.argv[1]
def refuse(*words):
    raise OSError(errno.EIO if failing == "fsync" else errno.ENOSPC, os.strerror(errno.EIO))
setattr(os, failing, refuse)
sys.argv = ["auditkit", *sys.argv[2:]]
from auditkit.cli.main import main
main()
"""


@pytest.mark.parametrize("failing", ["fsync", "replace"])
def test_a_disk_that_fails_is_reported_and_the_ticket_is_as_it_was(tmp_path: Path, failing: str) -> None:
    path = put(tmp_path, "B7-PT-01.md", ticket_text())
    before = path.read_bytes()
    words = ["ticket", "status", "B7-PT-01", "investigating", "--tickets", str(tmp_path)]
    done = subprocess.run(
        [sys.executable, "-c", FAILING, failing, *words], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert done.returncode == ExitCode.STORE_CONFLICT
    assert "nothing was changed" in done.stderr
    assert done.stdout == ""
    assert path.read_bytes() == before
    assert sorted(os.listdir(tmp_path)) == [".auditkit", "B7-PT-01.md"]


NAIVE_COMMAND = """
import sys
from pathlib import Path
path = Path(sys.argv[1], "B7-PT-01.md")
text = path.read_text()
path.write_text(text.replace("`open`", "`investigating`") + "x" * 20_000)
"""
LEFT_ALONE, CHANGED = 0, 99


def on_a_full_disk(tmp_path: Path, *command: str) -> tuple[subprocess.CompletedProcess[str], int]:
    """The command with a folder that has one ticket and no free block, and whether the ticket was left alone.

    The folder is a file system of 64 kB in a mount namespace of its own.
    """
    script = (
        'mount -t tmpfs -o size=64k none "$1" || exit 77; cp "$2" "$1/B7-PT-01.md"; mkdir "$1/.auditkit";'
        ' : > "$1/.auditkit/lock"; dd if=/dev/zero of="$1/filler" bs=4k 2>/dev/null; disk="$1"; original="$2";'
        ' shift 2; "$@" "$disk"; echo "code $?"; ls -A "$disk"; cmp "$disk/B7-PT-01.md" "$original" || exit 99'
    )
    original = put(tmp_path, "original.md", ticket_text())
    (tmp_path / "disk").mkdir()
    words = ["unshare", "-m", "sh", "-c", script, "sh", str(tmp_path / "disk"), str(original), *command]
    try:
        done = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, check=False)
    except FileNotFoundError:
        pytest.skip("unshare is not installed")
    if done.returncode == 77 or "unshare" in done.stderr:
        pytest.skip("no mount namespace can be made here")
    return done, done.returncode


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can mount a small disk")
def test_a_full_disk_is_reported_and_the_ticket_is_as_it_was(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "auditkit", "ticket", "status", "B7-PT-01", "investigating", "--tickets"]
    done, ticket = on_a_full_disk(tmp_path, *command)
    assert ticket == LEFT_ALONE
    assert "No space left on device" in done.stderr
    assert done.stdout.split() == ["code", str(int(ExitCode.STORE_CONFLICT)), ".auditkit", "B7-PT-01.md", "filler"]


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can mount a small disk")
def test_the_same_check_finds_what_a_naive_writer_loses_on_a_full_disk(tmp_path: Path) -> None:
    _, ticket = on_a_full_disk(tmp_path, sys.executable, "-c", NAIVE_COMMAND)
    assert ticket == CHANGED


def git(folder: Path, *words: str) -> int:
    identity = ["-c", "user.name=Tester", "-c", "user.email=tester@example.org", "-c", "commit.gpgsign=false"]
    return subprocess.run(["git", "-C", str(folder), *identity, *words], capture_output=True, check=False).returncode


def merges(folder: Path, ours: Callable[[Path], None], theirs: Callable[[Path], None]) -> bool:
    """Whether two branches merge that each edited the same ticket."""
    path = put(folder, "tickets/B7-PT-01.md", ticket_text())
    git(folder, "init", "-q", "-b", "main")
    git(folder, "add", "-A")
    git(folder, "commit", "-qm", "base")
    git(folder, "branch", "side")
    for branch, edit in (("main", ours), ("side", theirs)):
        git(folder, "checkout", "-q", branch)
        edit(path)
        assert git(folder, "commit", "-qam", branch) == 0
    return git(folder, "merge", "-q", "main") == 0


def command(words: str) -> Callable[[Path], None]:
    def run(path: Path) -> None:
        program = [sys.executable, "-m", "auditkit", "ticket", *words.split(), "--tickets", str(path.parent)]
        subprocess.run(program, cwd=ROOT, check=True, capture_output=True)

    return run


def naive(old: str, new: str, date: str) -> Callable[[Path], None]:
    """An edit that stamps the ticket with its date, as a tracker would that keeps the time of the last change."""

    def run(path: Path) -> None:
        text = path.read_text().replace(old, new)
        path.write_text(text.replace("**Updated** | 2026-01-02", f"**Updated** | {date}"))

    return run


def test_two_branches_that_edit_different_fields_merge(tmp_path: Path) -> None:
    assert merges(tmp_path / "one", command("status B7-PT-01 investigating"), command("assign B7-PT-01 Kim"))
    assert merges(tmp_path / "two", command("edit B7-PT-01 severity P1"), command("assign B7-PT-01 Kim"))


def test_edits_that_both_stamp_the_ticket_do_not_merge(tmp_path: Path) -> None:
    first = naive("**Severity** | `P2`", "**Severity** | `P1`", "2026-03-04")
    second = naive("**Assignee** | |", "**Assignee** | Kim |", "2026-03-05")
    assert not merges(tmp_path, first, second)


# What the kernel lets an administrator pass over, and others not.
_DAC_OVERRIDE, _DAC_READ_SEARCH, _PR_CAPBSET_DROP = 1, 2, 24


def as_anybody() -> None:
    """Give up what lets root read every folder, from the next program on."""
    libc = ctypes.CDLL(None, use_errno=True)
    for capability in (_DAC_OVERRIDE, _DAC_READ_SEARCH):
        libc.prctl(_PR_CAPBSET_DROP, capability, 0, 0, 0)


@pytest.mark.skipif(sys.platform != "linux", reason="drops capabilities as Linux has them")
@pytest.mark.parametrize(
    ("mode", "said"),
    [
        (0o600, "tickets/closed/B7-PT-02.md:1:1: (TK000 error: )?cannot be read: Permission denied"),
        (0o300, "tickets/closed:1:1: (TK000 error: )?a folder that cannot be listed"),
    ],
)
def test_a_folder_that_cannot_be_read_hides_no_other_ticket(mode: int, said: str, tmp_path: Path) -> None:
    """It is named, the rest is listed, and the exit code is that of what cannot be read; no id is given twice."""
    put(tmp_path, "tickets/batch7/B7-PT-01.md", ticket_text("B7-PT-01"))
    closed = put(tmp_path, "tickets/closed/B7-PT-02.md", ticket_text("B7-PT-02")).parent

    def run(*words: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "auditkit", "ticket", *words]
        environment = {**our_environment(), "XDG_CACHE_HOME": str(tmp_path / "cache")}
        return subprocess.run(
            command, cwd=tmp_path, env=environment, preexec_fn=as_anybody, capture_output=True, text=True, check=False
        )

    closed.chmod(mode)
    try:
        for command in ("list", "lint", "stats"):
            ended = run(command)
            assert ended.returncode == ExitCode.BAD_INPUT
            assert re.search(said, ended.stdout + ended.stderr), ended
        assert "B7-PT-01" in run("list").stdout
        assert run("show", "B7-PT-01").returncode == ExitCode.OK
        made = run("new", "--title", "Another", "--severity", "P2", "--agent", "pytorch", "--batch", "7", "--json")
        taken = made.returncode == ExitCode.BAD_INPUT or '"B7-PT-03"' in made.stdout
        assert taken, made
    finally:
        closed.chmod(0o700)
