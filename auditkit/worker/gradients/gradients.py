"""Gradient cases: lists of tensors with a stated dtype, size, magnitude and pattern.

Values are `±magnitude` in a fixed alternation, so that a power-of-two magnitude scales every element exactly, in every
floating dtype, and the true norm is `magnitude * sqrt(elements)`.
"""

import copy
import math
import mmap
from typing import Any, Callable, Dict, List, Optional, Sequence, Tuple

import torch

from ..simulated.tensor import device_of, is_simulated, to_host, to_simulated

DTYPES = {
    "float32": torch.float32,
    "float16": torch.float16,
    "bfloat16": torch.bfloat16,
    "float64": torch.float64,
}
_BLOCK_ELEMENTS = 1 << 16
_ROW_ELEMENTS = 64
_LARGE_BYTES = 1 << 24
_WEIGHT = 0.02


def make_gradients(
    tensor_count: int, element_count: int, dtype: str = "float32", magnitude: float = 1.0
) -> List[torch.Tensor]:
    """Return `tensor_count` tensors of `element_count` elements each, all of them `±magnitude`.

    `dtype` "mixed" alternates float32 and bfloat16 (the same exponent range) and adds one all-zero float16 tensor, so
    that every group exists and the magnitude still scales the norm exactly.
    """
    if dtype == "mixed":
        pair = (torch.float32, torch.bfloat16)
        made = [_alternating(element_count, pair[i % 2], magnitude) for i in range(tensor_count)]
        return [*made, torch.zeros(_ROW_ELEMENTS, dtype=torch.float16)]
    return [_alternating(element_count, DTYPES[dtype], magnitude) for _ in range(tensor_count)]


