"""Count the points where the host waits for the device, and the checkout's lines that cause them.

`simulated`: see the package of that name. `cuda`: the profiler's runtime events inside a marked range, and the
sync debug mode's warnings for the lines. `cpu`: plain tensors; what would read a device is counted by a
function mode (`.tolist()`, `.cpu()`, `torch.tensor([t0, t1])`, which a dispatch mode alone misses) and a
dispatch mode (scalar reads from C++, which a function mode alone misses). Reading a host copy is free.
"""

import contextlib
import os
import sys
import warnings
from types import FrameType
from typing import Any, Callable, Dict, Iterator, List, NamedTuple, Optional

import torch
import torch.utils.data
from torch.overrides import TorchFunctionMode
from torch.utils.weak import WeakIdKeyDictionary

from ..base.frames import Site, SourceRoots
from ..base.nested import list_leaves
from ..base.torch_internals import OperatorMode
from ..simulated.device import simulated_cuda
from ..simulated.tensor import Observer
from ..simulated.waits import waits

RANGE = "auditkit.measured"
_DATA_LOADERS = os.path.join(os.path.dirname(torch.utils.data.__file__), "")
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
    with counting_syncs(device, roots) as found:
        call()
    return found[0]


@contextlib.contextmanager
def counting_syncs(device: str, roots: SourceRoots, of_block: bool = False) -> Iterator[List[Count]]:
    """Count the synchronisations of a block: the one `Count` is there when the block has ended.

    On plain CPU tensors `of_block` tells the host's own from those that stand for a device's, see `_BlockReads`.
    """
    found: List[Count] = []
    if device == "cuda":
        with _counting_on_cuda(roots, found):
            yield found
        return
    if device == "simulated":
        watcher = _SyncSites(roots)
        with simulated_cuda(watcher):
            yield found
        found.append(Count(len(watcher.sites), watcher.sites))
        return
    reads = _BlockReads(roots) if of_block else _HostReads(roots)
    with reads.counting():
        yield found
    found.append(Count(len(reads.sites), reads.sites))


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

    def is_born_on_host(self, args: Any, kwargs: Dict[str, Any]) -> bool:
        """Whether what a function makes of these is no device's."""
        return False

    def is_placement(self, tensor: torch.Tensor) -> bool:
        """Whether moving a tensor to the CPU stands for moving it to the device."""
        return False

    def follow(self, inputs: List[Any], result: Any) -> None:
        """Told what an operator made of tensors that are not all the host's."""

    def may_be_on_device(self, tensor: torch.Tensor) -> bool:
        """A tensor without dimensions may stand for Python's number, which an operator takes along for free."""
        return tensor.dim() > 0 and not self.is_host(tensor)

    def read(self) -> None:
        """Count a read, unless a DataLoader does it: data sets and `collate_fn` work on the host."""
        frame = sys._getframe(1)
        if not self.suppressed and not _is_loading_data(frame):
            self.sites.append(self.roots.innermost(frame))

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

    def keep_on_host(self, result: Any) -> Any:
        for tensor in _tensors_of(result):
            self.host_copies[tensor] = True
        return result

    def copy_to_host(self, tensor: torch.Tensor) -> torch.Tensor:
        copied = tensor.detach()
        self.host_copies[copied] = True
        return copied


class _BlockReads(_HostReads):
    """Those of a block of which nobody knows what its tensors stand for.

    On the device are parameters and what is computed from them. What the block makes without naming a device (a
    sampler's `randperm`) is the host's, and so is a tensor without dimensions that was there before (an optimizer keeps
    its steps so). A batch may be either: to read it counts, to move it does not.
    """

    def __init__(self, roots: SourceRoots) -> None:
        super().__init__(roots)
        self._computed = WeakIdKeyDictionary()  # whether from parameters

    def is_host(self, tensor: Any) -> bool:
        is_number = tensor.dim() == 0 and not tensor.requires_grad and tensor not in self._computed
        return is_number or super().is_host(tensor)

    def is_born_on_host(self, args: Any, kwargs: Dict[str, Any]) -> bool:
        return "device" not in kwargs and not _tensors_of(args, kwargs)

    def is_placement(self, tensor: torch.Tensor) -> bool:
        return not self._is_of_parameters(tensor)

    def follow(self, inputs: List[Any], result: Any) -> None:
        of_parameters = any(map(self._is_of_parameters, inputs))
        for tensor in _tensors_of(result):
            self._computed[tensor] = of_parameters or self._computed.get(tensor, False)

    def _is_of_parameters(self, tensor: torch.Tensor) -> bool:
        return tensor.requires_grad or self._computed.get(tensor, False)


class _ReadFunctions(TorchFunctionMode):
    def __init__(self, reads: _HostReads) -> None:
        super().__init__()
        self.reads = reads

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        if func in (torch.tensor, torch.as_tensor, torch.asarray):
            self.reads.read_each(args[0] if args else kwargs.get("data"))
        subject = args[0] if args and isinstance(args[0], torch.Tensor) else None
        if self.reads.is_born_on_host(args, kwargs):
            return self.reads.keep_on_host(func(*args, **kwargs))
        if subject is None or self.reads.is_host(subject):
            return func(*args, **kwargs)
        if func is torch.Tensor.to and self.reads.is_placement(subject):
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
        tensors = _tensors_of(args, kwargs)
        all_host = bool(tensors) and all(self.reads.is_host(tensor) for tensor in tensors)
        if tensors and not all_host:
            for _ in range(waits(func, args, kwargs, self.reads.may_be_on_device)):
                self.reads.read()
        result = func(*args, **kwargs)
        if all_host:
            self.reads.keep_on_host(result)
        else:
            self.reads.follow(tensors, result)
        return result


def _is_loading_data(frame: Optional[FrameType]) -> bool:
    """Whether a DataLoader called what runs in `frame`."""
    while frame is not None and not frame.f_code.co_filename.startswith(_DATA_LOADERS):
        frame = frame.f_back
    return frame is not None


def _tensors_of(*trees: Any) -> List[Any]:
    return [leaf for leaf in list_leaves(trees) if isinstance(leaf, torch.Tensor)]


# --- a real CUDA device --------------------------------------------------------------------------


@contextlib.contextmanager
def _counting_on_cuda(roots: SourceRoots, found: List[Count]) -> Iterator[None]:
    from torch.profiler import ProfilerActivity, profile, record_function

    sites: List[Optional[Site]] = []
    with _sync_warnings(roots, sites):
        with profile(activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA]) as profiler:
            with record_function(RANGE):
                yield
            torch.cuda.synchronize()
    found.append(Count(sum(name in _SYNC_EVENTS for name in runtime_events(profiler)), sites))


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
