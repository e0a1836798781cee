"""One job in one process, the same on every engine: `python -m auditkit.sweep.execution ORDER [--lifeline]`.

It checks the code out, finds or makes the interpreter, audits, and writes one file: the answer, or why there is none.
It ends with 0 where that file is written; with 4 where it cannot be; else it may be run again.
"""

from __future__ import annotations

import contextlib
import datetime
import io
import json
import os
import re
import resource
import signal
import socket
import sys
import textwrap
import threading
import time
import traceback
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from types import FrameType
from typing import Any
from urllib.parse import urlsplit

from auditkit import sandbox
from auditkit.audit.audit import AuditRequest, audit
from auditkit.errors import (
    AuditkitError,
    BadInputError,
    ExitCode,
    NothingMeasuredError,
    StoreConflictError,
    TargetNotLoadedError,
)
from auditkit.model.enums import DeviceChoice
from auditkit.model.runs.run import Run
from auditkit.model.runs.target import Target
from auditkit.model.text import inert_line
from auditkit.probing.checkout.checkout import CheckoutSpec
from auditkit.probing.engine.fork_servers import end_servers
from auditkit.probing.run.configuration import read_configuration
from auditkit.probing.run.run_options import RunOptions
from auditkit.sandbox import Mounts
from auditkit.sweep.engines.node import LIFELINE
from auditkit.sweep.environments import LONGEST_REASON, EnvironmentFailedError, interpreter_for
from auditkit.sweep.folder import Answer, Failure, ResultsFolder
from auditkit.sweep.jobs import Job, Order, command_of
from auditkit.sweep.repositories import Code, NoCodeError, folder_of, is_url

# An end that was asked for takes a worker's patience; whoever does not end by then is ended.
_GRACE_S = 20.0
_LARGEST_RESULT_BYTES = 256 << 20
PREPARE, AUDIT = "--prepare", "--audit"
"""Steps of a job that has a sandbox for each."""

_ENDS = (signal.SIGTERM, signal.SIGHUP, signal.SIGINT)


class _Clock:
    """Ends this process when its time is up, or when whoever started it is gone: first politely, then at once."""

    def __init__(self, job: Job, folder: ResultsFolder) -> None:
        self.is_out = False
        self._job, self._folder = job, folder
        self.began = time.monotonic()

    def start(self) -> None:
        timer = threading.Thread(target=self._run_out, daemon=True)
        timer.start()

    def _run_out(self) -> None:
        time.sleep(self._job.resources.time_s)
        self.is_out = True
        os.kill(os.getpid(), signal.SIGTERM)
        time.sleep(_GRACE_S)
        with contextlib.suppress(AuditkitError, OSError):
            self._folder.put(self.failure())
        os._exit(0)

    def failure(self) -> Failure:
        limit = self._job.resources.time_s
        return Failure(self._job, "time", f"no answer within {limit:g} s", "time_limit in the plan gives it longer")


def _follow_lifeline() -> None:
    """End when standard input does."""
    with contextlib.suppress(OSError):
        while os.read(0, 1):
            pass
    os.kill(os.getpid(), signal.SIGTERM)
    time.sleep(_GRACE_S)
    os._exit(128 + signal.SIGTERM)


def main(words: Sequence[str]) -> int:
    """Do the job of an order; the exit code."""
    order = Order.from_json(json.loads(words[0]))
    folder, job = ResultsFolder(Path(order.folder)), order.job
    if sandbox.inside() and set(words[1:]) & {PREPARE, AUDIT}:
        print(json.dumps(_step(order, folder, words[1:])))
        return 0
    # Until the attempt can be taken back; threads that begin now will not hear these signals at all.
    signal.pthread_sigmask(signal.SIG_BLOCK, _ENDS)
    for number in _ENDS:
        signal.signal(number, _end)
    if LIFELINE in words[1:]:
        threading.Thread(target=_follow_lifeline, daemon=True).start()
    if folder.is_done(job.key):
        return 0
    try:
        mark = folder.begin(job.key, order.attempts)
        return _do(order, folder, mark) if mark is not None else 0
    except StoreConflictError as error:
        print(error.message, file=sys.stderr)
        return int(ExitCode.STORE_CONFLICT)


