"""The answer of a target that returns none: whether it refused, what it logged, what it left of one tensor."""

from typing import Any, Callable, Sequence

import torch

from . import guesses
from .given import GroupInput
from .kept_answers import keeping
from .plan import SINGLE, Feed
from .stand_ins import Surroundings


def answering(
    feed: Feed,
    function: Callable,
    call: Callable[[], Any],
    around: Surroundings,
    handed: Sequence[GroupInput],
    instance: Any,
) -> Callable[[], Any]:
    """The call with an answer where it returns none: whether it refused, what it stored, logged or left."""
    if feed.keeps:
        return lambda: keeping(function, call, around, instance)
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


def _put_in_place(answer: Any, handed: GroupInput) -> Any:
    """A hook's answer of as many elements takes the place of the gradient, as autograd does it."""
    parts = handed.listed or []
    count = sum(part.numel() for part in parts)
    if not isinstance(answer, torch.Tensor) or answer.numel() != count or count < 2:
        return answer
    pieces = answer.reshape(-1).split([part.numel() for part in parts])
    parts[:] = [piece.view(part.shape) for piece, part in zip(pieces, parts, strict=True)]
    return None


def _put_all_in_place(answer: Any, handed: GroupInput) -> Any:
    """As many tensors of the same shapes as were handed over take their place, as a module's backward hook has it."""
    parts = handed.listed or []
    if not isinstance(answer, (list, tuple)) or [getattr(each, "shape", None) for each in answer] != [
        each.shape for each in parts
    ]:
        return answer
    if not any(each.dim() for each in parts):
        return answer
    parts[:] = answer
    return None


def _or_logged(answer: Any, around: Surroundings) -> Any:
    return dict(around.said) if answer is None and around.said else answer
