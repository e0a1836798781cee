"""CPU values behind a tensor that says it is on a CUDA device, counting what a real one would wait for."""

from typing import Any

import torch
from torch import Tensor
from torch.utils._pytree import tree_map

VIEW_OPERATORS = frozenset({"view", "split_with_sizes", "slice", "permute", "detach", "alias", "select", "unbind"})


class PretendCuda(torch.Tensor):
    """A tensor on device cuda:0 whose operators run on `value`, a CPU tensor.

    `launches` holds the names of operators run that are no views, `reads` those that bring values to the
    host. A CPU tensor of one or more dimensions among the operands is a host-to-device mix-up and raises.
    """

    launches: list[str] = []  # noqa: RUF012 - reset() replaces it
    reads: list[str] = []  # noqa: RUF012
    value: Tensor

    @staticmethod
    def __new__(cls, value: Tensor, index: int = 0) -> "PretendCuda":
        made: PretendCuda = torch.Tensor._make_wrapper_subclass(  # type: ignore[attr-defined]
            cls,
            value.size(),
            strides=value.stride(),
            storage_offset=value.storage_offset(),
            dtype=value.dtype,
            device=torch.device("cuda", index),
        )
        made.value = value
        return made

    @classmethod
    def reset(cls) -> None:
        cls.launches, cls.reads = [], []

    @classmethod
    def __torch_dispatch__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = dict(kwargs or {})
        name = func.overloadpacket.__name__
        device = next(device for device in map(_device_of, _tensors(args)) if device is not None)
        for operand in _tensors(args):
            assert isinstance(operand, PretendCuda) or operand.dim() == 0, f"{name} takes a CPU tensor"
        target = kwargs.pop("device", None)
        if name == "_local_scalar_dense" or (target is not None and torch.device(target).type == "cpu"):
            cls.reads.append(name)
            return func(*tree_map(_unwrap, args), **kwargs)
        if name not in VIEW_OPERATORS:
            cls.launches.append(name)
        result = func(*tree_map(_unwrap, args), **tree_map(_unwrap, kwargs))
        return tree_map(lambda leaf: cls(leaf, device.index) if isinstance(leaf, Tensor) else leaf, result)


def _tensors(args: Any) -> list[Tensor]:
    flat: list[Tensor] = []
    tree_map(lambda leaf: flat.append(leaf) if isinstance(leaf, Tensor) else None, args)
    return flat


def _device_of(tensor: Tensor) -> torch.device | None:
    return tensor.device if isinstance(tensor, PretendCuda) else None


def _unwrap(leaf: Any) -> Any:
    return leaf.value if isinstance(leaf, PretendCuda) else leaf
