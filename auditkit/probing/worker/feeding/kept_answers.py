"""The answer of a target that returns none but keeps it: on its object, on parameters, in a tensor it was handed."""

import dis
import inspect
from typing import Any, Callable, Dict, Iterator, List, Tuple

import torch

from .stand_ins import Surroundings

KEPT = "stored"
"""The first part of the path of what a target keeps."""


def keeping(function: Callable, call: Callable[[], Any], around: Surroundings, instance: Any) -> Any:
    """The call, answered by the numbers and tensors that it stored, several tensors of one name by their norm.

    A flag that `function` sets is part of the answer also where it stays as it was.
    """
    flags = [name for name in _assigned_by(function) if isinstance(getattr(instance, name, None), bool)]
    before = {path: _state(value) for path, value in _held(around, instance)}
    call()
    stored: Dict[str, List[Any]] = {}
    for path, value in _held(around, instance):
        if path[0] in around.written or before.get(path) != _state(value):
            stored.setdefault(path[0], []).append(value)
    stored.update({name: [getattr(instance, name)] for name in flags})
    return {KEPT: {name: _one(values) for name, values in stored.items()}}


def _assigned_by(function: Callable) -> List[str]:
    """The attributes that a function assigns to, of whatever object."""
    code = getattr(inspect.unwrap(function), "__code__", None)
    return [] if code is None else [each.argval for each in dis.get_instructions(code) if each.opname == "STORE_ATTR"]


def _state(value: Any) -> Any:
    """What changes where a value does; a tensor is not read for it."""
    return (id(value), value._version) if isinstance(value, torch.Tensor) else value


def _held(around: Surroundings, instance: Any) -> Iterator[Tuple[Tuple[str, Any], Any]]:
    """Every number and tensor that can be stored, by its name and its place."""
    for name, value in around.written.items():
        yield (name, ""), value
    for place, parameter in enumerate(around.module.parameters()):
        for name, value in vars(parameter).items():
            if isinstance(value, torch.Tensor):
                yield (name, place), value
    for name, value in vars(instance).items() if hasattr(instance, "__dict__") else ():
        for key, each in _leaves(value, ""):
            if isinstance(each, (bool, int, float)) or (isinstance(each, torch.Tensor) and each.numel() == 1):
                yield (name, key), each


def _leaves(value: Any, key: str) -> Iterator[Tuple[str, Any]]:
    """What mappings hold, also those in others, by its keys."""
    if not isinstance(value, dict):
        yield key, value
        return
    for name, each in value.items():
        yield from _leaves(each, "{}.{}".format(key, name))


def _one(values: List[Any]) -> Any:
    if len(values) == 1 and (not isinstance(values[0], torch.Tensor) or values[0].numel() == 1):
        return values[0].detach() if isinstance(values[0], torch.Tensor) else values[0]
    tensors = [torch.as_tensor(value).detach().float().reshape(-1) for value in values]
    return torch.linalg.vector_norm(torch.cat(tensors))
