"""The worker's life: read a request, import torch and the target once, fork one child per probe; then the next.

Messages on the results descriptor, one JSON object a line: `begun`, `hello`, `loaded` or `load_error`,
then for each job `start`, its `plan`, `measurement`, `location`, `note` and `failed` messages, and `end`
with a status; `idle` when all jobs have ended. The host believes only this descriptor; what the target prints
is kept as a tail of text. Requests are lines of standard input, and all of one worker are about one module.
"""

import contextlib
import functools
import gc
import json
import os
import platform
import sys
import threading
from typing import Any, Callable, Dict, List

from . import jobs
from .base.frames import SourceRoots
from .process import cut_out, families, ladder, loading, torch_functions, trial_modules
from .process.children import Child
from .process.jsonlines import Writer
from .targets import load_target, send_load_error


def serve(results_fd: int) -> None:
    """Answer the requests on standard input, then end."""
    os.set_inheritable(results_fd, False)
    keep_garbage()
    del sys.argv[1:]  # a script that reads its command line when it is imported has its defaults
    requests = os.fdopen(os.dup(0), "rb")
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.close(nothing)
    request = json.loads(requests.readline().decode("utf-8"))
    os.chdir(request["checkout"])
    families.guard(results_fd)
    families.adopt_orphans()
    while request is not None:
        results = Writer(results_fd, request["token"], further_fds=(requests.fileno(),))
        results.send({"type": "begun"})
        if not _import_torch(results):
            return
        preload(request["jobs"])
        torch_functions.remember()
        _hello(results)
        _answer(results, request)
        results.send({"type": "idle"})
        line = requests.readline()
        request = json.loads(line.decode("utf-8")) if line else None


def _answer(results: Writer, request: Dict[str, Any]) -> None:
    is_trial = request["target"] is None
    if len(request["modules"]) > 1:
        # A trial finds a way to feed the code, and the first torch.compile takes 0.8 s. Of one module, the process may
        # be kept for the audit.
        os.environ["TORCHDYNAMO_DISABLE"] = "1"
    if request["fresh_imports"] or (is_trial and not request["modules"]):
        _run_in_fresh_imports(results, request, jobs.run_trial if is_trial else jobs.load_and_run)
    else:
        _run_forked(results, request)


def _import_torch(results: Writer) -> bool:
    try:
        loading.import_torch()
    except loading.LoadError as error:
        send_load_error(results, error)
        return False
    return True


def preload(asked: List[Dict[str, Any]]) -> None:
    """What the children of these jobs need, but for the compiler, imported once before the forks."""
    from .base import torch_internals
    from .context import context, torch_calls
    from .feeding import search
    from .instruments import selfcheck

    del context, search, selfcheck, torch_calls
    torch_internals.import_for_modes()
    if any(job.get("device") == "simulated" for job in asked):
        torch_internals.import_first("torch.distributed.tensor")  # by a tensor subclass's first operator
    loading.import_dear(name for job in asked for name in job.get("imports", ()))
    _leave_to_children()


def compiles(job: Dict[str, Any]) -> bool:
    """Whether a job traces its target with torch.compile."""
    return job.get("instrument") == "graphs"


@functools.lru_cache(maxsize=1)
def preload_compiler() -> None:
    """Compile something: that imports what every other compilation needs, in 3 s."""
    from .instruments import selfcheck

    with contextlib.suppress(selfcheck.SelfCheckError):
        selfcheck.check("graphs", "cpu", SourceRoots(os.sep))
    _leave_to_children()


def _preload_steps(request: Dict[str, Any]) -> None:
    """What the children of a training step would each import."""
    from .base import torch_internals
    from .steps import roles, search

    targets = [request["target"], *(job.get("target") for job in request["jobs"])]
    if any(target is not None and target.get("contract") == search.CONTRACT for target in targets):
        torch_internals.import_first(roles.IMPORTED_BY_STEPS)
        _leave_to_children()


