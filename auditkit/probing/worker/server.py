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
import time
from typing import Any, Callable, Dict, List, Optional, Tuple

from .base.frames import SourceRoots
from .process import blocks, families, ladder, loading, placeholders, rungs
from .process.children import Child
from .process.jsonlines import Writer

_OF_COSTS = frozenset(("devices", "graph_capture", "graphs", "launches", "memory", "syncs", "transfers"))


def serve(results_fd: int) -> None:
    """Answer the requests on standard input, then end."""
    os.set_inheritable(results_fd, False)
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
        _hello(results)
        _answer(results, request)
        results.send({"type": "idle"})
        line = requests.readline()
        request = json.loads(line.decode("utf-8")) if line else None


def _answer(results: Writer, request: Dict[str, Any]) -> None:
    is_trial = request["target"] is None
    if request["fresh_imports"] or (is_trial and not request["modules"]):
        _run_in_fresh_imports(results, request, _run_trial if is_trial else _load_and_run)
    else:
        _run_forked(results, request)


class LoadedTarget:
    """The imported target: the caller that binds it, and which files count as the checkout's."""

    def __init__(self, caller: Any, roots: SourceRoots) -> None:
        self.caller = caller
        self.roots = roots


def _import_torch(results: Writer) -> bool:
    try:
        loading.import_torch()
    except loading.LoadError as error:
        _send_load_error(results, error)
        return False
    return True


def _send_load_error(results: Writer, error: loading.LoadError) -> None:
    said = {"type": "load_error", "reason": error.reason, "message": error.message, "hint": error.hint}
    results.send({**said, "missing": list(error.missing)})


def preload(jobs: List[Dict[str, Any]]) -> None:
    """What the children of these jobs need, but for the compiler, imported once before the forks."""
    from .base import torch_internals
    from .context import context
    from .feeding import search
    from .instruments import selfcheck

    del context, search, selfcheck
    torch_internals.import_for_modes()
    if any(job.get("device") == "simulated" for job in jobs):
        torch_internals.import_first("torch.distributed.tensor")  # by a tensor subclass's first operator
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


def _leave_to_children() -> None:
    """A collection in a child would write to every object that it shares with this process, and so copy it."""
    gc.collect()
    gc.freeze()


def _hello(results: Writer) -> None:
    import torch

    results.send(
        {
            "type": "hello",
            "python": platform.python_version(),
            "torch": torch.__version__,
            "executable": sys.executable,
            "platform": platform.platform(),
            "cuda": _cuda_was_found(),
        }
    )


def _cuda_was_found() -> bool:
    """Whether there is a CUDA device, asked by way of NVML: asking CUDA would initialise it before the fork."""
    import torch

    os.environ.setdefault("PYTORCH_NVML_BASED_CUDA_CHECK", "1")
    return bool(torch.cuda.is_available())


def _load_target(results: Writer, request: Dict[str, Any]) -> Optional[LoadedTarget]:
    from .feeding.caller import Caller
    from .simulated.import_time import Modules
    from .simulated.tensor import State

    target, roots = request["target"], request["import_roots"]
    place, finish_method = target["call"].partition(":")[0], ""
    try:
        function, owner, method = _climb(request, [target["call"]], lambda: _bind(target["call"], request))
        finish = None
        if target.get("finish"):
            finish, finish_owner, named = _bind(target["finish"], request)
            finish_method = named if finish_owner is not None and finish_owner is owner else ""
    except loading.LoadError as error:
        _send_load_error(results, error)
        return None
    caller = Caller(function, owner, method, dict(target.get("arguments") or {}), finish, finish_method)
    source_roots = SourceRoots(request["checkout"], tuple(_outside_package(place, roots, request["checkout"])))
    State.modules = Modules(lambda path: source_roots.relative(path) is not None)
    return LoadedTarget(caller, source_roots)


def _bind(call: str, request: Dict[str, Any]) -> Tuple[Any, Optional[type], str]:
    """The function that a call names, or that its block makes; of a method its class and name, too."""
    roots = request["import_roots"]
    if call in request["blocks"]:
        return blocks.load(request["blocks"][call], roots), None, ""
    function = loading.load(call, roots)
    if isinstance(function, type) or not callable(function):
        kind = "a class: name one of its methods" if isinstance(function, type) else "not callable"
        raise loading.LoadError("cannot_feed", "{} is {}".format(call, kind), is_final=True)
    return (function, *loading.owner_class(call, roots))


def _climb(request: Dict[str, Any], calls: List[str], load: Callable[[], Any]) -> Any:
    """What `load` makes of `calls`, which are all in one place, by the first rung that can."""
    place, roots = calls[0].partition(":")[0], request["import_roots"]
    loading.use_import_roots(roots)
    ways = blocks.WAYS if calls[0] in request["blocks"] else request.get("rungs") or rungs.ways(calls, roots)
    return ladder.climb(load, [place], roots, ways, float(request["time_limit_s"]))


