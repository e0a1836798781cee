"""Python's view of the pretended device: attributes, transfers, factories and reads, answered as CUDA would."""

import contextlib
from typing import Any, Callable, Dict, Iterator, Optional

import torch

from ..base.nested import map_leaves
from .operators import wrap_leaf
from .tensor import (
    BETWEEN_DEVICES,
    TO_DEVICE,
    TO_HOST,
    Observer,
    SimulatedCudaTensor,
    State,
    byte_count,
    cuda_index,
    device_of,
    is_simulated,
    to_host,
)
from .typed_tensors import are_sizes, device_and_dtype, sizes_of


def answer_as_cuda(func: Any, args: Any, kwargs: Dict[str, Any]) -> Any:
    """One Python-level call, answered as it would be with a CUDA device."""
    attribute = _ATTRIBUTES.get(getattr(func, "__self__", None)) if getattr(func, "__name__", "") == "__get__" else None
    if attribute is not None and is_simulated(args[0]):
        return attribute(args[0])
    handler = _METHODS.get(func)
    if handler is not None:
        return handler(func, *args, **kwargs)
    index = _first_index(args)
    index = _first_index(kwargs.values()) if index is None else index
    named = kwargs.get("device")
    kwargs.pop("pin_memory", None)  # without a driver there is no memory to pin, and nothing depends on it
    named_index = cuda_index(named)
    if named_index is not None:
        return _build_on_device(func, args, kwargs, named_index)
    if named is not None and index is not None:  # zeros_like(grad, device="cpu"): built on the host
        args, kwargs = map_leaves(to_host, (args, kwargs))
        index = None
    with _building_on(index):
        return _plain(func, *args, **kwargs)


def _first_index(values: Any) -> Optional[int]:
    """The device of the first argument, or item of the lists among them, that is on one."""
    for value in values:
        index = _first_index(value) if isinstance(value, (list, tuple)) else getattr(value, "device_index", None)
        if index is not None:
            return int(index)
    return None


@contextlib.contextmanager
def _building_on(index: Optional[int]) -> Iterator[None]:
    """Tensors that an operator builds for itself, in C++ with its input's options, are where its input is."""
    if index is None:
        yield
        return
    State.building_on.append(index)
    try:
        yield
    finally:
        State.building_on.pop()


def _plain(func: Any, *args: Any, **kwargs: Any) -> Any:
    with torch._C.DisableTorchFunctionSubclass():
        return func(*args, **kwargs)


def _from_data(func: Any, data: Any, *args: Any, **kwargs: Any) -> Any:
    """`torch.tensor(data, device=...)`: reads every device scalar in `data`, then waits for the copy up."""
    device = kwargs.pop("device", None)
    if is_simulated(data):
        moved = _to(torch.Tensor.to, data, device) if device is not None else data
        return _cast(moved, kwargs.get("dtype"), func is torch.tensor)
    result = _plain(func, _read_scalars(data), *args, **kwargs)
    index = cuda_index(device)
    if index is None:
        return result
    State.observer.on_sync("copy")
    State.observer.on_transfer(TO_DEVICE, byte_count(result), None)
    return SimulatedCudaTensor(result, index)


def _read_scalars(data: Any) -> Any:
    if isinstance(data, (list, tuple)):
        return [_read_scalars(item) for item in data]
    if is_simulated(data):
        State.observer.on_sync("scalar_read")
        State.observer.on_transfer(TO_HOST, byte_count(data), None)
    return to_host(data)


def _build_on_device(func: Any, args: Any, kwargs: Dict[str, Any], index: int) -> Any:
    """A factory with `device="cuda"`: its kernel runs there, nothing is copied."""
    host_kwargs = dict(kwargs, device=torch.device("cpu"))
    with _building_on(index):
        result = _plain(func, *args, **host_kwargs)
    return map_leaves(lambda leaf: wrap_leaf(leaf, {}, index), result)


def _tolist(func: Any, tensor: Any) -> Any:
    if is_simulated(tensor):
        State.observer.on_sync("copy")
        State.observer.on_transfer(TO_HOST, byte_count(tensor), None)
    return _plain(func, to_host(tensor))


def _to_cpu(func: Any, tensor: Any, *args: Any, **kwargs: Any) -> Any:
    return _move(tensor, torch.device("cpu"), False) if is_simulated(tensor) else _plain(func, tensor, *args, **kwargs)


