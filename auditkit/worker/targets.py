"""Load targets: their modules once for all jobs of a request, and in each job the function that its call names."""

import contextlib
import os
import sys
import threading
from typing import Any, Dict, List, NamedTuple, Optional, Sequence, Tuple

from .base.frames import SourceRoots
from .serve import blocks, ladder, loading
from .serve.loading import OF_BLOCKS, LoadError
from .serve.messages import Writer

# State of this process: why modules could not be loaded in the common way.
_unloaded: Dict[str, LoadError] = {}


class LoadedTarget(NamedTuple):
    """The imported target: the caller that binds it, and which files count as the checkout's."""

    caller: Any
    roots: SourceRoots


def load_modules(request: Dict[str, Any]) -> None:
    """Load the modules of a request, with the targets of its jobs; return in a fork, which may be forked again.

    Raises LoadError if no module can be loaded, with the reason `APART` if CUDA or threads would not survive a fork.
    """
    import torch

    roots = request["import_roots"]
    targets = [job["target"] for job in request["jobs"]]
    loading.use_import_roots(roots)
    ways = {module: _ways(module, request) for module in request["modules"]}

    # With one thread, an import starts no pool of threads, which would not survive a fork.
    torch.set_num_threads(1)

    def load() -> None:
        threads_before = _thread_count()
        for module in (each for each in ways if each not in _unloaded):
            try:
                if loading.current() not in ways[module]:
                    raise LoadError("import_error", "{} is loaded in another way".format(module.rstrip(OF_BLOCKS)))
                loading.import_module(module.rstrip(OF_BLOCKS), roots)
            except LoadError as error:
                _unloaded[module] = error
        if len(_unloaded) == len(ways):
            raise next(iter(_unloaded.values()))
        # Cut-out code is executed when it is read: do it here, not in every child.
        calls = {target["call"] for target in targets}
        for call in (each for each in calls if _module_of(each) not in _unloaded):
            with contextlib.suppress(*([LoadError] if len(calls) > 1 else [])):
                _bind(call, request)
        if torch.cuda.is_initialized() or _thread_count() > threads_before:
            reason = ladder.APART if len(ways) == 1 else "import_error"  # The host loads several modules again, alone.
            raise LoadError(reason, "importing the target initialises CUDA or starts threads", is_final=True)

    usual = [rung for rung in loading.RUNGS if any(rung in its_ways for its_ways in ways.values())]
    ladder.climb(load, [module.rstrip(OF_BLOCKS) for module in ways], roots, usual, float(request["time_limit_s"]))


def _thread_count() -> int:
    """Return the number of threads of this process, native ones (of OpenMP) too where the system lists them."""
    with contextlib.suppress(OSError):
        return len(os.listdir("/proc/self/task"))
    return threading.active_count()


def why_unloaded(call: str) -> Optional[LoadError]:
    """Return why the module of a target is not loaded."""
    return _unloaded.get(_module_of(call))


def load_target(results: Writer, target: Dict[str, Any], request: Dict[str, Any]) -> Optional[LoadedTarget]:
    """Load a job's target in its own process; if that fails, send why and return None."""
    from .feed.caller import Caller
    from .simulated.tensor import State

    roots, finish, finish_method = request["import_roots"], None, ""
    place, module = target["call"].partition(":")[0], _module_of(target["call"])
    try:
        loading.use_import_roots(roots)
        function, owner, method = ladder.climb(
            lambda: _bind(target["call"], request), [place], roots, _ways(module, request), request["time_limit_s"]
        )
        if target.get("finish"):
            finish, finish_owner, named = _bind(target["finish"], request)
            finish_method = named if finish_owner is not None and finish_owner is owner else ""
    except LoadError as error:
        send_load_error(results, error)
        return None
    caller = Caller(function, owner, method, dict(target.get("arguments") or {}), finish, finish_method)
    from .feed import recorded  # it imports torch, which this interpreter may lack until a target is loaded

    calls = request.get("recorded", {}).get(target["call"], {})
    caller.recorded = recorded.accepted(function, calls, roots) if calls else {}
    # A module that loaded stays when the import of its package fails afterwards; the package does not.
    top = sys.modules.get(loading.module_of(place, roots)[0].split(".")[0])
    source_roots = SourceRoots(request["checkout"], tuple(outside_package(top, request["checkout"])))
    State.roots = source_roots
    return LoadedTarget(caller, source_roots)


def outside_package(top: Any, checkout: str) -> List[str]:
    """Return the folder of the target's own package, whose module is `top`, if it is installed outside the checkout."""
    paths = list(getattr(top, "__path__", [])) or [getattr(top, "__file__", "") or ""]
    inside = os.path.realpath(checkout) + os.sep
    found = [os.path.realpath(path) for path in paths if path]
    return [path for path in found if not path.startswith(inside) or "site-packages" in path[len(inside) :]]


def send_load_error(results: Writer, error: LoadError) -> None:
    fields = {"reason": error.reason, "message": error.message, "hint": error.hint, "missing": list(error.missing)}
    results.send({"type": "load_error", **fields})


def _bind(call: str, request: Dict[str, Any]) -> Tuple[Any, Optional[type], str]:
    """Return the function that a call names, or that its block makes; for a method also its class and name."""
    roots = request["import_roots"]
    if call in request["blocks"]:
        return blocks.load(request["blocks"][call], roots), None, ""
    function = loading.load(call, roots)
    if isinstance(function, type) or not callable(function):
        kind = "a class: name one of its methods" if isinstance(function, type) else "not callable"
        raise LoadError("cannot_feed", "{} is {}".format(call, kind), is_final=True)
    return (function, *loading.owner_class(call, roots))


def _ways(module: str, request: Dict[str, Any]) -> Sequence[str]:
    """Return the ways to load a module; of a block's file, run only what the block needs, since the rest may train."""
    if module.endswith(OF_BLOCKS):
        return loading.RUNGS[-1:]
    return request["rungs"] or loading.ways(module, request["import_roots"])


def _module_of(call: str) -> str:
    place, _, qualified = call.partition(":")
    return place + OF_BLOCKS if "#" in qualified else place
