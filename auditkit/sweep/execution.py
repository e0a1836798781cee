"""One job in one process, the same on every engine: `python -m auditkit.sweep.execution ORDER`.

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
import select
import signal
import socket
import sys
import threading
import time
import traceback
from dataclasses import replace
from pathlib import Path
from types import FrameType
from typing import Any

import msgspec

from auditkit import sandbox
from auditkit.audit.audit import AuditRequest, audit
from auditkit.errors import AuditkitError, BadInputError, ExitCode, StoreConflictError
from auditkit.model.enums import DeviceChoice
from auditkit.model.runs.run import Run
from auditkit.model.text import inert_line, shortened
from auditkit.probing.checkout.checkout import CheckoutSpec
from auditkit.probing.engine.fork_servers import end_servers
from auditkit.probing.run.configuration import read_configuration
from auditkit.probing.run.run_options import RunOptions
from auditkit.sweep.jobs import Order, Result, ResultsFolder
from auditkit.sweep.preparation import folder_of, interpreter_for

_GRACE_S = 20.0
"""How long a process waits for its workers after SIGTERM; then it is killed."""
_LONGEST_REASON = 400
"""Characters of a reason, which is a cell of a table."""
_LARGEST_RESULT_BYTES = 256 << 20
_signals: list[int] = []
"""The signals that end this process before its job."""


def main(word: str) -> int:
    """Run the job of an order and return the exit code."""
    order = msgspec.json.decode(word, type=Order)
    if order.step:
        print(json.dumps(_step(order)))
        return 0
    folder = ResultsFolder(Path(order.folder))
    for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGINT):
        signal.signal(number, _end)
    threading.Thread(target=_watch, args=(order, folder), daemon=True).start()
    try:
        if not folder.is_done(order.job.key):
            folder.put(_result(order))
    except StoreConflictError as error:
        with contextlib.suppress(OSError):  # its log may be on the same disk
            os.write(2, f"{error.message}\n".encode())
        return int(ExitCode.STORE_CONFLICT)
    except BaseException:
        if not folder.is_done(order.job.key):  # else its time was up, and that is the result
            raise
    return 0


def _end(number: int, _frame: FrameType | None) -> None:
    _signals.append(number)
    raise SystemExit(128 + number)


def _watch(order: Order, folder: ResultsFolder) -> None:
    """End this process when its driver is gone, which closes standard input, or when its time is up."""
    limit_s = order.job.resources.time_s
    if not select.select([0], [], [], limit_s)[0]:
        with contextlib.suppress(AuditkitError, OSError):
            folder.put(Result(order.job, None, f"no result within {limit_s:g} s", socket.gethostname(), limit_s))
    os.kill(os.getpid(), signal.SIGTERM)
    time.sleep(_GRACE_S)
    os._exit(128 + signal.SIGTERM)


def _result(order: Order) -> Result:
    """Return the result, or why there is none. Raises SystemExit after a signal, OSError if the job may run again."""
    began, node = time.monotonic(), socket.gethostname()
    try:
        run = _audited_run(order)
    except Exception as error:
        if _signals or isinstance(error, StoreConflictError | OSError | MemoryError):
            raise
        place = traceback.extract_tb(error.__traceback__)[-1]
        reason = f"{type(error).__name__}: {error} ({Path(place.filename).name}:{place.lineno})"
        reason = without_folder(error.message if isinstance(error, AuditkitError) else reason)
        lines = "; ".join(line.strip() for line in reason.splitlines() if line.strip()).replace(":; ", ": ")
        why = shortened(inert_line(lines), _LONGEST_REASON)
        return Result(order.job, None, why, node, round(time.monotonic() - began, 3))
    end_servers()  # getrusage counts a worker as soon as it has ended
    peaks = (resource.getrusage(who).ru_maxrss for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return Result(
        job=order.job,
        run=run.to_json(),
        reason=run.no_target.message if run.no_target is not None else "",
        node=node,
        seconds=round(time.monotonic() - began, 3),
        memory_mb=max(peaks) // 1000,
    )


def without_folder(text: str) -> str:
    """Return a text with `python` for the interpreters of a cache: their folders would make one reason many."""
    return re.sub(r"/\S+/environments/[^/\s]+/bin/(?=python)", "", text)


def _audited_run(order: Order) -> Run:
    """Return the audit of a job. Raises AuditkitError if that cannot begin."""
    if not order.cage or sandbox.inside():
        return _audited(order, *_prepared(order))
    # Cloning and installing need the network, and run nothing of the checkout; the audit has no network.
    job, cache = order.job, order.cache
    Path(cache).mkdir(parents=True, exist_ok=True)
    here = [job.repository.removeprefix("file://")] if job.repository.startswith(("/", "file://")) else []
    named = list(filter(None, [job.environment.interpreter]))
    read = [*here, *named, *filter(None, [job.config])]
    print(f"{job.key}: cloning and installing in a sandbox with network access", file=sys.stderr)
    mounts = sandbox.Mounts([*read, *sandbox.interpreters(named, here)], [cache], network=True)
    place, python = _inside(order, mounts, step="prepare")
    pythons = sandbox.interpreters([*named, *filter(None, [python])], [place])
    mounts = sandbox.Mounts([*pythons, *read, place, cache], gpu=job.device is DeviceChoice.CUDA)
    return Run.from_json(_inside(order, mounts, step="audit", place=place, python=python))


def _prepared(order: Order) -> tuple[Path, str | None]:
    """Return the folder of a job's code, cloned if necessary, and its interpreter, None for the checkout's own."""
    job, cache, what = order.job, Path(order.cache), "checkout"
    try:
        place = folder_of(job.repository, job.revision, cache)
        what = "environment"
        return place, interpreter_for(job.environment, job.device, cache)
    except BadInputError as error:
        raise BadInputError(f"no {what}: {error.message}", error.hint) from None


def _audited(order: Order, place: Path, python: str | None) -> Run:
    job = order.job
    if job.device is not DeviceChoice.CUDA:  # no engine has given a GPU to this job
        os.environ["CUDA_VISIBLE_DEVICES"] = ""
    spec = CheckoutSpec(f"{place}@{job.revision}" if job.revision else str(place), place, job.revision)
    config = read_configuration(Path(job.config) if job.config else None, place)
    options = RunOptions(config, device=job.device, uses_cache=True)
    options = replace(options, python=python or options.python)
    return audit(AuditRequest(checkout=spec.text, arms=(options,), probes=job.probes))


class _Bounded(io.BytesIO):
    """What a sandbox prints, up to a limit."""

    def write(self, data: Any) -> int:
        if self.tell() + len(data) > _LARGEST_RESULT_BYTES:
            raise OSError("too much output")
        return super().write(data)


def _inside(order: Order, mounts: sandbox.Mounts, **step: Any) -> Any:
    """Return the result of a step of an order, which runs in a sandbox. Raises what the step raised there."""
    output = _Bounded()
    code = sandbox.run(msgspec.structs.replace(order, **step).command, mounts, output)
    try:
        result, error = json.loads(output.getvalue())
    except (ValueError, TypeError):
        raise BadInputError(f"the job ended in its sandbox with exit code {code} and without a result") from None
    if error:
        raise BadInputError(str(error))
    return result


def _step(order: Order) -> tuple[Any, str]:
    """Return the result of a step of a job, and its error: what a process prints in the sandbox."""
    try:
        if order.step == "prepare":
            place, python = _prepared(order)
            return (str(place), python), ""
        return _audited(order, Path(order.place), order.python).to_json(), ""
    except AuditkitError as error:
        return None, error.message


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1]))
