"""A pretended CUDA device: real values on the CPU, behind a tensor that says it is on `cuda:0`.

The tensor is a wrapper subclass, so every operator on it reaches `__torch_dispatch__`, from Python and
from C++. Its Python attributes (`device`, `is_cuda`) and transfers (`.cpu()`, `.to()`, `.tolist()`) are
answered as CUDA would; `SimulatedCuda` is the mode that also sees factories (`device="cuda"`), host
tensors that move to the device, and `torch.cuda` itself. What a CUDA build would synchronise for is
reported to `observer.on_sync(kind)`, every operator that would launch a kernel to
`observer.on_operator(name)`.

Blocking copies in both directions count as synchronising, because `copy_kernel_cuda` in ATen ends them
with `cudaStreamSynchronize`. A host copy that was read once is a plain tensor: reading it is free.
"""

import contextlib
from typing import Any, Callable, Dict, Iterator, List, Optional

import torch
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_flatten, tree_map, tree_unflatten

CUDA_0 = torch.device("cuda", 0)
_aten = torch.ops.aten


class Observer:
    """Told what a CUDA device would have been asked to do. The default forgets it."""

    def on_sync(self, kind: str) -> None:
        """The host waits for the device."""

    def on_operator(self, name: str) -> None:
        """An operator that launches at least one kernel."""


class _State:
    """What the running simulation reports to, and whether factories build on the device now."""

    observer = Observer()
    on_device_depth = 0


def _launches_nothing() -> set:
    """Operators that touch metadata or only allocate: views are added by asking the operator itself."""
    names = (
        "empty.memory_format empty_like.default empty_strided.default new_empty.default "
        "new_empty_strided.default detach.default alias.default lift_fresh.default "
        "_local_scalar_dense.default is_same_size.default resize_.default set_.source_Tensor "
        "sym_size.int sym_numel.default sym_stride.int is_pinned.default record_stream.default"
    )
    found = set()
    for name in names.split():
        packet, overload = name.split(".")
        operator = getattr(getattr(_aten, packet, None), overload, None)
        if operator is not None:
            found.add(operator)
    return found


_NO_KERNEL = _launches_nothing()

# Data-dependent output sizes: CUDA reads the size back before it can allocate the result.
_READS_SIZE_BACK = {
    "nonzero", "masked_select", "_unique", "_unique2", "unique_dim", "unique_consecutive", "bincount",
    "repeat_interleave", "_linalg_check_errors", "equal", "is_nonzero", "histc",
}  # fmt: skip
_INDEXES = {"index", "index_put", "index_put_", "_index_put_impl_"}
_MAY_MIX_DEVICES = {"copy_", "_to_copy", "_foreach_copy_"} | _INDEXES


class SimulatedCudaTensor(torch.Tensor):
    """A tensor whose values are `host_values` (on the CPU) and whose device reads `cuda:0`."""

    host_values: torch.Tensor

    @staticmethod
    def __new__(cls: Any, host_values: torch.Tensor) -> Any:
        dense: Dict[str, Any] = {}
        if host_values.layout == torch.strided:
            dense = {"strides": host_values.stride(), "storage_offset": host_values.storage_offset()}
        wrapper = torch.Tensor._make_wrapper_subclass(
            cls,
            host_values.size(),
            dtype=host_values.dtype,
            layout=host_values.layout,
            device=host_values.device,
            requires_grad=False,
            **dense,
        )
        wrapper.host_values = host_values
        return wrapper

    @classmethod
    def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return answer_as_cuda(func, args, kwargs or {})

    @classmethod
    def __torch_dispatch__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:  # type: ignore[override]
        return run_operator(func, args, kwargs or {})


def is_simulated(value: Any) -> bool:
    return isinstance(value, SimulatedCudaTensor)


def to_simulated(host_values: torch.Tensor) -> torch.Tensor:
    """`host_values` as if on `cuda:0`, without counting a copy. Sparse tensors keep their layout."""
    return SimulatedCudaTensor(host_values)


def to_host(value: Any) -> Any:
    """The plain CPU tensor behind a simulated one, without counting a read; anything else as it is."""
    return value.host_values if is_simulated(value) else value


