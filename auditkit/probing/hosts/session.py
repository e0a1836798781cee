"""A worker and its jobs: start it, and have each job as it ends, whatever happens to the processes."""

from __future__ import annotations

import contextlib
import errno
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import PurePosixPath
from typing import cast

from auditkit.model.enums import Outcome, Reason
from auditkit.model.runs.measurement import Location, Measurement
from auditkit.model.runs.target import Target
from auditkit.model.text import shortened
from auditkit.probing.hosts import protocol
from auditkit.probing.hosts.block_requests import block_requests
from auditkit.probing.hosts.cache import Entry, SessionCache
from auditkit.probing.hosts.sandbox import Setting, Worker, WorkerEnd, worker_environment
from auditkit.probing.worker.process.families import is_out_of_memory, signal_name
from auditkit.probing.worker.process.jsonlines import new_token
from auditkit.processes import shortage

_NOT_FED = (Reason.CANNOT_FEED, Reason.CANNOT_READ)
# Who ends without a word of ours may have said something itself.
_LAST_WORDS_MATTER = (Reason.EXIT, Reason.CRASH, Reason.TIMEOUT)


# Ours are much shorter; a target may speak in the name of its worker.
_MOST_NOTES, _LONGEST_TEXT = 100, 2000


@dataclass(frozen=True)
class Failure:
    """Why there is no answer; `missing` are the modules that the target imports and nobody has."""

    reason: Reason
    message: str
    hint: str = ""
    missing: tuple[str, ...] = ()

    def describe(self) -> str:
        """The message with its hint."""
        return f"{self.message} ({self.hint})" if self.hint else self.message


@dataclass(frozen=True)
class LoadedBy:
    """By which rung of the loading ladder a target was loaded, what stands in for something absent, and why.

    `package_error` says why importing its package did not do, "" where that was not tried.
    """

    rung: str = ""
    placeholders: tuple[str, ...] = ()
    package_error: str = ""

    @classmethod
    def read(cls, said: protocol.LoadedBy) -> LoadedBy:
        return cls(said.get("rung", ""), tuple(said.get("placeholders", ())), said.get("package_error", ""))

    def describe(self) -> list[str]:
        """Half sentences on what differs from importing the target as it is; none where nothing does."""
        how = {
            "file": "loaded without its package's __init__",
            "cut_out": "cut out of its file, of which nothing else ran",
        }
        said = [how[self.rung]] if self.rung in how else []
        stand_ins = ", ".join(self.placeholders)
        return [*said, *([f"empty stand-ins were imported for what is not there: {stand_ins}"] if stand_ins else [])]


@dataclass
class Job:
    """What a worker said of one job.

    `failure` is what the job said itself, else how its process ended; `refusal` that its question makes no
    sense here, or cannot be asked; `checked` that an instrument read its toy. `loaded_by` is how a planned target was.
    `said` is every message of it; `remembered` that they come from the cache.
    """

    id: str = ""
    measurements: list[Measurement] = field(default_factory=list)
    location: Location | None = None
    notes: list[str] = field(default_factory=list)
    plan: protocol.Plan | None = None
    loaded_by: LoadedBy = LoadedBy()
    refusal: tuple[Outcome, Reason | None, str] | None = None
    failure: Failure | None = None
    checked: bool = False
    duration_s: float = 0.0
    has_ended: bool = False
    said: list[protocol.Message] = field(default_factory=list)
    remembered: bool = False

    def take(self, message: protocol.OfJob) -> None:
        """Take in what was said of it; of several failures the first one counts."""
        if message["type"] == "measurement":
            self.measurements.append(Measurement.from_json(message))
        elif message["type"] == "location":
            place = message["location"]
            if self.location is None and place is not None:
                self.location = Location(place["file"], int(place["line"]), place["function"], place["folder"])
        elif message["type"] == "note":
            if len(self.notes) < _MOST_NOTES:
                self.notes.append(shortened(message["text"], _LONGEST_TEXT))
        elif message["type"] == "plan":
            self.plan, self.loaded_by = message["plan"], LoadedBy.read(message)
        elif message["type"] == "not_applicable" or message["type"] == "unavailable":
            named = message.get("reason")
            reason = Reason(named) if named else None
            text = shortened(message["message"], _LONGEST_TEXT)
            self.refusal = self.refusal or (Outcome(message["type"]), reason, text)
        elif message["type"] == "failed" or message["type"] == "load_error":
            self.failure = self.failure or _failure(message)
        elif message["type"] == "took":
            self.duration_s = float(message["seconds"])
        elif message["type"] == "checked":
            self.checked = True
        elif message["type"] == "end":
            self._end(message)

    def is_answer(self, of_trial: bool) -> bool:
        """Whether it may be used again: no failure, nothing unavailable; of a trial also that nothing feeds it."""
        if self.failure is not None:
            return of_trial and self.failure.reason in _NOT_FED and not self.failure.missing
        is_refused = self.refusal is not None and self.refusal[0] is not Outcome.NOT_APPLICABLE
        return not is_refused and bool(self.plan or self.measurements or self.refusal)

    def _end(self, message: protocol.End) -> None:
        self.has_ended = True
        if message["status"] != "ok":
            self.failure = self.failure or _failure(message)
        if message.get("output_bytes"):
            self.notes.append(f"the target printed {message['output_bytes']:,} bytes, ignored")


