"""Count the points where the host waits for the device, and the checkout's lines that cause them.

`simulated`: see the room of that name. `cuda`: the profiler's runtime events inside a marked range, and the
sync debug mode's warnings for the lines. `cpu`: plain tensors; what would read a device is counted by a
function mode (`.tolist()`, `.cpu()`, `torch.tensor([t0, t1])`, which a dispatch mode alone misses) and a
dispatch mode (scalar reads from C++, which a function mode alone misses). Reading a host copy is free.
"""

import contextlib
import sys
import warnings
from typing import Any, Callable, Dict, Iterator, List, NamedTuple, Optional

import torch
from torch.overrides import TorchFunctionMode
from torch.utils.weak import WeakIdKeyDictionary

from ..base.frames import Site, SourceRoots
from ..base.nested import list_leaves
from ..base.torch_internals import OperatorMode
from ..simulated.device import simulated_cuda
from ..simulated.tensor import Observer
from ..simulated.waits import waits

RANGE = "auditkit.measured"
_SYNC_EVENTS = (
    "cudaStreamSynchronize",
    "cudaDeviceSynchronize",
    "cudaEventSynchronize",
    "cuStreamSynchronize",
)


class Count(NamedTuple):
    """How often something happened, and where in the checkout, in order of occurrence."""

    total: int
    sites: List[Optional[Site]]


def count_syncs(call: Callable[[], Any], device: str, roots: SourceRoots) -> Count:
    """Run `call` once and count its synchronisations on `device`."""
    if device == "simulated":
        watcher = _SyncSites(roots)
        with simulated_cuda(watcher):
            call()
        return Count(len(watcher.sites), watcher.sites)
    if device == "cuda":
        return _count_on_cuda(call, roots)
    reads = _HostReads(roots)
    with reads.counting():
        call()
    return Count(len(reads.sites), reads.sites)


class _SyncSites(Observer):
    def __init__(self, roots: SourceRoots) -> None:
        self.roots = roots
        self.sites: List[Optional[Site]] = []

    def on_sync(self, kind: str) -> None:
        self.sites.append(self.roots.innermost(sys._getframe(1)))


# --- plain CPU tensors ---------------------------------------------------------------------------


class _HostReads:
    """What would read a device, on plain CPU tensors. Copies made by `.cpu()` are the host's: free."""

    def __init__(self, roots: SourceRoots) -> None:
        self.roots = roots
        self.sites: List[Optional[Site]] = []
        self.host_copies = WeakIdKeyDictionary()
        self.suppressed = 0

    @contextlib.contextmanager
    def counting(self) -> Iterator[None]:
        with _ReadOperators(self), _ReadFunctions(self):
            yield

    def is_host(self, tensor: Any) -> bool:
        return tensor in self.host_copies

    def may_be_on_device(self, tensor: torch.Tensor) -> bool:
        """A tensor without dimensions may stand for Python's number, which an operator takes along for free."""
        return tensor.dim() > 0 and not self.is_host(tensor)

    def read(self) -> None:
        if not self.suppressed:
            self.sites.append(self.roots.innermost(sys._getframe(1)))

    @contextlib.contextmanager
    def quiet(self) -> Iterator[None]:
        self.suppressed += 1
        try:
            yield
        finally:
            self.suppressed -= 1

    def read_each(self, data: Any) -> None:
        """`torch.tensor([t0, t1])` reads its device scalars one by one; a dispatch mode sees none of it."""
        for item in data if isinstance(data, (list, tuple)) else ():
            if isinstance(item, torch.Tensor) and not self.is_host(item):
                self.read()
            else:
                self.read_each(item)

    def copy_to_host(self, tensor: torch.Tensor) -> torch.Tensor:
        copied = tensor.detach()
        self.host_copies[copied] = True
        return copied