def _alternating(element_count: int, dtype: torch.dtype, magnitude: float) -> torch.Tensor:
    block = torch.tensor([magnitude, -magnitude], dtype=dtype).repeat(min(_BLOCK_ELEMENTS, element_count) // 2 + 1)
    grad, flat = empty(element_count, dtype)
    for start in range(0, element_count, _BLOCK_ELEMENTS):
        piece = flat[start : start + _BLOCK_ELEMENTS]
        piece.copy_(block[: piece.numel()])
    return grad


def empty(element_count: int, dtype: torch.dtype) -> Tuple[torch.Tensor, torch.Tensor]:
    """Return an empty gradient, a matrix of 64 columns if that fits, and its flat view.

    The gradient is not a view, as gradients of backward are not: Dynamo takes twice as long to trace views.
    """
    rows, rest = divmod(element_count, _ROW_ELEMENTS)
    shape = (rows, _ROW_ELEMENTS) if rest == 0 and rows > 1 else (element_count,)
    grad = torch.empty(shape, dtype=dtype)
    return grad, grad.view(-1)


def with_values(
    element_count: int, fill: float, special: float, special_count: int, dimensions: int = 1
) -> torch.Tensor:
    """Return float32 of shape (1, ..., n), with `special_count` leading elements of `special`, the rest `fill`."""
    grad = torch.empty((1,) * (dimensions - 1) + (element_count,))
    grad[..., :special_count] = special
    grad[..., special_count:] = fill
    return grad


def benign(seed: int = 0, zeros: int = 0, nans: int = 0, infs: int = 0) -> List[torch.Tensor]:
    """Return three small float32 tensors of 46 elements in all, standard normal, with planted special values."""
    generator = torch.Generator().manual_seed(seed)
    made = [torch.randn(shape, generator=generator) for shape in ((5, 3), (7,), (2, 3, 4))]
    flat = made[2].view(-1)
    flat[:zeros] = 0.0
    flat[zeros : zeros + nans] = float("nan")
    flat[zeros + nans : zeros + nans + infs] = float("inf")
    return made


def small_gradients(tensors: int, seed: int = 0) -> List[torch.Tensor]:
    """Return gradients of `benign` from as many seeds as needed, alternating two, one and three dimensions."""
    return [grad for turn in range(-(-tensors // 3)) for grad in benign(seed + turn)][:tensors]


View = Callable[[torch.Tensor], torch.Tensor]
LAYOUTS: Dict[str, Tuple[Tuple[int, ...], View]] = {
    "channels_last": ((2, 4, 5, 3), lambda base: base.permute(0, 3, 1, 2).clone()),
    "transposed": ((3, 5), lambda base: base.t().clone()),
    "permuted": ((2, 3, 4), lambda base: base.permute(2, 0, 1).clone()),
    "bucket_view": ((29,), lambda base: base[5:17].view(3, 4)),
    "sliced": ((9, 8), lambda base: base[1::2, 1::3]),
    "expanded": ((1, 5), lambda base: base.expand(4, 5)),
    "overlapping": ((9,), lambda base: base.as_strided((3, 4), (2, 1), 1)),
}
"""The shape of the memory, and the gradient made from it, by name.

`clone()` keeps the strides of a dense tensor: a gradient in channels_last is not a view, one in a bucket is.
"""


def whole_numbers(shape: Sequence[int]) -> torch.Tensor:
    """Return float32 of small whole numbers: their sums and sums of squares are exact in any order."""
    index = torch.arange(math.prod(shape))
    return ((3 * index * index + index) % 17 - 8).reshape(tuple(shape)).float()


def contiguous_copy(grad: torch.Tensor) -> torch.Tensor:
    """Return the same values in separate memory."""
    return grad.clone(memory_format=torch.contiguous_format)


def sparse_rows(coalesced: bool, special: float = 1.0) -> torch.Tensor:
    """Return the gradient of an embedding of 6 rows by 3: rows 4, 1 and 4 were used, or, coalesced, 1 and 4.

    `special` is in one place of row 4, in both of its summands.
    """
    values = torch.tensor([[2.0, -1.0, special], [3.0, 0.0, -2.0], [3.0, -4.0, special]])
    grad = torch.sparse_coo_tensor(torch.tensor([[4, 1, 4]]), values, (6, 3), check_invariants=True)
    return grad.coalesce() if coalesced else grad


def exact_norm(grads: Sequence[torch.Tensor]) -> float:
    """Return the 2-norm of all elements together, of tensors on the host."""
    return math.sqrt(sum(float(grad.to_dense().double().square().sum()) for grad in grads))


def total_norm(grads: Sequence[Optional[torch.Tensor]]) -> torch.Tensor:
    """Return the 2-norm, accumulated in float64, on the first gradient's device, as float32 (float64 for float64)."""
    parts = [grad.coalesce().values() if grad.is_sparse else grad for grad in grads if grad is not None]
    if not parts:
        return torch.zeros(())
    norms = [torch.linalg.vector_norm(part, dtype=torch.float64).to(parts[0].device) for part in parts]
    total = torch.linalg.vector_norm(torch.stack(norms))
    return total if any(part.dtype == torch.float64 for part in parts) else total.float()


def placed(grads: Sequence[Any], device: str) -> List[Any]:
    """Move each tensor of the host to `device` (`cpu`, `cuda` or `simulated`); other items stay as they are."""
    kept: List[Any] = copy.copy(grads) if isinstance(grads, list) else list(grads)  # a list may know its module
    if device != "cpu":
        place = to_simulated if device == "simulated" else lambda grad: grad.to("cuda")
        kept[:] = [place(grad) if isinstance(grad, torch.Tensor) else grad for grad in kept]
    return kept


def holder_of(grads: Sequence[Any]) -> Any:
    """Return the module that gradients come from if they have one; else a new one that carries them."""
    module = getattr(grads, "module", None)
    return GradientHolder(grads) if module is None else module


class GradientHolder(torch.nn.Module):
    """A module whose parameters carry the given gradients; parameters without one where `grads` has None.

    `aliases` are further attributes of the parameters that follow the gradient, with their constructors.
    """

    def __init__(self, grads: Sequence[Optional[torch.Tensor]]) -> None:
        super().__init__()
        self.aliases: Dict[str, Callable[[Any], Any]] = {}
        for index, grad in enumerate(grads):
            value = _weights(torch.empty(3)) if grad is None else _like(grad)
            parameter = torch.nn.Parameter(value)
            parameter.grad = grad
            self.register_parameter("layer{}_weight".format(index), parameter)

    def put(self, grads: Optional[Sequence[torch.Tensor]]) -> None:
        """Give every parameter another gradient, or none."""
        for index, parameter in enumerate(self.parameters()):
            parameter.grad = None if grads is None else grads[index]
            for name, follow in self.aliases.items():
                setattr(parameter, name, follow(parameter))

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        return inputs


def _like(grad: torch.Tensor) -> torch.Tensor:
    """Return weights of the gradient's kind, zeros if they are large and on the host, dense for a sparse gradient."""
    if grad.layout is not torch.strided:
        return _weights(torch.empty(grad.shape, dtype=grad.dtype, device=grad.device))
    if is_simulated(grad):
        return to_simulated(_weights(torch.empty_like(to_host(grad))), device_of(grad).index)
    size_bytes = grad.numel() * grad.element_size()
    if size_bytes < _LARGE_BYTES or grad.is_cuda or not grad.is_contiguous():
        return _weights(torch.empty_like(grad))
    # A mapping's pages take no memory until they are touched, and collectors seldom read the weights.
    pages = mmap.mmap(-1, size_bytes, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    return torch.frombuffer(pages, dtype=grad.dtype).view(grad.shape)


def _weights(empty: torch.Tensor) -> torch.Tensor:
    """Fill the tensor with alternating 0.02 and -0.02: typical weights, with the same norm in any grouping."""
    if not empty.is_contiguous():
        return empty.copy_(_weights(torch.empty(empty.shape, dtype=empty.dtype, device=empty.device)))
    empty.fill_(_WEIGHT)
    # torch does not flatten an unevenly sharded DTensor.
    local = empty.to_local() if hasattr(empty, "to_local") else empty
    local.view(-1)[1::2].neg_()
    return empty
