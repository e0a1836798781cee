"""What the watched processes wrote: one JSON file for each, read as plain values."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

VERSION = 1
Place = tuple[str, int, str]


@dataclass(frozen=True)
class Process:
    """One process that imported torch. `data` is its file's content; a process without a step trained nothing."""

    data: dict[str, Any]

    def __getattr__(self, name: str) -> Any:
        try:
            return self.data[name]
        except KeyError:
            raise AttributeError(name) from None

    @property
    def rank(self) -> int:
        return int(self.data["identity"]["rank"])

    @property
    def world(self) -> int:
        return int(self.data["identity"]["world"])

    @property
    def job(self) -> tuple[str, int]:
        """Processes of one job and restart train together."""
        identity = self.data["identity"]
        return str(identity["job"]), int(identity["restart"])

    @property
    def steps(self) -> int:
        return int(self.data.get("steps", 0))

    @property
    def stepping(self) -> list[dict[str, Any]]:
        """The optimizers that made an inspected step."""
        return [each for each in self.optimizers if each["inspected"]]

    def turns_of(self, optimizer: int, step: int | None = None) -> list[dict[str, Any]]:
        return [turn for turn in self.turns if turn["optimizer"] == optimizer and step in (None, turn["step"])]

    def name_of(self, index: int) -> str:
        """A parameter's name; one that no module holds is named by its shape."""
        parameter = self.parameters[index]
        return parameter["name"] or f"a tensor of shape {tuple(parameter['shape'])} of no module"


@dataclass(frozen=True)
class Recording:
    """All processes of a run: those that trained, by rank, and how many loaded the watcher at all."""

    trained: tuple[Process, ...]
    loaded: tuple[Process, ...]
    reasons: tuple[str, ...] = ()
    root: Path = field(default_factory=Path.cwd)
    revision: str = ""
    dirty: bool = False

    @property
    def world(self) -> int:
        return max((each.world for each in self.trained), default=1)

    @property
    def main(self) -> Process:
        """The first process that trained: rank 0 if it reported."""
        return self.trained[0]

    @property
    def watched(self) -> int:
        return max((len({turn["turn"] for turn in each.turns}) for each in self.trained), default=0)

    @property
    def steps(self) -> int:
        """Steps of all optimizers, of the process that made the most."""
        return max((int(each.data["turns_seen"]) for each in self.trained), default=0)

    def jobs(self) -> list[list[Process]]:
        """The processes that trained together, job by job."""
        jobs: dict[tuple[str, int], list[Process]] = {}
        for each in self.trained:
            jobs.setdefault(each.job, []).append(each)
        return list(jobs.values())


def read_recording(folder: Path, root: Path) -> Recording:
    """Read every file that a process left in `folder`. A file that is half written by a lost machine is left out."""
    found, reasons = [], []
    for path in sorted(folder.glob("process-*.json")):
        try:
            data = json.loads(path.read_text("utf-8"))
        except (OSError, ValueError):
            continue
        if data.get("version") == VERSION:
            found.append(Process(data))
    for path in sorted(folder.glob("failed-*.txt")):
        reasons.append(path.read_text("utf-8", "replace").strip())
    reasons += [each.data["reason"] for each in found if each.data["reason"]]
    trained = sorted((each for each in found if each.steps), key=lambda each: (each.job, each.rank, each.data["began"]))
    return Recording(tuple(trained), tuple(found), tuple(dict.fromkeys(reasons)), root)
