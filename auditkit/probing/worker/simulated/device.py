"""The pretended device itself: the modes that see every call and operator, and a `torch.cuda` that answers."""

import contextlib
import types
from typing import Any, Callable, Dict, Iterator, List, Optional

import torch
from torch.overrides import TorchFunctionMode

from ..base.torch_internals import OperatorMode
from .calls import answer_as_cuda
from .import_time import asked_again
from .operators import run_operator
from .tensor import Observer, SimulatedCudaTensor, State, cuda_index, device_of, is_simulated
from .typed_tensors import CONSTRUCTORS

State.answer_call, State.run_operator = answer_as_cuda, run_operator


class _Functions(TorchFunctionMode):
    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return answer_as_cuda(func, args, kwargs or {})


class _Operators(OperatorMode):
    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return run_operator(func, args, kwargs or {})


class _Stream:
    """A stream or an event of the pretended device: waiting for it is a synchronisation."""

    cuda_stream = 0

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        self.device = torch.device("cuda", State.current_device)

    def __enter__(self) -> "_Stream":
        return self

    def __exit__(self, *exc: Any) -> None:
        return None

    def synchronize(self) -> None:
        State.observer.on_sync("synchronize")

    def query(self) -> bool:
        return True

    def is_capturing(self) -> bool:
        return False

    def wait_stream(self, stream: Any) -> None:
        pass

    def wait_event(self, event: Any) -> None:
        pass

    def wait(self, stream: Any = None) -> None:
        pass

    def record(self, stream: Any = None) -> None:
        pass

    def record_event(self, event: Any = None) -> "_Stream":
        return _Stream()

    def elapsed_time(self, end_event: Any) -> float:
        return 0.0


def _synchronize(device: Any = None) -> None:
    State.observer.on_sync("synchronize")


def _exchange_device(index: int) -> int:
    """Make `index` the current device, as `torch.cuda.device` does; a negative one changes nothing."""
    previous, State.current_device = State.current_device, index if index >= 0 else State.current_device
    return previous


def _set_device(device: Any) -> None:
    index = cuda_index(device)
    _exchange_device(-1 if index is None else index)


_PROPERTIES = types.SimpleNamespace(
    name="simulated", major=9, minor=0, total_memory=80 << 30, multi_processor_count=132, warp_size=32
)
_CUDA_MODULE = {
    "is_available": lambda: True,
    "is_initialized": lambda: True,
    "device_count": lambda: State.device_count,
    "current_device": lambda: State.current_device,
    "set_device": _set_device,
    "_exchange_device": _exchange_device,
    "_maybe_exchange_device": _exchange_device,
    "synchronize": _synchronize,
    "current_stream": _Stream,
    "default_stream": _Stream,
    "Stream": _Stream,
    "Event": _Stream,
    "stream": lambda stream: contextlib.nullcontext(),
    "get_device_capability": lambda device=None: (9, 0),
    "get_device_name": lambda device=None: "simulated",
    "is_current_stream_capturing": lambda: False,
    "get_device_properties": lambda device=None: _PROPERTIES,
    "is_bf16_supported": lambda including_emulation=True: True,
    "mem_get_info": lambda device=None: (_PROPERTIES.total_memory, _PROPERTIES.total_memory),
    "memory_reserved": lambda device=None: 0,
    "memory_stats": lambda device=None: {},
    "memory_allocated": lambda device=None: 0,
    "max_memory_allocated": lambda device=None: 0,
    "reset_peak_memory_stats": lambda device=None: None,
    "empty_cache": lambda: None,
    **CONSTRUCTORS,
}


_ACCELERATOR_MODULE = {
    "is_available": lambda: True,
    "current_accelerator": lambda check_available=False: torch.device("cuda"),
    "device_count": lambda: State.device_count,
    "current_device_index": lambda: State.current_device,
    "current_stream": _Stream,
    "synchronize": _synchronize,
}

_NVTX_MODULE = {
    "mark": lambda msg: None,
    "range_push": lambda msg: 0,
    "range_pop": lambda: 0,
}


def _group_by_device(grouper: Callable) -> Callable:
    """torch's C++ grouping asks the storage for its device; put simulated tensors under the one that they say."""

    def group(tensor_lists: Any, with_indices: bool = False) -> Any:
        groups: Dict[Any, Any] = {}
        for (device, dtype), (lists, indices) in grouper(tensor_lists, with_indices).items():
            for position, first in enumerate(lists[0]):
                key = (device_of(first) if is_simulated(first) else device, dtype)
                grouped_lists, grouped_indices = groups.setdefault(key, ([[] for _ in lists], []))
                for grouped, tensors in zip(grouped_lists, lists, strict=False):
                    grouped.extend(tensors[position : position + 1])
                grouped_indices.extend(indices[position : position + 1])
        return groups

    return group


@contextlib.contextmanager
def _foreach_takes_simulated() -> Iterator[None]:
    """Let torch's own "may I use foreach" checks accept the simulated tensor as they accept a CUDA one."""
    from torch.utils import _foreach_utils

    grouper = torch._C._group_tensors_by_device_and_dtype
    supported: List[Any] = _foreach_utils._foreach_supported_types
    supported.append(SimulatedCudaTensor)
    torch._C._group_tensors_by_device_and_dtype = _group_by_device(grouper)
    try:
        yield
    finally:
        torch._C._group_tensors_by_device_and_dtype = grouper
        supported.remove(SimulatedCudaTensor)


@contextlib.contextmanager
def simulated_cuda(observer: Optional[Observer] = None) -> Iterator[None]:
    """Pretend that `State.device_count` CUDA devices exist and tell `observer` what they are asked to do."""
    previous, State.observer = State.observer, observer or Observer()
    current_device = State.current_device
    modules = ((torch.cuda, _CUDA_MODULE), (torch.accelerator, _ACCELERATOR_MODULE), (torch.cuda.nvtx, _NVTX_MODULE))
    replaced = [(module, name, new) for module, entries in modules for name, new in entries.items()]
    saved = [(module, name, getattr(module, name)) for module, name, _ in replaced if hasattr(module, name)]
    for module, name, new in replaced:
        setattr(module, name, new)
    try:
        with asked_again(State.modules), _foreach_takes_simulated(), _Operators(), _Functions():
            yield
    finally:
        for module, name, original in saved:
            setattr(module, name, original)
        State.observer, State.current_device = previous, current_device


@contextlib.contextmanager
def on_device(device: str) -> Iterator[None]:
    """Inside, `simulated` pretends that CUDA exists; `cpu` and `cuda` are what they are."""
    with simulated_cuda() if device == "simulated" else contextlib.nullcontext():
        yield
