"""Count kernel launches, and the checkout's lines that launch.

`cuda`: the runtime's launch calls inside a marked range. `simulated` and `cpu`: ATen operators that
launch at least one kernel, one each; views, allocations and transfers launch none. A foreach operator
counts once, where CUDA packs up to about a hundred tensors into each launch.
"""

import sys
from typing import Any, Callable, List, Optional

from ..base.frames import Site, SourceRoots
from ..simulated.device import simulated_cuda
from ..simulated.operators import computes
from ..simulated.tensor import EachOperator, Observer
from .selfcheck import expect, toy
from .syncs import Count, runtime_calls

_LAUNCH_PREFIXES = ("cudaLaunchKernel", "cuLaunchKernel", "cudaGraphLaunch")


def count_launches(call: Callable[[], Any], device: str, roots: SourceRoots) -> Count:
    """Run `call` (twice on CUDA) and count its launches on `device`; there is one site per operator."""
    sites: List[Optional[Site]] = []

    def launched(_: str) -> None:
        sites.append(roots.innermost(sys._getframe(1)))

    def run(func: Any, args: Any, kwargs: Any) -> Any:
        if computes(func):
            launched("")
        return func(*args, **kwargs)

    names: Optional[List[str]] = None
    if device == "cuda":
        with runtime_calls() as names:
            call()
    with simulated_cuda(Observer(on_operator=launched)) if device == "simulated" else EachOperator(run):
        call()
    total = len(sites) if names is None else sum(name.startswith(_LAUNCH_PREFIXES) for name in names)
    return Count(total, sites)


def self_check(device: str, roots: SourceRoots) -> None:
    """The toy launches three kernels."""
    values = toy(device)

    def three_launches() -> Any:
        return (values + 1).mul_(2).view(-1).sum()

    three_launches()
    expect("launch counter", count_launches(three_launches, device, roots).total, 3, "a function with 3 launches")
