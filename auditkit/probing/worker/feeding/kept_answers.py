"""The answer of a target that returns none but keeps it: on its object, on parameters, in a tensor it was handed."""

from typing import Any, Callable, Dict, Iterator, List, Tuple

import torch

from .stand_ins import Surroundings

KEPT = "stored"
"""The first part of the path of what a target keeps."""


def keeping(call: Callable[[], Any], around: Surroundings, instance: Any) -> Any:
    """The call, answered by the numbers and tensors that it stored, several tensors of one name by their norm."""
    before = {path: _state(value) for path, value in _held(around, instance)}
    call()
    stored: Dict[str, List[Any]] = {}
    for path, value in _held(around, instance):
        if path[0] in around.written or before.get(path) != _state(value):
            stored.setdefault(path[0], []).append(value)
    return {KEPT: {name: _one(values) for name, values in stored.items()}}


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
        for key, each in value.items() if isinstance(value, dict) else (("", value),):
            if isinstance(each, (bool, int, float)) or (isinstance(each, torch.Tensor) and each.numel() == 1):
                yield (name, str(key)), each


def _one(values: List[Any]) -> Any:
    if len(values) == 1 and (not isinstance(values[0], torch.Tensor) or values[0].numel() == 1):
        return values[0].detach() if isinstance(values[0], torch.Tensor) else values[0]
    tensors = [torch.as_tensor(value).detach().float().reshape(-1) for value in values]
    return torch.linalg.vector_norm(torch.cat(tensors))
