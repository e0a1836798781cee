"""The results folder of a sweep: its plan, its attempts, its results and its failures, each file whole or absent.

The jobs and the driver share nothing else, on one machine or on many: a reader needs no process that still runs.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import socket
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from auditkit import __version__
from auditkit.errors import BadInputError, StoreConflictError
from auditkit.files import create_file, write_file
from auditkit.sweep.jobs import KEY_DIGITS, Job, read_plan, write_plan
from auditkit.tickets.store import LOCK_FOLDER, locked

_FORMAT = 1
_HEAD, _PLAN = "sweep.json", "plan.jsonl"
_ANSWERS, _FAILURES, _ATTEMPTS, _LOGS = "results", "failed", "attempts", "logs"
_Result = TypeVar("_Result", bound=msgspec.Struct)


class Failure(msgspec.Struct, frozen=True):
    """A job without a result.

    `kind` is what is missing (`checkout`, `environment`, `target`), or `input`, `time`, `error`, `lost`.
    """

    job: Job
    kind: str
    reason: str
    hint: str = ""
    attempts: int = 1
    node: str = ""
    seconds: float = 0.0


class Answer(msgspec.Struct, frozen=True):
    """What a job returned: its run as `audit --json` prints it, and the message if it found no target.

    `seconds` is wall time, `cpu_seconds` that of all its processes, and `memory_mb` the peak of the largest one.
    """

    job: Job
    run: dict[str, Any]
    no_target: str = ""
    no_target_hint: str = ""
    node: str = ""
    seconds: float = 0.0
    cpu_seconds: float = 0.0
    memory_mb: int = 0


class ResultsFolder:
    """One sweep on disk. Several processes, on several machines, may use every method at once."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def prepare(self, jobs: Sequence[Job]) -> None:
        """Make the folder of these jobs, or continue in an existing one.

        Raises BadInputError if another version made it, StoreConflictError if it cannot be written.
        """
        head = self._head()
        if head is None:
            content = json.dumps({"sweep": _FORMAT, "auditkit": __version__})
            create_file(self.path / _HEAD, f"{content}\n".encode("ascii"))
        elif head.get("auditkit") != __version__:
            message = f"{self.path} was made by auditkit {head.get('auditkit')}, and this is {__version__}"
            raise BadInputError(message, "results of two versions cannot be combined: name a new folder")
        for name in (_ANSWERS, _FAILURES, _ATTEMPTS, _LOGS):
            (self.path / name).mkdir(exist_ok=True)
        write_file(self.path / _PLAN, "".join(f"{line}\n" for line in write_plan(jobs)).encode("utf-8"))

    def _head(self) -> dict[str, Any] | None:
        """Return what made the folder; None for a new one. Raises BadInputError for another format."""
        path = self.path / _HEAD
        try:
            head = json.loads(path.read_bytes())
        except (FileNotFoundError, NotADirectoryError):
            return None
        except (OSError, ValueError) as error:
            raise BadInputError(f"{path} cannot be read: {error}", "name another folder") from None
        if not isinstance(head, dict) or head.get("sweep") != _FORMAT:
            raise BadInputError(f"{path} has another format, and this auditkit reads format {_FORMAT}",
                                "name a new folder, or use the version that made it")  # fmt: skip
        return head

    @contextlib.contextmanager
    def held(self) -> Iterator[None]:
        """Keep every other sweep out.

        Raises StoreConflictError if one runs in this folder, BadInputError if it holds something else.
        """
        if self._head() is None and self.path.exists():
            if not self.path.is_dir():
                raise BadInputError(f"{self.path} is a file", "name a folder: --results FOLDER")
            if any(entry.name != LOCK_FOLDER for entry in self.path.iterdir()):
                raise BadInputError(f"{self.path} is not the folder of a sweep, and it is not empty", "name a new one")
        with locked(self.path, timeout_s=0.0):
            yield

    def plan(self) -> list[Job]:
        """Return the jobs of the last plan. Raises BadInputError if the folder is no sweep's."""
        if self._head() is None:
            raise BadInputError(f"{self.path} is not the folder of a sweep", "auditkit sweep run PLAN --results FOLDER")
        return read_plan(self.path / _PLAN)

    def answer_path(self, key: str) -> Path:
        """Return the file of a job's result."""
        return self.path / _ANSWERS / f"{key}.json"

    def failure_path(self, key: str) -> Path:
        """Return the file with the reason why a job has no result."""
        return self.path / _FAILURES / f"{key}.json"

    def is_done(self, key: str) -> bool:
        """Whether a job has a result, or a reason why it has none."""
        return self.answer_path(key).exists() or self.failure_path(key).exists()

    def answered(self) -> set[str]:
        """Return the keys of all results."""
        return {path.stem for path in (self.path / _ANSWERS).glob("[!.]*.json")}

    def failed(self) -> set[str]:
        """Return the keys of all jobs that were given up."""
        return {path.stem for path in (self.path / _FAILURES).glob("[!.]*.json")}

    def begin(self, key: str, attempts: int) -> Path | None:
        """Note that a job begins; return None if it has begun `attempts` times already.

        Raises StoreConflictError if that cannot be written.
        """
        for number in range(1, attempts + 1):
            path = self.path / _ATTEMPTS / f"{key}.{number}"
            try:
                with open(path, "x", encoding="utf-8") as file, contextlib.suppress(OSError):
                    print(socket.gethostname(), os.getpid(), file=file, flush=True)
            except FileExistsError:
                continue
            except OSError as error:
                if not path.exists():
                    raise StoreConflictError(f"{path} cannot be written: {error.strerror}") from None
            return path
        return None

    def begun(self, key: str, most: int) -> int:
        """Return how often a job has begun, at most `most`."""
        return sum((self.path / _ATTEMPTS / f"{key}.{number}").exists() for number in range(1, most + 1))

    def put(self, result: Answer | Failure) -> None:
        """Write a result whole, unless the job has a result: the first result stays.

        Raises StoreConflictError if it cannot be written.
        """
        key = result.job.key
        path = self.answer_path(key) if isinstance(result, Answer) else self.failure_path(key)
        if self.answer_path(key).exists():
            return
        try:
            create_file(path, msgspec.json.encode(result) + b"\n")
        except StoreConflictError:
            if not path.exists():
                raise
        if isinstance(result, Answer):
            self.failure_path(key).unlink(missing_ok=True)

    def forget(self, key: str) -> None:
        """Remove a job's failure and its attempts, so that it runs again."""
        self.failure_path(key).unlink(missing_ok=True)
        for path in (self.path / _ATTEMPTS).glob(f"{key}.*"):
            path.unlink(missing_ok=True)

    def identity(self) -> str:
        """Return digits of this folder alone, the same for everybody who runs a sweep in it."""
        return hashlib.sha256(os.fsencode(self.path.resolve())).hexdigest()[:KEY_DIGITS]

    def read_answer(self, key: str) -> Answer | None:
        """Return a job's result, None if it has none. Raises BadInputError for a changed file."""
        return _read(Answer, self.answer_path(key))

    def read_failure(self, key: str) -> Failure | None:
        """Return why a job has no result, None if there is no reason. Raises BadInputError for a changed file."""
        return _read(Failure, self.failure_path(key))


def _read(kind: type[_Result], path: Path) -> _Result | None:
    try:
        return msgspec.json.decode(path.read_bytes(), type=kind)
    except FileNotFoundError:
        return None
    except (OSError, msgspec.DecodeError) as error:
        raise BadInputError(f"{path} cannot be read: {error}", "remove it, and its job runs again") from None
