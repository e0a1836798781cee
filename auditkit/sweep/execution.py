"""One job in one process, the same on every engine: `python -m auditkit.sweep.execution ORDER [--lifeline]`.

It checks the code out, finds or makes the interpreter, audits, and writes one file: the result, or why there is none.
It ends with 0 if that file is written, with 4 if it cannot be; with another code it may run again.
"""

from __future__ import annotations

import contextlib
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
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from types import FrameType
from typing import Any
from urllib.parse import urlsplit

import msgspec

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
from auditkit.model.text import inert_line
from auditkit.probing.checkout.checkout import CheckoutSpec
from auditkit.probing.engine.fork_servers import end_servers
from auditkit.probing.run.configuration import read_configuration
from auditkit.probing.run.run_options import RunOptions
from auditkit.sandbox import Mounts
from auditkit.sweep.engines.node import LIFELINE
from auditkit.sweep.environments import LONGEST_REASON, EnvironmentFailedError, interpreter_for
from auditkit.sweep.folder import Answer, Failure, ResultsFolder
from auditkit.sweep.jobs import Order, command_of
from auditkit.sweep.repositories import NoCodeError, folder_of, is_url

_GRACE_S = 20.0
"""How long a process waits for its workers after SIGTERM; then it is killed."""
_LARGEST_RESULT_BYTES = 256 << 20
_PREPARE, _AUDIT = "--prepare", "--audit"
"""Steps of a job, each in a sandbox of its own."""
_ENDS = (signal.SIGTERM, signal.SIGHUP, signal.SIGINT)
_KINDS: dict[type[AuditkitError], str] = {
    NoCodeError: "checkout", EnvironmentFailedError: "environment", NothingMeasuredError: "target",
    TargetNotLoadedError: "target",
}  # fmt: skip
_received: list[int] = []
"""The signal that ended this process."""


def main(words: Sequence[str]) -> int:
    """Run the job of an order and return the exit code."""
    order = msgspec.json.decode(words[0], type=Order)
    folder, job = ResultsFolder(Path(order.folder)), order.job
    if sandbox.inside() and set(words[1:]) & {_PREPARE, _AUDIT}:
        print(json.dumps(_step(order, words[1:])))
        return 0
    # Blocked until the attempt can be taken back; threads that begin now never receive these signals.
    signal.pthread_sigmask(signal.SIG_BLOCK, _ENDS)
    for number in _ENDS:
        signal.signal(number, _end)
    if LIFELINE in words[1:]:
        threading.Thread(target=_end_with_stdin, daemon=True).start()
    if folder.is_done(job.key):
        return 0
    try:
        mark = folder.begin(job.key, order.attempts)
        return _run(order, folder, mark) if mark is not None else 0
    except StoreConflictError as error:
        print(error.message, file=sys.stderr)
        return int(ExitCode.STORE_CONFLICT)


def _end(number: int, _frame: FrameType | None) -> None:
    _received.append(number)
    raise SystemExit(128 + number)


def _terminate(before_exit: Callable[[], None] = lambda: None) -> None:
    """End this process: by SIGTERM, and if that takes too long at once."""
    os.kill(os.getpid(), signal.SIGTERM)
    time.sleep(_GRACE_S)
    before_exit()
    os._exit(128 + signal.SIGTERM)


def _end_with_stdin() -> None:
    with contextlib.suppress(OSError):
        while os.read(0, 1):
            pass
    _terminate()


def _run(order: Order, folder: ResultsFolder, mark: Path) -> int:
    """Run the job, begun as `mark` says; an end that is not the job's own fault takes the mark away."""
    limit_s = order.job.resources.time_s
    late = Failure(order.job, "time", f"no result within {limit_s:g} s", "time_limit in the plan gives it longer",
                   node=socket.gethostname(), seconds=limit_s)  # fmt: skip
    is_late = threading.Event()

    def put_late() -> None:
        with contextlib.suppress(AuditkitError, OSError):
            folder.put(late)

    def end_in_time() -> None:
        time.sleep(limit_s)
        is_late.set()
        _terminate(put_late)

    threading.Thread(target=end_in_time, daemon=True).start()
    try:
        signal.pthread_sigmask(signal.SIG_UNBLOCK, _ENDS)
        try:
            result = _result(order)
        except (SystemExit, KeyboardInterrupt):
            if not is_late.is_set():
                raise
            result = late
        folder.put(result)
    except (StoreConflictError, SystemExit):
        mark.unlink(missing_ok=True)
        raise
    return 0