def _do(order: Order, folder: ResultsFolder, mark: Path) -> int:
    """The job, begun as `mark` says; an end that is not the job's own fault takes the mark away."""
    clock = _Clock(order.job, folder)
    clock.start()
    try:
        signal.pthread_sigmask(signal.SIG_UNBLOCK, _ENDS)
        folder.put(_result(order, folder, clock))
    except (StoreConflictError, SystemExit):
        mark.unlink(missing_ok=True)
        raise
    return 0


# The signal that told this process to end.
_told: list[int] = []


def _end(number: int, _frame: FrameType | None) -> None:
    _told.append(number)
    raise SystemExit(128 + number)


def _asked(order: Order, folder: ResultsFolder) -> Run:
    """As `ask`; after a signal SystemExit, whatever other error that became on its way out, as in subprocess."""
    try:
        return ask(order, folder)
    except Exception:
        if _told:
            raise SystemExit(128 + _told[0]) from None
        raise


def _result(order: Order, folder: ResultsFolder, clock: _Clock) -> Answer | Failure:
    """The answer, or why there is none. Raises SystemExit where it is to end, OSError where it may be tried again."""
    job = order.job
    began = datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")
    failure = Failure(job, "error", "", node=socket.gethostname())
    try:
        run = _asked(order, folder)
    except StoreConflictError:
        raise
    except EnvironmentFailedError as error:
        return _timed(replace(failure, kind="environment", reason=error.message), clock)
    except AuditkitError as error:
        reason = in_one_line(error.message)
        return _timed(replace(failure, kind=_kind(error), reason=reason, hint=error.hint or ""), clock)
    except (SystemExit, KeyboardInterrupt):
        if clock.is_out:
            return _timed(replace(clock.failure(), node=failure.node), clock)
        raise
    except (OSError, MemoryError):
        raise
    except Exception as error:
        place = traceback.extract_tb(error.__traceback__)[-1]
        where = f"{Path(place.filename).name}:{place.lineno}"
        return _timed(replace(failure, reason=in_one_line(f"{type(error).__name__}: {error} ({where})")), clock)
    end_servers()  # which counts what the workers took
    usages = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    missing = run.no_target
    return Answer(
        job=job,
        run=run.to_json(),
        no_target=missing.message if missing is not None else "",
        no_target_hint=missing.hint if missing is not None else "",
        node=failure.node,
        began=began,
        seconds=round(time.monotonic() - clock.began, 3),
        cpu_seconds=round(sum(usage.ru_utime + usage.ru_stime for usage in usages), 3),
        memory_mb=max(usage.ru_maxrss for usage in usages) // 1000,
    )


def _kind(error: AuditkitError) -> str:
    """What was missing: the code, a target in it, or something else that the plan names."""
    if isinstance(error, NoCodeError):
        return "checkout"
    return "target" if isinstance(error, NothingMeasuredError | TargetNotLoadedError) else "input"


def in_one_line(text: str) -> str:
    """A reason as it fits into a table; its lines are parted by semicolons."""
    lines = "; ".join(line.strip() for line in without_folder(text).splitlines() if line.strip())
    return textwrap.shorten(inert_line(lines.replace(":; ", ": ")), LONGEST_REASON, placeholder=" ...")


def without_folder(text: str) -> str:
    """A text with `python` for the interpreters of a cache: whose folder it is makes one reason many."""
    return re.sub(r"/\S+/environments/[^/\s]+/bin/(?=python)", "", text)


def _timed(failure: Failure, clock: _Clock) -> Failure:
    return replace(failure, seconds=round(time.monotonic() - clock.began, 3))


