"""Every ATen operator on the simulated device: run on the CPU values, reported as CUDA would run it, wrapped again.

Operators reject tensors of two devices as CUDA does, with the same message. The exceptions are torch's: a host scalar
(no dimensions) is passed as a kernel's argument, indices may be on the host, copies cross devices, and a foreach
operator falls back to one tensor after the other, so that every tensor may be on a separate device (`device_check:
NoCheck` in torch's native_functions.yaml). Blocking copies between host and device count as synchronizing, because
`copy_kernel_cuda` in ATen ends them with `cudaStreamSynchronize`. A host copy that was read once is a plain tensor:
reading it is free.
"""

import functools
from typing import Any, Dict, Iterable, List, Optional, Tuple

import torch

from ..base.nested import list_leaves, map_leaves
from .tensor import (
    BETWEEN_DEVICES,
    TO_DEVICE,
    TO_HOST,
    SimulatedCudaTensor,
    State,
    byte_count,
    device_of,
    is_simulated,
    to_host,
)
from .waits import waits

# Operators that touch metadata or only allocate; each operator reports itself whether it is a view.
_NO_KERNEL = frozenset(
    "aten." + name
    for name in (
        "empty.memory_format", "empty_like.default", "empty_strided.default", "new_empty.default",
        "new_empty_strided.default", "detach.default", "alias.default", "lift_fresh.default",
        "_local_scalar_dense.default", "is_same_size.default", "resize_.default", "set_.source_Tensor", "sym_size.int",
        "sym_numel.default", "sym_stride.int", "is_pinned.default", "record_stream.default",
    )
)  # fmt: skip
COPY_TO_HOST = "copy to the host"
_INDEXES = ("index", "index_put", "index_put_", "_index_put_impl_", "_unsafe_index")
_COPIES = ("copy_", "_to_copy")
# They check devices without torch's exception for host scalars.
_TAKES_NO_HOST_SCALAR = ("cat", "stack")


@functools.lru_cache(maxsize=None)
def computes(func: Any) -> bool:
    """Return whether an operator runs a kernel: it is neither a view nor only an allocation."""
    return str(func) not in _NO_KERNEL and not getattr(func, "is_view", False)


def run_operator(func: Any, args: Any, kwargs: Dict[str, Any]) -> Any:
    """Run one ATen operator, wherever its tensors are."""
    inputs = list_leaves((args, kwargs))
    wrappers = [leaf for leaf in inputs if is_simulated(leaf)]
    name = func.overloadpacket.__name__
    if not wrappers:
        builds_on_device = bool(State.building_on) and not any(isinstance(leaf, torch.Tensor) for leaf in inputs)
        if not builds_on_device:
            result = func(*args, **kwargs)
            State.observer.on_host_operator(name if computes(func) else "", inputs, result)
            return result
    elif name.startswith("_foreach_") and _spans_devices(args):
        return _run_tensor_by_tensor(func, name, args, kwargs)
    _refuse_mixed_devices(func, name, args, kwargs, inputs)
    index = wrappers[0].device_index if wrappers else State.building_on[-1]
    _report(func, name, args, kwargs, wrappers)
    result = func(*map_leaves(_host_leaf, args), **map_leaves(_host_leaf, kwargs))
    known = {id(wrapper.host_values): wrapper for wrapper in wrappers}
    if name == "copy_" and not is_simulated(args[0]):
        return args[0]
    return map_leaves(lambda leaf: wrap_leaf(leaf, known, index), result)


def _host_leaf(leaf: Any) -> Any:
    if isinstance(leaf, torch.device):
        return torch.device("cpu") if leaf.type == "cuda" else leaf
    return to_host(leaf)


def wrap_leaf(leaf: Any, known: Dict[int, Any], index: int) -> Any:
    """Return a result as the wrapper that was passed in (in-place operators) or as a new one on `index`."""
    if not isinstance(leaf, torch.Tensor) or is_simulated(leaf):
        return leaf
    return known[id(leaf)] if id(leaf) in known else SimulatedCudaTensor(leaf, index)


def _report(func: Any, name: str, args: Any, kwargs: Dict[str, Any], wrappers: List[Any]) -> None:
    observer = State.observer
    if name == "copy_" and _is_transfer(*args[:2]):
        report_copy(args[1], args[0], len(args) > 2 and bool(args[2]))
        return
    for _ in range(waits(func, args, kwargs, is_simulated)):
        observer.on_sync(name)
    if name == "_local_scalar_dense":
        observer.on_transfer(TO_HOST, wrappers[0].element_size(), None)
    elif computes(func):
        observer.on_operator(name)