class _ReadFunctions(TorchFunctionMode):
    def __init__(self, reads: _HostReads) -> None:
        super().__init__()
        self.reads = reads

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        if func in (torch.tensor, torch.as_tensor, torch.asarray):
            self.reads.read_each(args[0] if args else kwargs.get("data"))
        subject = args[0] if args and isinstance(args[0], torch.Tensor) else None
        if subject is None or self.reads.is_host(subject):
            return func(*args, **kwargs)
        if func is torch.Tensor.cpu or (func is torch.Tensor.to and _names_cpu(args[1:], kwargs)):
            self.reads.read()
            with self.reads.quiet():
                return self.reads.copy_to_host(func(*args, **kwargs))
        if func in _READ_ALL or func in _CHECKED_ON_THE_CPU_ALONE:
            if func in _READ_ALL:
                self.reads.read()
            with self.reads.quiet():
                return func(*args, **kwargs)
        return func(*args, **kwargs)


# Below torch 2.13 they read `q` to check it, for CPU tensors alone: a device would not be waited for.
_CHECKED_ON_THE_CPU_ALONE = (torch.quantile, torch.nanquantile, torch.Tensor.quantile, torch.Tensor.nanquantile)
_READ_ALL = (torch.Tensor.tolist, torch.Tensor.numpy, torch.Tensor.__array__, torch.Tensor.__repr__)


def _names_cpu(args: Any, kwargs: Dict[str, Any]) -> bool:
    """Whether `.to(...)` spells out the CPU and waits. `.to(grad.device)` is the same device and free."""
    named = args[0] if args else kwargs.get("device")
    waits = not (args[2] if len(args) > 2 else kwargs.get("non_blocking", False))
    return isinstance(named, str) and named == "cpu" and waits


class _ReadOperators(OperatorMode):
    def __init__(self, reads: _HostReads) -> None:
        super().__init__()
        self.reads = reads

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        tensors = [leaf for leaf in list_leaves((args, kwargs)) if isinstance(leaf, torch.Tensor)]
        all_host = bool(tensors) and all(self.reads.is_host(tensor) for tensor in tensors)
        if tensors and not all_host:
            for _ in range(waits(func, args, kwargs, self.reads.may_be_on_device)):
                self.reads.read()
        result = func(*args, **kwargs)
        if all_host:
            for leaf in list_leaves(result):
                if isinstance(leaf, torch.Tensor):
                    self.reads.host_copies[leaf] = True
        return result


# --- a real CUDA device --------------------------------------------------------------------------


def _count_on_cuda(call: Callable[[], Any], roots: SourceRoots) -> Count:
    from torch.profiler import ProfilerActivity, profile, record_function

    sites: List[Optional[Site]] = []
    with _sync_warnings(roots, sites):
        with profile(activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA]) as profiler:
            with record_function(RANGE):
                call()
            torch.cuda.synchronize()
    return Count(sum(name in _SYNC_EVENTS for name in runtime_events(profiler)), sites)


def runtime_events(profiler: Any) -> List[str]:
    """Names of the CUDA runtime's calls inside the marked range."""
    events = list(profiler.profiler.kineto_results.events())
    marked = [event for event in events if event.name() == RANGE]
    if not marked:
        raise RuntimeError("the profiler lost the marked range")
    start = min(event.start_ns() for event in marked)
    end = max(event.end_ns() for event in marked)
    return [event.name() for event in events if start <= event.start_ns() <= end]


@contextlib.contextmanager
def _sync_warnings(roots: SourceRoots, sites: List[Optional[Site]]) -> Iterator[None]:
    def on_warning(message: Any, *rest: Any, **kwargs: Any) -> None:
        if "synchroniz" in str(message):
            sites.append(roots.innermost(sys._getframe(1)))

    with warnings.catch_warnings():
        warnings.simplefilter("always")
        warnings.showwarning = on_warning
        torch.cuda.set_sync_debug_mode("warn")
        try:
            yield
        finally:
            torch.cuda.set_sync_debug_mode("default")
