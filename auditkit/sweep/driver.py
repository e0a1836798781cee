"""Hands the jobs of a plan to an engine until each has an answer, or a reason why it has none."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from auditkit import sandbox
from auditkit.errors import BadInputError, ExitCode, StoreConflictError, nearest_names
from auditkit.model.codec import Record
from auditkit.model.text import counted
from auditkit.sweep.engines.protocol import Ended, Engine, EngineSettings, Task
from auditkit.sweep.folder import Failure, ResultsFolder
from auditkit.sweep.jobs import Job, Order, command_of
from auditkit.sweep.repositories import is_url

DEFAULT_ATTEMPTS = 3
ENGINES = ("local", "ray", "slurm")
_LOOK_S = 1.0
# A file that a job wrote on another node may be seen so much later.
_SEEN_WITHIN_S = 5.0


@dataclass(frozen=True)
class SweepRequest:
    """Which jobs run where: on which engine, into which folder, how many at a time, and how often each may begin.

    `cache` keeps clones and environments; `clones` holds folders that stand for URLs, and `interpreters` stand, by
    torch's version, for environments that would be made. `again` asks again what was given up.
    `only` are the keys that are meant, none for all.
    `cage` asks for a sandbox for each job, or refuses it; None: for repositories at URLs.
    """

    jobs: Sequence[Job]
    folder: Path
    cache: Path
    engine: str = "local"
    at_a_time: int | None = None
    attempts: int = DEFAULT_ATTEMPTS
    options: Mapping[str, str] = field(default_factory=dict)
    clones: Path | None = None
    interpreters: Mapping[str, str] = field(default_factory=dict)
    only: frozenset[str] = frozenset()
    again: bool = False
    cage: bool | None = None


@dataclass(frozen=True)
class Event(Record, keys="event key? attempt? reason? node? done failed running planned here seconds"):
    """What happened: `begun`, `submitted`, `running`, `answered`, `again`, `failed` or `ended`, and the counts.

    `begun` and `ended` are the sweep's own. A job is `submitted` to the engine, `running` when its process says so, and
    asked `again` where it ended without a result. `done` have an answer, `failed` a reason why they have none; `here`
    is how many of both came since this start, `seconds` ago.
    """

    event: str
    done: int
    failed: int
    running: int
    planned: int
    here: int
    seconds: float
    key: str = ""
    attempt: int = 0
    reason: str = ""
    node: str = ""


@dataclass(frozen=True)
class Swept:
    """How a sweep ended: how many jobs were planned, how many have an answer, and which were given up."""

    planned: int
    answered: int
    failed: tuple[str, ...]

    def in_words(self) -> str:
        """`150 jobs: 148 answered, 2 without an answer`."""
        left = self.planned - self.answered - len(self.failed)
        more = f", {len(self.failed)} without an answer" if self.failed else ""
        return f"{counted(self.planned, 'job')}: {self.answered} answered{more}{f', {left} left' if left else ''}"


def run_sweep(request: SweepRequest, tell: Callable[[Event], None] = lambda _: None) -> Swept:
    """Run every job of the request that has no result yet.

    Raises NoSandboxError if a job needs a sandbox and there is none, BadInputError for a folder of another version,
    StoreConflictError where another sweep runs in the folder or
    where it cannot be written: what is there by then is whole, and the same call goes on.
    """
    folder = ResultsFolder(request.folder.absolute())
    with folder.held():
        folder.prepare(request.jobs)
        return _Sweep(request, folder, tell).run()


def _left(request: SweepRequest, done: Collection[str]) -> Iterator[Job]:
    return (job for job in request.jobs if job.key not in done and (not request.only or job.key in request.only))


class _Sweep:
    def __init__(self, request: SweepRequest, folder: ResultsFolder, tell: Callable[[Event], None]) -> None:
        self._request, self._folder, self._tell = request, folder, tell
        self._began = time.monotonic()
        planned = {job.key for job in request.jobs}
        self._answered = folder.answered() & planned
        self._failed = (folder.failed() & planned) - self._answered
        if request.again:
            meant = {key for key in self._failed if not request.only or key in request.only}
            for key in meant:
                folder.forget(key)
            folder.forget_environments()
            self._failed -= meant
        self._done_before = len(self._answered | self._failed)
        self._asked = deque(_left(request, self._answered | self._failed))
        self._planned = len(planned)
        self._submitted: dict[str, Job] = {}
        self._running: set[str] = set()
        self._tries: dict[str, int] = {}
        self._before: dict[str, int] = {}

    def _is_sandboxed(self, job: Job) -> bool:
        return is_url(job.repository) if self._request.cage is None else self._request.cage

    def run(self) -> Swept:
        if any(map(self._is_sandboxed, self._asked)):
            sandbox.engine()
        self._say("begun")
        if self._asked:
            settings = EngineSettings(self._folder.path, self._name, self._request.at_a_time, self._request.options)
            engine = open_engine(self._request.engine, settings)
            try:
                while self._asked or self._submitted:
                    self._hand_out(engine)
                    for ended in engine.finished(_LOOK_S):
                        self._take(ended)
                    self._see_what_runs()
            finally:
                engine.close()
        self._say("ended")
        return Swept(self._planned, len(self._answered), tuple(sorted(self._failed)))

    @property
    def _name(self) -> str:
        """One for each folder, whoever starts the sweep there again."""
        return f"auditkit-{self._folder.identity()}"

    def _hand_out(self, engine: Engine) -> None:
        while self._asked and len(self._submitted) < engine.capacity:
            job = self._asked.popleft()
            begun = self._folder.begun(job.key, self._request.attempts)
            if begun >= self._request.attempts and job.key not in engine.left_behind:
                self._give_up(job, "it ended without a result", begun)
                continue
            order = Order(
                folder=str(self._folder.path),
                attempts=self._request.attempts,
                cache=str(self._request.cache.absolute()),
                job=job,
                clones=str(self._request.clones.absolute()) if self._request.clones is not None else "",
                interpreters=self._request.interpreters,
                cage=self._is_sandboxed(job),
            )
            self._tries[job.key] = self._tries.get(job.key, 0) + 1
            self._submitted[job.key] = job
            self._before[job.key] = begun
            engine.submit(Task(job.key, command_of(order), job.resources))
            self._say("submitted", job.key, attempt=self._tries[job.key])

    def _see_what_runs(self) -> None:
        """Say of each job that waited whether it has begun."""
        for key in self._submitted.keys() - self._running:
            if self._folder.begun(key, self._request.attempts) > self._before[key]:
                self._running.add(key)
                self._say("running", key, attempt=self._tries[key])

    def _take(self, ended: Ended) -> None:
        job = self._submitted.pop(ended.key, None)
        if job is None:
            return
        self._running.discard(ended.key)
        if not self._has_result(ended):
            if ended.exit_code == ExitCode.STORE_CONFLICT:
                self._folder.ensure_space()
            reason = ended.reason or "it ended without a result"
            begun = self._folder.begun(job.key, self._request.attempts)
            count = max(self._tries[job.key], begun)
            if ended.again and count < self._request.attempts:
                self._asked.append(job)
                self._say("again", job.key, attempt=count, reason=reason, node=ended.node)
                return
            self._give_up(job, reason, count, ended.node)
            return
        if self._folder.answer_path(job.key).exists():
            self._answered.add(job.key)
            self._say("answered", job.key, node=ended.node)
        else:
            self._failed.add(job.key)
            failure = self._folder.read_failure(job.key)
            reason = failure.reason if failure is not None else ""
            self._say("failed", job.key, reason=reason, node=ended.node)

    def _give_up(self, job: Job, reason: str, attempts: int, node: str = "") -> None:
        times = f" (the last of {attempts} attempts)" if attempts > 1 else ""
        try:
            self._folder.put(Failure(job, "lost", f"{reason}{times}", attempts=attempts, node=node))
        except StoreConflictError:
            self._folder.ensure_space()  # which knows what to do about a full disk
            raise
        self._failed.add(job.key)
        self._say("failed", job.key, reason=reason, node=node)

    def _has_result(self, ended: Ended) -> bool:
        """Whether the job has written; what it wrote on another node may come into sight a little later."""
        deadline = time.monotonic() + (_SEEN_WITHIN_S if ended.exit_code == 0 else 0.0)
        while not self._folder.is_done(ended.key):
            if time.monotonic() >= deadline:
                return False
            time.sleep(0.1)
        return True

    def _say(self, event: str, key: str = "", attempt: int = 0, reason: str = "", node: str = "") -> None:
        seconds = round(time.monotonic() - self._began, 3)
        done, failed = len(self._answered), len(self._failed)
        counts = (done, failed, len(self._running), self._planned, done + failed - self._done_before)
        self._tell(Event(event, *counts, seconds, key, attempt, reason, node))


def open_engine(name: str, settings: EngineSettings) -> Engine:
    """The engine of that name. Raises BadInputError where there is none, or where it cannot work here."""
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