def _result(order: Order) -> Answer | Failure:
    """Return the result, or why there is none. Raises SystemExit after a signal, OSError if the job may run again."""
    began, node = time.monotonic(), socket.gethostname()

    def failure(kind: str, reason: str, hint: str = "") -> Failure:
        seconds = round(time.monotonic() - began, 3)
        return Failure(order.job, kind, in_one_line(reason), hint, node=node, seconds=seconds)

    try:
        run = _audited_run(order)
    except (StoreConflictError, OSError, MemoryError):
        raise
    except Exception as error:
        if _received:  # whatever became of the signal on its way out, as in subprocess
            raise SystemExit(128 + _received[0]) from None
        if isinstance(error, AuditkitError):
            kind = next((word for each, word in _KINDS.items() if isinstance(error, each)), "input")
            return failure(kind, error.message, error.hint or "")
        place = traceback.extract_tb(error.__traceback__)[-1]
        return failure("error", f"{type(error).__name__}: {error} ({Path(place.filename).name}:{place.lineno})")
    end_servers()  # which counts what the workers took
    usages = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    missing = run.no_target
    return Answer(
        job=order.job,
        run=run.to_json(),
        no_target=missing.message if missing is not None else "",
        no_target_hint=missing.hint if missing is not None else "",
        node=node,
        seconds=round(time.monotonic() - began, 3),
        cpu_seconds=round(sum(usage.ru_utime + usage.ru_stime for usage in usages), 3),
        memory_mb=max(usage.ru_maxrss for usage in usages) // 1000,
    )


def in_one_line(text: str) -> str:
    """Return a reason as one cell of a table; semicolons part its lines."""
    lines = "; ".join(line.strip() for line in without_folder(text).splitlines() if line.strip())
    return textwrap.shorten(inert_line(lines.replace(":; ", ": ")), LONGEST_REASON, placeholder=" ...")


def without_folder(text: str) -> str:
    """Return a text with `python` for the interpreters of a cache: their folders make one reason many."""
    return re.sub(r"/\S+/environments/[^/\s]+/bin/(?=python)", "", text)


def _audited_run(order: Order) -> Run:
    """Return the audit of a job. Raises AuditkitError if that cannot begin."""
    if not order.cage or sandbox.inside():
        return _audited(order, *_prepared(order))
    # Cloning and installing need the network, and run nothing of the checkout; the audit has no network.
    job, cache = order.job, Path(order.cache)
    cache.mkdir(parents=True, exist_ok=True)
    local = job.repository if not is_url(job.repository) else urlsplit(job.repository).path
    here = [local] if not is_url(job.repository) or job.repository.startswith("file://") else []
    named = [job.environment.interpreter] if job.environment.interpreter else []
    read = [*here, *named, *filter(None, [job.config])]
    network = is_url(job.repository) or bool(job.environment.torch or job.environment.python)
    print(f"{job.key}: cloning and installing in a sandbox with network access", file=sys.stderr)
    mounts = Mounts([*read, *sandbox.interpreters(named, here)], [str(cache)], network=network)
    prepared = _inside(_PREPARE, order, mounts)
    place, python = prepared["place"], prepared["python"]
    has_cuda = job.device is not DeviceChoice.CPU and bool(sandbox.cards())
    shown = [*sandbox.interpreters([*named, *filter(None, [python])], [place]), *read, place, str(cache)]
    return Run.from_json(_inside(_AUDIT, order, Mounts(shown, gpu=has_cuda), place, python or "")["run"])


def _prepared(order: Order) -> tuple[Path, str | None]:
    """Return the folder of a job's code, cloned if necessary, and its interpreter, None for the checkout's own."""
    job, cache = order.job, Path(order.cache)
    place = folder_of(job.repository, job.revision, cache)
    return place, interpreter_for(job.environment, job.device, place, job.revision, cache)


def _audited(order: Order, place: Path, python: str | None) -> Run:
    job = order.job
    if job.device is not DeviceChoice.CUDA:  # no engine has given a GPU to this job
        os.environ["CUDA_VISIBLE_DEVICES"] = ""
    spec = CheckoutSpec(f"{place}@{job.revision}" if job.revision else str(place), place, job.revision)
    config = read_configuration(Path(job.config) if job.config else None, place)
    options = RunOptions(config, device=job.device, uses_cache=True)
    arms = (replace(options, python=python or options.python),)
    return audit(AuditRequest(checkout=spec.text, arms=arms, probes=job.probes))


class _Bounded(io.BytesIO):
    """What a sandbox prints, up to a limit."""

    def write(self, data: Any) -> int:
        if self.tell() + len(data) > _LARGEST_RESULT_BYTES:
            raise OSError("too much output")
        return super().write(data)


def _inside(step: str, order: Order, mounts: Mounts, *words: str) -> dict[str, Any]:
    """Run one step of a job in a sandbox. Raises what the step raised there."""
    output = _Bounded()
    code = sandbox.run([*command_of(order), step, *words], mounts, output)
    try:
        printed = json.loads(output.getvalue())
        error = printed.get("error")
    except (ValueError, AttributeError):
        raise BadInputError(f"the job ended in its sandbox with exit code {code} and without a result") from None
    if error:
        kind = next((each for each in _KINDS if each.__name__ == error["kind"]), BadInputError)
        raise kind(str(error["message"]), error["hint"] and str(error["hint"]))
    return dict(printed)


def _step(order: Order, words: Sequence[str]) -> dict[str, Any]:
    """Return what a step of a job prints in its sandbox."""
    try:
        if words[0] == _PREPARE:
            place, python = _prepared(order)
            return {"place": str(place), "python": python}
        return {"run": _audited(order, Path(words[1]), words[2] or None).to_json()}
    except AuditkitError as error:
        return {"error": {"kind": type(error).__name__, "message": error.message, "hint": error.hint}}


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
