"""One writer at a time, and a lock that dies with its holder."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from auditkit.errors import ExitCode, StoreConflictError
from auditkit.store.locks import locked
from tests.filing_helpers import ROOT

HOLDER = """
import sys, time
from pathlib import Path
from auditkit.store.locks import locked
with locked(Path(sys.argv[1])):
    print('held', flush=True)
    time.sleep(600)
"""


def hold(folder: Path) -> subprocess.Popen[bytes]:
    holder = subprocess.Popen([sys.executable, "-c", HOLDER, str(folder)], cwd=ROOT, stdout=subprocess.PIPE)
    assert holder.stdout is not None
    assert holder.stdout.readline() == b"held\n"
    return holder


def test_a_held_lock_is_a_conflict_that_names_its_holder_and_ends_with_it(tmp_path: Path) -> None:
    with hold(tmp_path) as holder:
        with (
            pytest.raises(StoreConflictError, match=f"locked by process {holder.pid}") as caught,
            locked(tmp_path, 0.05),
        ):
            pass
        assert caught.value.exit_code is ExitCode.STORE_CONFLICT
        holder.send_signal(signal.SIGKILL)
    with locked(tmp_path, 0.0):
        pass


def test_the_lock_is_free_after_an_error_inside(tmp_path: Path) -> None:
    with pytest.raises(KeyError), locked(tmp_path):
        raise KeyError
    with locked(tmp_path, 0.0):
        pass


def test_a_removed_side_folder_is_made_again_and_keeps_out_of_git(tmp_path: Path) -> None:
    with locked(tmp_path / "tickets"):
        pass
    shutil.rmtree(tmp_path / "tickets" / ".auditkit")
    with locked(tmp_path / "tickets"):
        assert (tmp_path / "tickets" / ".auditkit" / ".gitignore").read_text() == "*\n"


def test_a_folder_that_cannot_be_made_is_a_conflict(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises(StoreConflictError, match="cannot lock"), locked(tmp_path / "file"):
        pass
    assert os.listdir(tmp_path) == ["file"]
