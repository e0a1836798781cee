"""Count kernel launches, and the checkout's lines that launch.

`cuda`: the runtime's launch calls inside a marked range. `simulated` and `cpu`: ATen operators that
launch at least one kernel, one each; views, allocations and transfers launch none. A foreach operator
counts once, where CUDA packs up to about a hundred tensors into each launch.
"""

import sys
from typing import Any, Callable, List, Optional

import torch

from ..base.frames import Site, SourceRoots
from ..base.torch_internals import OperatorMode
from ..simulated.device import simulated_cuda
from ..simulated.operators import computes
from ..simulated.tensor import Observer
from .syncs import RANGE, Count, runtime_events

_LAUNCH_PREFIXES = ("cudaLaunchKernel", "cuLaunchKernel", "cudaGraphLaunch")


def count_launches(call: Callable[[], Any], device: str, roots: SourceRoots) -> Count:
    """Run `call` once and count its launches on `device`; sites are one per operator."""
    if device == "simulated":
        watcher = _LaunchSites(roots)
        with simulated_cuda(watcher):
            call()
        return Count(len(watcher.sites), watcher.sites)
    operators = _Operators(roots)
    if device == "cuda":
        return Count(_launches_on_cuda(call), operators.sites_of(call))
    sites = operators.sites_of(call)
    return Count(len(sites), sites)


class _LaunchSites(Observer):
    def __init__(self, roots: SourceRoots) -> None:
        self.roots = roots
        self.sites: List[Optional[Site]] = []

    def on_operator(self, name: str) -> None:
        self.sites.append(self.roots.innermost(sys._getframe(1)))


class _Operators(OperatorMode):
    def __init__(self, roots: SourceRoots) -> None:
        super().__init__()
        self.roots = roots
        self.sites: List[Optional[Site]] = []

    def sites_of(self, call: Callable[[], Any]) -> List[Optional[Site]]:
        with self:
            call()
        return self.sites

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if computes(func):
            self.sites.append(self.roots.innermost(sys._getframe(1)))
        return func(*args, **(kwargs or {}))


def _launches_on_cuda(call: Callable[[], Any]) -> int:
    from torch.profiler import ProfilerActivity, profile, record_function

    with profile(activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA]) as profiler:
        with record_function(RANGE):
            call()
        torch.cuda.synchronize()
    return sum(name.startswith(_LAUNCH_PREFIXES) for name in runtime_events(profiler))
