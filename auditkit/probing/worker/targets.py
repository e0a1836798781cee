"""A job's target, loaded: the function that its call names, or that a block makes, bound to its caller."""

import os
import sys
from typing import Any, Callable, Dict, List, Optional, Tuple

from .base.frames import SourceRoots
from .process import blocks, ladder, loading, rungs
from .process.jsonlines import Writer


class LoadedTarget:
    """The imported target: the caller that binds it, and which files count as the checkout's."""

    def __init__(self, caller: Any, roots: SourceRoots) -> None:
        self.caller = caller
        self.roots = roots


def load_target(results: Writer, request: Dict[str, Any]) -> Optional[LoadedTarget]:
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
        send_load_error(results, error)
        return None
    caller = Caller(function, owner, method, dict(target.get("arguments") or {}), finish, finish_method)
    top = sys.modules[rungs.module_of(place, roots)[0].split(".")[0]]
    source_roots = SourceRoots(request["checkout"], tuple(outside_package(top, request["checkout"])))
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
    loading.use_import_roots(roots, [request["target"]])
    ways = blocks.WAYS if calls[0] in request["blocks"] else request.get("rungs") or rungs.ways(calls, roots)
    return ladder.climb(load, [place], roots, ways, float(request["time_limit_s"]))


def outside_package(top: Any, checkout: str) -> List[str]:
    """The folder of the target's own package, whose module `top` is, where it is installed and not of the checkout."""
    paths = list(getattr(top, "__path__", [])) or [getattr(top, "__file__", "") or ""]
    inside = os.path.realpath(checkout) + os.sep
    found = [os.path.realpath(path) for path in paths if path]
    return [path for path in found if not path.startswith(inside) or "site-packages" in path[len(inside) :]]


def send_load_error(results: Writer, error: loading.LoadError) -> None:
    said = {"type": "load_error", "reason": error.reason, "message": error.message, "hint": error.hint}
    results.send({**said, "missing": list(error.missing)})
