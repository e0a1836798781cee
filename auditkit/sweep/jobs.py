"""The jobs of a sweep, and its folder: the plan, the results, and the reasons for none, each file complete or absent.

The jobs and the driver share nothing but this folder, on one machine or on many.
"""

from __future__ import annotations

import contextlib
import hashlib
import re
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import msgspec

from auditkit import __version__
from auditkit.errors import BadInputError, StoreConflictError
from auditkit.files import create_file, write_file
from auditkit.model.enums import DeviceChoice
from auditkit.tickets.store import LOCK_FOLDER, locked

_PLAN, _ANSWERED, _FAILED = "plan.jsonl", "results", "failed"
_HINT = "`auditkit sweep plan FILE.yaml > plan.jsonl` writes a plan, and `auditkit sweep run` keeps it with its results"


class Resources(msgspec.Struct, frozen=True):
    """What one job needs while it runs: memory in MB, GPUs, and seconds at most. Each job has one processor core."""

    memory_mb: int
    gpus: int = 0
    time_s: float = 3600.0


class EnvironmentSpec(msgspec.Struct, frozen=True, omit_defaults=True):
    """The Python that runs the code: an existing `interpreter`, or an environment that auditkit makes.

    `python` and `torch` are versions, such as `3.12` and `2.9`. `requirements` are packages beside torch. `index` is
    where torch's wheels come from: a URL, `default` for the usual index, "" for uv's own choice by the device.
    """

    interpreter: str = ""
    python: str = ""
    torch: str = ""
    requirements: tuple[str, ...] = ()
    index: str = ""


class Job(msgspec.Struct, frozen=True, omit_defaults=True):
    """One checkout at one revision, checked in one environment on one device.

    `repository` is an absolute folder, or a URL that is cloned where the job runs; `revision` is a full commit, "" for
    a folder outside git, which is checked as it is. `name` is its row in the merged matrix. `probes` are ids; empty for
    all that an audit runs. `config` is an auditkit.yaml. `key` is always made of the other fields:
    `nanoGPT-3adf61e154-torch2.9-cpu-` and a digest of all that the result depends on, auditkit's version too.
    """

    key: str
    name: str
    repository: str
    revision: str
    probes: tuple[str, ...]
    environment: EnvironmentSpec
    device: DeviceChoice
    resources: Resources
    config: str = ""

    def __post_init__(self) -> None:
        environment, device = self.environment, self.device
        settings = [self.repository, self.revision, self.probes, environment, device, self.config, __version__]
        content = msgspec.json.encode(settings)
        path = Path(environment.interpreter)
        interpreter = path.parent.parent.name if path.parent.name == "bin" else path.name
        torch = f"torch{environment.torch}" if environment.torch else interpreter
        digest = hashlib.sha256(content).hexdigest()[:12]
        parts = (self.name.partition("@")[0], self.revision[:10], torch, device.value, digest)
        key = "-".join(re.sub(r"[^\w.]+", "_", part)[:40] for part in parts if part)
        msgspec.structs.force_setattr(self, "key", key)


def line_of(job: Job) -> str:
    """Return the line of a plan for a job, without a line end."""
    return msgspec.json.encode(job).decode("utf-8")


def read_plan(path: Path) -> list[Job]:
    """Return the jobs of a plan. Raises BadInputError with file and line for an invalid one."""
    try:
        lines = path.read_bytes().splitlines()
    except OSError as error:
        raise BadInputError(f"{path}: {error.strerror}", _HINT) from None
    jobs: dict[str, Job] = {}
    for number, line in enumerate(lines, start=1):
        if not line.strip():
            continue
        try:
            job = msgspec.json.decode(line, type=Job)
        except msgspec.DecodeError as error:
            raise BadInputError(f"{path}:{number}:1: this is not a job: {error}", _HINT) from None
        jobs[job.key] = job
    if not jobs:
        raise BadInputError(f"{path} has no job", _HINT)
    return list(jobs.values())


