"""How often ATen's CUDA implementation of an operator makes the host wait for the device.

The counts are from the sources of PyTorch's CUDA back end; tests/worker/waits.md names the source of each, and a test
runs its rows. Other operators do not wait, except for copies, which `operators.py` reports. A composite function (a
matrix norm of order 2, a condition number) waits in the operators that it calls.
"""

from typing import Any, Callable, Dict, List, Union

import torch

from .tensor import to_host

_MASKS = (torch.bool, torch.uint8)

OnDevice = Callable[[Any], bool]


class _Call:
    """One call of an operator: its arguments by name, defaults included, and which tensors are on the device."""

    def __init__(self, func: Any, args: Any, kwargs: Dict[str, Any], on_device: OnDevice) -> None:
        arguments = func._schema.arguments
        self._given = {each.name: each.default_value for each in arguments if each.has_default_value()}
        self._given.update(zip([each.name for each in arguments], args, strict=False))
        self._given.update(kwargs)
        self.on_device = on_device

    def __getitem__(self, name: str) -> Any:
        return self._given.get(name)

    @property
    def indices(self) -> List[torch.Tensor]:
        return [index for index in self["indices"] if index is not None]


def waits(func: Any, args: Any, kwargs: Dict[str, Any], on_device: OnDevice) -> int:
    """Return how often the host waits in one call of an operator with at least one tensor on the device."""
    count = _COUNTS.get(func.overloadpacket.__name__, 0)
    return count if isinstance(count, int) else count(_Call(func, args, kwargs, on_device))


_Count = Union[int, Callable[[_Call], int]]


def _unless_empty(name: str, count: _Count) -> _Count:
    return lambda call: (count if isinstance(count, int) else count(call)) if call[name].numel() else 0


def _fill(call: _Call) -> int:
    """Return 1 if the host reads a value that is a tensor of the device."""
    return int(isinstance(call["value"], torch.Tensor) and call.on_device(call["value"]))


def _index(call: _Call) -> int:
    """Count a wait for each device mask and each copied host index; a host mask is copied from pinned memory."""
    return sum(call.on_device(index) == (index.dtype in _MASKS) for index in call.indices)


def _index_put(call: _Call) -> int:
    """Count as `_index`, except for a Python number under one mask, which `masked_fill` writes."""
    value, indices = call["values"], call.indices
    is_one_mask = len(indices) == 1 and indices[0].dtype in _MASKS and call.on_device(indices[0])
    is_number = value.numel() == 1 and not call.on_device(value) and not call["accumulate"]
    return 0 if is_number and is_one_mask else _index(call)


# The host checks whether cuSOLVER's gesvdj and gesvda converged, then whether any driver failed.
_SVD: _Count = lambda call: 1 if call["driver"] == "gesvd" else 2  # noqa: E731
_COUNTS: Dict[str, _Count] = {
    # The host needs a number.
    "_local_scalar_dense": 1,
    "equal": _unless_empty("self", 1),
    "allclose": 1,
    **dict.fromkeys(("masked_fill", "masked_fill_"), _fill),
    "histc": _unless_empty("self", lambda call: 2 if call["min"] == call["max"] else 0),
    # The host needs the size of the result.
    "nonzero": 1,
    "masked_select": 1,
    **dict.fromkeys(("index", "_unsafe_index"), _index),
    **dict.fromkeys(("index_put", "index_put_", "_index_put_impl_"), _index_put),
    **dict.fromkeys(("_unique", "_unique2", "unique_consecutive"), _unless_empty("self", 1)),
    "bincount": _unless_empty("self", lambda call: 1 if call["self"].dtype is torch.uint8 else 2),
    "repeat_interleave": _unless_empty("repeats", lambda call: 2 if call["output_size"] is None else 0),
    "_coalesce": lambda call: 1 if to_host(call["self"])._nnz() > 1 else 0,
    "_to_sparse": 1,
    # The host checks whether a factorization succeeded.
    "_linalg_check_errors": 1,
    "_linalg_svd": _unless_empty("A", _SVD),
    "_linalg_eigh": _unless_empty("A", 1),
    **dict.fromkeys(("linalg_eig", "_linalg_eigvals", "linalg_lstsq"), _unless_empty("self", 1)),
    "linalg_pinv": _unless_empty("self", lambda call: 1 if call["hermitian"] else 2),  # eigenvalues, or an SVD
}
OPERATORS = tuple(_COUNTS)
"""The operators that may wait, by the names that ATen gives them."""
