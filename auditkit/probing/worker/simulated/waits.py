"""How often ATen's CUDA implementation of an operator makes the host wait for the device.

Read from the sources of PyTorch's CUDA back end; docs/design/waits.md says where each stands, and its rows are run as
tests. Operators that are not here do not wait, except for copies, which `operators.py` and `calls.py` report.
A composite function (a matrix norm of order 2, a condition number) waits where the operators that it calls do.
"""

from typing import Any, Callable, Dict, NamedTuple

import torch

from .tensor import to_host

# `mode` sorts longer rows one after the other, with calls that wait (native/cuda/TensorModeKernel.cpp).
_LONGEST_ROW_OF_FUSED_MODE = 2048
_MASKS = (torch.bool, torch.uint8)

OnDevice = Callable[[Any], bool]


class _Call(NamedTuple):
    """One call of an operator: its arguments by name, defaults included, and which tensors are on the device."""

    given: Dict[str, Any]
    on_device: OnDevice

    def reads(self, *names: str) -> int:
        """How many of these arguments are device tensors that become numbers of the host."""
        values = [self.given.get(name) for name in names]
        return sum(isinstance(value, torch.Tensor) and self.on_device(value) for value in values)


def waits(func: Any, args: Any, kwargs: Dict[str, Any], on_device: OnDevice) -> int:
    """How often the host waits in one call of an operator with at least one tensor on the device."""
    count = _COUNTS.get(func.overloadpacket.__name__)
    if count is None:
        return 0
    arguments = func._schema.arguments
    given = {each.name: each.default_value for each in arguments if each.has_default_value()}
    given.update(zip([each.name for each in arguments], args, strict=False))
    given.update(kwargs)
    return count(_Call(given, on_device))


def _always(count: int) -> Callable[[_Call], int]:
    return lambda call: count


def _unless_empty(name: str, count: int) -> Callable[[_Call], int]:
    return lambda call: count if call.given[name].numel() else 0


def _if(name: str, count: int = 1) -> Callable[[_Call], int]:
    """For an argument that is a flag, or None where it is not given."""
    return lambda call: count if call.given[name] else 0


def _reads(*names: str) -> Callable[[_Call], int]:
    return lambda call: call.reads(*names)


def _bincount(call: _Call) -> int:
    values = call.given["self"]
    return 0 if not values.numel() else 1 if values.dtype is torch.uint8 else 2


def _equal(call: _Call) -> int:
    first, second = to_host(call.given["self"]), to_host(call.given["other"])
    return int(first.shape == second.shape and first.numel() > 0 and not _is_same_view(first, second))


def _is_same_view(first: torch.Tensor, second: torch.Tensor) -> bool:
    if first.layout is not torch.strided or second.layout is not torch.strided:
        return False
    return (first.data_ptr(), first.dtype, first.stride()) == (second.data_ptr(), second.dtype, second.stride())


def _histc(call: _Call) -> int:
    return 2 if call.given["min"] == call.given["max"] and call.given["self"].numel() else 0


def _svd(call: _Call) -> int:
    """cuSOLVER's gesvdj and gesvda are asked whether they converged, then every driver whether it failed."""
    if not call.given["A"].numel():
        return 0
    return 1 if call.given["driver"] == "gesvd" else 2


def _pinv(call: _Call) -> int:
    """An SVD, or of a Hermitian matrix its eigenvalues."""
    if not call.given["self"].numel():
        return 0
    return 1 if call.given["hermitian"] else 2


def _matrix_exp(call: _Call) -> int:
    return 1 if call.given["self"].numel() and call.given["self"].shape[-1] > 1 else 0


def _multinomial(call: _Call) -> int:
    return 0 if call.given["replacement"] and call.given["num_samples"] > 1 else 2


def _normal(call: _Call) -> int:
    std = call.given.get("std")
    return 2 if isinstance(std, torch.Tensor) and std.numel() else 0


