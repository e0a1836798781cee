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
from auditkit.store.folder.locks import locked
from auditkit.store.folder.side_folder import make_recovery_folder
from tests.filing_helpers import ROOT

HOLDER = """
import sys, time
from pathlib import Path
from auditkit.store.folder.locks import locked
from auditkit.store.folder.side_folder import make_recovery_folder
with locked(Path(sys.argv[1])):
    print('held', flush=True)
    time.sleep(600)
"""


def hold(folder: Path) -> subprocess.Popen[bytes]:
    holder = subprocess.Popen([sys.executable, "-c", HOLDER, str(folder)], cwd=ROOT, stdout=subprocess.PIPE)
    assert holder.stdout is not None
    assert holder.stdout.readline() == b"held\n"
    return holder


@pytest.mark.process
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


@pytest.mark.parametrize("linked", [".auditkit", ".auditkit/lock", ".auditkit/lock-line", ".auditkit/recovery"])
def test_nothing_is_written_through_a_link(tmp_path: Path, linked: str) -> None:
    """A cloned repository can hold such a link; without one the same calls write there."""
    outside, tickets = tmp_path / "outside", tmp_path / "tickets"
    (tickets / linked).parent.mkdir(parents=True)
    outside.mkdir()
    kept = outside / "kept"
    kept.write_text("mine")
    (tickets / linked).symlink_to(kept if linked.endswith("lock") else outside)

    def write() -> None:
        with locked(tickets, 0.0):
            make_recovery_folder(tickets)

    with pytest.raises(StoreConflictError, match=f"{linked} is a link") as caught:
        write()
    assert (caught.value.exit_code, kept.read_text(), os.listdir(outside)) == (
        ExitCode.STORE_CONFLICT,
        "mine",
        ["kept"],
    )
    (tickets / linked).unlink()
    write()
    assert {"lock", "recovery"} <= set(os.listdir(tickets / ".auditkit"))
