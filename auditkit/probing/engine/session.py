"""One request to a worker: each of its jobs as it ends, whatever happens to the processes."""

from __future__ import annotations

import ast
import contextlib
import errno
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import PurePosixPath

from auditkit.model.codec import number_again
from auditkit.model.enums import DeviceChoice, Outcome, Reason
from auditkit.model.runs.measurement import Location, Measurement
from auditkit.model.runs.target import Target, split_call
from auditkit.model.text import shortened
from auditkit.probing.engine import protocol
from auditkit.probing.engine.cache import Entry, SessionCache
from auditkit.probing.engine.fork_servers import GRACE_S, Worker, server_for
from auditkit.probing.engine.protocol import Failure, LoadedBy
from auditkit.probing.engine.sandbox import Setting
from auditkit.probing.find.blocks.blocks import blocks_of, nearest_blocks, undefined_names
from auditkit.probing.source.modules import Module, module_name, parse_module, source_bytes
from auditkit.processes import shortage
from auditkit.worker.serve.families import describe_end, is_out_of_memory
from auditkit.worker.serve.loading import OF_BLOCKS

_NOT_FED = (Reason.CANNOT_FEED, Reason.CANNOT_READ)
# The last output of a process may explain these.
_LAST_WORDS_MATTER = (Reason.EXIT, Reason.CRASH, Reason.TIMEOUT)
# auditkit's own are much shorter; a target may send messages as its worker.
_MOST_NOTES, _LONGEST_TEXT = 100, 2000
_PLACE = ("lineno", "col_offset", "end_lineno", "end_col_offset")


@dataclass
class Job:
    """The messages of one job.

    `failure` is the job's own error, else how its process ended; `refusal` means that the probe does not apply or
    cannot run here; `checked` that an instrument read its toy. `loaded_by` is how a planned target was loaded. `said`
    has every message; `remembered` means that they come from the cache.
    """

    id: str = ""
    measurements: list[Measurement] = field(default_factory=list)
    location: Location | None = None
    notes: list[str] = field(default_factory=list)
    plan: protocol.Plan | None = None
    loaded_by: LoadedBy = field(default_factory=LoadedBy)
    refusal: tuple[Outcome, Reason | None, str] | None = None
    failure: Failure | None = None
    checked: bool = False
    duration_s: float = 0.0
    has_ended: bool = False
    said: list[protocol.OfJob | protocol.End] = field(default_factory=list)
    remembered: bool = False

    def take(self, message: protocol.OfJob | protocol.End) -> None:
        """Handle one message; of several failures the first one counts."""
        match message:
            case protocol.Measured(name, value, unit, case, evidence):
                self.measurements.append(Measurement(name, number_again(value, unit), unit, case, evidence))
            case protocol.Located(place):
                self.location = self.location or place
            case protocol.Noted(text):
                if len(self.notes) < _MOST_NOTES:
                    self.notes.append(shortened(text, _LONGEST_TEXT))
            case protocol.Planned():
                self.plan, self.loaded_by = message.plan, message
            case protocol.NotApplicable(text):
                self.refusal = self.refusal or (Outcome.NOT_APPLICABLE, None, shortened(text, _LONGEST_TEXT))
            case protocol.Unavailable(text, reason):
                self.refusal = self.refusal or (Outcome.UNAVAILABLE, reason, shortened(text, _LONGEST_TEXT))
            case Failure():
                self.failure = self.failure or _failure(message)
            case protocol.Took(seconds):
                self.duration_s = seconds
            case protocol.Checked():
                self.checked = True
            case protocol.End(output_bytes, reason, text):
                self.has_ended = True
                if reason is not None:
                    self.failure = self.failure or Failure(reason, text)
                if output_bytes:
                    self.notes.append(f"the target printed {output_bytes:,} bytes, ignored")

    def is_answer(self, is_audit: bool) -> bool:
        """Return whether to cache it: no failure, nothing unavailable; for a trial also that nothing feeds it."""
        if self.failure is not None:
            return not is_audit and self.failure.reason in _NOT_FED and not self.failure.missing
        is_refused = self.refusal is not None and self.refusal[0] is not Outcome.NOT_APPLICABLE
        return not is_refused and bool(self.plan or self.measurements or self.refusal)


def _failure(said: Failure) -> Failure:
    message, hint = (shortened(text, _LONGEST_TEXT) for text in (said.message, said.hint))
    return Failure(said.reason, message, hint, said.missing)


def module_of(call: str) -> str:
    """Return the place of a target as a worker loads it; of a block's file only what the block needs."""
    place, _, statement = split_call(call)
    return f"{place}{OF_BLOCKS}" if statement else place


