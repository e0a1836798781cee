"""The results folder of a sweep: what was planned, begun, answered and given up, each file whole or not there.

It is all that the jobs and whoever started them have in common, on one machine or on many: who reads it needs no
process that still runs.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import json
import os
import socket
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

from auditkit import __version__
from auditkit.errors import BadInputError, StoreConflictError
from auditkit.files import create_file, write_file
from auditkit.model.codec import Record
from auditkit.sweep.jobs import KEY_DIGITS, Job, read_plan, write_plan
from auditkit.tickets.store import LOCK_FOLDER, locked

_FORMAT = 1
_HEAD, _PLAN = "sweep.json", "plan.jsonl"
_ANSWERS, _FAILURES, _ATTEMPTS, _LOGS = "results", "failed", "attempts", "logs"
_SPACE_BYTES = 1 << 20


@dataclass(frozen=True)
class Failure(Record):
    """A job without an answer, and why.

    `kind` is what there is none of (`checkout`, `environment`, `target`), or `input`, `time`, `error`, `lost`.
    """

    schema_version: ClassVar[int] = 1

    job: Job
    kind: str
    reason: str
    hint: str = ""
    attempts: int = 1
    node: str = ""
    seconds: float = 0.0


@dataclass(frozen=True)
class Answer(Record):
    """What a job said: its run as `audit --json` prints it, and the message where that found no target.

    `seconds` are those of the clock, `cpu_seconds` those of the processors, workers among them, and `memory_mb` the
    most that one of its processes held.
    """

    schema_version: ClassVar[int] = 1

    job: Job
    run: Any
    no_target: str = ""
    no_target_hint: str = ""
    node: str = ""
    began: str = ""
    seconds: float = 0.0
    cpu_seconds: float = 0.0
    memory_mb: int = 0


class ResultsFolder:
    """One sweep on disk. Every method may be used by several processes, on several machines, at once."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def prepare(self, jobs: Sequence[Job]) -> None:
        """Make the folder of these jobs, or take up one that is there.

        Raises BadInputError where another version made it, StoreConflictError where it cannot be written.
        """
        head = self._head()
        if head is None:
            create_file(self.path / _HEAD, _json({"sweep": _FORMAT, "auditkit": __version__}))
        elif head.get("auditkit") != __version__:
            said = f"{self.path} was made by auditkit {head.get('auditkit')}, and this is {__version__}"
            raise BadInputError(said, "answers of two versions make no matrix: name a new folder, or run that version")
        for name in (_ANSWERS, _FAILURES, _ATTEMPTS, _LOGS):
            (self.path / name).mkdir(exist_ok=True)
        write_file(self.path / _PLAN, "".join(f"{line}\n" for line in write_plan(jobs)).encode("ascii"))

    def _head(self) -> dict[str, Any] | None:
        """What made the folder; None where nothing did. Raises BadInputError for a format that is not this one."""
        path = self.path / _HEAD
        try:
            head = json.loads(path.read_bytes())
        except (FileNotFoundError, NotADirectoryError):
            return None
        except (OSError, ValueError) as error:
            raise BadInputError(f"{path} cannot be read: {error}", "name another folder") from None
        if not isinstance(head, dict) or head.get("sweep") != _FORMAT:
            found = head.get("sweep") if isinstance(head, dict) else None
            made = f" by auditkit {head['auditkit']}" if isinstance(head, dict) and "auditkit" in head else ""
            raise BadInputError(
                f"{self.path} was written{made} in format {found}, and this auditkit reads format {_FORMAT}",
                "name a new folder, or use the version that made it; nothing in it was touched",
            )
        return head

    @contextlib.contextmanager
    def held(self) -> Iterator[None]:
        """Keep every other sweep out.

        Raises StoreConflictError where one runs in this folder, BadInputError where it holds something else.
        """
        if self._head() is None and self.path.exists():
            if not self.path.is_dir():
                raise BadInputError(f"{self.path} is a file", "name a folder: --results FOLDER")
            if any(entry.name != LOCK_FOLDER for entry in self.path.iterdir()):
                raise BadInputError(f"{self.path} is no sweep's folder, and it is not empty", "name a new one")
        with locked(self.path, timeout_s=0.0):
            yield

    def plan(self) -> list[Job]:
        """The jobs that were planned last. Raises BadInputError where the folder is no sweep's."""
        if self._head() is None:
            raise BadInputError(f"{self.path} is no sweep's folder", "auditkit sweep run PLAN --results FOLDER")
        return read_plan(self.path / _PLAN)

    # Where things are.

    def answer_path(self, key: str) -> Path:
        """The file of a job's answer."""
        return self.path / _ANSWERS / f"{key}.json"

    def failure_path(self, key: str) -> Path:
        """The file that says why a job has no answer."""
        return self.path / _FAILURES / f"{key}.json"

    def is_done(self, key: str) -> bool:
        """Whether a job has an answer, or a reason why it has none."""
        return self.answer_path(key).exists() or self.failure_path(key).exists()

    def answered(self) -> set[str]:
        """The keys of all answers."""
        return self._keys(_ANSWERS)

    def failed(self) -> set[str]:
        """The keys of all jobs that were given up."""
        return self._keys(_FAILURES)

    def _keys(self, folder: str) -> set[str]:
        if self._head() is None:
            return set()
        with os.scandir(self.path / folder) as entries:
            return {name.removesuffix(".json") for name in (entry.name for entry in entries) if name[0] != "."}

    # What a job does.

    def begin(self, key: str, attempts: int) -> Path | None:
        """Note that a job begins; None where it has begun so many times already.

        Raises StoreConflictError where that cannot be written.
        """
        for number in range(1, attempts + 1):
            path = self.path / _ATTEMPTS / f"{key}.{number}"
            try:
                handle = os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_CLOEXEC, 0o666)
            except FileExistsError:
                continue
            except OSError as error:
                raise StoreConflictError(f"cannot write {path}: {error.strerror}") from None
            with contextlib.suppress(OSError), os.fdopen(handle, "w", encoding="utf-8") as file:
                file.write(f"{socket.gethostname()} {os.getpid()}\n")
            return path
        return None

    def begun(self, key: str, most: int) -> int:
        """How often a job has begun, as far as `most`."""
        return sum((self.path / _ATTEMPTS / f"{key}.{number}").exists() for number in range(1, most + 1))

    def put(self, result: Answer | Failure) -> None:
        """Write a result whole, unless there is one: the first answer stays, and a failure stands beside none.

        Raises StoreConflictError where it cannot be written.
        """
        key = result.job.key
        path = self.answer_path(key) if isinstance(result, Answer) else self.failure_path(key)
        if self.answer_path(key).exists():
            return
        try:
            create_file(path, _json(result.to_json()))
        except StoreConflictError:
            if not path.exists():
                raise
        if isinstance(result, Answer):
            self.failure_path(key).unlink(missing_ok=True)

    # What the driver does.

    def forget(self, key: str) -> None:
        """Take a job's failure back, with its attempts, so that it is asked again."""
        self.failure_path(key).unlink(missing_ok=True)
        for path in (self.path / _ATTEMPTS).glob(f"{key}.*"):
            path.unlink(missing_ok=True)

    def forget_environments(self) -> None:
        """Take back what is noted of environments that could not be made, so that each is tried again."""
        for path in (self.path / "environments").glob("*.txt"):
            path.unlink(missing_ok=True)

    def identity(self) -> str:
        """Digits that are this folder's alone, the same for everybody who runs a sweep in it."""
        return hashlib.sha256(os.fsencode(self.path.resolve())).hexdigest()[:KEY_DIGITS]

    def ensure_space(self) -> None:
        """Raises StoreConflictError if the disk has no space for a result."""
        place = self.path / f".space-{os.getpid()}"
        try:
            with open(place, "wb") as file:
                file.write(bytes(_SPACE_BYTES))
                file.flush()
                os.fsync(file.fileno())
        except OSError as error:
            full = error.errno in (errno.ENOSPC, errno.EDQUOT)
            raise StoreConflictError(
                f"cannot write in {self.path}: {error.strerror}",
                f"{'free some space' if full else 'mend that'}, then the same command goes on; every result is whole",
            ) from None
        finally:
            with contextlib.suppress(OSError):
                place.unlink(missing_ok=True)

    def read_answer(self, key: str) -> Answer | None:
        """A job's answer; None where it has none. Raises BadInputError where somebody changed the file."""
        found: Answer | None = self._read(Answer, self.answer_path(key))
        return found

    def read_failure(self, key: str) -> Failure | None:
        """Why a job has no answer; None where nothing says so. Raises BadInputError as `read_answer`."""
        found: Failure | None = self._read(Failure, self.failure_path(key))
        return found

    def _read(self, kind: Any, path: Path) -> Any:
        try:
            return kind.from_json(json.loads(path.read_bytes()))
        except FileNotFoundError:
            return None
        except (OSError, ValueError) as error:
            raise BadInputError(f"{path} cannot be read: {error}", "remove it, and its job is asked again") from None


def _json(document: Any) -> bytes:
    return (json.dumps(document, allow_nan=False) + "\n").encode("ascii")
