"""Submit the jobs of a plan to an engine until each has a result, or a reason why it has none."""

from __future__ import annotations

import time
from collections import Counter, deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import msgspec

from auditkit import sandbox
from auditkit.errors import BadInputError, ExitCode, StoreConflictError
from auditkit.sweep.engines.engine import Ended, Engine, Task
from auditkit.sweep.engines.local import LocalPool
from auditkit.sweep.engines.ray_cluster import RayCluster
from auditkit.sweep.engines.slurm import SlurmQueue
from auditkit.sweep.jobs import Job, Order, Result, ResultsFolder
from auditkit.sweep.preparation import is_url

ENGINES: Mapping[str, type[LocalPool | RayCluster | SlurmQueue]] = {
    "local": LocalPool, "ray": RayCluster, "slurm": SlurmQueue,
}  # fmt: skip
_LOOK_S = 1.0
_SEEN_WITHIN_S = 5.0


class Event(msgspec.Struct, frozen=True, omit_defaults=True):
    """What happened to a job: `submitted`, `answered`, `failed`, or `again` if it ended without a result; or `ended`.

    `ended` is the sweep's own. `done` jobs have a result, `failed` ones a reason why they have none.
    """

    event: str
    planned: int
    done: int = 0
    failed: int = 0
    key: str = ""
    attempt: int = 0
    reason: str = ""
    node: str = ""


@dataclass
class Sweep:
    """Which jobs run where: on which engine, into which folder, how many at a time, and how often each may start.

    `cache` keeps clones and environments. `again` runs failed jobs again. `cage` runs each job in a sandbox, or none;
    None: those of repositories at URLs. `tell` receives every event.
    """

    jobs: Sequence[Job]
    folder: Path
    cache: Path
    engine: str = "local"
    at_a_time: int | None = None
    attempts: int = 3
    options: Mapping[str, str] = field(default_factory=dict)
    again: bool = False
    cage: bool | None = None
    tell: Callable[[Event], None] = lambda _: None

    def run(self) -> Event:
        """Run every job that has no result yet; return the last event.

        Raises NoSandboxError if a job needs a sandbox and there is none, StoreConflictError if another sweep runs in
        the folder or the folder cannot be written: every file there is complete, and the same call continues.
        """
        self._results = ResultsFolder(self.folder)
        self._submitted: dict[str, Job] = {}
        self._attempts: Counter[str] = Counter()
        with self._results.held(self.jobs):
            for job in self.jobs if self.again else ():
                self._results.failure_path(job.key).unlink(missing_ok=True)
            self._answered = {job.key for job in self.jobs if self._results.answer_path(job.key).exists()}
            self._waiting = deque(job for job in self.jobs if not self._results.is_done(job.key))
            self._failed = {job.key for job in self.jobs} - self._answered - {job.key for job in self._waiting}
            if any(map(self._is_sandboxed, self._waiting)):
                sandbox.engine()
            if self._waiting:
                engine = open_engine(self.engine, self._results.path, self.at_a_time, self.options)
                try:
                    while self._waiting or self._submitted:
                        self._submit(engine)
                        for ended in engine.finished(_LOOK_S):
                            self._take(ended)
                finally:
                    engine.close()
            return self._say("ended")

    def _is_sandboxed(self, job: Job) -> bool:
        return is_url(job.repository) if self.cage is None else self.cage

    def _submit(self, engine: Engine) -> None:
        while self._waiting and len(self._submitted) < engine.capacity:
            job = self._waiting.popleft()
            order = Order(str(self._results.path), str(self.cache.absolute()), job, self._is_sandboxed(job))
            self._attempts[job.key] += 1
            self._submitted[job.key] = job
            engine.submit(Task(job.key, order.command, job.resources))
            self._say("submitted", job.key)

    def _take(self, ended: Ended) -> None:
        job = self._submitted.pop(ended.key)
        # A file of another node may be visible a little later.
        deadline = time.monotonic() + (_SEEN_WITHIN_S if ended.exit_code == 0 else 0.0)
        while not self._results.is_done(job.key) and time.monotonic() < deadline:
            time.sleep(0.1)
        if self._results.answer_path(job.key).exists():
            self._answered.add(job.key)
            self._say("answered", job.key, node=ended.node)
            return
        failure, reason = self._results.read(job.key), ended.reason or "it ended without a result"
        if failure is None:
            if ended.exit_code == ExitCode.STORE_CONFLICT:
                hint = "free some space, then run the same command again; no result is lost"
                raise StoreConflictError(f"a job cannot write in {self._results.path}: {reason}", hint)
            attempts = self._attempts[job.key]
            if ended.again and attempts < self.attempts:
                self._waiting.append(job)
                self._say("again", job.key, reason, ended.node)
                return
            times = f" (the last of {attempts} attempts)" if attempts > 1 else ""
            self._results.put(Result(job, reason=f"no result: {reason}{times}", node=ended.node))
        self._failed.add(job.key)
        self._say("failed", job.key, failure.reason if failure is not None else reason, ended.node)

    def _say(self, event: str, key: str = "", reason: str = "", node: str = "") -> Event:
        counts = (len(self.jobs), len(self._answered), len(self._failed))
        said = Event(event, *counts, key, self._attempts[key], reason, node)
        self.tell(said)
        return said


def open_engine(name: str, folder: Path, jobs: int | None, options: Mapping[str, str]) -> Engine:
    """Return the engine of that name, for at most `jobs` at a time (None: it chooses).

    Raises BadInputError if there is none, for an option that it does not have, and if it cannot work here.
    """
    if name not in ENGINES:
        raise BadInputError(f"no engine is called '{name}'", f"one of {', '.join(ENGINES)}")
    known = ENGINES[name].OPTIONS
    for option in options:
        if option not in known:
            hint = f"one of {', '.join(known)}" if known else "it has none"
            raise BadInputError(f"the {name} engine has no option '{option}'", hint)
    return ENGINES[name](folder, jobs, options)
