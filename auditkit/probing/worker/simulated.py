"""A pretended CUDA device: real values on the CPU, behind a tensor that says it is on `cuda:0`.

The tensor is a wrapper subclass, so every operator on it reaches `__torch_dispatch__`, from Python and
from C++. Its Python attributes (`device`, `is_cuda`) and transfers (`.cpu()`, `.to()`, `.tolist()`) are
answered as CUDA would by `simulated_calls.py`; `simulated_device.py` holds the modes that also see
factories (`device="cuda"`), host tensors that move to the device, and `torch.cuda` itself. What a CUDA
build would synchronise for is reported to `observer.on_sync(kind)`, every operator that would launch a kernel to
`observer.on_operator(name)`.

Blocking copies in both directions count as synchronising, because `copy_kernel_cuda` in ATen ends them
with `cudaStreamSynchronize`. A host copy that was read once is a plain tensor: reading it is free.

Known limits: a hook that autograd calls sees `cpu` as the device, and `Module.to("cuda")` leaves a host
module's parameters on the host, so that its first use with device tensors raises.
"""

from typing import Any, Dict, List

import torch
from torch.utils._pytree import tree_flatten, tree_map, tree_unflatten

CUDA_0 = torch.device("cuda", 0)
_aten = torch.ops.aten


class Observer:
    """Told what a CUDA device would have been asked to do. The default forgets it."""

    def on_sync(self, kind: str) -> None:
        """The host waits for the device."""

    def on_operator(self, name: str) -> None:
        """An operator that launches at least one kernel."""


class State:
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


NO_KERNEL = _launches_nothing()

# Data-dependent output sizes: CUDA reads the size back before it can allocate the result.
READS_SIZE_BACK = {
    "nonzero", "masked_select", "_unique", "_unique2", "unique_dim", "unique_consecutive", "bincount",
    "repeat_interleave", "_linalg_check_errors", "equal", "allclose", "is_nonzero", "histc",
}  # fmt: skip
INDEXES = {"index", "index_put", "index_put_", "_index_put_impl_"}
_MAY_MIX_DEVICES = {"copy_", "_to_copy", "_foreach_copy_"} | INDEXES


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

    def record_stream(self, stream: Any) -> None:
        """Nothing to keep alive; torch does not offer this method to `__torch_function__`."""

    @classmethod
    def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        from .simulated_calls import answer_as_cuda

        return answer_as_cuda(func, args, kwargs or {})

    @classmethod
    def __torch_dispatch__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:  # type: ignore[override]
        return run_operator(func, args, kwargs or {})


def is_cuda_device(value: Any) -> bool:
    if isinstance(value, torch.device):
        return value.type == "cuda"
    return isinstance(value, str) and value.split(":")[0] == "cuda"


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
    builds_on_device = State.on_device_depth > 0 and not any(isinstance(leaf, torch.Tensor) for leaf in leaves)
    if not wrappers and not builds_on_device:
        return func(*args, **kwargs)
    name = func.overloadpacket.__name__
    _refuse_mixed_devices(name, leaves, wrappers)
    _report(func, name, args, wrappers)
    host_args, host_kwargs = tree_unflatten([_host_leaf(leaf) for leaf in leaves], spec)
    result = func(*host_args, **host_kwargs)
    known = {id(wrapper.host_values): wrapper for wrapper in wrappers}
    return tree_map(lambda leaf: wrap_leaf(leaf, known), result)


def _host_leaf(leaf: Any) -> Any:
    if is_simulated(leaf):
        return leaf.host_values
    return torch.device("cpu") if is_cuda_device(leaf) else leaf


def wrap_leaf(leaf: Any, known: Dict[int, Any]) -> Any:
    """A result tensor as the wrapper it was passed in (in-place operators) or as a new one."""
    if not isinstance(leaf, torch.Tensor) or is_simulated(leaf):
        return leaf
    return known[id(leaf)] if id(leaf) in known else SimulatedCudaTensor(leaf)


def _report(func: Any, name: str, args: Any, wrappers: List[Any]) -> None:
    if name == "_local_scalar_dense":
        State.observer.on_sync("scalar_read")
        return
    if name in READS_SIZE_BACK:
        State.observer.on_sync("size_read")
    elif name in INDEXES and reads_mask(name, args):
        State.observer.on_sync("mask_read")
    elif name == "copy_" and _crosses_the_bus(args):
        non_blocking = len(args) > 2 and bool(args[2])
        if not non_blocking:
            State.observer.on_sync("copy")
        return
    if func in NO_KERNEL or getattr(func, "is_view", False):
        return
    State.observer.on_operator(name)


def reads_mask(name: str, args: Any) -> bool:
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
