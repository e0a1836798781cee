"""What a target returned, as named numbers: numbers, tensors, mappings, dataclasses, tuples, objects.

A field is a dotted path: `gradient_norm`, `1.host_grad_norm` (second item of a tuple), or the empty
string for an answer that is itself a number.
"""

import dataclasses
import inspect
from typing import Any, Dict, List, Mapping, Tuple

import torch

from .simulated import to_host

_DEEPEST = 4
_MOST_ITEMS = 512


def flatten(answer: Any) -> Dict[str, Any]:
    """Every number and truth value in `answer` by its path. Reads tensors: never call it while counting."""
    fields: Dict[str, Any] = {}
    _collect("", answer, fields, _DEEPEST)
    return fields


def kind_of(answer: Any) -> str:
    """How people would name what was returned: number, tensor, mapping, dataclass, tuple, object."""
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


def _collect(path: str, value: Any, fields: Dict[str, Any], depth: int) -> None:
    if len(fields) >= _MOST_ITEMS:
        return
    if isinstance(value, torch.Tensor):
        _collect_tensor(path, value, fields)
    elif isinstance(value, (bool, int, float)):
        fields[path] = value
    elif type(value).__module__ == "numpy" and getattr(value, "ndim", None) == 0:
        fields[path] = value.item()
    elif depth > 0:
        for name, item in _items(value):
            _collect(name if not path else path + "." + name, item, fields, depth - 1)


def _collect_tensor(path: str, tensor: torch.Tensor, fields: Dict[str, Any]) -> None:
    host = to_host(tensor.detach())
    if host.numel() == 1 and not host.is_complex():
        fields[path] = host.reshape(()).item()


def _items(value: Any) -> List[Tuple[str, Any]]:
    """The named parts of a container or an object; a property that raises is left out."""
    if isinstance(value, Mapping):
        return [(str(key), item) for key, item in value.items()]
    if hasattr(value, "_asdict"):
        return [(str(key), item) for key, item in value._asdict().items()]
    if isinstance(value, (tuple, list)):
        return [(str(index), item) for index, item in enumerate(value)]
    if isinstance(value, (str, bytes, type)) or value is None or inspect.ismodule(value):
        return []
    return _object_items(value)


def _object_items(value: Any) -> List[Tuple[str, Any]]:
    names = [field.name for field in dataclasses.fields(value)] if dataclasses.is_dataclass(value) else []
    names += [name for name in getattr(value, "__dict__", {}) if name not in names]
    found = [(name, getattr(value, name, None)) for name in names if not name.startswith("_")]
    for name in dir(type(value)):
        if not name.startswith("_") and name not in names:
            found.extend(_derived_item(value, name))
    return found


def _derived_item(value: Any, name: str) -> List[Tuple[str, Any]]:
    """Properties, and questions without arguments (`is_healthy()`), as further fields."""
    member = inspect.getattr_static(type(value), name)
    try:
        if isinstance(member, property):
            return [(name, getattr(value, name))]
        if inspect.isfunction(member) and name.startswith(("is_", "has_")) and _needs_no_arguments(member):
            return [(name + "()", getattr(value, name)())]
    except Exception:
        return []
    return []


def _needs_no_arguments(function: Any) -> bool:
    parameters = list(inspect.signature(function).parameters.values())[1:]
    kinds = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
    return all(p.default is not p.empty or p.kind in kinds for p in parameters)
