"""The result of a target as named numbers: numbers, tensors, mappings, dataclasses, tuples, objects.

A field is a dotted path: `gradient_norm`, `1.host_grad_norm` (second item of a tuple), or "" for a result that is a
number.
"""

import dataclasses
import enum
import functools
import inspect
import itertools
import math
from typing import Any, Callable, Dict, Iterator, List, Mapping, Optional, Tuple

import torch

from ..simulated.tensor import to_host

_DEEPEST = 4
_MOST_ITEMS = 512


Parts = Callable[[Any], List[Tuple[str, Any]]]


def flatten(answer: Any) -> Dict[str, Any]:
    """Return every number and truth value by its path. It reads tensors, so never call it while counting."""
    numbers = ((path, _number_of(leaf)) for path, leaf in leaves(answer))
    return dict(itertools.islice(((path, number) for path, number in numbers if number is not None), _MOST_ITEMS))


def types_of(answer: Any) -> Dict[str, str]:
    """Return the type of every number, truth value and tensor by its path; of a tensor its dtype and device."""
    return {path: _type_of(leaf) for path, leaf in itertools.islice(leaves(answer), _MOST_ITEMS)}


def _type_of(leaf: Any) -> str:
    if isinstance(leaf, torch.Tensor):
        return "{} tensor on {}".format(str(leaf.dtype).replace("torch.", ""), leaf.device)
    return type(leaf).__name__


def words(answer: Any) -> Dict[str, str]:
    """Return every string, enum member and None by its path."""
    found = ((path, value) for path, value in nodes(answer) if value is None or isinstance(value, (str, enum.Enum)))
    return {path: value.name if isinstance(value, enum.Enum) else str(value) for path, value in found}


def host_numbers(answer: Any) -> Dict[str, Any]:
    """Return the numbers outside of tensors, by path: they were read back from the device."""
    return {path: leaf for path, leaf in leaves(answer) if not isinstance(leaf, torch.Tensor)}


def graph_tensors(answer: Any) -> Dict[str, torch.Tensor]:
    """Return the tensors with a graph, by path."""
    found = leaves(answer)
    return {path: leaf for path, leaf in found if isinstance(leaf, torch.Tensor) and leaf.grad_fn is not None}


def kind_of(answer: Any) -> str:
    """Return the kind of a result: number, tensor, mapping, dataclass, tuple, object."""
    if isinstance(answer, torch.Tensor):
        return "tensor"
    if isinstance(answer, (bool, int, float)):
        return "number"
    if isinstance(answer, Mapping):
        return "mapping"
    if dataclasses.is_dataclass(answer):
        return "dataclass"
    if isinstance(answer, (tuple, list)):
        return "tuple"
    return "nothing" if answer is None else "object"


def differences(first: Dict[str, Any], second: Dict[str, Any]) -> List[str]:
    """Return the fields of `first` that `second` lacks or has with another value; NaN equals NaN."""
    return [path for path, value in first.items() if path not in second or not _same(value, second[path])]


def lost_fields(usual: Dict[str, Any], answer: Dict[str, Any]) -> str:
    """Say which fields of the usual result are missing in another one; "" for none."""
    lost = [path or "the number" for path in usual if path not in answer]
    if not lost:
        return ""
    return "the result lacks " + ", ".join(lost[:3]) if answer else "the result is empty"


def _same(value: Any, other: Any) -> bool:
    if isinstance(value, bool) or isinstance(other, bool):
        return bool(value == other)
    if math.isnan(value) or math.isnan(other):
        return math.isnan(value) and math.isnan(other)
    return math.isclose(value, other, rel_tol=1e-6)


def _number_of(leaf: Any) -> Any:
    """Return a leaf as a number; None for a tensor or an array with more than one element."""
    if isinstance(leaf, torch.Tensor):
        if hasattr(leaf, "full_tensor") and leaf.numel() == 1:
            leaf = leaf.full_tensor()  # gathers a sharded number; every rank calls this
        host = to_host(leaf.detach())
        return host.reshape(()).item() if host.numel() == 1 and not host.is_complex() else None
    if isinstance(leaf, (bool, int, float)):
        return leaf
    return leaf.item() if getattr(leaf, "ndim", None) == 0 else None