# --- operators ---------------------------------------------------------------------------------


def run_operator(func: Any, args: Any, kwargs: Dict[str, Any]) -> Any:
    """One ATen operator: on the CPU values, reported as CUDA would run it, wrapped again."""
    leaves, spec = tree_flatten((args, kwargs))
    wrappers = [leaf for leaf in leaves if is_simulated(leaf)]
    on_device = bool(wrappers) or _State.on_device_depth > 0
    if not on_device:
        return func(*args, **kwargs)
    name = func.overloadpacket.__name__
    _refuse_mixed_devices(name, leaves, wrappers)
    _report(func, name, args, wrappers)
    host_args, host_kwargs = tree_unflatten([_host_leaf(leaf) for leaf in leaves], spec)
    result = func(*host_args, **host_kwargs)
    if not wrappers:
        return result  # a factory: `answer_as_cuda` wraps what it returns
    known = {id(wrapper.host_values): wrapper for wrapper in wrappers}
    return tree_map(lambda leaf: _wrap_leaf(leaf, known), result)


def _host_leaf(leaf: Any) -> Any:
    if is_simulated(leaf):
        return leaf.host_values
    return torch.device("cpu") if _is_cuda_device(leaf) else leaf


def _wrap_leaf(leaf: Any, known: Dict[int, Any]) -> Any:
    """A result tensor as the wrapper it was passed in (in-place operators) or as a new one."""
    if not isinstance(leaf, torch.Tensor) or is_simulated(leaf):
        return leaf
    return known[id(leaf)] if id(leaf) in known else SimulatedCudaTensor(leaf)


def _report(func: Any, name: str, args: Any, wrappers: List[Any]) -> None:
    if name == "_local_scalar_dense":
        _State.observer.on_sync("scalar_read")
        return
    if name in _READS_SIZE_BACK:
        _State.observer.on_sync("size_read")
    elif name in _INDEXES and _reads_mask(name, args):
        _State.observer.on_sync("mask_read")
    elif name == "copy_" and _crosses_the_bus(args):
        non_blocking = len(args) > 2 and bool(args[2])
        if not non_blocking:
            _State.observer.on_sync("copy")
        return
    if func in _NO_KERNEL or getattr(func, "is_view", False):
        return
    _State.observer.on_operator(name)


def _reads_mask(name: str, args: Any) -> bool:
    """Whether an index operator must count a mask's true elements on the host.

    Writing one value under a mask does not: CUDA runs it as `masked_fill`.
    """
    indices = args[1] if len(args) > 1 else ()
    masked = any(isinstance(index, torch.Tensor) and index.dtype in (torch.bool, torch.uint8) for index in indices)
    fills = name != "index" and len(args) > 2 and args[2].numel() == 1 and not (len(args) > 3 and args[3])
    return masked and not fills


def _crosses_the_bus(args: Any) -> bool:
    """Whether `copy_` moves between host and device; a host scalar goes along as a kernel's argument."""
    target, source = args[0], args[1]
    if is_simulated(target) and not is_simulated(source):
        return bool(source.dim() > 0)
    return is_simulated(target) != is_simulated(source)


def _refuse_mixed_devices(name: str, leaves: List[Any], wrappers: List[Any]) -> None:
    """CUDA operators take host tensors only as zero-dimensional scalars; say so in torch's words."""
    if not wrappers or name in _MAY_MIX_DEVICES:
        return
    for leaf in leaves:
        if isinstance(leaf, torch.Tensor) and not is_simulated(leaf) and (leaf.dim() > 0 or name in ("cat", "stack")):
            raise RuntimeError(
                "Expected all tensors to be on the same device, but found at least two devices, cuda:0 and cpu!"
            )


# --- Python's view of the tensor ---------------------------------------------------------------


def answer_as_cuda(func: Any, args: Any, kwargs: Dict[str, Any]) -> Any:
    """One Python-level call, answered as it would be with a CUDA device."""
    attribute = _ATTRIBUTES.get(getattr(func, "__self__", None)) if getattr(func, "__name__", "") == "__get__" else None
    if attribute is not None and is_simulated(args[0]):
        return attribute
    handler = _METHODS.get(func)
    if handler is not None:
        return handler(func, *args, **kwargs)
    if _is_cuda_device(kwargs.get("device")):
        return _build_on_device(func, args, kwargs)
    with torch._C.DisableTorchFunctionSubclass():
        return func(*args, **kwargs)


