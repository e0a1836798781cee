"""Which gradients a caller means, as strided real tensors of a supported type."""

from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, NamedTuple, TypeGuard

import torch
from torch import Tensor, nn

from .sharding import local_part

if TYPE_CHECKING:
    from torch.distributed import ProcessGroup

# A module, one tensor, tensors in any iterable, or (name, tensor) pairs as named_parameters() gives them.
# A parameter stands for its .grad; None stands for no gradient.
GradientSource = (
    nn.Module | Tensor | Mapping[str, Tensor | None] | Iterable[Tensor | None] | Iterable[tuple[str, Tensor | None]]
)

_FLOAT8_NAMES = ("float8_e4m3fn", "float8_e4m3fnuz", "float8_e5m2", "float8_e5m2fnuz")
FLOAT8_DTYPES = frozenset(getattr(torch, name) for name in _FLOAT8_NAMES if hasattr(torch, name))
SUPPORTED_DTYPES = FLOAT8_DTYPES | {torch.float64, torch.float32, torch.float16, torch.bfloat16}

_COMPRESSED_LAYOUTS = (torch.sparse_csr, torch.sparse_csc, torch.sparse_bsr, torch.sparse_bsc)


class Gradient(NamedTuple):
    """One gradient: its stored values here, strided and real, and its number of elements everywhere.

    Elements that are not stored (sparse) are zeros. `shard_groups`: see sharding.LocalPart.
    """

    values: Tensor
    element_count: int
    shard_groups: tuple["ProcessGroup", ...]


def select_gradients(source: GradientSource) -> list[Gradient]:
    """Return the gradients of `source`, consuming it once; those that are None are left out.

    Raises ValueError, with the position and name of the tensor, for what is no gradient or is not supported.
    """
    gradients = []
    for position, (name, item) in enumerate(_named_items(source)):
        tensor = item.grad if type(item) is nn.Parameter else item
        if _is_plain(tensor):
            gradients.append(Gradient(tensor, tensor.numel(), ()))
            continue
        place = f"gradient {position}" + (f" ({name!r})" if name else "")
        gradient = _gradient_of(item, place)
        if gradient is not None:
            gradients.append(_as_gradient(gradient, place))
    return gradients


def _named_items(source: GradientSource) -> Iterator[tuple[str, object]]:
    if isinstance(source, nn.Module):
        yield from source.named_parameters()
        return
    if isinstance(source, Tensor):
        yield "", source
        return
    for item in source.items() if isinstance(source, Mapping) else source:
        if isinstance(item, tuple) and len(item) == 2 and isinstance(item[0], str):
            yield item
        else:
            yield "", item


def _is_plain(item: object) -> TypeGuard[Tensor]:
    """Tell whether this is surely a gradient that needs no conversion: most are, and this is quick to ask."""
    return (
        type(item) is Tensor
        and item.dtype in SUPPORTED_DTYPES
        and item.layout is torch.strided
        and (item.is_cpu or item.is_cuda)
        and not item.requires_grad
        and not item.is_nested
        and item.grad is None
    )


def _gradient_of(item: object, place: str) -> Tensor | None:
    """Return the .grad of a parameter and a gradient itself.

    A leaf that requires or holds a gradient is a parameter. Only leaves are asked: .grad of others warns.
    """
    if item is None:
        return None
    if not isinstance(item, Tensor):
        raise ValueError(f"{place} is a {type(item).__name__}, not a tensor, a parameter or None")
    if isinstance(item, nn.Parameter):
        return item.grad
    if item.is_leaf and (item.requires_grad or item.grad is not None):
        return item.grad
    return item


def _as_gradient(tensor: Tensor, place: str) -> Gradient:
    part = local_part(tensor)
    values = _real_values(_stored_values(part.tensor, place))
    if values.dtype not in SUPPORTED_DTYPES:
        raise ValueError(f"{place} has dtype {part.tensor.dtype}, which is not a floating point type")
    if values.device.type in ("meta", "mps"):
        lack = "values" if values.device.type == "meta" else "float64"
        raise ValueError(f"{place} is on device {values.device}, which has no {lack}")
    element_count = part.element_count * (2 if part.tensor.is_complex() else 1)
    return Gradient(values, element_count, part.shard_groups)


def _stored_values(tensor: Tensor, place: str) -> Tensor:
    """Return the elements that `tensor` stores, each element of the gradient at most once."""
    if tensor.is_quantized:
        raise ValueError(f"{place} is quantized ({tensor.dtype}); pass its dequantize()")
    if tensor.is_nested:
        raise ValueError(f"{place} is a nested tensor; pass its values()")
    if tensor.layout is torch.strided:
        return tensor
    if tensor.layout is torch.sparse_coo:
        return tensor.coalesce().values()  # duplicates are summands of one element
    if tensor.layout in _COMPRESSED_LAYOUTS:
        return tensor.values()
    raise ValueError(f"{place} has layout {tensor.layout}, which is neither strided nor sparse")


def _real_values(tensor: Tensor) -> Tensor:
    """Return a complex tensor as its real and imaginary parts, in one more dimension of size 2."""
    if not tensor.is_complex():
        return tensor
    # A lazily conjugated tensor has no real view, and resolving it copies; its conjugate has the same norm.
    return torch.view_as_real(tensor.conj() if tensor.is_conj() else tensor)