def _is_transfer(target: torch.Tensor, source: torch.Tensor) -> bool:
    """Return whether `target.copy_(source)` moves memory; a host scalar is passed as a kernel's argument."""
    if is_simulated(target) and _is_host_scalar(source):
        return False
    return device_of(target) != device_of(source)


def report_copy(
    source: torch.Tensor, target: torch.Tensor, non_blocking: bool, copied_bytes: Optional[int] = None
) -> None:
    """Report a copy to another device; the host waits for a blocking one unless both devices are CUDA devices."""
    crosses_the_bus = is_simulated(target) != is_simulated(source)
    if crosses_the_bus and not non_blocking:
        State.observer.on_sync("copy" if is_simulated(target) else COPY_TO_HOST)
    direction = BETWEEN_DEVICES if not crosses_the_bus else TO_DEVICE if is_simulated(target) else TO_HOST
    State.observer.on_transfer(direction, byte_count(source) if copied_bytes is None else copied_bytes, target)


def _refuse_mixed_devices(func: Any, name: str, args: Any, kwargs: Dict[str, Any], inputs: List[Any]) -> None:
    """Raise torch's RuntimeError if CUDA would; `inputs` include the operator's tensors."""
    if name in _COPIES:
        return
    if name in _INDEXES:
        for index in args[1]:
            if is_simulated(index) and device_of(index) != device_of(args[0]):
                text = "indices should be either on cpu or on the same device as the indexed tensor ({})"
                raise RuntimeError(text.format(device_of(args[0])))
        inputs = [args[0], *args[2:3]]
    # An operator cannot write into a host scalar.
    written = {id(args[at] if at < len(args) else kwargs.get(each)) for at, each in _written_arguments(func)}
    takes_no_scalar = name in _TAKES_NO_HOST_SCALAR
    _same_device(
        leaf
        for leaf in inputs
        if isinstance(leaf, torch.Tensor) and (takes_no_scalar or id(leaf) in written or not _is_host_scalar(leaf))
    )


def _same_device(tensors: Iterable[torch.Tensor]) -> None:
    devices = list(dict.fromkeys(map(device_of, tensors)))
    if len(devices) > 1:
        text = "Expected all tensors to be on the same device, but found at least two devices, {} and {}!"
        raise RuntimeError(text.format(*devices))


def _is_host_scalar(tensor: torch.Tensor) -> bool:
    return not is_simulated(tensor) and tensor.dim() == 0


@functools.lru_cache(maxsize=None)
def _written_arguments(func: Any) -> List[Tuple[int, str]]:
    arguments = enumerate(func._schema.arguments)
    return [(at, each.name) for at, each in arguments if each.alias_info is not None and each.alias_info.is_write]


def _spans_devices(args: Any) -> bool:
    """Return whether a foreach operator's lists have tensors of more than one device."""
    return len({device_of(tensor) for tensors in args if _is_tensor_list(tensors) for tensor in tensors}) > 1


def _is_tensor_list(value: Any) -> bool:
    return isinstance(value, (list, tuple)) and all(isinstance(item, torch.Tensor) for item in value)


def _run_tensor_by_tensor(func: Any, name: str, args: Any, kwargs: Dict[str, Any]) -> Any:
    """Run a foreach operator's slow path: each position on the device of its own tensors."""
    alone = [value for value in [*args, *kwargs.values()] if isinstance(value, torch.Tensor)]
    lists = [value for value in args if _is_tensor_list(value)]
    for tensors in zip(*lists, strict=False):
        target = tensors[0]
        if name == "_foreach_copy_" and _is_transfer(target, tensors[1]):
            report_copy(tensors[1], target, len(args) > 2 and bool(args[2]))
            continue
        _same_device(tensor for tensor in [*tensors, *alone] if tensor is target or not _is_host_scalar(tensor))
        if is_simulated(target):
            State.observer.on_operator(name)
    result = func(*map_leaves(to_host, args), **map_leaves(to_host, kwargs))
    if not isinstance(result, (list, tuple)):
        return result
    return [
        SimulatedCudaTensor(made, tensor.device_index) if is_simulated(tensor) else made
        for made, tensor in zip(result, lists[0], strict=True)
    ]