def _is_cuda_device(value: Any) -> bool:
    if isinstance(value, torch.device):
        return value.type == "cuda"
    return isinstance(value, str) and value.split(":")[0] == "cuda"


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
    if device is None or not _is_cuda_device(device):
        return result
    _State.observer.on_sync("copy")
    return SimulatedCudaTensor(result)


def _read_scalars(data: Any) -> Any:
    if isinstance(data, (list, tuple)):
        return [_read_scalars(item) for item in data]
    if is_simulated(data):
        _State.observer.on_sync("scalar_read")
    return to_host(data)


def _build_on_device(func: Any, args: Any, kwargs: Dict[str, Any]) -> Any:
    """A factory with `device="cuda"`: its kernel runs there, nothing is copied."""
    host_kwargs = dict(kwargs, device=torch.device("cpu"))
    _State.on_device_depth += 1
    try:
        result = _plain(func, *args, **host_kwargs)
    finally:
        _State.on_device_depth -= 1
    return tree_map(lambda leaf: _wrap_leaf(leaf, {}), result)


def _read_all(kind: str) -> Callable:
    def read(func: Any, tensor: Any, *args: Any, **kwargs: Any) -> Any:
        if is_simulated(tensor):
            _State.observer.on_sync(kind)
        return _plain(func, to_host(tensor), *args, **kwargs)

    return read


def _to_cpu(func: Any, tensor: Any, *args: Any, **kwargs: Any) -> Any:
    if not is_simulated(tensor):
        return _plain(func, tensor, *args, **kwargs)
    _State.observer.on_sync("copy")
    return tensor.host_values.detach().clone()


def _to_cuda(func: Any, tensor: Any, device: Any = None, non_blocking: bool = False, **_: Any) -> Any:
    return tensor if is_simulated(tensor) else _upload(tensor, non_blocking)


def _upload(tensor: torch.Tensor, non_blocking: bool) -> torch.Tensor:
    if not non_blocking:
        _State.observer.on_sync("copy")
    return SimulatedCudaTensor(tensor.detach().clone())


def _to(func: Any, tensor: Any, *args: Any, **kwargs: Any) -> Any:
    """`tensor.to(...)`: free where nothing changes, a copy over the bus where the device does."""
    if args and isinstance(args[0], torch.Tensor):
        target: Any = CUDA_0 if is_simulated(args[0]) else args[0].device
        return _to(func, tensor, target, args[0].dtype, *args[1:], **kwargs)
    if isinstance(kwargs.get("other"), torch.Tensor):
        other = kwargs.pop("other")
        return _to(func, tensor, other, *args, **kwargs)
    options = {key: value for key, value in kwargs.items() if key != "copy"}
    device, dtype, non_blocking, _ = torch._C._nn._parse_to(*args[:3], **options)
    source_is_device = is_simulated(tensor)
    target_is_device = source_is_device if device is None else device.type == "cuda"
    if source_is_device == target_is_device:
        return _cast(tensor, dtype, bool(kwargs.get("copy", False)))
    if target_is_device:
        return _cast(_upload(tensor, non_blocking), dtype, False)
    converted = _cast(tensor, dtype, False)
    if not non_blocking:
        _State.observer.on_sync("copy")
    return converted.host_values.detach().clone()


def _cast(tensor: Any, dtype: Optional[torch.dtype], copy: bool) -> Any:
    if (dtype is None or dtype == tensor.dtype) and not copy:
        return tensor
    return _plain(torch.Tensor.to, tensor, dtype or tensor.dtype, copy=copy)


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
    _State.observer.on_sync("copy")
    return repr(tensor.host_values)


def _format(func: Any, tensor: Any, spec: str) -> str:
    if is_simulated(tensor) and tensor.dim() == 0:
        return format(tensor.item(), spec)
    return _repr(func, tensor)