class Session:
    """One request to a worker; iterate over `jobs()` once.

    `hello` describes the worker, with the name of its device if one was used. `failure` says why nothing ran: the
    interpreter, its torch, or the target's import. `loaded_by` is how the target was loaded. Cached jobs do not run,
    and without further jobs no worker is started.
    """

    def __init__(
        self,
        setting: Setting,
        jobs: Sequence[protocol.Job],
        target: Target | None = None,
        *,
        modules: Sequence[str] = (),
    ) -> None:
        self.hello: protocol.Hello | None = None
        self.device_name = ""
        self.failure: Failure | None = None
        self.loaded_by = LoadedBy()
        self._setting = setting
        asked: list[protocol.Job] = [{**job, "target": vars(target) if target else job.get("target")} for job in jobs]
        modules = [module_of(target.call)] if target is not None else list(modules)
        self.request: protocol.Request = {
            "is_audit": target is not None,
            "modules": modules,
            "checkout": str(setting.checkout),
            "import_roots": [str(root) for root in setting.import_roots],
            "jobs": asked,
            "blocks": block_requests(setting, (str(job["target"]["call"]) for job in asked if job["target"])),
            "auto_device": target is not None and setting.device is DeviceChoice.AUTO,
            "time_limit_s": setting.time_limit_s,
            "rungs": list(setting.rungs),
            "recorded": _recorded(setting, (str(job["target"]["call"]) for job in asked if job["target"])),
        }
        self._imports = " and ".join(module.rstrip(OF_BLOCKS) for module in modules) or "a target"
        self._asked = {job["id"]: job for job in asked}
        cache = setting.cache
        self._cache = SessionCache(cache, setting, self.request) if cache is not None else None

    @property
    def has_cuda(self) -> bool:
        """Whether the worker found a CUDA device; only valid after `hello`."""
        return self.hello is not None and self.hello.cuda

    def jobs(self, started: Callable[[str], None] = lambda _: None) -> Iterator[Job]:
        """Yield each job as it ends, also one whose worker died. `started(id)` is called when a job starts."""
        known = self._recalled()
        if known and not self.request["jobs"]:
            yield from self._again(known, started)
        else:
            try:
                yield from self._run(known, started)
            except ConnectionError:  # The interpreter ended before it read the request.
                printed = server_for(self._setting.interpreter).why_ended()[2]
                self.failure = self._no_python(printed)
            except OSError as error:
                text = f"{error.filename or self._setting.interpreter} cannot be started: {error.strerror}"
                self.failure = Failure(Reason.NO_INTERPRETER, text, "name another with --python")
        if self._cache is not None:
            self._cache.close()

    def _run(self, known: Mapping[str, Entry], started: Callable[[str], None]) -> Iterator[Job]:
        setting, request = self._setting, self.request
        worker = server_for(setting.interpreter).fork(request["jobs"])
        job, is_loaded = Job(has_ended=True), False
        waiting = {each["id"] for each in request["jobs"]}
        try:
            with contextlib.closing(worker.run(request, setting.cancelled, setting.copied)) as messages:
                for message in messages:
                    self.hello = worker.hello
                    if isinstance(message, protocol.Start):
                        if message.job in waiting:  # A target may forge starts of other jobs, or of this one.
                            waiting.remove(message.job)
                            job = Job(message.job)
                            started(job.id)
                    elif isinstance(message, protocol.Loaded):
                        is_loaded, self.loaded_by = True, message
                        yield from self._again(known, started)
                    elif job.id:
                        self._take(job, message)
                        if job.has_ended:
                            self._keep(job)
                            yield job
                            job = Job(has_ended=True)
                    elif not is_loaded and isinstance(message, Failure):
                        self.failure = self.failure or _failure(message)
            self.hello = worker.hello
        finally:
            cut_off = worker.timed_out or worker.flooded or setting.cancelled.is_set()
            worker.end(0.0 if cut_off else GRACE_S)
        if not is_loaded:
            self.failure = self.failure or self._not_loaded(worker)
            if self.hello is None and self.failure.reason is Reason.NO_MEMORY:
                raise shortage(errno.ENOMEM)
            if self.failure.reason in _LAST_WORDS_MATTER:
                self.failure.hint = self.failure.hint or _last_output(worker.output_tail)
        elif not job.has_ended:
            job.failure = job.failure or self._cut_short(worker)
            yield job

    def _recalled(self) -> dict[str, Entry]:
        """Return the cached entries of the jobs, and remove from the request what they make unnecessary."""
        if self._cache is None:
            return {}
        found = {name: self._cache.recall(job) for name, job in self._asked.items()}
        known = {name: entry for name, entry in found.items() if entry is not None}
        waiting = [job for name, job in self._asked.items() if name not in known]
        if "plan" in self._asked:
            if "plan" not in known:
                return {}
            plan = next(each.plan for each in known["plan"].messages if isinstance(each, protocol.Planned))
            waiting = [{**job, "plan": plan} for job in waiting if plan["contract"] in job.get("contracts", ())]
            waiting = [job for job in waiting if known["plan"].hello.cuda or job.get("device") != "cuda"]
        self.request["jobs"] = waiting
        return known

    def _again(self, known: Mapping[str, Entry], started: Callable[[str], None]) -> Iterator[Job]:
        """Yield cached jobs, as they ended."""
        for name, entry in known.items():
            self.hello = self.hello or entry.hello
            job = Job(name, remembered=True)
            started(name)
            for message in entry.messages:
                self._take(job, message)
            self.loaded_by = entry.loaded_by
            yield job

    def _keep(self, job: Job) -> None:
        if self._cache is not None and self.hello is not None and job.is_answer(self.request["is_audit"]):
            loaded_by = {name: getattr(self.loaded_by, name) for name in LoadedBy.__struct_fields__}
            self._cache.keep(self._asked[job.id], Entry(job.said, LoadedBy(**loaded_by), self.hello))

    def _take(self, job: Job, message: protocol.Message) -> None:
        if isinstance(message, protocol.Located) and message.location and not self._may_be_shown(message.location):
            return
        if isinstance(message, protocol.Device):
            self.device_name = message.name
        elif isinstance(message, protocol.Planned):
            self.loaded_by = message
        job.said.append(message)  # type: ignore[arg-type]
        job.take(message)  # type: ignore[arg-type]

    def _may_be_shown(self, place: Location) -> bool:
        """Return whether a report may show lines of that file: a target can name any file as its worker."""
        file, folder = PurePosixPath(place.file), PurePosixPath(os.path.realpath(place.folder or "/"))
        roots = [os.path.realpath(root) for root in self._setting.import_roots]
        is_known = not place.folder or any(folder.is_relative_to(root) for root in roots)
        is_installed = {"site-packages", "dist-packages"} & set(folder.parts)
        return not file.is_absolute() and ".." not in file.parts and bool(is_known or is_installed)

    def _not_loaded(self, worker: Worker) -> Failure:
        """Return why a worker stopped before its modules were loaded."""
        if worker.status == os.EX_TEMPFAIL:
            raise shortage(errno.EAGAIN)
        has_begun, printed, what = True, worker.output_tail, self._imports if self.hello is not None else "torch"
        if self.hello is None and (worker.server_ended or worker.timed_out):
            has_begun, worker.status, printed = worker.server.why_ended()
        if not has_begun:
            return self._no_python(printed)
        found, hint = self._cut_short(worker), _last_output(printed)
        if is_out_of_memory(printed if self.hello is None else hint):
            return Failure(Reason.NO_MEMORY, f"out of memory: importing {what}: {found.message}")
        return Failure(found.reason, f"importing {what}: {found.message}")

    def _no_python(self, printed: str) -> Failure:
        text = f"{self._setting.interpreter} is no Python that can run the worker"
        return Failure(Reason.NO_INTERPRETER, text, _last_output(printed) or "name another with --python")

    def _cut_short(self, worker: Worker) -> Failure:
        is_ended = worker.status is not None and not worker.timed_out
        code = (worker.status or 0) if is_ended else 0
        status = (-code if code < 0 else code << 8) if is_ended else None
        reason, message = describe_end(status, self._setting.time_limit_s, worker.flooded)
        return Failure(Reason(reason), message)