def _load_modules(results: Writer, request: Dict[str, Any]) -> bool:
    """Import the modules that the targets of a trial are in, by the first rung that can some of them."""
    roots = request["import_roots"]
    loading.use_import_roots(roots)
    ways = {module: request.get("rungs") or rungs.ways([module], roots) for module in request["modules"]}
    calls = [job["target"]["call"] for job in request["jobs"] if job.get("target")]

    def load() -> None:
        for module, its_ways in ways.items():
            if module not in _Unloaded.errors:
                try:
                    if rungs.current() not in its_ways:
                        raise loading.LoadError("import_error", "{} is loaded in another way".format(module))
                    loading.import_module(module, "", roots)
                    for call in calls:  # what is cut out of a file is made when it is asked for: not in every child
                        if call.partition(":")[0] == module:
                            with contextlib.suppress(loading.LoadError):
                                loading.load(call, roots)
                except loading.LoadError as error:
                    _Unloaded.errors[module] = error
        if len(_Unloaded.errors) == len(ways):
            raise next(iter(_Unloaded.errors.values()))

    usual = [rung for rung in rungs.RUNGS if any(rung in its_ways for its_ways in ways.values())]
    try:
        ladder.climb(load, list(ways), roots, usual, float(request["time_limit_s"]))
    except loading.LoadError as error:
        _send_load_error(results, error)
        return False
    return True


class _Unloaded:
    """Of this process: the modules of a trial that the others' rung does not load."""

    errors: Dict[str, loading.LoadError] = {}  # noqa: RUF012


def _outside_package(place: str, roots: List[str], checkout: str) -> List[str]:
    """The folder of the target's own package, where it is installed and not part of the checkout."""
    top = sys.modules[rungs.module_of(place, roots)[0].split(".")[0]]
    paths = list(getattr(top, "__path__", [])) or [getattr(top, "__file__", "") or ""]
    inside = os.path.realpath(checkout) + os.sep
    found = [os.path.realpath(path) for path in paths if path]
    return [path for path in found if not path.startswith(inside) or "site-packages" in path[len(inside) :]]


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
        run = _run_trial if _load_modules(results, request) else None
    else:
        loaded = _load_target(results, request)
        run = functools.partial(_run_job, loaded=loaded) if loaded is not None else None
    if run is None:
        return
    fork_refusal = _why_not_fork(threads_before)
    results.send({"type": "loaded", "fork_safe": not fork_refusal, "why": fork_refusal, **ladder.described()})
    if not fork_refusal:
        _leave_to_children()
        _run_jobs(results, request, run)


def _run_in_fresh_imports(results: Writer, request: Dict[str, Any], run: Callable[..., None]) -> None:
    """Every job imports its own target, in the child that may be lost."""
    results.send({"type": "loaded", "fork_safe": True, "why": ""})
    _run_jobs(results, request, run)


def _run_jobs(results: Writer, request: Dict[str, Any], run: Callable[..., None]) -> None:
    """Each job in a child: `run(job, request, results)`."""
    plan = None
    for job in request["jobs"]:
        job = dict(job, plan=job.get("plan") or plan)
        results.send({"type": "start", "job": job["id"]})
        if job["kind"] == "probe" and job["plan"] is None:
            results.send({"type": "end", "status": "error", "reason": "cannot_feed", "message": "no plan"})
            continue
        if job["kind"] == "probe" and job["plan"]["contract"] not in job["contracts"]:
            results.send({"type": "end", "status": "ok"})
            continue
        if compiles(job):
            preload_compiler()
        found = Child(functools.partial(run, job, request), results).supervise(float(request["time_limit_s"]))
        if job["kind"] == "plan" and request["target"] is not None:
            plan = found


def _load_and_run(job: Dict[str, Any], request: Dict[str, Any], results: Writer) -> None:
    loaded = _load_target(results, request)
    if loaded is not None:
        _run_job(job, request, results, loaded)


def _run_trial(job: Dict[str, Any], request: Dict[str, Any], results: Writer) -> None:
    import torch

    torch.set_num_threads(1)
    if job["kind"] == "selfcheck":
        _send_selfcheck(results, job, request)
        return
    trial = dict(request, target=job["target"])
    unloaded = _Unloaded.errors.get(job["target"]["call"].partition(":")[0])
    if unloaded is not None:
        _send_load_error(results, unloaded)
        return
    loaded = _load_target(results, trial)
    if loaded is not None:
        _send_plan(results, trial, loaded)


def _send_selfcheck(results: Writer, job: Dict[str, Any], request: Dict[str, Any]) -> None:
    """Whether an instrument reads its known toy on a device: what `auditkit doctor` asks."""
    from .instruments.selfcheck import SelfCheckError, check

    try:
        if job["device"] == "cuda":
            _first_cuda_use(results)
        check(job["instrument"], job["device"], SourceRoots(request["checkout"]))
    except SelfCheckError as error:
        results.send({"type": "failed", "reason": "self_check", "message": str(error)})
        return
    results.send({"type": "checked"})