def _type(func: Any, tensor: Any, *args: Any, **kwargs: Any) -> Any:
    answer = _plain(func, tensor, *args, **kwargs)
    if isinstance(answer, str) and is_simulated(tensor):
        return answer.replace("torch.", "torch.cuda.", 1)
    return answer


def _nothing(func: Any, tensor: Any, *args: Any, **kwargs: Any) -> None:
    return None


_ATTRIBUTES = {torch.Tensor.device: CUDA_0, torch.Tensor.is_cuda: True, torch.Tensor.is_cpu: False}
_METHODS: Dict[Any, Callable] = {
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
    torch.Tensor.record_stream: _nothing,
    torch.tensor: _from_data,
    torch.as_tensor: _from_data,
    torch.asarray: _from_data,
}


# --- the mode ----------------------------------------------------------------------------------


class _Functions(TorchFunctionMode):
    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return answer_as_cuda(func, args, kwargs or {})


class _Operators(TorchDispatchMode):
    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return run_operator(func, args, kwargs or {})


class _Stream:
    """A stream or an event of the pretended device: waiting for it is a synchronisation."""

    device = CUDA_0

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        pass

    def __enter__(self) -> "_Stream":
        return self

    def __exit__(self, *exc: Any) -> None:
        return None

    def synchronize(self) -> None:
        _State.observer.on_sync("synchronize")

    def query(self) -> bool:
        return True

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


def _synchronize(device: Any = None) -> None:
    _State.observer.on_sync("synchronize")


_CUDA_MODULE = {
    "is_available": lambda: True,
    "is_initialized": lambda: True,
    "device_count": lambda: 1,
    "current_device": lambda: 0,
    "set_device": lambda device: None,
    "synchronize": _synchronize,
    "current_stream": _Stream,
    "default_stream": _Stream,
    "Stream": _Stream,
    "Event": _Stream,
    "stream": lambda stream: contextlib.nullcontext(),
    "get_device_capability": lambda device=None: (9, 0),
    "get_device_name": lambda device=None: "simulated",
    "is_current_stream_capturing": lambda: False,
    "memory_allocated": lambda device=None: 0,
    "max_memory_allocated": lambda device=None: 0,
    "reset_peak_memory_stats": lambda device=None: None,
    "empty_cache": lambda: None,
}


def _group_by_device(grouper: Callable) -> Callable:
    """torch's C++ grouping asks the storage for its device; put simulated tensors under `cuda:0`."""

    def group(tensor_lists: Any, with_indices: bool = False) -> Any:
        groups = {}
        for (device, dtype), (lists, indices) in grouper(tensor_lists, with_indices).items():
            simulated = any(is_simulated(tensor) for tensors in lists for tensor in tensors)
            groups[(CUDA_0 if simulated else device, dtype)] = (lists, indices)
        return groups

    return group


@contextlib.contextmanager
def _foreach_takes_simulated() -> Iterator[None]:
    """Let torch's own "may I use foreach" checks accept the simulated tensor as they accept a CUDA one."""
    from torch.utils import _foreach_utils

    grouper = torch._C._group_tensors_by_device_and_dtype
    supported: List[Any] = _foreach_utils._foreach_supported_types  # type: ignore[assignment]
    supported.append(SimulatedCudaTensor)
    torch._C._group_tensors_by_device_and_dtype = _group_by_device(grouper)
    try:
        yield
    finally:
        torch._C._group_tensors_by_device_and_dtype = grouper
        supported.remove(SimulatedCudaTensor)


@contextlib.contextmanager
def simulated_cuda(observer: Optional[Observer] = None) -> Iterator[None]:
    """Pretend that `cuda:0` exists and tell `observer` what it is asked to do."""
    previous, _State.observer = _State.observer, observer or Observer()
    saved = {name: getattr(torch.cuda, name) for name in _CUDA_MODULE}
    for name, replacement in _CUDA_MODULE.items():
        setattr(torch.cuda, name, replacement)
    try:
        with _foreach_takes_simulated(), _Operators(), _Functions():
            yield
    finally:
        for name, original in saved.items():
            setattr(torch.cuda, name, original)
        _State.observer = previous