def _leave_to_children() -> None:
    """A collection in a child would write to every object that it shares with this process, and so copy it."""
    gc.freeze()


def keep_garbage() -> None:
    """Look for no garbage in a process that only imports and forks: that took two fifths of the imports' time."""
    gc.disable()


def _hello(results: Writer) -> None:
    import torch

    results.send(
        {
            "type": "hello",
            "python": platform.python_version(),
            "torch": torch.__version__,
            "executable": sys.executable,
            "platform": platform.platform(),
            "cuda": jobs.cuda_was_found(),
        }
    )


def _native_threads() -> int:
    """Threads of this process, 0 where nobody tells."""
    try:
        return len(os.listdir("/proc/self/task"))
    except OSError:
        return 0


def _why_not_fork(threads_before: int) -> str:
    """A reason not to fork from this process: threads or CUDA that the import started do not survive it."""
    import torch

    if torch.cuda.is_initialized():
        return "importing the target initialised CUDA"
    if threading.active_count() > 1:
        return "importing the target started threads"
    started = _native_threads() > threads_before
    return "importing the target started native threads (an OpenMP pool)" if started else ""


def _run_forked(results: Writer, request: Dict[str, Any]) -> None:
    """Import the target once, fork for every job. Where a fork would break it, say so and do nothing."""
    threads_before = _native_threads() if ladder.has_climbed() else 1  # what loads it is a fork, if not this process
    if request["target"] is None:
        run = jobs.run_trial if _load_modules(results, request) else None
    else:
        loaded = load_target(results, request)
        run = functools.partial(jobs.run_job, loaded=loaded) if loaded is not None else None
    if run is None:
        return
    fork_refusal = _why_not_fork(threads_before)
    results.send({"type": "loaded", "fork_safe": not fork_refusal, "why": fork_refusal, **ladder.described()})
    if not fork_refusal:
        _leave_to_children()
        _run_jobs(results, request, run)


def _load_modules(results: Writer, request: Dict[str, Any]) -> bool:
    try:
        trial_modules.load_modules(request)
    except loading.LoadError as error:
        send_load_error(results, error)
        return False
    return True


def _run_in_fresh_imports(results: Writer, request: Dict[str, Any], run: Callable[..., None]) -> None:
    """Every job imports its own target, in the child that may be lost."""
    results.send({"type": "loaded", "fork_safe": True, "why": ""})
    _run_jobs(results, request, run)


def _run_jobs(results: Writer, request: Dict[str, Any], run: Callable[..., None]) -> None:
    """Each job in a child: `run(job, request, results)`."""
    _preload_steps(request)
    plan = None
    for job in request["jobs"]:
        job = dict(job, plan=job.get("plan") or plan)
        results.send({"type": "start", "job": job["id"]})
        unloaded = trial_modules.why_unloaded(job["target"]["call"]) if job.get("target") else None
        if unloaded is not None:
            send_load_error(results, unloaded)
            results.send({"type": "end", "status": "ok"})
            continue
        if job["kind"] == "probe" and job["plan"] is None:
            results.send({"type": "end", "status": "error", "reason": "cannot_feed", "message": "no plan"})
            continue
        if job["kind"] == "probe" and job["plan"]["contract"] not in job["contracts"]:
            results.send({"type": "end", "status": "ok"})
            continue
        if compiles(job):
            preload_compiler()
        try:
            child = Child(functools.partial(run, job, request), results)
        except OSError as error:
            message = "the machine cannot start another process: {}".format(error.strerror)
            results.send({"type": "end", "status": "error", "reason": "no_memory", "message": message})
            continue
        found = child.supervise(float(request["time_limit_s"]))
        if loading.import_dear(child.imported) | cut_out.parse(child.parsed):
            _leave_to_children()
        if job["kind"] == "plan" and request["target"] is not None:
            plan = found