def _to_cuda(func: Any, tensor: Any, device: Any = None, non_blocking: bool = False, **_: Any) -> Any:
    index = cuda_index("cuda" if device is None else device)
    if index is None:
        raise RuntimeError("Invalid device, must be cuda device")
    target = torch.device("cuda", index)
    return tensor if device_of(tensor) == target else _move(tensor, target, non_blocking)


def _move(tensor: Any, target: torch.device, non_blocking: bool, copied_bytes: Optional[int] = None) -> Any:
    """A copy on another device, which the host waits for where it is one of the two and the copy blocks."""
    crosses_the_bus = is_simulated(tensor) != (target.type == "cuda")
    if crosses_the_bus and not non_blocking:
        State.observer.on_sync("copy")
    moved = _copy_over(tensor, target)
    direction = BETWEEN_DEVICES if not crosses_the_bus else TO_HOST if is_simulated(tensor) else TO_DEVICE
    State.observer.on_transfer(direction, byte_count(tensor) if copied_bytes is None else copied_bytes, moved)
    return moved


def _copy_over(tensor: Any, target: torch.device) -> Any:
    """In a graph where the tensor is in one."""
    if tensor.requires_grad and torch.is_grad_enabled():
        return _DeviceCopy.apply(tensor, target)
    copied = to_host(tensor).detach().clone()
    return SimulatedCudaTensor(copied, target.index) if target.type == "cuda" else copied


class _DeviceCopy(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, tensor: Any, target: torch.device) -> Any:
        ctx.source = device_of(tensor)
        return _copy_over(tensor.detach(), target)

    @staticmethod
    def backward(ctx: Any, grad: Any) -> Any:
        return _copy_over(grad, ctx.source), None


def _to(func: Any, tensor: Any, *args: Any, **kwargs: Any) -> Any:
    """`tensor.to(...)`: free where nothing changes, a copy where the device does."""
    if args and isinstance(args[0], torch.Tensor):
        return _to(func, tensor, device_of(args[0]), args[0].dtype, *args[1:], **kwargs)
    if isinstance(kwargs.get("other"), torch.Tensor):
        other = kwargs.pop("other")
        return _to(func, tensor, other, *args, **kwargs)
    if args:
        args = (_numbered(args[0]), *args[1:])
    options = {key: _numbered(value) if key == "device" else value for key, value in kwargs.items() if key != "copy"}
    device, dtype, non_blocking, memory_format = torch._C._nn._parse_to(*args[:3], **options)
    index = cuda_index(device)
    target = device_of(tensor) if device is None else device if index is None else torch.device("cuda", index)
    if target == device_of(tensor):
        return _cast(tensor, dtype, bool(kwargs.get("copy", False)), memory_format)
    if is_simulated(tensor):
        return _move(_cast(tensor, dtype, False, memory_format), target, non_blocking, byte_count(tensor))
    return _cast(_move(tensor, target, non_blocking), dtype, False, memory_format)


def _numbered(device: Any) -> Any:
    """`tensor.to(0)` means `cuda:0`; torch's own parser finds no accelerator that a number could mean."""
    return torch.device("cuda", device) if isinstance(device, int) and not isinstance(device, bool) else device


def _cast(tensor: Any, dtype: Optional[torch.dtype], copy: bool, memory_format: Any = None) -> Any:
    if (dtype is None or dtype == tensor.dtype) and not copy and memory_format is None:
        return tensor
    options = {} if memory_format is None else {"memory_format": memory_format}
    return _plain(torch.Tensor.to, tensor, dtype or tensor.dtype, copy=copy, **options)


def _numpy(func: Any, tensor: Any, *args: Any, **kwargs: Any) -> Any:
    if is_simulated(tensor):
        raise TypeError(
            "can't convert {} device type tensor to numpy. "
            "Use Tensor.cpu() to copy the tensor to host memory first.".format(device_of(tensor))
        )
    State.observer.on_host_operator("numpy", [tensor], None)
    return _plain(func, tensor, *args, **kwargs)


def _get_device(func: Any, tensor: Any) -> int:
    return int(tensor.device_index) if is_simulated(tensor) else _plain(func, tensor)


def _data_ptr(func: Any, tensor: Any) -> int:
    """Where its values are: the wrapper's own is 0, and all gradients would pass for one shared parameter's."""
    return int(_plain(func, to_host(tensor)))


def _repr(func: Any, tensor: Any, **kwargs: Any) -> str:
    """What torch's own Python prints: it looks for a format element by element, and each look reads the device."""
    if not is_simulated(tensor):
        return str(_plain(func, tensor, **kwargs))
    return str(torch._tensor_str._str(tensor, **kwargs)).replace(type(tensor).__name__ + "(", "tensor(", 1)


