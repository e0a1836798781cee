"""The old constructors of one dtype, `torch.cuda.FloatTensor([1.0])`, and the names that `tensor.type(...)` takes."""

from typing import Any, Dict, Optional, Tuple

import torch

from .tensor import is_simulated

_DTYPES: Dict[str, torch.dtype] = {
    "FloatTensor": torch.float32,
    "DoubleTensor": torch.float64,
    "HalfTensor": torch.float16,
    "BFloat16Tensor": torch.bfloat16,
    "LongTensor": torch.int64,
    "IntTensor": torch.int32,
    "ShortTensor": torch.int16,
    "CharTensor": torch.int8,
    "ByteTensor": torch.uint8,
    "BoolTensor": torch.bool,
}


class _TensorType(type):
    """`isinstance(tensor, torch.cuda.FloatTensor)` asks for its device and dtype."""

    dtype: torch.dtype

    def __instancecheck__(cls, value: Any) -> bool:
        return is_simulated(value) and value.dtype is cls.dtype

    def __call__(cls, *args: Any, device: Any = "cuda") -> Any:
        if args and not are_sizes(args):
            return torch.tensor(args[0], dtype=cls.dtype, device=device)
        return torch.empty(sizes_of(args), dtype=cls.dtype, device=device)


CONSTRUCTORS = {
    name: _TensorType(name, (), {"dtype": dtype, "__module__": "torch.cuda"}) for name, dtype in _DTYPES.items()
}
"""By their names in `torch.cuda`."""


def are_sizes(args: Tuple[Any, ...]) -> bool:
    """Whether the arguments of an old constructor are sizes, not data."""
    return all(isinstance(each, int) for each in args) or isinstance(args[0], torch.Size)


def sizes_of(args: Tuple[Any, ...]) -> Tuple[int, ...]:
    """The shape that sizes, one by one or as a `torch.Size`, mean; no sizes mean no elements."""
    return tuple(args[0]) if args and isinstance(args[0], torch.Size) else args or (0,)


def device_and_dtype(named: Any) -> Optional[Tuple[str, torch.dtype]]:
    """What `torch.cuda.HalfTensor`, as a text or the type itself, means; None for what is no such name."""
    text = "{}.{}".format(named.__module__, named.__name__) if isinstance(named, type) else str(named)
    module, _, name = text.rpartition(".")
    if name not in _DTYPES or module not in ("torch", "torch.cuda"):
        return None
    return ("cuda" if module == "torch.cuda" else "cpu"), _DTYPES[name]