def ask(order: Order, folder: ResultsFolder) -> Run:
    """The audit of a job. Raises AuditkitError where that cannot begin."""
    if not order.cage or sandbox.inside():
        return _audited(order, *_prepared(order, folder))
    # Cloning and installing need the network, and run nothing that the checkout brings; the audit has none.
    job = order.job
    cache, notes = Path(order.cache), folder.path / "environments"
    for path in (cache, notes):
        path.mkdir(parents=True, exist_ok=True)
    local = job.repository if not is_url(job.repository) else urlsplit(job.repository).path
    here = [local] if not is_url(job.repository) or job.repository.startswith("file://") else []
    read = [*here, *filter(None, [order.clones, job.environment.interpreter, job.settings.config or ""])]
    named = [*order.interpreters.values(), *filter(None, [job.environment.interpreter])]
    own = sandbox.interpreters(named, here)
    network = is_url(job.repository) or bool(job.environment.torch or job.environment.python)
    print(f"{job.key}: cloning and installing in a sandbox with network access", file=sys.stderr)
    prepared = _inside(PREPARE, order, Mounts([*read, *own], [str(cache), str(notes)], network=network))
    place, python = prepared["place"], prepared["python"]
    has_cuda = job.device is not DeviceChoice.CPU and bool(sandbox.cards())
    shown = [*sandbox.interpreters([*named, *filter(None, [python])], [place]), *read, place, str(cache)]
    told = _inside(AUDIT, order, Mounts(shown, gpu=has_cuda), place, python or "")
    return Run.from_json(told["run"])


def _prepared(order: Order, folder: ResultsFolder) -> tuple[Path, str | None]:
    """The folder of a job's code, cloned if it has to be, and its interpreter, None for the checkout's own."""
    job = order.job
    clones = Path(order.clones) if order.clones else None
    place = folder_of(job.repository, job.revision, clones, Path(order.cache))
    python = order.interpreters.get(job.environment.torch) if not job.environment.interpreter else None
    if python is None:
        code = Code(place, job.revision)
        python = interpreter_for(job.environment, job.device, code, Path(order.cache), folder.path / "environments")
    return place, python


def _audited(order: Order, place: Path, python: str | None) -> Run:
    job, settings = order.job, order.job.settings
    if job.device is not DeviceChoice.CUDA:  # a card that the engine has not given out is not there, on any engine
        os.environ["CUDA_VISIBLE_DEVICES"] = ""
    spec = CheckoutSpec(f"{place}@{job.revision}" * bool(job.revision) or str(place), place, job.revision)
    config = read_configuration(Path(settings.config) if settings.config else None, place)
    config = replace(config, exclude=(*config.exclude, *settings.exclude))
    options = RunOptions(
        config,
        device=job.device,
        time_limit_s=settings.time_limit_s,
        uses_cache=True,
    )
    request = AuditRequest(
        checkout=spec.text,
        arms=(replace(options, python=python or options.python),),
        targets=tuple(Target(call) for call in settings.targets),
        probes=job.probes,
        style=settings.style,
    )
    return audit(request)


class _Bounded(io.BytesIO):
    """What a sandbox prints, of which the host keeps no more than its limit."""

    def write(self, data: Any) -> int:
        if self.tell() + len(data) > _LARGEST_RESULT_BYTES:
            raise OSError("too much output")
        return super().write(data)


def _inside(step: str, order: Order, mounts: Mounts, *words: str) -> dict[str, Any]:
    """Run one step of a job in a sandbox. Raises what the step raised there."""
    said = _Bounded()
    code = sandbox.run([*command_of(order), step, *words], mounts, said)
    try:
        told = json.loads(said.getvalue())
        error = told.get("error")
    except (ValueError, AttributeError):
        raise BadInputError(f"the job ended in its sandbox with exit code {code} and without a result") from None
    if error:
        kinds = (EnvironmentFailedError, NoCodeError, NothingMeasuredError, TargetNotLoadedError)
        kind = next((each for each in kinds if each.__name__ == error["kind"]), BadInputError)
        raise kind(str(error["message"]), error["hint"] and str(error["hint"]))
    return dict(told)


def _step(order: Order, folder: ResultsFolder, words: Sequence[str]) -> dict[str, Any]:
    """What a step of a job prints in its sandbox."""
    try:
        if words[0] == PREPARE:
            place, python = _prepared(order, folder)
            return {"place": str(place), "python": python}
        return {"run": _audited(order, Path(words[1]), words[2] or None).to_json()}
    except AuditkitError as error:
        return {"error": {"kind": type(error).__name__, "message": error.message, "hint": error.hint}}


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
