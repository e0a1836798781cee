"""The modules that the targets of a trial are in: loaded once, by the first rung that can some of them."""

import contextlib
from typing import Any, Dict, List, Optional, Sequence

from . import blocks, ladder, loading, rungs
from .rungs import OF_BLOCKS

# Of this process: why modules are not loaded by the rung that loads others.
_unloaded: Dict[str, loading.LoadError] = {}


def load_modules(request: Dict[str, Any]) -> None:
    """Load the modules of a trial, with what its targets are. Raises LoadError where no rung loads any of them."""
    roots = request["import_roots"]
    loading.use_import_roots(roots, [job["target"] for job in request["jobs"] if job.get("target")])
    ways = {module: _ways(module, request) for module in request["modules"]}

    def load() -> None:
        for module in (each for each in ways if each not in _unloaded):
            try:
                _load(module, ways[module], request)
            except loading.LoadError as error:
                _unloaded[module] = error
        if len(_unloaded) == len(ways):
            raise next(iter(_unloaded.values()))

    usual = [rung for rung in rungs.RUNGS if any(rung in its_ways for its_ways in ways.values())]
    ladder.climb(load, [module.rstrip(OF_BLOCKS) for module in ways], roots, usual, float(request["time_limit_s"]))


def why_unloaded(call: str) -> Optional[loading.LoadError]:
    """Why the module that a target is in is not loaded."""
    return _unloaded.get(_module_of(call))


def _ways(module: str, request: Dict[str, Any]) -> Sequence[str]:
    if module.endswith(OF_BLOCKS):
        return blocks.WAYS
    return request.get("rungs") or rungs.ways([module], request["import_roots"])


def _load(module: str, its_ways: Sequence[str], request: Dict[str, Any]) -> None:
    if rungs.current() not in its_ways:
        raise loading.LoadError("import_error", "{} is loaded in another way".format(module.rstrip(OF_BLOCKS)))
    roots: List[str] = request["import_roots"]
    loading.import_module(module.rstrip(OF_BLOCKS), "", roots)
    # What is cut out of a file is made when it is asked for: here, and not in every child.
    for call in (job["target"]["call"] for job in request["jobs"] if job.get("target")):
        with contextlib.suppress(loading.LoadError):
            if _module_of(call) != module:
                continue
            if call in request["blocks"]:
                blocks.load(request["blocks"][call], roots)
            else:
                loading.load(call, roots)


def _module_of(call: str) -> str:
    place, _, qualified = call.partition(":")
    return place + OF_BLOCKS if "#" in qualified else place
