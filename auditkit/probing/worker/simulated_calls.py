"""Python's view of the pretended device: attributes, transfers, factories and reads, answered as CUDA would."""

import contextlib
from typing import Any, Callable, Dict, Iterator, Optional

import torch
from torch.utils._pytree import tree_map

from .simulated import CUDA_0, Observer, SimulatedCudaTensor, State, is_cuda_device, is_simulated, to_host, wrap_leaf


def answer_as_cuda(func: Any, args: Any, kwargs: Dict[str, Any]) -> Any:
    """One Python-level call, answered as it would be with a CUDA device."""
    attribute = _ATTRIBUTES.get(getattr(func, "__self__", None)) if getattr(func, "__name__", "") == "__get__" else None
    if attribute is not None and is_simulated(args[0]):
        return attribute
    handler = _METHODS.get(func)
    if handler is not None:
        return handler(func, *args, **kwargs)
    on_device = _any_simulated(args) or _any_simulated(kwargs.values())
    named = kwargs.get("device")
    kwargs.pop("pin_memory", None)  # without a driver there is no memory to pin, and nothing depends on it
    if is_cuda_device(named):
        return _build_on_device(func, args, kwargs)
    if named is not None and on_device:  # zeros_like(grad, device="cpu"): built on the host
        args, kwargs = tree_map(to_host, (args, kwargs))
        on_device = False
    with _building_on_device(on_device):
        return _plain(func, *args, **kwargs)


def _any_simulated(values: Any) -> bool:
    """Whether one of the arguments, or of the lists among them, is on the device."""
    return any(_any_simulated(value) if isinstance(value, (list, tuple)) else is_simulated(value) for value in values)


@contextlib.contextmanager
def _building_on_device(on_device: bool) -> Iterator[None]:
    """Tensors that an operator builds for itself, in C++ with its input's options, are where its input is."""
    State.on_device_depth += on_device
    try:
        yield
    finally:
        State.on_device_depth -= on_device


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
    if device is None or not is_cuda_device(device):
        return result
    State.observer.on_sync("copy")
    return SimulatedCudaTensor(result)


def _read_scalars(data: Any) -> Any:
    if isinstance(data, (list, tuple)):
        return [_read_scalars(item) for item in data]
    if is_simulated(data):
        State.observer.on_sync("scalar_read")
    return to_host(data)


def _build_on_device(func: Any, args: Any, kwargs: Dict[str, Any]) -> Any:
    """A factory with `device="cuda"`: its kernel runs there, nothing is copied."""
    host_kwargs = dict(kwargs, device=torch.device("cpu"))
    with _building_on_device(True):
        result = _plain(func, *args, **host_kwargs)
    return tree_map(lambda leaf: wrap_leaf(leaf, {}), result)


def _read_all(kind: str) -> Callable:
    def read(func: Any, tensor: Any, *args: Any, **kwargs: Any) -> Any:
        if is_simulated(tensor):
            State.observer.on_sync(kind)
        return _plain(func, to_host(tensor), *args, **kwargs)

    return read


def _to_cpu(func: Any, tensor: Any, *args: Any, **kwargs: Any) -> Any:
    if not is_simulated(tensor):
        return _plain(func, tensor, *args, **kwargs)
    State.observer.on_sync("copy")
    return _cross_the_bus(tensor)


def _to_cuda(func: Any, tensor: Any, device: Any = None, non_blocking: bool = False, **_: Any) -> Any:
    return tensor if is_simulated(tensor) else _upload(tensor, non_blocking)


def _upload(tensor: torch.Tensor, non_blocking: bool) -> torch.Tensor:
    if not non_blocking:
        State.observer.on_sync("copy")
    return _cross_the_bus(tensor)


def _cross_the_bus(tensor: Any) -> Any:
    """A copy on the other side; in a graph where the tensor is in one."""
    if tensor.requires_grad and torch.is_grad_enabled():
        return _BusCopy.apply(tensor)
    return _copy_over(tensor)


def _copy_over(tensor: Any) -> Any:
    if is_simulated(tensor):
        return tensor.host_values.detach().clone()
    return SimulatedCudaTensor(tensor.detach().clone())


class _BusCopy(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, tensor: Any) -> Any:
        return _copy_over(tensor)

    @staticmethod
    def backward(ctx: Any, grad: Any) -> Any:
        return _copy_over(grad)


