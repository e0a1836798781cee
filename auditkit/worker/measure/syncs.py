"""Count synchronizations (the host waits for the device) and kernel launches, and the checkout's lines that cause them.

`simulated`: see the package of that name. `cuda`: the profiler's runtime events inside a marked range, and the warnings
of the sync debug mode for the lines. `cpu`: plain tensors replace those of a device. A function mode counts reads by
`.tolist()`, `.cpu()`, `torch.tensor([t0, t1])`, which a dispatch mode alone misses; a dispatch mode counts scalar reads
from C++, which a function mode alone misses. Reading a host copy is free.
"""

import contextlib
import os
import sys
import warnings
from types import FrameType
from typing import Any, Callable, Dict, Iterator, List, NamedTuple, Optional

import torch
import torch.utils.data
from torch.utils.weak import WeakIdKeyDictionary

from ..base.frames import Site, SourceRoots
from ..base.nested import list_leaves
from ..simulated.device import simulated_cuda
from ..simulated.operators import COPY_TO_HOST, computes
from ..simulated.tensor import EachFunction, EachOperator, Observer
from ..simulated.waits import waits
from .selfcheck import expect, toy

_RANGE = "auditkit.measured"
_DATA_LOADERS = os.path.join(os.path.dirname(torch.utils.data.__file__), "")
_SYNC_EVENTS = ("cudaStreamSynchronize", "cudaDeviceSynchronize", "cudaEventSynchronize", "cuStreamSynchronize")


class Count(NamedTuple):
    """How often something happened, and its lines in the checkout, in order."""

    total: int
    sites: List[Optional[Site]]


def count_syncs(call: Callable[[], Any], device: str, roots: SourceRoots) -> Count:
    """Run `call` once and count its synchronizations on `device`."""
    with counting_syncs(device, roots) as found:
        call()
    return found[0]


@contextlib.contextmanager
def counting_syncs(device: str, roots: SourceRoots, of_block: bool = False) -> Iterator[List[Count]]:
    """Count the synchronizations of a block: the list has one `Count` after the block.

    On plain CPU tensors `of_block` separates the host's own tensors from those that replace a device's: see `_Reads`.
    """
    found: List[Count] = []
    sites: List[Optional[Site]] = []
    if device == "cuda":
        with _sync_warnings(roots, sites), runtime_calls() as names:
            yield found
        found.append(Count(sum(name in _SYNC_EVENTS for name in names), sites))
        return
    if device == "simulated":

        def waited(kind: str) -> None:
            site = roots.innermost(sys._getframe(1))
            if kind != COPY_TO_HOST or roots.means_host(site):
                sites.append(site)

        with simulated_cuda(Observer(on_sync=waited)):
            yield found
    else:
        reads = _Reads(roots, sites, of_block)
        with EachOperator(reads.run_operator), EachFunction(reads.call_function):
            yield found
    found.append(Count(len(sites), sites))


# Below torch 2.13 they read `q` to check it, but only for CPU tensors.
_CHECKED_ON_THE_CPU_ALONE = (torch.quantile, torch.nanquantile, torch.Tensor.quantile, torch.Tensor.nanquantile)
_READ_ALL = (torch.Tensor.tolist, torch.Tensor.numpy, torch.Tensor.__array__, torch.Tensor.__repr__)


class _Reads:
    """Count reads that would sync with a device, on plain CPU tensors. Reading a copy from `.cpu()` is free.

    In a block, parameters and values computed from them are on the device. A tensor that the block creates without a
    device (a sampler's `randperm`) is on the host, and so is an existing tensor without dimensions (an optimizer's step
    count). A batch may be on either: reading it counts, moving it does not.
    """

    def __init__(self, roots: SourceRoots, sites: List[Optional[Site]], of_block: bool) -> None:
        self._roots, self._sites, self._of_block = roots, sites, of_block
        self._host_copies = WeakIdKeyDictionary()
        self._computed = WeakIdKeyDictionary()  # in a block: whether it was computed from parameters
        self._is_quiet = False

    def call_function(self, func: Any, args: Any, kwargs: Any) -> Any:
        if func in (torch.tensor, torch.as_tensor, torch.asarray):
            self._read_each(args[0] if args else kwargs.get("data"))
        if self._of_block and "device" not in kwargs and not _tensors_of(args, kwargs):
            return self._keep_on_host(func(*args, **kwargs))
        subject = args[0] if args and isinstance(args[0], torch.Tensor) else None
        if subject is None or self._is_host(subject):
            return func(*args, **kwargs)
        is_move = func is torch.Tensor.to
        if is_move and self._of_block and not self._is_of_parameters(subject):
            return func(*args, **kwargs)
        is_copy = func is torch.Tensor.cpu or (is_move and _names_cpu(args[1:], kwargs))
        if is_copy or func in _READ_ALL:
            self._read()
        elif func not in _CHECKED_ON_THE_CPU_ALONE:
            return func(*args, **kwargs)
        before, self._is_quiet = self._is_quiet, True
        try:
            result = func(*args, **kwargs)
            return self._keep_on_host(result.detach()) if is_copy else result
        finally:
            self._is_quiet = before

    def run_operator(self, func: Any, args: Any, kwargs: Any) -> Any:
        tensors = _tensors_of(args, kwargs)
        all_host = bool(tensors) and all(map(self._is_host, tensors))
        if tensors and not all_host:
            for _ in range(waits(func, args, kwargs, self._may_be_on_device)):
                self._read()
        result = func(*args, **kwargs)
        if all_host:
            return self._keep_on_host(result)
        if self._of_block:
            of_parameters = any(map(self._is_of_parameters, tensors))
            for tensor in _tensors_of(result):
                self._computed[tensor] = of_parameters or self._computed.get(tensor, False)
        return result

    def _is_host(self, tensor: torch.Tensor) -> bool:
        if self._of_block and tensor.dim() == 0 and not tensor.requires_grad and tensor not in self._computed:
            return True
        return tensor in self._host_copies

    def _may_be_on_device(self, tensor: torch.Tensor) -> bool:
        """Return False for a tensor without dimensions: it may be a Python number, which operators use for free."""
        return tensor.dim() > 0 and not self._is_host(tensor)

    def _is_of_parameters(self, tensor: torch.Tensor) -> bool:
        return tensor.requires_grad or self._computed.get(tensor, False)

    def _read(self) -> None:
        """Count a read, unless it is in a DataLoader: data sets and `collate_fn` work on the host."""
        frame = sys._getframe(1)
        if not self._is_quiet and not _is_loading_data(frame):
            self._sites.append(self._roots.innermost(frame))

    def _read_each(self, data: Any) -> None:
        """Count the scalars that `torch.tensor([t0, t1])` reads one by one, unseen by a dispatch mode."""
        for item in data if isinstance(data, (list, tuple)) else ():
            if isinstance(item, torch.Tensor) and not self._is_host(item):
                self._read()
            else:
                self._read_each(item)

    def _keep_on_host(self, result: Any) -> Any:
        for tensor in _tensors_of(result):
            self._host_copies[tensor] = True
        return result