def _last_output(printed: str) -> str:
    lines = [line for line in printed.splitlines() if line.strip()]
    return f"its last output: {lines[-1].strip()[:200]}" if lines else ""


def _recorded(setting: Setting, calls: Iterable[str]) -> Mapping[str, object]:
    """Return the recorded arguments of the targets whose calls a run recorded."""
    if setting.recorded is None:
        return {}
    found = {call: setting.recorded.calls[call] for call in calls if call in setting.recorded.calls}
    return {
        call: {"arguments": each.arguments, "when": setting.recorded.when}
        for call, each in found.items()
        if each.arguments
    }


def block_requests(setting: Setting, calls: Iterable[str]) -> dict[str, protocol.BlockRequest]:
    """Return each of `calls` that names a block, with its function, or why the checkout has no such block."""
    return {call: _request(call, setting) for call in dict.fromkeys(calls) if split_call(call)[2]}


def _request(call: str, setting: Setting) -> protocol.BlockRequest:
    file, name = call.split(":", 1)
    path = setting.checkout / file
    source = source_bytes(path)
    module = parse_module(path, source, setting.checkout, module_name(path, setting.import_roots) or file)
    if not source or not isinstance(module, Module):
        why = "is not there" if isinstance(module, Module) else f"cannot be read: line {module.line}: {module.message}"
        return {"file": file, "name": name, "missing": f"there is no block {call}: {file} {why}"}
    block = next((each for each in blocks_of(module) if each.call == call), None)
    if block is None:
        near = nearest_blocks(module, call)
        hint = f"; {file} has {', '.join(near)}" if near else f"; {file} has none"
        return {"file": file, "name": name, "missing": f"there is no block {call}{hint}"}
    undefined = undefined_names(block)
    if undefined:
        return {"file": file, "name": name, "missing": f"{call} reads {', '.join(undefined)}, which nothing sets"}
    text = ast.unparse(block.node)
    return {
        "file": file,
        "name": name,
        "names": list(block.names),
        "text": text,
        "places": _positions(block.node),
        "has_epochs": block.has_epochs,
        "context": block.context if block.trains else "",
    }


def _positions(node: ast.AST) -> list[tuple[int, int, int, int]]:
    """Return the positions of all nodes that have one, in the order of `ast.walk`."""
    found = (each for each in ast.walk(ast.fix_missing_locations(node)) if "lineno" in each._attributes)
    return [tuple(getattr(each, name) for name in _PLACE) for each in found]
