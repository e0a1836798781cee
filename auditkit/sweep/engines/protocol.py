"""The interface of an engine: take a command, say when it ended, leave nothing behind."""

from __future__ import annotations

from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from auditkit.errors import BadInputError
from auditkit.sweep.jobs import Resources


@dataclass(frozen=True)
class Task:
    """A command to run once on any node: its result is a file in the sweep's folder, never its output.

    `key` names the job. A command that ends with 0 has done its work; it may run again at any time without harm.
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


@dataclass(frozen=True)
class EngineSettings:
    """The sweep's folder and name, how many jobs at a time (None: the engine chooses), and the user's options."""

    folder: Path
    name: str
    jobs: int | None = None
    options: Mapping[str, str] = field(default_factory=dict)

    def check_options(self, engine: str, known: Sequence[str]) -> None:
        """Raise BadInputError for an option that the engine does not know."""
        unknown = next((name for name in self.options if name not in known), None)
        if unknown is not None:
            raise BadInputError(f"the {engine} engine has no option '{unknown}'", f"one of {', '.join(known)}")


class Engine(Protocol):
    """Runs tasks; used by one thread. What it started ends with `close`, also after Ctrl-C."""

    @property
    def capacity(self) -> int:
        """How many tasks it takes at a time, with those that wait in a queue of its own."""

    @property
    def left_behind(self) -> Container[str]:
        """The keys of tasks that still run for an earlier driver: `submit` takes them over until `finished`."""

    def submit(self, task: Task) -> None:
        """Take a task. Raises BadInputError if the engine itself cannot work, such as a lost cluster."""

    def finished(self, timeout_s: float) -> Sequence[Ended]:
        """Return what ended since the last call; wait at most `timeout_s` for the first one."""

    def close(self) -> None:
        """End all that still runs, with the processes that it started, on every node, and wait for that."""
