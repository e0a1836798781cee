"""The simulated device itself: the modes that see every call and operator, and a simulated `torch.cuda`."""

import contextlib
import functools
import re
import types
from typing import Any, Callable, Dict, Iterator, List, Optional, Tuple

import torch

from ..base.frames import SourceRoots
from ..base.namespaces import namespaces
from .calls import CONSTRUCTORS, answer_as_cuda
from .operators import run_operator
from .tensor import (
    EachFunction,
    EachOperator,
    Observer,
    SimulatedCudaTensor,
    State,
    cuda_index,
    device_of,
    is_simulated,
)

_ASKS_FOR_DEVICE = re.compile(r"(get_|current_)?device(_name|_type)?")

State.answer_call, State.run_operator = answer_as_cuda, run_operator


class _Stream:
    """A stream or an event of the simulated device: waiting for it is a synchronization, all else does nothing."""

    cuda_stream = 0

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        self.device = torch.device("cuda", State.current_device)

    def __enter__(self) -> "_Stream":
        return self

    def __exit__(self, *exc: Any) -> None:
        return None

    def synchronize(self) -> None:
        State.observer.on_sync("synchronize")

    def __getattr__(self, name: str) -> Any:
        results = {"query": True, "is_capturing": False, "elapsed_time": 0.0}
        return lambda *_, **__: _Stream() if name == "record_event" else results.get(name)


def _returns(value: Any) -> Callable[..., Any]:
    return lambda *_, **__: value


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
_COMMON = {
    "is_available": _returns(True),
    "device_count": lambda: State.device_count,
    "current_stream": _Stream,
    "synchronize": _synchronize,
}
_REPLACED: Dict[Any, Dict[str, Any]] = {
    torch.cuda: {
        **_COMMON,
        **CONSTRUCTORS,
        "is_initialized": _returns(True),
        "current_device": lambda: State.current_device,
        "set_device": _set_device,
        "_exchange_device": _exchange_device,
        "_maybe_exchange_device": _exchange_device,
        "default_stream": _Stream,
        "Stream": _Stream,
        "Event": _Stream,
        "stream": lambda stream: contextlib.nullcontext(),
        "get_device_capability": _returns((9, 0)),
        "get_device_name": _returns("simulated"),
        "is_current_stream_capturing": _returns(False),
        "get_device_properties": _returns(_PROPERTIES),
        "is_bf16_supported": _returns(True),
        "mem_get_info": _returns((_PROPERTIES.total_memory, _PROPERTIES.total_memory)),
        "memory_stats": lambda device=None: {},
        **dict.fromkeys(("memory_reserved", "memory_allocated", "max_memory_allocated"), _returns(0)),
        **dict.fromkeys(("reset_peak_memory_stats", "empty_cache"), _returns(None)),
    },
    torch.accelerator: {
        **_COMMON,
        "current_accelerator": _returns(torch.device("cuda")),
        "current_device_index": lambda: State.current_device,
    },
    torch.cuda.nvtx: {"mark": _returns(None), "range_push": _returns(0), "range_pop": _returns(0)},
}
"""Replacements in torch's modules while the device exists."""


def _group_by_device(grouper: Callable) -> Callable:
    """Group simulated tensors by their reported device; torch's C++ grouping would read their storage's."""

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
    """Let torch's checks of foreach support accept the simulated tensor like a CUDA one."""
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


@functools.lru_cache(maxsize=1)
def _chosen_devices(roots: Optional[SourceRoots]) -> List[Tuple[Dict[str, Any], str, Any]]:
    """Return what chose the CPU when the checkout's modules were loaded, with what it is on a machine with CUDA.

    These are modules' names `device`, in any case, and methods such as `current_device_name` of modules' own objects.
    Each is a namespace, a name in it, and its value there.
    """
    found: List[Tuple[Dict[str, Any], str, Any]] = []
    modules = [held for held in namespaces() if roots and roots.relative(held.get("__file__") or "") is not None]
    own = {module.get("__name__") for module in modules}
    for held, name, value in [(module, *item) for module in modules for item in module.items()]:
        if name.lower() == "device" and _is_host(value):
            found.append((held, name, _on_cuda(value)))
        elif type(value).__module__ in own and not isinstance(value, (type, torch.nn.Module)):
            found += [(vars(value), each, _returns(_on_cuda(answer))) for each, answer in _answers_with_host(value)]
    return found


def _answers_with_host(asked: Any) -> Iterator[Tuple[str, Any]]:
    """Yield the methods of an object that say where tensors go, and say the host."""
    for name in filter(_ASKS_FOR_DEVICE.fullmatch, dir(type(asked)) if hasattr(asked, "__dict__") else ()):
        with contextlib.suppress(Exception):
            answer = getattr(asked, name)()
            if _is_host(answer):
                yield name, answer


def _is_host(value: Any) -> bool:
    return isinstance(value, (str, torch.device)) and str(value) == "cpu"


def _on_cuda(value: Any) -> Any:
    return "cuda" if isinstance(value, str) else torch.device("cuda")


@contextlib.contextmanager
def _devices_of_modules() -> Iterator[None]:
    """Set what modules chose without CUDA, `DEVICE` for example, to what they choose on a machine with it.

    Otherwise every copy to it would count as one to the host.
    """
    with contextlib.ExitStack() as undo:
        for held, name, value in _chosen_devices(State.roots):
            if name in held:
                undo.callback(held.__setitem__, name, held[name])
            else:
                undo.callback(held.pop, name)
            held[name] = value
        yield


@contextlib.contextmanager
def simulated_cuda(observer: Optional[Observer] = None) -> Iterator[None]:
    """Simulate `State.device_count` CUDA devices, and report their work to `observer`."""
    previous, State.observer = State.observer, observer or Observer()
    current_device = State.current_device
    saved = [
        (module, name, getattr(module, name))
        for module, entries in _REPLACED.items()
        for name in entries
        if hasattr(module, name)
    ]
    for module, entries in _REPLACED.items():
        vars(module).update(entries)
    try:
        with _devices_of_modules(), _foreach_takes_simulated():
            with EachOperator(run_operator), EachFunction(answer_as_cuda):
                yield
    finally:
        for module, name, original in saved:
            setattr(module, name, original)
        State.observer, State.current_device = previous, current_device


@contextlib.contextmanager
def on_device(device: str) -> Iterator[None]:
    """Simulate CUDA if `device` is `simulated`; `cpu` and `cuda` are real."""
    with simulated_cuda() if device == "simulated" else contextlib.nullcontext():
        yield