def nodes(answer: Any, parts: Optional[Parts] = None, depth: int = _DEEPEST, path: str = "") -> Iterator[Any]:
    """Yield the result and everything in it, as (path, value), down to `depth`.

    `parts` returns the parts of a container or an object, `items_of` by default.
    """
    yield path, answer
    for name, item in [] if depth == 0 or _is_leaf(answer) else (parts or items_of)(answer):
        yield from nodes(item, parts, depth - 1, joined(path, name))


def leaves(answer: Any, parts: Optional[Parts] = None, depth: int = _DEEPEST) -> Iterator[Any]:
    """Yield every tensor, NumPy value and number in a result, as (path, value)."""
    return ((path, value) for path, value in nodes(answer, parts, depth) if _is_leaf(value))


def _is_leaf(value: Any) -> bool:
    return isinstance(value, (torch.Tensor, bool, int, float)) or type(value).__module__ == "numpy"


def joined(path: str, name: str) -> str:
    """Return the path of a part."""
    return path + "." + name if path else name


def items_of(value: Any, broken: Optional[Dict[str, Exception]] = None) -> List[Tuple[str, Any]]:
    """Return the named parts of a container or an object; properties that raise go into `broken`."""
    if isinstance(value, Mapping):
        return [(str(key), item) for key, item in value.items()]
    if hasattr(value, "_asdict"):
        return [(str(key), item) for key, item in value._asdict().items()]
    if isinstance(value, (tuple, list)):
        return [(str(index), item) for index, item in enumerate(value)]
    if isinstance(value, (str, bytes, type)) or value is None or inspect.ismodule(value):
        return []
    found = stored_items(value)
    for name, question in questions(value):
        try:
            found.append((name, question()))
        except Exception as error:
            if broken is not None:
                broken[name] = error
    return found


def stored_items(value: Any) -> List[Tuple[str, Any]]:
    """Return the public attributes of an object."""
    names = [field.name for field in dataclasses.fields(value)] if dataclasses.is_dataclass(value) else []
    names += [name for name in getattr(value, "__dict__", {}) if name not in names]
    return [(name, getattr(value, name, None)) for name in names if not name.startswith("_")]


def questions(value: Any) -> List[Tuple[str, Callable[[], Any]]]:
    """Return an object's properties, and its methods `is_...()` and `has_...()`, as calls that may raise."""
    stored = {name for name, _ in stored_items(value)}
    found: List[Tuple[str, Callable[[], Any]]] = []
    for name in dir(type(value)):
        if name.startswith("_") or name in stored:
            continue
        member = inspect.getattr_static(type(value), name)
        if isinstance(member, (property, functools.cached_property)):
            found.append((name, functools.partial(getattr, value, name)))
        elif inspect.isfunction(member) and name.startswith(("is_", "has_")) and _needs_no_arguments(member):
            found.append((name + "()", functools.partial(member, value)))
    return found


def read_properties(answer: Any) -> None:
    """Read each property of the result, as its user does, without reading tensors."""
    for _ in nodes(answer):
        pass


def _needs_no_arguments(function: Any) -> bool:
    parameters = list(inspect.signature(function).parameters.values())[1:]
    kinds = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
    return all(p.default is not p.empty or p.kind in kinds for p in parameters)


def relative_difference(value: Optional[float], expected: Optional[float]) -> float:
    """Return how far `value` is from `expected`; 0 for two NaN, infinite if only one is a finite number."""
    if value is None or expected is None or not (math.isfinite(value) and math.isfinite(expected)):
        return 0.0 if repr(value) == repr(expected) else math.inf
    return abs(value - expected) / max(abs(expected), abs(value)) if value != expected else 0.0
