"""Hands the jobs of a plan to an engine until each has an answer, or a reason why it has none."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from auditkit.errors import ExitCode
from auditkit.model.codec import Record
from auditkit.workflows.sweep.engines.opening import open_engine
from auditkit.workflows.sweep.engines.protocol import Ended, Engine, EngineSettings, Task
from auditkit.workflows.sweep.folder import Failure, ResultsFolder
from auditkit.workflows.sweep.jobs import Job
from auditkit.workflows.sweep.order import Order, command_of

DEFAULT_ATTEMPTS = 3
_LOOK_S = 1.0
# A file that a job wrote on another node may be seen so much later.
_SEEN_WITHIN_S = 5.0


@dataclass(frozen=True)
class SweepRequest:
    """Which jobs run where: on which engine, into which folder, how many at a time, and how often each may begin.

    `cache` keeps clones and environments, and `clones` are folders that stand for URLs. `again` asks again what was
    given up, `fresh` what earlier commands were told of the same bytes.
    """

    jobs: Sequence[Job]
    folder: Path
    cache: Path
    engine: str = "local"
    at_a_time: int | None = None
    attempts: int = DEFAULT_ATTEMPTS
    options: dict[str, str] = field(default_factory=dict)
    clones: Path | None = None
    again: bool = False
    fresh: bool = False


@dataclass(frozen=True)
class Event(Record, keys="event key? attempt? reason? node? done failed running planned seconds"):
    """What happened: `begun`, `submitted`, `answered`, `again`, `failed` or `ended`, and the counts after it.

    `begun` and `ended` are the sweep's own. `again` is a job that ended without a result and is asked once more.
    """

    event: str
    done: int
    failed: int
    running: int
    planned: int
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


def run_sweep(request: SweepRequest, tell: Callable[[Event], None] = lambda _: None) -> Swept:
    """Run every job of the request that has no result yet.

    Raises BadInputError for a folder of another version, StoreConflictError where another sweep runs in the folder or
    where it cannot be written: what is there by then is whole, and the same call goes on.
    """
    folder = ResultsFolder(request.folder.absolute())
    with folder.held():
        folder.prepare(request.jobs)
        return _Sweep(request, folder, tell).run()


class _Sweep:
    def __init__(self, request: SweepRequest, folder: ResultsFolder, tell: Callable[[Event], None]) -> None:
        self._request, self._folder, self._tell = request, folder, tell
        self._began = time.monotonic()
        planned = {job.key: job for job in request.jobs}
        failed = folder.failed() & planned.keys()
        if request.again:
            for key in failed:
                folder.forget(key)
            folder.forget_environments()
            failed = set()
        self._answered = folder.answered() & planned.keys()
        self._failed = failed - self._answered
        self._asked = deque(job for key, job in planned.items() if key not in self._answered | self._failed)
        self._planned = len(planned)
        self._running: dict[str, Job] = {}
        self._tries: dict[str, int] = {}

    def run(self) -> Swept:
        self._say("begun")
        if self._asked:
            settings = EngineSettings(self._folder.path, self._name, self._request.at_a_time, self._request.options)
            engine = open_engine(self._request.engine, settings)
            try:
                while self._asked or self._running:
                    self._hand_out(engine)
                    for ended in engine.finished(_LOOK_S):
                        self._take(ended)
            finally:
                engine.close()
        self._say("ended")
        return Swept(self._planned, len(self._answered), tuple(sorted(self._failed)))

    @property
    def _name(self) -> str:
        """One for each folder, whoever starts the sweep there again."""
        return f"auditkit-{self._folder.identity()}"

    def _hand_out(self, engine: Engine) -> None:
        while self._asked and len(self._running) < engine.capacity:
            job = self._asked.popleft()
            begun = self._folder.begun(job.key, self._request.attempts)
            if begun >= self._request.attempts:
                self._give_up(job, "it ended without a result", begun)
                continue
            order = Order(
                folder=str(self._folder.path),
                attempts=self._request.attempts,
                cache=str(self._request.cache.absolute()),
                job=job,
                clones=str(self._request.clones.absolute()) if self._request.clones is not None else "",
                fresh=self._request.fresh,
            )
            self._tries[job.key] = self._tries.get(job.key, 0) + 1
            self._running[job.key] = job
            engine.submit(Task(job.key, command_of(order), job.resources))
            self._say("submitted", job.key, attempt=self._tries[job.key])

    def _take(self, ended: Ended) -> None:
        job = self._running.pop(ended.key, None)
        if job is None:
            return
        if not self._has_result(ended):
            if ended.exit_code == ExitCode.STORE_CONFLICT:
                self._folder.ensure_room()
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
        self._folder.put(Failure(job, "lost", f"{reason}{times}", attempts=attempts, node=node))
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
        counts = (len(self._answered), len(self._failed), len(self._running), self._planned)
        self._tell(Event(event, *counts, seconds, key, attempt, reason, node))