def _failure(said: protocol.Failed | protocol.LoadError | protocol.End) -> Failure:
    hint, missing = said.get("hint") or "", cast("list[str]", said.get("missing") or [])
    return Failure(
        Reason(said.get("reason") or Reason.PROTOCOL),
        shortened(said.get("message") or "it does not say why", _LONGEST_TEXT),
        shortened(str(hint), _LONGEST_TEXT),
        tuple(missing),
    )


def _calls(target: Target | None, jobs: Sequence[protocol.Job]) -> Iterator[str]:
    yield from () if target is None else (target.call,)
    yield from (str(job["target"]["call"]) for job in jobs if "target" in job)


def _last_output(end: WorkerEnd) -> str:
    lines = [line for line in end.output_tail.splitlines() if line.strip()]
    return f"its last output: {lines[-1].strip()[:200]}" if lines else ""


class Session:
    """One worker from its start to its end; iterate over `jobs()` once.

    `hello` is what it said of itself, with the name of its device where one was used. `failure` says why nothing
    ran: the interpreter, its torch, or the target's import. `fork_refusal` says why a worker that was to fork
    may not: it has done nothing then. `loaded_by` is how the target was loaded. Jobs whose results are in the cache do
    not run, and without further jobs no worker is started.
    """

    def __init__(
        self,
        setting: Setting,
        jobs: Sequence[protocol.Job],
        target: Target | None = None,
        *,
        modules: Sequence[str] = (),
        auto_device: bool = False,
        fresh_imports: bool = False,
    ) -> None:
        self.hello: protocol.Hello | None = None
        self.device_name = ""
        self.failure: Failure | None = None
        self.fork_refusal = ""
        self.loaded_by = LoadedBy()
        self._setting = setting
        self._of_trial = target is None
        self._imports = target.call.partition(":")[0] if target is not None else " and ".join(modules) or "a target"
        self._may_refuse = (target is not None or bool(modules)) and not fresh_imports
        request: protocol.Request = {
            "token": new_token(),
            "target": target,
            "modules": list(modules),
            "checkout": str(setting.checkout),
            "import_roots": [str(root) for root in setting.import_roots],
            "jobs": list(jobs),
            "blocks": block_requests(setting, _calls(target, jobs)),
            "auto_device": auto_device,
            "time_limit_s": setting.time_limit_s,
            "fresh_imports": fresh_imports,
            "rungs": list(setting.rungs),
        }
        self.worker = Worker(setting, request)
        self._asked = {job["id"]: job for job in jobs}
        cache = setting.cache
        self._cache = SessionCache(cache, setting, request, worker_environment()) if cache is not None else None

    @property
    def has_cuda(self) -> bool:
        """Whether the worker found a CUDA device; only to be believed once it has said `hello`."""
        return self.hello is not None and self.hello["cuda"]

    def jobs(self, started: Callable[[str], None] = lambda _: None) -> Iterator[Job]:
        """Each job as it ends, also one that the worker did not live to end. `started(id)` hears of its start."""
        yield from self._run_jobs(started)
        if self._cache is not None:
            self._cache.close()

    def _run_jobs(self, started: Callable[[str], None]) -> Iterator[Job]:
        worker = self.worker
        job, is_loaded, known = Job(has_ended=True), False, self._recalled()
        waiting = {each["id"] for each in self.worker.request["jobs"]}
        if known and not worker.request["jobs"]:
            yield from self._again(known, started)
            return
        try:
            with contextlib.closing(worker.messages()) as messages:
                for message in messages:
                    if message["type"] == "start":
                        if message["job"] in waiting:  # a target may say that others have begun, or this one again
                            waiting.remove(message["job"])
                            job = Job(message["job"])
                            started(job.id)
                    elif message["type"] == "loaded":
                        is_loaded, self.loaded_by = True, LoadedBy.read(message)
                        self.fork_refusal = "" if message["fork_safe"] or not self._may_refuse else message["why"]
                        if self.fork_refusal:
                            return
                        yield from self._again(known, started)
                    elif job.id:
                        self._take(job, message)
                        if job.has_ended:
                            self._keep(job)
                            yield job
                    elif message["type"] == "hello":
                        self.hello = message
                    elif message["type"] == "load_error":
                        self.failure = _failure(message)
        except OSError as error:
            text = f"{error.filename or self._setting.interpreter} cannot be started: {error.strerror}"
            self.failure = Failure(Reason.NO_INTERPRETER, text, "name another with --python")
            return
        if not is_loaded:
            self.failure = self.failure or self._not_loaded(worker.end)
            if self.hello is None and self.failure.reason is Reason.NO_MEMORY:
                raise shortage(errno.ENOMEM)
            if self.failure.reason in _LAST_WORDS_MATTER and not self.failure.hint:
                self.failure = replace(self.failure, hint=_last_output(worker.end))
        elif not job.has_ended:
            job.failure = job.failure or self._cut_short(worker.end)
            yield job

    def _recalled(self) -> dict[str, Entry]:
        """What is known of the jobs, which are then no longer asked, nor what follows from it."""
        if self._cache is None:
            return {}
        found = {name: self._cache.recall(job) for name, job in self._asked.items()}
        known = {name: entry for name, entry in found.items() if entry is not None}
        waiting = [job for name, job in self._asked.items() if name not in known]
        if "plan" in self._asked:
            if "plan" not in known:
                return {}
            planned = known["plan"]
            plan = next(said["plan"] for said in planned.messages if said["type"] == "plan")
            waiting = [{**job, "plan": plan} for job in waiting if plan["contract"] in job.get("contracts", ())]
            waiting = [job for job in waiting if planned.hello["cuda"] or job.get("device") != "cuda"]
        self.worker.request["jobs"] = waiting
        return known

    def _again(self, known: Mapping[str, Entry], started: Callable[[str], None]) -> Iterator[Job]:
        """Jobs that were asked by an earlier command, as they ended then."""
        for name, entry in known.items():
            self.hello = self.hello or entry.hello
            job = Job(name, remembered=True)
            started(name)
            for message in entry.messages:
                self._take(job, message)
            self.loaded_by = LoadedBy.read(cast("protocol.LoadedBy", entry.loaded_by))
            yield job

    def _keep(self, job: Job) -> None:
        if self._cache is None or self.hello is None or not job.is_answer(self._of_trial):
            return
        self._cache.keep(self._asked[job.id], Entry(job.said, asdict(self.loaded_by), self.hello))

    def _take(self, job: Job, message: protocol.Message) -> None:
        job.said.append(message)
        if message["type"] == "device":
            self.device_name = message["name"]
        elif message["type"] == "plan":
            self.loaded_by = LoadedBy.read(message)
        elif message["type"] == "location" and message["location"] and not self._may_be_shown(message["location"]):
            return
        job.take(cast("protocol.OfJob", message))

    def _may_be_shown(self, place: protocol.Place) -> bool:
        """Whether a report may show lines of that file: a target can name any file in its worker's name."""
        file, folder = PurePosixPath(place["file"]), PurePosixPath(os.path.realpath(place["folder"] or "/"))
        roots = [os.path.realpath(root) for root in self._setting.import_roots]
        is_known = not place["folder"] or any(folder.is_relative_to(root) for root in roots)
        is_installed = {"site-packages", "dist-packages"} & set(folder.parts)
        return not file.is_absolute() and ".." not in file.parts and bool(is_known or is_installed)

    def _not_loaded(self, end: WorkerEnd) -> Failure:
        """A worker that stopped before its time, and why."""
        found = self._cut_short(end)
        if not end.begun and end.returncode == os.EX_TEMPFAIL:
            raise shortage(errno.EAGAIN)
        if not end.begun:
            text = f"{self._setting.interpreter} is no Python that can run the worker: {found.message}"
            return Failure(Reason.NO_INTERPRETER, text, _last_output(end))
        what = self._imports if self.hello is not None else "torch"
        if is_out_of_memory(end.output_tail if self.hello is None else _last_output(end)):
            found = Failure(Reason.NO_MEMORY, f"out of memory: {found.message}")
        return Failure(found.reason, f"importing {what}: {found.message}")

    def _cut_short(self, end: WorkerEnd) -> Failure:
        if end.timed_out:
            text = f"no answer within {self._setting.time_limit_s:g} s; the process and all it started were ended"
            return Failure(Reason.TIMEOUT, text)
        if end.flooded:
            return Failure(Reason.PROTOCOL, "it printed more than 10 MB; the process and all it started were ended")
        if end.returncode is not None and end.returncode < 0:
            return Failure(Reason.CRASH, f"the process died of {signal_name(-end.returncode)}")
        text = f"the process ended itself with status {end.returncode} (sys.exit or os._exit)"
        return Failure(Reason.EXIT, text)
