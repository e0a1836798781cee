"""Writes that happen whole or not at all: refused, cut short, killed."""

from __future__ import annotations

import contextlib
import os
import resource
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from auditkit.errors import ExitCode, StoreConflictError
from auditkit.store.folder.files import create_file, ensure_writable, remove_leftovers, replace_file
from tests.filing_helpers import ROOT

pytestmark = pytest.mark.process


def in_a_child(action: Callable[[], None]) -> tuple[int, str]:
    """Run `action` in a forked process: its exit code, and what it wrote on its standard error."""
    with tempfile.TemporaryFile() as errors:
        child = os.fork()
        if child == 0:
            code = 99
            with contextlib.suppress(BaseException):
                try:
                    action()
                    code = 0
                except StoreConflictError as error:
                    os.write(errors.fileno(), error.message.encode())
                    code = int(error.exit_code)
            os._exit(code)
        code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        errors.seek(0)
        return code, errors.read().decode()


def test_a_file_is_replaced_with_its_mode_kept(tmp_path: Path) -> None:
    path = tmp_path / "a.md"
    path.write_bytes(b"old")
    path.chmod(0o640)
    replace_file(path, b"new", expected=b"old")
    assert path.read_bytes() == b"new"
    assert path.stat().st_mode & 0o777 == 0o640
    assert os.listdir(tmp_path) == ["a.md"]


def test_a_file_that_changed_meanwhile_is_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "a.md"
    path.write_bytes(b"edited by someone")
    with pytest.raises(StoreConflictError, match="changed on disk") as caught:
        replace_file(path, b"new", expected=b"old")
    assert caught.value.exit_code is ExitCode.STORE_CONFLICT
    assert path.read_bytes() == b"edited by someone"
    assert os.listdir(tmp_path) == ["a.md"]


def test_a_link_is_not_written_through(tmp_path: Path) -> None:
    (tmp_path / "elsewhere").write_bytes(b"old")
    (tmp_path / "a.md").symlink_to("elsewhere")
    with pytest.raises(StoreConflictError, match="not a regular file"):
        replace_file(tmp_path / "a.md", b"new", expected=b"old")
    assert (tmp_path / "elsewhere").read_bytes() == b"old"


def test_a_new_file_gets_its_folder_and_the_usual_mode(tmp_path: Path) -> None:
    path = tmp_path / "batch7" / "deep" / "a.md"
    mask = os.umask(0o027)
    try:
        create_file(path, b"new")
    finally:
        os.umask(mask)
    assert path.read_bytes() == b"new"
    assert path.stat().st_mode & 0o777 == 0o640
    assert os.listdir(path.parent) == ["a.md"]


def test_a_new_file_overwrites_nothing(tmp_path: Path) -> None:
    path = tmp_path / "a.md"
    path.write_bytes(b"old")
    with pytest.raises(StoreConflictError, match="exists already"):
        create_file(path, b"new")
    assert path.read_bytes() == b"old"
    assert os.listdir(tmp_path) == ["a.md"]


def test_a_folder_that_is_a_file_is_refused_up_front(tmp_path: Path) -> None:
    (tmp_path / "tickets").write_bytes(b"")
    for folder in (tmp_path / "tickets", tmp_path / "tickets" / "batch7"):
        with pytest.raises(StoreConflictError, match="Not a directory"):
            ensure_writable(folder)
        with pytest.raises(StoreConflictError, match="cannot write"):
            create_file(folder / "a.md", b"new")


def test_checking_leaves_nothing_behind(tmp_path: Path) -> None:
    ensure_writable(tmp_path / "not" / "yet")
    assert os.listdir(tmp_path) == []


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user")
def test_a_folder_of_another_user_is_refused_and_unchanged() -> None:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        folder.chmod(0o755)
        (folder / "a.md").write_bytes(b"old")

        def as_nobody(action: Callable[[], None]) -> Callable[[], None]:
            def run() -> None:
                os.setgid(65534)
                os.setuid(65534)
                action()

            return run

        for action in (
            lambda: ensure_writable(folder),
            lambda: create_file(folder / "b.md", b"new"),
            lambda: replace_file(folder / "a.md", b"new", expected=b"old"),
        ):
            code, message = in_a_child(as_nobody(action))
            assert code == ExitCode.STORE_CONFLICT
            assert "Permission denied" in message
        assert os.listdir(folder) == ["a.md"]
        assert (folder / "a.md").read_bytes() == b"old"


@pytest.mark.parametrize("is_new", [True, False])
def test_a_write_that_finds_no_room_leaves_the_old_file_and_no_other(tmp_path: Path, is_new: bool) -> None:
    path = tmp_path / "a.md"
    path.write_bytes(b"old")

    def write_too_much() -> None:
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))
        if is_new:
            create_file(tmp_path / "b.md", b"x" * 5000)
        else:
            replace_file(path, b"x" * 5000, expected=b"old")

    code, message = in_a_child(write_too_much)
    assert code == ExitCode.STORE_CONFLICT
    assert "File too large; nothing was changed" in message
    assert path.read_bytes() == b"old"
    assert os.listdir(tmp_path) == ["a.md"]


OUR_WRITER = "replace_file(path, new, expected=old)"
NAIVE_WRITER = """
with open(path, 'wb') as file:
    for start in range(0, len(new), 4096):
        file.write(new[start:start + 4096]); file.flush()
"""
LOOP = """
import sys
from pathlib import Path
from auditkit.store.folder.files import replace_file
path = Path(sys.argv[1])
old, new = b'a' * 400_000, b'b' * 400_000
path.write_bytes(old)
print('ready', flush=True)
while True:
    {}
    old, new = new, old
"""


def torn_files_after_kills(writer: str, path: Path, kills: int) -> int:
    """How often a writer that was killed at a random moment left neither of its two versions."""
    program = LOOP.format(writer.strip().replace("\n", "\n    "))
    torn = 0
    for kill in range(kills):
        writing = subprocess.Popen([sys.executable, "-c", program, str(path)], cwd=ROOT, stdout=subprocess.PIPE)
        with writing:
            assert writing.stdout is not None
            assert writing.stdout.readline() == b"ready\n"
            time.sleep(0.02 + 0.0037 * kill)
            writing.send_signal(signal.SIGKILL)
        data = path.read_bytes()
        torn += data not in (b"a" * 400_000, b"b" * 400_000)
    return torn


def test_a_killed_writer_leaves_a_whole_file(tmp_path: Path) -> None:
    assert torn_files_after_kills(OUR_WRITER, tmp_path / "a.md", kills=12) == 0
    remove_leftovers(tmp_path)
    assert os.listdir(tmp_path) == ["a.md"]


def test_the_check_for_torn_files_finds_those_of_a_naive_writer(tmp_path: Path) -> None:
    assert torn_files_after_kills(NAIVE_WRITER, tmp_path / "a.md", kills=12) > 0
