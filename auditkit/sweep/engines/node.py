"""A job's command on the machine that runs it: start it, keep its last words, leave nothing of it behind."""

from __future__ import annotations

import contextlib
import os
import select
import signal
import socket
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from types import FrameType

from auditkit.model.text import inert_line

LIFELINE = "--lifeline"
"""Tells a job's command to end when its standard input does: when whoever started it is gone."""
_GRACE_S = 15.0
# Ray interrupts between two lines of Python: no call may wait longer.
_LOOK_S = 0.5
_TAIL_BYTES = 2000


def start_command(
    command: Sequence[str], log: str | Path, environment: Mapping[str, str] | None
) -> subprocess.Popen[bytes]:
    """Start a job's command in a session of its own; what it prints goes to `log`. Raises OSError where it cannot."""
    with open(log, "wb") as words:
        return subprocess.Popen(
            [*command, LIFELINE],
            stdin=subprocess.PIPE,
            stdout=words,
            stderr=words,
            env=environment,
            start_new_session=True,
        )


def run_command(command: Sequence[str], log: str, unset: Sequence[str] = ()) -> tuple[int | None, str, str]:
    """Run a command; its exit code, why it ended with another than 0, and this node's name.

    It is told to end when this process is interrupted or gets SIGTERM, and ends by itself when this process is killed.
    `unset` are variables of this process's environment that it does not see.
    """
    node = os.environ.get("SLURMD_NODENAME") or socket.gethostname()
    environment = {name: value for name, value in os.environ.items() if name not in unset}
    try:
        process = start_command(command, log, environment)
    except OSError as error:
        return None, f"it could not be started: {error.strerror}", node
    try:
        with _terminated_by(process):
            _wait(process)
    finally:
        code = _end(process)
    if code == 0:
        with contextlib.suppress(OSError):
            os.unlink(log)
        return 0, "", node
    return code, reason_of(code, last_words(log)), node


def _wait(process: subprocess.Popen[bytes]) -> None:
    pidfd = os.pidfd_open(process.pid)
    try:
        while not select.select([pidfd], [], [], _LOOK_S)[0]:
            pass
    finally:
        os.close(pidfd)


@contextlib.contextmanager
def _terminated_by(process: subprocess.Popen[bytes]) -> Iterator[None]:
    """Hand SIGTERM on to the command."""

    def hand_on(_number: int, _frame: FrameType | None) -> None:
        process.terminate()

    before = signal.signal(signal.SIGTERM, hand_on)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def _end(process: subprocess.Popen[bytes]) -> int:
    """End what still runs of a command, politely first; its exit code."""
    if process.poll() is None:
        process.terminate()
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(_GRACE_S)
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)
    code = process.wait()
    assert process.stdin is not None
    process.stdin.close()
    return code


def reason_of(exit_code: int, last_words: str = "") -> str:
    """Why a command ended, in words: its signal or exit code, and the last line that it wrote."""
    if exit_code < 0:
        try:
            name = signal.Signals(-exit_code).name
        except ValueError:
            name = str(-exit_code)
        hint = ", perhaps for want of memory" if exit_code == -signal.SIGKILL else ""
        said = f"killed by {name}{hint}"
    else:
        said = f"exit code {exit_code}"
    lines = [line for line in last_words.splitlines() if line.strip()]
    return f"{said}: {inert_line(lines[-1])[:300]}" if lines else said


def last_words(path: str | Path) -> str:
    """The end of a log; "" where there is none."""
    try:
        with open(path, "rb") as file:
            file.seek(max(0, os.fstat(file.fileno()).st_size - _TAIL_BYTES))
            return file.read().decode("utf-8", "replace")
    except OSError:
        return ""