def _names_cpu(args: Any, kwargs: Dict[str, Any]) -> bool:
    """Return whether `.to(...)` names the CPU and blocks; `.to(grad.device)` is free."""
    named = args[0] if args else kwargs.get("device")
    blocks = not (args[2] if len(args) > 2 else kwargs.get("non_blocking", False))
    return isinstance(named, str) and named == "cpu" and blocks


def _is_loading_data(frame: Optional[FrameType]) -> bool:
    """Return whether a DataLoader called the code that runs in `frame`."""
    while frame is not None and not frame.f_code.co_filename.startswith(_DATA_LOADERS):
        frame = frame.f_back
    return frame is not None


def _tensors_of(*trees: Any) -> List[Any]:
    return [leaf for leaf in list_leaves(trees) if isinstance(leaf, torch.Tensor)]


@contextlib.contextmanager
def runtime_calls() -> Iterator[List[str]]:
    """Yield a list that has the names of the block's CUDA runtime calls after the block."""
    from torch.profiler import ProfilerActivity, profile, record_function

    names: List[str] = []
    with profile(activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA], acc_events=True) as profiler:
        with record_function(_RANGE):
            yield names
        torch.cuda.synchronize()
    events = list(profiler.profiler.kineto_results.events())
    marked = [event for event in events if event.name() == _RANGE]
    if not marked:
        raise RuntimeError("the profiler lost the marked range")
    start = min(event.start_ns() for event in marked)
    end = max(event.end_ns() for event in marked)
    names.extend(event.name() for event in events if start <= event.start_ns() <= end)


@contextlib.contextmanager
def _sync_warnings(roots: SourceRoots, sites: List[Optional[Site]]) -> Iterator[None]:
    show = warnings.showwarning

    def on_warning(message: Any, *rest: Any, **kwargs: Any) -> None:
        if "synchroniz" in str(message):
            sites.append(roots.innermost(sys._getframe(1)))
        else:
            show(message, *rest, **kwargs)

    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", ".*Synchronization debug mode")
        torch.cuda.set_sync_debug_mode("warn")
        warnings.filterwarnings("always", ".*synchroniz")
        warnings.showwarning = on_warning
        try:
            yield
        finally:
            torch.cuda.set_sync_debug_mode("default")


_LAUNCH_PREFIXES = ("cudaLaunchKernel", "cuLaunchKernel", "cudaGraphLaunch")


def count_launches(call: Callable[[], Any], device: str, roots: SourceRoots) -> Count:
    """Run `call` (twice on CUDA) and count its kernel launches on `device`; there is one site per operator.

    Without CUDA an operator that launches a kernel counts once: views, allocations and transfers launch none, and CUDA
    packs up to about a hundred tensors of a foreach operator into a launch.
    """
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
    """Check that one toy waits four times, and the other launches three kernels."""
    values = toy(device)

    def four_syncs() -> Any:
        copied = values.cpu()
        reads = values[0].item(), values.tolist(), values.nonzero()
        return reads, copied.tolist(), copied[1].item(), values.to(values.device), values.histc(4, 0, 3)

    expect("sync counter", count_syncs(four_syncs, device, roots).total, 4, "a function with 4 syncs")
    launched = count_launches(lambda: (values + 1).mul_(2).view(-1).sum(), device, roots).total
    expect("launch counter", launched, 3, "a function with 3 launches")