def _format(func: Any, tensor: Any, spec: str) -> str:
    if not is_simulated(tensor):
        return str(_plain(func, tensor, spec))
    return format(tensor.item(), spec) if tensor.dim() == 0 else _repr(torch.Tensor.__repr__, tensor)


def _type(func: Any, tensor: Any, dtype: Any = None, non_blocking: bool = False, **kwargs: Any) -> Any:
    """The name of a tensor's type, or the tensor as another one: of another dtype, or elsewhere."""
    if dtype is None:
        name = str(_plain(func, tensor))
        return name.replace("torch.", "torch.cuda.", 1) if is_simulated(tensor) else name
    if isinstance(dtype, torch.dtype):
        return _cast(tensor, dtype, False)
    meant = device_and_dtype(dtype)
    if meant is None:
        return _plain(func, tensor, dtype, non_blocking, **kwargs)
    here = device_of(tensor)
    return _to(func, tensor, here if here.type == meant[0] else meant[0], meant[1], non_blocking)


def _type_as(func: Any, tensor: Any, other: Any) -> Any:
    return _to(func, tensor, other)


def _new(func: Any, tensor: Any, *args: Any, **kwargs: Any) -> Any:
    """The old constructor of a tensor's own type: from data, or of a size."""
    if not is_simulated(tensor):
        return _plain(func, tensor, *args, **kwargs)
    device = kwargs.get("device", device_of(tensor))
    if args and not are_sizes(args):
        return _from_data(torch.tensor, args[0], dtype=tensor.dtype, device=device)
    return _build_on_device(torch.empty, (sizes_of(args),), {"dtype": tensor.dtype}, cuda_index(device) or 0)


def _new_tensor(func: Any, tensor: Any, data: Any, dtype: Any = None, device: Any = None, **kwargs: Any) -> Any:
    where = device if device is not None else device_of(tensor)
    return _from_data(torch.tensor, data, dtype=dtype or tensor.dtype, device=where, **kwargs)


def _pin_memory(func: Any, tensor: Any, *args: Any, **kwargs: Any) -> Any:
    if is_simulated(tensor):
        raise RuntimeError("cannot pin '{}' only dense CPU tensors can be pinned".format(tensor.type()))
    return tensor.clone()


_ATTRIBUTES: Dict[Any, Callable] = {
    torch.Tensor.device: device_of,
    torch.Tensor.is_cuda: lambda tensor: True,
    torch.Tensor.is_cpu: lambda tensor: False,
}


def _quantile(func: Any, tensor: Any, *args: Any, **kwargs: Any) -> Any:
    """Below torch 2.13 C++ checks `q` by reading it, for CPU tensors alone, and takes ours for one."""
    told, State.observer = State.observer, _WithoutSyncs(State.observer)
    try:
        with _building_on(_first_index([tensor])):
            return _plain(func, tensor, *args, **kwargs)
    finally:
        State.observer = told


class _WithoutSyncs(Observer):
    """Passes the rest on, and keeps synchronisations to itself."""

    def __init__(self, told: Observer) -> None:
        self.on_operator = told.on_operator  # type: ignore[method-assign]
        self.on_transfer = told.on_transfer  # type: ignore[method-assign]
        self.on_host_operator = told.on_host_operator  # type: ignore[method-assign]


_METHODS: Dict[Any, Callable] = {
    torch.quantile: _quantile,
    torch.nanquantile: _quantile,
    torch.Tensor.quantile: _quantile,
    torch.Tensor.nanquantile: _quantile,
    torch.Tensor.tolist: _tolist,
    torch.Tensor.cpu: _to_cpu,
    torch.Tensor.cuda: _to_cuda,
    torch.Tensor.to: _to,
    torch.Tensor.numpy: _numpy,
    torch.Tensor.__array__: _numpy,
    torch.Tensor.get_device: _get_device,
    torch.Tensor.data_ptr: _data_ptr,
    torch.Tensor.__repr__: _repr,
    torch.Tensor.__format__: _format,
    torch.Tensor.type: _type,
    torch.Tensor.type_as: _type_as,
    torch.Tensor.new: _new,
    torch.Tensor.new_tensor: _new_tensor,
    torch.Tensor.pin_memory: _pin_memory,
    torch.tensor: _from_data,
    torch.as_tensor: _from_data,
    torch.asarray: _from_data,
}
