"""Submit the jobs of a plan to an engine until each has a result, or a reason why it has none."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import msgspec

from auditkit import sandbox
from auditkit.errors import BadInputError, ExitCode, StoreConflictError, nearest_names
from auditkit.model.text import counted
from auditkit.sweep.engines.protocol import Ended, Engine, EngineSettings, Task
from auditkit.sweep.folder import Failure, ResultsFolder
from auditkit.sweep.jobs import Job, Order, command_of
from auditkit.sweep.repositories import is_url

DEFAULT_ATTEMPTS = 3
ENGINES = ("local", "ray", "slurm")
_LOOK_S = 1.0
_SEEN_WITHIN_S = 5.0
"""A file that a job wrote on another node may be visible this much later."""


@dataclass(frozen=True)
class SweepRequest:
    """Which jobs run where: on which engine, into which folder, how many at a time, and how often each may begin.

    `cache` keeps clones and environments. `again` runs failed jobs again. `only` are keys, empty for all. `cage`
    runs each job in a sandbox, or none; None: those of repositories at URLs.
    """

    jobs: Sequence[Job]
    folder: Path
    cache: Path
    engine: str = "local"
    at_a_time: int | None = None
    attempts: int = DEFAULT_ATTEMPTS
    options: Mapping[str, str] = field(default_factory=dict)
    only: frozenset[str] = frozenset()
    again: bool = False
    cage: bool | None = None


class Event(msgspec.Struct, frozen=True, omit_defaults=True):
    """What happened: `begun`, `submitted`, `answered`, `again`, `failed` or `ended`, and the counts.

    `begun` and `ended` are the sweep's own. A job runs `again` if it ended without a result. `done` have a result,
    `failed` a reason why they have none.
    """

    event: str
    planned: int
    done: int = 0
    failed: int = 0
    key: str = ""
    attempt: int = 0
    reason: str = ""
    node: str = ""


@dataclass(frozen=True)
class Swept:
    """How a sweep ended: how many jobs were planned, how many have a result, and which failed."""

    planned: int
    answered: int
    failed: tuple[str, ...]

    def in_words(self) -> str:
        """Return `150 jobs: 148 done, 2 without a result`."""
        left = self.planned - self.answered - len(self.failed)
        more = f", {len(self.failed)} without a result" if self.failed else ""
        return f"{counted(self.planned, 'job')}: {self.answered} done{more}{f', {left} left' if left else ''}"


def run_sweep(request: SweepRequest, tell: Callable[[Event], None] = lambda _: None) -> Swept:
    """Run every job of the request that has no result yet.

    Raises NoSandboxError if a job needs a sandbox and there is none, BadInputError for a folder of another version,
    StoreConflictError if another sweep runs in the folder or the folder cannot be written: every file there is whole,
    and the same call continues.
    """
    folder = ResultsFolder(request.folder.absolute())
    with folder.held():
        folder.prepare(request.jobs)
        return _Sweep(request, folder, tell).run()


class _Sweep:
    def __init__(self, request: SweepRequest, folder: ResultsFolder, tell: Callable[[Event], None]) -> None:
        self._request, self._folder, self._tell = request, folder, tell
        planned = {job.key for job in request.jobs}
        self._planned = len(planned)
        self._answered = folder.answered() & planned
        self._failed = (folder.failed() & planned) - self._answered
        if request.again:
            for key in {key for key in self._failed if not request.only or key in request.only}:
                folder.forget(key)
                self._failed.remove(key)
        done = self._answered | self._failed
        self._waiting = deque(
            job for job in request.jobs if job.key not in done and (not request.only or job.key in request.only)
        )
        self._submitted: dict[str, Job] = {}
        self._tries: dict[str, int] = {}

    def _is_sandboxed(self, job: Job) -> bool:
        return is_url(job.repository) if self._request.cage is None else self._request.cage

    def run(self) -> Swept:
        if any(map(self._is_sandboxed, self._waiting)):
            sandbox.engine()
        self._say("begun")
        if self._waiting:
            # One name for each folder, also when the sweep is started there again.
            name, request = f"auditkit-{self._folder.identity()}", self._request
            engine = open_engine(
                request.engine, EngineSettings(self._folder.path, name, request.at_a_time, request.options)
            )
            try:
                while self._waiting or self._submitted:
                    self._submit(engine)
                    for ended in engine.finished(_LOOK_S):
                        self._take(ended)
            finally:
                engine.close()
        self._say("ended")
        return Swept(self._planned, len(self._answered), tuple(sorted(self._failed)))

    def _submit(self, engine: Engine) -> None:
        while self._waiting and len(self._submitted) < engine.capacity:
            job, attempts = self._waiting.popleft(), self._request.attempts
            begun = self._folder.begun(job.key, attempts)
            if begun >= attempts and job.key not in engine.left_behind:
                self._give_up(job, "it ended without a result", begun)
                continue
            cache, is_sandboxed = str(self._request.cache.absolute()), self._is_sandboxed(job)
            order = Order(str(self._folder.path), attempts, cache, job, is_sandboxed)
            self._tries[job.key] = self._tries.get(job.key, 0) + 1
            self._submitted[job.key] = job
            engine.submit(Task(job.key, command_of(order), job.resources))
            self._say("submitted", job.key, attempt=self._tries[job.key])

    def _take(self, ended: Ended) -> None:
        job = self._submitted.pop(ended.key, None)
        if job is None:
            return
        if not self._has_result(ended):
            reason = ended.reason or "it ended without a result"
            if ended.exit_code == ExitCode.STORE_CONFLICT:
                hint = "free some space, then run the same command again; no result is lost"
                raise StoreConflictError(f"a job cannot write in {self._folder.path}: {reason}", hint)
            count = max(self._tries[job.key], self._folder.begun(job.key, self._request.attempts))
            if ended.again and count < self._request.attempts:
                self._waiting.append(job)
                self._say("again", job.key, attempt=count, reason=reason, node=ended.node)
            else:
                self._give_up(job, reason, count, ended.node)
        elif self._folder.answer_path(job.key).exists():
            self._answered.add(job.key)
            self._say("answered", job.key, node=ended.node)
        else:
            self._failed.add(job.key)
            failure = self._folder.read_failure(job.key)
            self._say("failed", job.key, reason=failure.reason if failure is not None else "", node=ended.node)

    def _give_up(self, job: Job, reason: str, attempts: int, node: str = "") -> None:
        times = f" (the last of {attempts} attempts)" if attempts > 1 else ""
        self._folder.put(Failure(job, "lost", f"{reason}{times}", attempts=attempts, node=node))
        self._failed.add(job.key)
        self._say("failed", job.key, reason=reason, node=node)

    def _has_result(self, ended: Ended) -> bool:
        """Whether the job has written; a file of another node may be visible a little later."""
        deadline = time.monotonic() + (_SEEN_WITHIN_S if ended.exit_code == 0 else 0.0)
        while not self._folder.is_done(ended.key):
            if time.monotonic() >= deadline:
                return False
            time.sleep(0.1)
        return True

    def _say(self, event: str, key: str = "", attempt: int = 0, reason: str = "", node: str = "") -> None:
        self._tell(Event(event, self._planned, len(self._answered), len(self._failed), key, attempt, reason, node))


def open_engine(name: str, settings: EngineSettings) -> Engine:
    """Return the engine of that name. Raises BadInputError if there is none, or if it cannot work here."""
    if name == "local":
        from auditkit.sweep.engines.local import LocalPool

        return LocalPool(settings)
    if name == "ray":
        from auditkit.sweep.engines.ray_cluster import RayCluster

        return RayCluster(settings)
    if name == "slurm":
        from auditkit.sweep.engines.slurm import SlurmQueue

        return SlurmQueue(settings)
    nearest = nearest_names(name, ENGINES)
    hint = f"did you mean {nearest[0]}?" if nearest else f"one of {', '.join(ENGINES)}"
    raise BadInputError(f"no engine is called '{name}'", hint)
