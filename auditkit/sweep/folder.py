"""The folder of a sweep: its plan, its results, and the reasons for none, each file complete or absent.

The jobs and the driver share nothing else, on one machine or on many.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import msgspec

from auditkit import __version__
from auditkit.errors import BadInputError, StoreConflictError
from auditkit.files import create_file, write_file
from auditkit.sweep.jobs import Job, line_of, read_plan
from auditkit.tickets.store import LOCK_FOLDER, locked

_HEAD, _PLAN, _ANSWERED, _FAILED = "sweep.json", "plan.jsonl", "results", "failed"


class Result(msgspec.Struct, frozen=True, omit_defaults=True):
    """How a job ended: with its `run`, as `audit --json` prints it, or with a `reason` for none.

    `kind` is what is missing (`checkout`, `environment`, `target`), or `input`, `time`, `error`, `lost`; "" with a run.
    A run that found no target has a reason, too. `seconds` is wall time, `cpu_seconds` that of all processes of the
    job, and `memory_mb` the peak of the largest one.
    """

    job: Job
    run: dict[str, Any] | None = None
    kind: str = ""
    reason: str = ""
    hint: str = ""
    node: str = ""
    seconds: float = 0.0
    cpu_seconds: float = 0.0
    memory_mb: int = 0


class ResultsFolder:
    """One sweep on disk. Several processes, on several machines, may use every method at once."""

    def __init__(self, path: Path) -> None:
        self.path = path.absolute()

    @contextlib.contextmanager
    def held(self, jobs: Sequence[Job]) -> Iterator[None]:
        """Make the folder of these jobs, or continue in an existing one, and keep every other sweep out.

        Raises BadInputError if another version made it or it holds something else, StoreConflictError if a sweep runs
        in it or it cannot be written.
        """
        head = self._head()
        if head is None and self.path.exists():
            if not self.path.is_dir():
                raise BadInputError(f"{self.path} is a file", "name a folder: --results FOLDER")
            if any(entry.name != LOCK_FOLDER for entry in self.path.iterdir()):
                raise BadInputError(f"{self.path} is not the folder of a sweep, and it is not empty", "name a new one")
        if head is not None and head.get("auditkit") != __version__:
            message = f"{self.path} was made by auditkit {head.get('auditkit')}, and this is {__version__}"
            raise BadInputError(message, "results of two versions cannot be combined: name a new folder")
        with locked(self.path, timeout_s=0.0):
            for name in (_ANSWERED, _FAILED, "logs"):
                (self.path / name).mkdir(exist_ok=True)
            if head is None:
                write_file(self.path / _HEAD, f"{json.dumps({'auditkit': __version__})}\n".encode("ascii"))
            write_file(self.path / _PLAN, "".join(f"{line_of(job)}\n" for job in jobs).encode("utf-8"))
            yield

    def _head(self) -> Any:
        """Return what made the folder; None for a new one."""
        path = self.path / _HEAD
        try:
            return dict(json.loads(path.read_bytes()))
        except (FileNotFoundError, NotADirectoryError):
            return None
        except (OSError, ValueError, TypeError) as error:
            raise BadInputError(f"{path} cannot be read: {error}", "name another folder") from None

    def plan(self) -> list[Job]:
        """Return the jobs of the last plan. Raises BadInputError if this is not the folder of a sweep."""
        if self._head() is None:
            raise BadInputError(f"{self.path} is not the folder of a sweep", "auditkit sweep run PLAN --results FOLDER")
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

    def done(self) -> tuple[set[str], set[str]]:
        """Return the keys of all jobs with a run, and of those that failed."""
        answered, failed = ({path.stem for path in (self.path / name).glob("[!.]*.json")}
                            for name in (_ANSWERED, _FAILED))  # fmt: skip
        return answered, failed - answered

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
        """Return a job's result, None if it has none. Raises BadInputError for a file that somebody changed."""
        for path in (self.answer_path(key), self.failure_path(key)):
            try:
                return msgspec.json.decode(path.read_bytes(), type=Result)
            except FileNotFoundError:
                continue
            except (OSError, msgspec.DecodeError) as error:
                raise BadInputError(f"{path} cannot be read: {error}", "remove it, and its job runs again") from None
        return None
