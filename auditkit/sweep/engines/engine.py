"""What all engines share: their interface, and a job's command on the machine that runs it."""

from __future__ import annotations

import contextlib
import hashlib
import os
import signal
import socket
import subprocess
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from auditkit.model.text import inert_line
from auditkit.sweep.jobs import Resources

_GRACE_S = 15.0
_GONE_WITHIN_S = 2.0
"""A killed process is gone as soon as the kernel has its memory back."""
_LOOK_S = 0.1
"""Ray interrupts between two lines of Python: no call may wait for long."""
_TAIL_BYTES = 2000


@dataclass(frozen=True)
class Task:
    """A command to run once on any node: its result is a file in the sweep's folder, never its output.

    `key` names the job. A command that ends with 0 has done its work; it may run again at any time without harm. It
    ends when its standard input does, because its driver is gone.
    """

    key: str
    command: tuple[str, ...]
    resources: Resources


@dataclass(frozen=True)
class Ended:
    """A task that runs no more. `reason` is "" if its command ended with 0.

    `exit_code` is negative for a signal, None if it is not known, as of a lost node. `again` is False if this engine
    can never run the task.
    """

    key: str
    exit_code: int | None
    reason: str = ""
    node: str = ""
    again: bool = True


class Engine(Protocol):
    """Runs tasks; used by one thread. What it started ends with `close`, also after Ctrl-C."""

    @property
    def capacity(self) -> int:
        """How many tasks it takes at a time, with those that wait in a queue of its own."""

    def submit(self, task: Task) -> None:
        """Take a task. Raises BadInputError if the engine itself cannot work, such as a lost cluster."""

    def finished(self, timeout_s: float) -> Sequence[Ended]:
        """Return what ended since the last call; wait at most `timeout_s` for the first one."""

    def close(self) -> None:
        """End all that still runs, with the processes that it started, on every node, and wait for that."""


def sweep_name(folder: Path) -> str:
    """Return the name of a folder's sweep on a cluster, the same for everybody who runs one in this folder."""
    return f"auditkit-{hashlib.sha256(os.fsencode(folder.resolve())).hexdigest()[:12]}"


# On the machine that runs the job.


def start_command(
    command: Sequence[str], log: str | Path, environment: Mapping[str, str] | None
) -> subprocess.Popen[bytes]:
    """Start a job's command in a session of its own; its output goes to `log`. Raises OSError if it cannot start."""
    with open(log, "wb") as output:
        return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=output, stderr=output, env=environment,
                                start_new_session=True)  # fmt: skip


def run_command(command: Sequence[str], log: str, unset: Sequence[str] = ()) -> tuple[int | None, str, str]:
    """Run a command; return its exit code, why it ended with another than 0, and this node's name.

    The command gets SIGTERM if this process is interrupted or gets it, and ends by itself if this process is killed.
    It does not see the variables `unset`.
    """
    node = os.environ.get("SLURMD_NODENAME") or socket.gethostname()
    environment = {name: value for name, value in os.environ.items() if name not in unset}
    try:
        process = start_command(command, log, environment)
    except OSError as error:
        return None, f"it could not be started: {error.strerror}", node
    before = signal.signal(signal.SIGTERM, lambda _number, _frame: process.terminate())
    try:
        while process.poll() is None:
            time.sleep(_LOOK_S)
    finally:
        signal.signal(signal.SIGTERM, before)
        code, reason = end_command(process, log)
    return code, reason, node


def end_command(process: subprocess.Popen[bytes], log: str | Path) -> tuple[int, str]:
    """End what still runs of a command, by SIGTERM first, and its session; return its exit code and why it is not 0."""
    if process.poll() is None:
        # It removes its copy of the checkout and ends its workers.
        process.terminate()
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(_GRACE_S)
    deadline = time.monotonic() + _GONE_WITHIN_S
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        while time.monotonic() < deadline:
            os.killpg(process.pid, 0)
            time.sleep(0.005)
    code = process.wait()
    assert process.stdin is not None
    process.stdin.close()
    if code == 0:
        Path(log).unlink(missing_ok=True)
    return code, "" if code == 0 else _reason(code, log)


def _reason(code: int, log: str | Path) -> str:
    """Return why a command ended: its signal or exit code, and the last line that it wrote."""
    reason, words = f"exit code {code}", last_words(log)
    if code < 0:
        known = {number.value: number.name for number in signal.Signals}
        hint = ", perhaps because memory ran out" if code == -signal.SIGKILL else ""
        reason = f"killed by {known.get(-code, -code)}{hint}"
    return f"{reason}: {words}" if words else reason


def last_words(log: str | Path) -> str:
    """Return the last line of a log; "" if there is none."""
    try:
        with open(log, "rb") as file:
            file.seek(max(0, os.fstat(file.fileno()).st_size - _TAIL_BYTES))
            lines = file.read().decode("utf-8", "replace").split("\n")
    except OSError:
        return ""
    return next((inert_line(line)[:300] for line in reversed(lines) if line.strip()), "")