def _to(func: Any, tensor: Any, *args: Any, **kwargs: Any) -> Any:
    """`tensor.to(...)`: free where nothing changes, a copy over the bus where the device does."""
    if args and isinstance(args[0], torch.Tensor):
        target: Any = CUDA_0 if is_simulated(args[0]) else args[0].device
        return _to(func, tensor, target, args[0].dtype, *args[1:], **kwargs)
    if isinstance(kwargs.get("other"), torch.Tensor):
        other = kwargs.pop("other")
        return _to(func, tensor, other, *args, **kwargs)
    options = {key: value for key, value in kwargs.items() if key != "copy"}
    device, dtype, non_blocking, memory_format = torch._C._nn._parse_to(*args[:3], **options)
    source_is_device = is_simulated(tensor)
    target_is_device = source_is_device if device is None else device.type == "cuda"
    if source_is_device == target_is_device:
        return _cast(tensor, dtype, bool(kwargs.get("copy", False)), memory_format)
    if target_is_device:
        return _cast(_upload(tensor, non_blocking), dtype, False, memory_format)
    converted = _cast(tensor, dtype, False, memory_format)
    if not non_blocking:
        State.observer.on_sync("copy")
    return _cross_the_bus(converted)


def _cast(tensor: Any, dtype: Optional[torch.dtype], copy: bool, memory_format: Any = None) -> Any:
    if (dtype is None or dtype == tensor.dtype) and not copy and memory_format is None:
        return tensor
    options = {} if memory_format is None else {"memory_format": memory_format}
    return _plain(torch.Tensor.to, tensor, dtype or tensor.dtype, copy=copy, **options)


def _numpy(func: Any, tensor: Any, *args: Any, **kwargs: Any) -> Any:
    if is_simulated(tensor):
        raise TypeError(
            "can't convert cuda:0 device type tensor to numpy. "
            "Use Tensor.cpu() to copy the tensor to host memory first."
        )
    return _plain(func, tensor, *args, **kwargs)


def _get_device(func: Any, tensor: Any) -> int:
    return 0 if is_simulated(tensor) else _plain(func, tensor)


def _repr(func: Any, tensor: Any, **kwargs: Any) -> str:
    if not is_simulated(tensor):
        return str(_plain(func, tensor, **kwargs))
    State.observer.on_sync("copy")
    return repr(tensor.host_values)


def _format(func: Any, tensor: Any, spec: str) -> str:
    if not is_simulated(tensor):
        return str(_plain(func, tensor, spec))
    return format(tensor.item(), spec) if tensor.dim() == 0 else _repr(torch.Tensor.__repr__, tensor)


def _type(func: Any, tensor: Any, *args: Any, **kwargs: Any) -> Any:
    answer = _plain(func, tensor, *args, **kwargs)
    if isinstance(answer, str) and is_simulated(tensor):
        return answer.replace("torch.", "torch.cuda.", 1)
    return answer


def _new_tensor(func: Any, tensor: Any, data: Any, dtype: Any = None, device: Any = None, **kwargs: Any) -> Any:
    where = device if device is not None else (CUDA_0 if is_simulated(tensor) else tensor.device)
    return _from_data(torch.tensor, data, dtype=dtype or tensor.dtype, device=where, **kwargs)


def _pin_memory(func: Any, tensor: Any, *args: Any, **kwargs: Any) -> Any:
    if is_simulated(tensor):
        raise RuntimeError("cannot pin '{}' only dense CPU tensors can be pinned".format(tensor.type()))
    return tensor.clone()


_ATTRIBUTES = {torch.Tensor.device: CUDA_0, torch.Tensor.is_cuda: True, torch.Tensor.is_cpu: False}


def _quantile(func: Any, tensor: Any, *args: Any, **kwargs: Any) -> Any:
    """Below torch 2.13 C++ checks `q` by reading it, for CPU tensors alone, and takes ours for one."""
    told, State.observer = State.observer, _WithoutSyncs(State.observer)
    try:
        with _building_on_device(is_simulated(tensor)):
            return _plain(func, tensor, *args, **kwargs)
    finally:
        State.observer = told


class _WithoutSyncs(Observer):
    """Passes operators on, and keeps synchronisations to itself."""

    def __init__(self, told: Observer) -> None:
        self.on_operator = told.on_operator  # type: ignore[method-assign]


_METHODS: Dict[Any, Callable] = {
    torch.quantile: _quantile,
    torch.nanquantile: _quantile,
    torch.Tensor.quantile: _quantile,
    torch.Tensor.nanquantile: _quantile,
    torch.Tensor.tolist: _read_all("copy"),
    torch.Tensor.cpu: _to_cpu,
    torch.Tensor.cuda: _to_cuda,
    torch.Tensor.to: _to,
    torch.Tensor.numpy: _numpy,
    torch.Tensor.__array__: _numpy,
    torch.Tensor.get_device: _get_device,
    torch.Tensor.__repr__: _repr,
    torch.Tensor.__format__: _format,
    torch.Tensor.type: _type,
    torch.Tensor.new_tensor: _new_tensor,
    torch.Tensor.pin_memory: _pin_memory,
    torch.tensor: _from_data,
    torch.as_tensor: _from_data,
    torch.asarray: _from_data,
}