def _run_job(job: Dict[str, Any], request: Dict[str, Any], results: Writer, loaded: LoadedTarget) -> None:
    """One job in a process that may be lost: find the plan, or run one probe."""
    import torch

    # One thread: sums and temporaries do not depend on the machine's cores, and nothing waits for a busy one.
    torch.set_num_threads(1)
    started = time.monotonic()
    if job["kind"] == "plan":
        _send_plan(results, request, loaded)
    else:
        _send_probe(results, job, request, loaded)
    results.send({"type": "took", "seconds": time.monotonic() - started})


def _send_plan(results: Writer, request: Dict[str, Any], loaded: LoadedTarget) -> None:
    from .base.refusals import CannotFeedError, CannotReadError
    from .context.torch_calls import torch_calls
    from .feeding.devices import find_plan_anywhere

    try:
        plan = find_plan_anywhere(loaded.caller, request["target"], request["auto_device"] and _cuda_was_found())
        found = torch_calls(plan, loaded.caller, loaded.roots)
    except (CannotFeedError, CannotReadError) as error:
        reason = "cannot_feed" if isinstance(error, CannotFeedError) else "cannot_read"
        results.send({"type": "failed", "reason": reason, "message": "{}: {}".format(request["target"]["call"], error)})
        return
    except placeholders.PlaceholderTouched as error:
        _send_touched(results, error.path)
        return
    results.send({"type": "plan", "plan": plan._replace(torch_calls=found).to_json(), **ladder.described()})


def _send_touched(results: Writer, path: str) -> None:
    """What the target used of something absent."""
    results.send({"type": "failed", "reason": "placeholder", **loading.absence(path)})


def _send_probe(results: Writer, job: Dict[str, Any], request: Dict[str, Any], loaded: LoadedTarget) -> None:
    from .base.refusals import CannotFeedError, NotApplicable, TargetRaised, Unavailable
    from .context.context import Context
    from .feeding.plan import Plan
    from .instruments.ranks import RanksFailed
    from .instruments.selfcheck import SelfCheckError, check

    plan = Plan.from_json(job["plan"])
    device = _device(job, plan, request["auto_device"])
    if device == "cpu" and plan.device != "cpu":
        elsewhere = "ask with --device auto" if "simulated" in job["devices"] else "this probe needs a GPU for it"
        text = "the target runs with CUDA alone: {}".format(elsewhere)
        results.send({"type": "unavailable", "reason": "no_device", "message": text})
        return
    if plan.feed.setup is not None and "torch.distributed" in plan.filled and job["instrument"] == "ranks":
        text = "its object shares parameters out over ranks by itself: what each would be handed is not known"
        results.send({"type": "not_applicable", "message": text})
        return
    if plan.feed.keeps and job["instrument"] in _OF_COSTS:
        text = "it returns nothing, and reading back what it stores would be counted as its own cost"
        results.send({"type": "not_applicable", "message": text})
        return
    context = Context(plan, loaded.caller, device, loaded.roots, job["options"])
    placeholders.forget()
    try:
        if device == "cuda" and job["instrument"] != "ranks":  # ranks use CUDA, and are forked before
            _first_cuda_use(results)
        check(job["instrument"], device, loaded.roots)
        for message in _probe_module(job["path"]).measure(context):
            results.send(message)
        placeholders.raise_if_touched()  # the target may have caught it
    except NotApplicable as reason:
        results.send({"type": "not_applicable", "message": str(reason)})
    except Unavailable as error:
        results.send({"type": "unavailable", "reason": error.reason, "message": str(error)})
    except SelfCheckError as error:
        results.send({"type": "failed", "reason": "self_check", "message": str(error)})
    except RanksFailed as error:
        results.send({"type": "failed", "reason": error.reason, "message": str(error)})
    except placeholders.PlaceholderTouched as error:
        _send_touched(results, error.path)
    except CannotFeedError as error:
        results.send({"type": "failed", "reason": "cannot_feed", "message": str(error)})
    except TargetRaised as error:
        results.send(context.location(error.site))
        results.send({"type": "failed", "reason": "exception", "message": "the target raises {}".format(error)})


def _device(job: Dict[str, Any], plan: Any, is_auto: bool) -> str:
    """Where a probe is asked: `auto` takes CUDA where there is some, and what does not run on the host elsewhere."""
    if is_auto and _cuda_was_found():
        return "cuda"
    needs_device = is_auto and plan.device != "cpu" and job["device"] == "cpu"
    return "simulated" if needs_device and "simulated" in job["devices"] else str(job["device"])


def _first_cuda_use(results: Writer) -> None:
    """Initialise CUDA in this child and say which device it is: warm-up before any count."""
    import torch

    torch.ones(1, device="cuda").add_(1).item()
    results.send({"type": "device", "name": torch.cuda.get_device_name()})


def _probe_module(path: str) -> Any:
    import importlib.util

    spec = importlib.util.spec_from_file_location("_auditkit_probe", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
