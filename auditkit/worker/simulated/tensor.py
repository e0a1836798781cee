"""The simulated CUDA device: real values on the CPU, behind a tensor that reports `cuda:0` (or `cuda:1`).

The tensor is a wrapper subclass, so that every operator on it reaches `__torch_dispatch__`, from Python and from C++;
`operators.py` runs it. `calls.py` implements its Python attributes (`device`, `is_cuda`) and transfers (`.cpu()`,
`.to()`, `.tolist()`) as CUDA does. `device.py` has the modes that also see factories (`device="cuda"`), host tensors
that move to the device, and `torch.cuda` itself. The `Observer` gets what a CUDA build would do.

Known limits: a hook that autograd calls sees `cpu` as the device; `Module.to("cuda")` leaves a host module's parameters
on the host, so that its first use with device tensors raises; `type(tensor) is torch.Tensor` is false, and a storage
has no values. A target that raises or crashes because of these is counted on plain CPU tensors instead.
"""

from typing import Any, Callable, ClassVar, Dict, List, Optional, Sequence

import torch
from torch.overrides import TorchFunctionMode

from ..base.frames import SourceRoots
from ..base.torch_internals import OperatorMode

TO_HOST, TO_DEVICE, BETWEEN_DEVICES = "to host", "to device", "between devices"
Run = Callable[[Any, Any, Dict[str, Any]], Any]


class EachOperator(OperatorMode):
    """Let `run(func, args, kwargs)` run each ATen operator."""

    def __init__(self, run: Run) -> None:
        super().__init__()
        self._run = run

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return self._run(func, args, kwargs or {})


class EachFunction(TorchFunctionMode):
    """Let `call(func, args, kwargs)` call each function of torch that Python calls."""

    def __init__(self, call: Run) -> None:
        super().__init__()
        self._call = call

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return self._call(func, args, kwargs or {})


class Observer:
    """Receives what a CUDA device would do, in methods or in functions of the same names."""

    def __init__(self, **functions: Callable[..., None]) -> None:
        vars(self).update(functions)

    def on_sync(self, kind: str) -> None:
        """Called when the host waits for the device."""

    def on_operator(self, name: str) -> None:
        """Called when an operator launches at least one kernel."""

    def on_transfer(self, direction: str, copied_bytes: int, result: Optional[torch.Tensor]) -> None:
        """Called when values leave or reach a device; `result` is their new tensor, None for Python numbers."""

    def on_host_operator(self, name: str, inputs: Sequence[Any], result: Any) -> None:
        """Called for an operator of host tensors; `name` is "" if it computes nothing (a view, an allocation)."""


class State:
    """State of the running simulation: where it reports to, and where factories create tensors now.

    `building_on` has the devices of the running calls, innermost last: a tensor that an operator creates itself is on
    its input's device; empty means the host. `answer_call` and `run_operator` handle each Python call and each operator
    of a tensor; `device.py` sets them. `roots` are the checkout's, whose modules may have looked for CUDA on import.
    """

    answer_call: Run
    run_operator: Run

    observer = Observer()
    roots: Optional[SourceRoots] = None
    building_on: ClassVar[List[int]] = []
    current_device = 0
    device_count = 1


class SimulatedCudaTensor(torch.Tensor):
    """A tensor whose values are `host_values` (on the CPU) and whose device reads `cuda:<device_index>`."""

    host_values: torch.Tensor
    device_index: int

    @staticmethod
    def __new__(cls: Any, host_values: torch.Tensor, device_index: int = 0) -> Any:
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
        wrapper.device_index = device_index
        return wrapper

    def record_stream(self, stream: Any) -> None:
        """Do nothing; torch does not offer this method to `__torch_function__`."""

    @classmethod
    def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return State.answer_call(func, args, kwargs or {})

    @classmethod
    def __torch_dispatch__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:  # type: ignore[override]
        return State.run_operator(func, args, kwargs or {})


def is_simulated(value: Any) -> bool:
    return isinstance(value, SimulatedCudaTensor)


def to_simulated(host_values: torch.Tensor, device_index: int = 0) -> torch.Tensor:
    """Return `host_values` as if on `cuda:<device_index>`, without counting a copy. Keeps sparse layouts."""
    return SimulatedCudaTensor(host_values, device_index)


def to_host(value: Any) -> Any:
    """Return the plain CPU tensor behind a simulated one, without counting a read; anything else as it is."""
    return value.host_values if is_simulated(value) else value


def device_of(tensor: torch.Tensor) -> torch.device:
    """Return the device that a tensor reports."""
    return torch.device("cuda", tensor.device_index) if is_simulated(tensor) else tensor.device  # type: ignore[attr-defined]


def cuda_index(named: Any) -> Optional[int]:
    """Return the index of the CUDA device that `named` (a device, a text, a number) means, None for another device."""
    if isinstance(named, int) and not isinstance(named, bool):
        return named
    if isinstance(named, str) and named.split(":")[0] == "cuda":
        named = torch.device(named)
    if not isinstance(named, torch.device) or named.type != "cuda":
        return None
    return State.current_device if named.index is None else named.index


def pretend_device(named: str) -> Optional[int]:
    """Return the index of the CUDA device `named`, which exists from now on in this process; None for the host."""
    index = cuda_index(named)
    if index is not None:
        State.device_count = max(State.device_count, index + 1)
    return index


def byte_count(tensor: torch.Tensor) -> int:
    return tensor.numel() * tensor.element_size()
