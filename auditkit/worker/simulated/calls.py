"""Python's view of the simulated device: attributes, transfers, factories and reads, as with CUDA."""

import contextlib
from typing import Any, Callable, Dict, Iterator, Optional

import torch

from ..base.nested import map_leaves
from .operators import report_copy, wrap_leaf
from .tensor import (
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


def answer_as_cuda(func: Any, args: Any, kwargs: Dict[str, Any]) -> Any:
    """Run one Python-level call as with a CUDA device."""
    if args and is_simulated(args[0]):
        if getattr(func, "__name__", "") == "__get__" and func.__self__ in _ATTRIBUTES:
            return _ATTRIBUTES[func.__self__](args[0])
        handler = _ON_DEVICE.get(func) or _ANYWHERE.get(func)
    else:
        handler = _ANYWHERE.get(func)
    if handler is not None:
        return handler(func, *args, **kwargs)
    index = _first_index(args)
    index = _first_index(kwargs.values()) if index is None else index
    named = kwargs.get("device")
    kwargs.pop("pin_memory", None)  # Without a driver there is no memory to pin, and nothing depends on it.
    named_index = cuda_index(named)
    if named_index is not None:
        return _build_on_device(func, args, kwargs, named_index)
    if named is not None and index is not None:  # zeros_like(grad, device="cpu"): built on the host
        args, kwargs = map_leaves(to_host, (args, kwargs))
        index = None
    with _building_on(index):
        return _plain(func, *args, **kwargs)


def _first_index(values: Any) -> Optional[int]:
    """Return the device of the first argument, or list item among them, that is on one."""
    for value in values:
        index = _first_index(value) if isinstance(value, (list, tuple)) else getattr(value, "device_index", None)
        if index is not None:
            return int(index)
    return None


@contextlib.contextmanager
def _building_on(index: Optional[int]) -> Iterator[None]:
    """Place tensors that an operator creates itself, in C++, on the device of its input."""
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


def _build_on_device(func: Any, args: Any, kwargs: Dict[str, Any], index: int) -> Any:
    """Call a factory with `device="cuda"`: its kernel runs there, nothing is copied."""
    host_kwargs = dict(kwargs, device=torch.device("cpu"))
    with _building_on(index):
        result = _plain(func, *args, **host_kwargs)
    return map_leaves(lambda leaf: wrap_leaf(leaf, {}, index), result)


def _from_data(func: Any, data: Any, *args: Any, **kwargs: Any) -> Any:
    """Handle `torch.tensor(data, device=...)`: it reads every device scalar in `data`, then waits for the copy."""
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
    return _read(data, "scalar_read") if is_simulated(data) else data


def _read(tensor: Any, kind: str) -> torch.Tensor:
    """Return the values of a tensor that the host reads."""
    State.observer.on_sync(kind)
    State.observer.on_transfer(TO_HOST, byte_count(tensor), None)
    values: torch.Tensor = to_host(tensor)
    return values


def _numpy(func: Any, tensor: Any, *args: Any, **kwargs: Any) -> Any:
    if is_simulated(tensor):
        raise TypeError(
            "can't convert {} device type tensor to numpy. "
            "Use Tensor.cpu() to copy the tensor to host memory first.".format(device_of(tensor))
        )
    State.observer.on_host_operator("numpy", [tensor], None)
    return _plain(func, tensor, *args, **kwargs)


def _to_cuda(func: Any, tensor: Any, device: Any = None, non_blocking: bool = False, **_: Any) -> Any:
    index = cuda_index("cuda" if device is None else device)
    if index is None:
        raise RuntimeError("Invalid device, must be cuda device")
    target = torch.device("cuda", index)
    return tensor if device_of(tensor) == target else _move(tensor, target, non_blocking)


def _move(tensor: Any, target: torch.device, non_blocking: bool, copied_bytes: Optional[int] = None) -> Any:
    """Return a copy on another device, without the tensor's graph."""
    copied = to_host(tensor).detach().clone()
    moved = SimulatedCudaTensor(copied, target.index) if target.type == "cuda" else copied
    report_copy(tensor, moved, non_blocking, copied_bytes)
    return moved


def _to(func: Any, tensor: Any, *args: Any, **kwargs: Any) -> Any:
    """Handle `tensor.to(...)`: free if nothing changes, a copy if the device does."""
    other = args[0] if args else kwargs.pop("other", None)
    if isinstance(other, torch.Tensor):
        return _to(func, tensor, device_of(other), other.dtype, *args[1:], **kwargs)
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
    """Return `cuda:0` for 0, as in `tensor.to(0)`, which torch's own parser rejects without an accelerator."""
    return torch.device("cuda", device) if isinstance(device, int) and not isinstance(device, bool) else device


def _cast(tensor: Any, dtype: Optional[torch.dtype], copy: bool, memory_format: Any = None) -> Any:
    if (dtype is None or dtype == tensor.dtype) and not copy and memory_format is None:
        return tensor
    options = {} if memory_format is None else {"memory_format": memory_format}
    return _plain(torch.Tensor.to, tensor, dtype or tensor.dtype, copy=copy, **options)


def _type(func: Any, tensor: Any, dtype: Any = None, non_blocking: bool = False) -> Any:
    """Return the name of a tensor's type, or the tensor converted to another type."""
    if dtype is None:
        name = str(_plain(func, tensor))
        return name.replace("torch.", "torch.cuda.", 1) if is_simulated(tensor) else name
    if isinstance(dtype, torch.dtype):
        return _cast(tensor, dtype, False)
    text = "{}.{}".format(dtype.__module__, dtype.__name__) if isinstance(dtype, type) else str(dtype)
    here, there = device_of(tensor), "cuda" if text.startswith("torch.cuda.") else "cpu"
    dtype = _DTYPES[text.rpartition(".")[2]]
    return _to(torch.Tensor.to, tensor, here if here.type == there else there, dtype, non_blocking)


_DTYPES: Dict[str, torch.dtype] = {
    "FloatTensor": torch.float32,
    "DoubleTensor": torch.float64,
    "HalfTensor": torch.float16,
    "BFloat16Tensor": torch.bfloat16,
    "LongTensor": torch.int64,
    "IntTensor": torch.int32,
    "ShortTensor": torch.int16,
    "CharTensor": torch.int8,
    "ByteTensor": torch.uint8,
    "BoolTensor": torch.bool,
}


class _TensorType(type):
    """Type of `torch.cuda.FloatTensor`: a call builds a tensor; `isinstance` checks device and dtype."""

    dtype: torch.dtype

    def __instancecheck__(cls, value: Any) -> bool:
        return is_simulated(value) and value.dtype is cls.dtype

    def __call__(cls, *args: Any, device: Any = "cuda") -> Any:
        if all(isinstance(each, int) for each in args) or isinstance(args[0], torch.Size):
            sizes = tuple(args[0]) if args and isinstance(args[0], torch.Size) else args or (0,)
            return torch.empty(sizes, dtype=cls.dtype, device=device)
        return torch.tensor(args[0], dtype=cls.dtype, device=device)


CONSTRUCTORS = {
    name: _TensorType(name, (), {"dtype": dtype, "__module__": "torch.cuda"}) for name, dtype in _DTYPES.items()
}
"""By their names in `torch.cuda`."""


def _new_tensor(func: Any, tensor: Any, data: Any, dtype: Any = None, device: Any = None, **kwargs: Any) -> Any:
    where = device if device is not None else device_of(tensor)
    return _from_data(torch.tensor, data, dtype=dtype or tensor.dtype, device=where, **kwargs)


def _new(func: Any, tensor: Any, *args: Any, **kwargs: Any) -> Any:
    """Build a tensor of data, as `new_tensor` does, or of a size."""
    if args and not isinstance(args[0], (int, torch.Size)):
        return _new_tensor(func, tensor, args[0])
    with _building_on(tensor.device_index):
        return _plain(func, tensor, *args, **kwargs)


def _quantile(func: Any, tensor: Any, *args: Any, **kwargs: Any) -> Any:
    """Handle quantiles: below torch 2.13 C++ reads `q` to check it, but only for CPU tensors, as the wrapper is."""
    outer = State.observer
    State.observer = Observer(
        on_operator=outer.on_operator, on_transfer=outer.on_transfer, on_host_operator=outer.on_host_operator
    )
    try:
        with _building_on(tensor.device_index):
            return _plain(func, tensor, *args, **kwargs)
    finally:
        State.observer = outer


_ATTRIBUTES: Dict[Any, Callable] = {
    torch.Tensor.device: device_of,
    torch.Tensor.is_cuda: lambda tensor: True,
    torch.Tensor.is_cpu: lambda tensor: False,
}
_QUANTILES = (torch.quantile, torch.nanquantile, torch.Tensor.quantile, torch.Tensor.nanquantile)
_ON_DEVICE: Dict[Any, Callable] = {
    **dict.fromkeys(_QUANTILES, _quantile),
    torch.Tensor.tolist: lambda func, tensor: _plain(func, _read(tensor, "copy")),
    torch.Tensor.cpu: lambda func, tensor, *_, **__: _move(tensor, torch.device("cpu"), False),
    torch.Tensor.get_device: lambda func, tensor: int(tensor.device_index),
    # The wrapper's own address is 0, so all gradients would look like one shared parameter's.
    torch.Tensor.data_ptr: lambda func, tensor: int(_plain(func, to_host(tensor))),
    torch.Tensor.__repr__: lambda func, tensor, **_: repr(_read(tensor, "copy")),
    torch.Tensor.__format__: lambda func, tensor, spec: format(_read(tensor, "copy"), spec),
    torch.Tensor.new: _new,
    torch.Tensor.new_tensor: _new_tensor,
}
"""Handlers for a tensor of the device."""
_ANYWHERE: Dict[Any, Callable] = {
    torch.Tensor.cuda: _to_cuda,
    torch.Tensor.to: _to,
    torch.Tensor.numpy: _numpy,
    torch.Tensor.__array__: _numpy,
    torch.Tensor.type: _type,
    torch.Tensor.type_as: lambda func, tensor, other: _to(torch.Tensor.to, tensor, other),
    torch.Tensor.pin_memory: lambda func, tensor, *_, **__: tensor.clone(),
    torch.tensor: _from_data,
    torch.as_tensor: _from_data,
    torch.asarray: _from_data,
}
"""Handlers for a tensor of the host, too."""
