"""Which gradients a caller means, as strided real tensors of a supported type."""

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

import torch
from torch import Tensor, nn

from .sharding import LocalPart, local_part

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


class GroupKey(NamedTuple):
    """What the gradients that one pass measures together have in common; `shard_groups`: see sharding.LocalPart."""

    device: torch.device
    dtype: torch.dtype
    shard_groups: tuple["ProcessGroup", ...]


class GradientGroup(NamedTuple):
    """The stored values of gradients, strided and real, and the place of each in its set."""

    positions: list[int]
    values: list[Tensor]


class GradientSet(NamedTuple):
    """The gradients of one source: the number of elements of each, on all ranks, and what of them is stored here.

    Elements that are not stored (sparse) are zeros. `summands` holds, by position, the stored summands of gradients
    whose values are their sums: clipping changes those, as the sums are kept nowhere.
    """

    element_counts: list[int]
    names: list[str]  # "" where the source gives none
    groups: dict[GroupKey, GradientGroup]
    summands: dict[int, Tensor]

    def group(self, key: GroupKey) -> GradientGroup:
        """Return the group of this key, a new one where there is none."""
        return self.groups.setdefault(key, GradientGroup([], []))

    def add(self, group: GradientGroup, values: Tensor, element_count: int, name: str) -> None:
        """Add the next gradient, to a group of this set."""
        group.positions.append(len(self.element_counts))
        group.values.append(values)
        self.element_counts.append(element_count)
        self.names.append(name)


@torch.no_grad()
def select_gradients(source: GradientSource) -> GradientSet:
    """Return the gradients of `source`, consuming it once; those that are None are left out.

    Raises ValueError, with the position and name of the tensor, for an unsupported value.
    """
    selected = GradientSet([], [], {}, {})
    last_kind: object = None
    group: GradientGroup | None = None
    for number, entry in enumerate(_entries(source)):
        name, item = _named(entry) if isinstance(entry, tuple) else ("", entry)
        is_parameter = type(item) is nn.Parameter
        tensor = item.grad if is_parameter else item
        # Most need no conversion, and are of one kind, which is looked at once.
        if type(tensor) is Tensor and (is_parameter or (not tensor.requires_grad and tensor.grad is None)):
            kind = (tensor.dtype, tensor.device, tensor.layout, tensor.is_nested)
            if kind != last_kind:
                group, last_kind = _plain_group(tensor, selected), kind
            if group is not None:
                selected.add(group, tensor, tensor.numel(), name)
                continue
        _add_gradient(item, name, f"gradient {number}" + (f" ({name!r})" if name else ""), selected)
    return selected


def _entries(source: GradientSource) -> Iterable[Any]:
    if isinstance(source, nn.Module):
        return source.named_parameters()
    if isinstance(source, Tensor):
        return (source,)
    return source.items() if isinstance(source, Mapping) else source


def _named(entry: tuple[Any, ...]) -> tuple[str, Any]:
    return entry if len(entry) == 2 and isinstance(entry[0], str) else ("", entry)


def _plain_group(tensor: Tensor, selected: GradientSet) -> GradientGroup | None:
    """Return the group of gradients like this one, or None where they need a conversion or a second look."""
    is_plain = (
        tensor.dtype in SUPPORTED_DTYPES
        and tensor.layout is torch.strided
        and tensor.device.type in ("cpu", "cuda")
        and not tensor.is_nested
    )
    return selected.group(GroupKey(tensor.device, tensor.dtype, ())) if is_plain else None


def _add_gradient(item: object, name: str, place: str, selected: GradientSet) -> None:
    """Add a gradient that is not a plain tensor, or nothing for None."""
    gradient = _gradient_of(item, place)
    if gradient is None:
        return
    part = local_part(gradient)
    values = _real_values(_stored_values(part.tensor, place))
    if values.dtype not in SUPPORTED_DTYPES:
        raise ValueError(f"{place} has dtype {part.tensor.dtype}, which is not a floating point type")
    if values.device.type in ("meta", "mps"):
        lack = "values" if values.device.type == "meta" else "float64"
        raise ValueError(f"{place} is on device {values.device}, which has no {lack}")
    summands = _stored_summands(part)
    if summands is not None:
        selected.summands[len(selected.names)] = _real_values(summands)
    group = selected.group(GroupKey(values.device, values.dtype, part.shard_groups))
    selected.add(group, values, part.element_count * (2 if part.tensor.is_complex() else 1), name)


def _gradient_of(item: object, place: str) -> Tensor | None:
    """Return the .grad of a parameter and a gradient itself.

    A leaf that requires or holds a gradient is a parameter. Reading .grad of other tensors warns.
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


def _stored_summands(part: LocalPart) -> Tensor | None:
    """Return the summands of a gradient whose values are their sums, computed here; None for every other."""
    stored = part.tensor if part.summands is None else part.summands
    if stored.layout is torch.sparse_coo and not stored.is_coalesced():
        return stored._values()
    return part.summands


def _real_values(tensor: Tensor) -> Tensor:
    """Return a complex tensor as its real and imaginary parts, in one more dimension of size 2."""
    if not tensor.is_complex():
        return tensor
    # A lazily conjugated tensor has no real view, and resolving it copies; its conjugate has the same norm.
    return torch.view_as_real(tensor.conj() if tensor.is_conj() else tensor)
