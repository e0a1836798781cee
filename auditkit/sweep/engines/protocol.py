"""The interface of an engine: take a command, say when it ended, leave nothing behind."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from auditkit.sweep.jobs import Resources


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