def _isin(call: _Call) -> int:
    """Many test elements are sorted, after the duplicates among them and among the others were dropped."""
    elements, test_elements = call.given.get("elements"), call.given.get("test_elements")
    if not isinstance(elements, torch.Tensor) or not isinstance(test_elements, torch.Tensor):
        return 0
    is_sorted = test_elements.numel() >= int(10.0 * elements.numel() ** 0.145)
    return 2 if is_sorted and not call.given["assume_unique"] else 0


def _mode(call: _Call) -> int:
    values = call.given["self"]
    row = values.shape[call.given["dim"]] if values.dim() else 1
    return values.numel() // row if row > _LONGEST_ROW_OF_FUSED_MODE else 0


def _index(call: _Call) -> int:
    """Each mask of the device is counted, each host index copied; a host mask is copied from pinned memory."""
    indices = [index for index in call.given["indices"] if index is not None]
    return sum(call.on_device(index) == (index.dtype in _MASKS) for index in indices)


def _index_put(call: _Call) -> int:
    """Python's number under one mask is written by `masked_fill`."""
    indices = [index for index in call.given["indices"] if index is not None]
    value = call.given["values"]
    is_number = value.numel() == 1 and not call.on_device(value) and not call.given["accumulate"]
    is_one_mask = len(indices) == 1 and indices[0].dtype in _MASKS and call.on_device(indices[0])
    return 0 if is_number and is_one_mask else _index(call)


def _coalesce(call: _Call) -> int:
    return 1 if to_host(call.given["self"])._nnz() > 1 else 0


_COUNTS: Dict[str, Callable[[_Call], int]] = {
    # The host needs a number.
    "_local_scalar_dense": _always(1),
    "equal": _equal,
    "allclose": _always(1),
    "masked_fill": _reads("value"),
    "masked_fill_": _reads("value"),
    "index_fill": _reads("value"),
    "index_fill_": _reads("value"),
    "linspace": _reads("start", "end"),
    "logspace": _reads("start", "end"),
    "randint_like": _reads("high"),
    "histc": _histc,
    # The host needs the size of the result.
    "nonzero": _always(1),
    "masked_select": _always(1),
    "index": _index,
    "_unsafe_index": _index,
    "index_put": _index_put,
    "index_put_": _index_put,
    "_index_put_impl_": _index_put,
    "_unique": _unless_empty("self", 1),
    "_unique2": _unless_empty("self", 1),
    "unique_consecutive": _unless_empty("self", 1),
    "unique_dim": _unless_empty("self", 1),
    "unique_dim_consecutive": _unless_empty("self", 1),
    "bincount": _bincount,
    "repeat_interleave": lambda call: 2 if call.given["output_size"] is None and call.given["repeats"].numel() else 0,
    "isin": _isin,
    "mode": _mode,
    "_coalesce": _coalesce,
    "_to_sparse": _always(1),
    # The arguments are checked on the host.
    "multinomial": _multinomial,
    "normal": _normal,
    "segment_reduce": lambda call: 0 if call.given["unsafe"] else 2,
    "searchsorted": lambda call: 0 if call.given["sorter"] is None else 2,
    # The host asks whether a factorization succeeded.
    "_linalg_check_errors": _always(1),
    "_linalg_svd": _svd,
    "_linalg_eigh": _unless_empty("A", 1),
    "linalg_eig": _unless_empty("self", 1),
    "_linalg_eigvals": _unless_empty("self", 1),
    "linalg_pinv": _pinv,
    "linalg_lstsq": _unless_empty("self", 1),
    "cholesky": _unless_empty("self", 1),
    "linalg_cholesky_ex": _if("check_errors"),
    "linalg_inv_ex": _if("check_errors"),
    "linalg_lu_factor_ex": _if("check_errors"),
    "linalg_ldl_factor_ex": _if("check_errors"),
    "_linalg_solve_ex": _if("check_errors"),
    "linalg_ldl_solve": _unless_empty("B", 1),
    "linalg_matrix_exp": _matrix_exp,
}
OPERATORS = tuple(_COUNTS)
"""The operators that may wait, by the names that ATen gives them."""
