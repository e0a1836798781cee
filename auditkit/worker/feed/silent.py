"""Results of targets that return None: an exception, what they logged or stored, and gradients that they replaced."""

import dis
import inspect
from typing import Any, Callable, Dict, Iterator, List, Sequence, Tuple

import torch

from ..answers.answers import items_of, leaves
from . import guesses
from .given import GroupInput
from .plan import SINGLE, Feed
from .surroundings import Surroundings


def with_result(
    feed: Feed,
    function: Callable,
    call: Callable[[], Any],
    around: Surroundings,
    handed: Sequence[GroupInput],
    instance: Any,
) -> Callable[[], Any]:
    """Return the call with a result if it returns None, or new gradients that replace the old."""
    if feed.keeps:
        return lambda: _stored(function, call, around, instance)
    if feed.hooks:
        return lambda: _through_hooks(call, handed[0])
    if feed.refusal:
        return lambda: {"is_finite": not _refuses(call, feed.refusal)}
    if feed.container == SINGLE:
        return lambda: _put_in_place(call(), handed[0])
    if feed.takes == "gradients" and feed.container == "list" and not feed.forms:
        return lambda: _put_all_in_place(call(), handed[0])
    if any(made.value == guesses.LOGGER for made in around.read.values()):
        return lambda: _or_logged(call(), around)
    return call


def _refuses(call: Callable[[], Any], refusal: str) -> bool:
    try:
        call()
    except Exception as error:
        if type(error).__name__ != refusal:
            raise
        return True
    return False


def _through_hooks(call: Callable[[], Any], handed: GroupInput) -> None:
    """Call, and let the gradients pass through the hooks of their parameters, as the next backward pass does."""
    call()
    held = [each for each in handed.module.parameters() if each.grad is not None] if handed.module is not None else []
    grads = [each.grad for each in held]
    for each in held:
        each.grad = None
    torch.autograd.backward(held, grads)


def _put_in_place(result: Any, handed: GroupInput) -> Any:
    """Let a hook's result with as many elements replace the gradient, as autograd does."""
    parts = handed.listed or []
    count = sum(part.numel() for part in parts)
    if not isinstance(result, torch.Tensor) or result.numel() != count or count < 2:
        return result
    pieces = result.reshape(-1).split([part.numel() for part in parts])
    parts[:] = [piece.view(part.shape) for piece, part in zip(pieces, parts, strict=True)]
    return None


def _put_all_in_place(result: Any, handed: GroupInput) -> Any:
    """Let as many tensors of the same shapes replace the gradients, as a module's backward hook does."""
    parts = handed.listed or []
    is_like_them = isinstance(result, (list, tuple)) and any(each.dim() for each in parts)
    if not is_like_them or [getattr(each, "shape", None) for each in result] != [each.shape for each in parts]:
        return result
    parts[:] = result
    return None


def _or_logged(result: Any, around: Surroundings) -> Any:
    return dict(around.logged) if result is None and around.logged else result


def _stored(function: Callable, call: Callable[[], Any], around: Surroundings, instance: Any) -> Any:
    """Call, and return the numbers and tensors that the call stored; several tensors of one name as their norm.

    A flag that `function` sets is part of the result even if it did not change.
    """
    code: Any = getattr(inspect.unwrap(function), "__code__", None)
    steps = [] if code is None else dis.get_instructions(code)
    flags = [each.argval for each in steps if each.opname == "STORE_ATTR"]
    flags = [name for name in flags if isinstance(getattr(instance, name, None), bool)]
    before = {path: _state(value) for path, value in _held(around, instance)}
    call()
    stored: Dict[str, List[Any]] = {}
    for path, value in _held(around, instance):
        if path[0] in around.written or before.get(path) != _state(value):
            stored.setdefault(path[0], []).append(value)
    stored.update({name: [getattr(instance, name)] for name in flags})
    return {"stored": {name: _one(values) for name, values in stored.items()}}


def _state(value: Any) -> Any:
    """Return a value that changes when `value` does; a tensor is not read."""
    return (id(value), value._version) if isinstance(value, torch.Tensor) else value


def _held(around: Surroundings, instance: Any) -> Iterator[Tuple[Tuple[str, Any], Any]]:
    """Yield every number and tensor that can be stored, by its name and its place."""
    for name, value in around.written.items():
        yield (name, ""), value
    for path, value in around.stored.items():
        yield (path.rpartition(".")[2], path), value
    for place, parameter in enumerate(around.module.parameters()):
        for name, value in vars(parameter).items():
            if isinstance(value, torch.Tensor):
                yield (name, place), value
    for name, value in vars(instance).items() if hasattr(instance, "__dict__") else ():
        for key, each in leaves(value, _items_of_dicts):
            if isinstance(each, (bool, int, float)) or (isinstance(each, torch.Tensor) and each.numel() == 1):
                yield (name, key), each


def _items_of_dicts(value: Any) -> List[Tuple[str, Any]]:
    return items_of(value) if isinstance(value, dict) else []


def _one(values: List[Any]) -> Any:
    if len(values) == 1 and (not isinstance(values[0], torch.Tensor) or values[0].numel() == 1):
        return values[0].detach() if isinstance(values[0], torch.Tensor) else values[0]
    tensors = [torch.as_tensor(value).detach().float().reshape(-1) for value in values]
    return torch.linalg.vector_norm(torch.cat(tensors))
