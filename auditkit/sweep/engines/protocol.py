"""What a sweep asks of whatever runs its jobs: take a command, say when it ended, leave nothing behind."""

from __future__ import annotations

from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from auditkit.sweep.jobs import Resources


@dataclass(frozen=True)
class Task:
    """A command to run once, as it is, on any node: its result is a file in the sweep's folder, never its output.

    `key` names the job. A command that ends with 0 has done its work; it may be run again at any time without harm.
    """

    key: str
    command: tuple[str, ...]
    resources: Resources


@dataclass(frozen=True)
class Ended:
    """A task that runs no more. `reason` is "" where its command ended with 0, else what is known of why.

    `exit_code` is the command's, negative for a signal, None where nobody knows, as of a node that is lost. `again`
    is False where this engine can never run it.
    """

    key: str
    exit_code: int | None
    reason: str = ""
    node: str = ""
    again: bool = True


@dataclass(frozen=True)
class EngineSettings:
    """What an engine is told: the sweep's folder and name, how many jobs at a time, and options of its own.

    `jobs` of None lets the engine choose. `options` are words of the user's, such as a partition; an engine refuses
    those that it does not know.
    """

    folder: Path
    name: str
    jobs: int | None = None
    options: Mapping[str, str] = field(default_factory=dict)


class Engine(Protocol):
    """Runs tasks; used by one thread. What it started ends with `close`, also where that is called after Ctrl-C."""

    @property
    def capacity(self) -> int:
        """How many tasks it takes at a time, those that wait in a queue of its own among them."""

    @property
    def left_behind(self) -> Container[str]:
        """The keys of tasks that still run for a driver that is gone: `submit` takes them over until `finished`."""

    def submit(self, task: Task) -> None:
        """Take a task. Raises BadInputError where the engine itself cannot work, such as a cluster that is gone."""

    def finished(self, timeout_s: float) -> Sequence[Ended]:
        """What ended since the last call, each task once; waits for the first one for so many seconds at most."""

    def close(self) -> None:
        """End all that still runs, with the processes that it started, on every node; returns when they are gone."""