class Order(msgspec.Struct, frozen=True, omit_defaults=True):
    """All that the process of a job receives: the job, the sweep's folder, and this machine's cache.

    `cage` runs everything of the job in sandboxes. In each sandbox a process runs one `step` of it: `prepare`, or
    `audit` with the `place` and the `python` (None: the checkout's own) that were prepared.
    """

    folder: str
    cache: str
    job: Job
    cage: bool = False
    step: str = ""
    place: str = ""
    python: str | None = None

    @property
    def command(self) -> tuple[str, ...]:
        """The command that runs the job on any node that has this interpreter and the sweep's folder."""
        return (sys.executable, "-P", "-m", "auditkit.sweep.execution", msgspec.json.encode(self).decode("utf-8"))


class Result(msgspec.Struct, frozen=True, omit_defaults=True):
    """How a job ended: with its `run`, as `audit --json` prints it, or with a `reason` for none.

    A run that found no target has a reason, too. `seconds` is wall time, `memory_mb` the peak of the job's largest
    process.
    """

    job: Job
    run: dict[str, Any] | None = None
    reason: str = ""
    node: str = ""
    seconds: float = 0.0
    memory_mb: int = 0


class ResultsFolder:
    """One sweep on disk. Several processes, on several machines, may use every method at once."""

    def __init__(self, path: Path) -> None:
        self.path = path.absolute()

    @contextlib.contextmanager
    def held(self, jobs: Sequence[Job]) -> Iterator[None]:
        """Make the folder of these jobs, or continue in an existing one, and keep every other sweep out.

        Raises BadInputError if it holds something else, StoreConflictError if a sweep runs in it or it cannot be
        written.
        """
        is_empty = self.path.is_dir() and all(entry.name == LOCK_FOLDER for entry in self.path.iterdir())
        if self.path.exists() and not is_empty and not (self.path / _PLAN).is_file():
            raise BadInputError(f"{self.path} is not the folder of a sweep, and it is not empty", "name a new one")
        with locked(self.path, timeout_s=0.0):
            for name in (_ANSWERED, _FAILED, "logs"):
                (self.path / name).mkdir(exist_ok=True)
            write_file(self.path / _PLAN, "".join(f"{line_of(job)}\n" for job in jobs).encode("utf-8"))
            yield

    def plan(self) -> list[Job]:
        """Return the jobs of the last plan. Raises BadInputError if this is not the folder of a sweep."""
        return read_plan(self.path / _PLAN)

    def answer_path(self, key: str) -> Path:
        """Return the file of a job's run."""
        return self.path / _ANSWERED / f"{key}.json"

    def failure_path(self, key: str) -> Path:
        """Return the file with the reason why a job has no run."""
        return self.path / _FAILED / f"{key}.json"

    def is_done(self, key: str) -> bool:
        """Whether a job has a result."""
        return self.answer_path(key).exists() or self.failure_path(key).exists()

    def put(self, result: Result) -> None:
        """Write a result, unless the job has a run: the first one stays. Raises StoreConflictError if it cannot."""
        key = result.job.key
        path = self.failure_path(key) if result.run is None else self.answer_path(key)
        if self.answer_path(key).exists():
            return
        try:
            create_file(path, msgspec.json.encode(result) + b"\n")
        except StoreConflictError:
            if not path.exists():
                raise
        if result.run is not None:
            self.failure_path(key).unlink(missing_ok=True)

    def read(self, key: str) -> Result | None:
        """Return a job's result, None if it has none. Raises BadInputError for a damaged file."""
        for path in (self.answer_path(key), self.failure_path(key)):
            try:
                return msgspec.json.decode(path.read_bytes(), type=Result)
            except FileNotFoundError:
                continue
            except (OSError, msgspec.DecodeError) as error:
                raise BadInputError(f"{path} cannot be read: {error}", "remove it, and its job runs again") from None
        return None
