"""The arguments that carry one group of gradients, which can be read and replaced after the call."""

import itertools
from typing import Any, Callable, Iterator, List, NamedTuple, Optional, Sequence, Tuple

import torch

from ..base.refusals import NotApplicable
from ..gradients.gradients import GradientHolder
from . import guesses
from .plan import LISTS, NORMS, SINGLE, Feed

Wrap = Callable[[List[Any]], Any]


class GroupInput(NamedTuple):
    """The module of a group, and its list if the target got one."""

    module: Optional[GradientHolder]
    listed: Optional[List[Any]]

    def put(self, grads: Optional[Sequence[torch.Tensor]]) -> None:
        """Put other gradients into the same objects, or none, as `zero_grad()` does."""
        if self.module is not None:
            self.module.put(grads)
        elif self.listed is not None:
            self.listed[:] = grads or ()


def end_to_end(grads: Sequence[Optional[torch.Tensor]]) -> Tuple[Optional[torch.Tensor], List[torch.Tensor]]:
    """Return all gradients of a group in one tensor (None: no parameter has one), and its parts.

    Raises NotApplicable if one tensor cannot contain them.
    """
    present = [grad for grad in grads if grad is not None]
    if len(present) == 1:
        return present[0], present
    if not present:
        return None if len(grads) else torch.zeros(0), []
    kinds = {(grad.dtype, str(grad.device), grad.layout) for grad in present}
    if len(kinds) > 1 or torch.strided not in next(iter(kinds)):
        raise NotApplicable("it takes one tensor, which cannot mix dtypes, devices or layouts")
    joined = torch.cat([grad.reshape(-1) for grad in present])
    ends = list(itertools.accumulate(grad.numel() for grad in present))
    # Not split(): autograd rejects its views after a write to their base tensor.
    parts = [joined.narrow(0, end - grad.numel(), grad.numel()) for grad, end in zip(present, ends, strict=True)]
    return joined, [part.view(grad.shape) for part, grad in zip(parts, present, strict=True)]


def handed_over(feed: Feed, given: List[GroupInput], wrap: Optional[Wrap], own: Any, slot: str) -> Any:
    """Return the argument for the slot of a group: the gradients of `own` in the feed's container."""
    handed = own.made(KINDS[feed.takes], slot)
    holder = None if feed.takes == "gradients" else own.module
    listed = handed if isinstance(handed, list) and feed.takes != "modules" else None
    given.append(GroupInput(holder, listed))
    if listed is None:
        return handed
    if feed.container == SINGLE:
        return listed[0]
    if feed.container == NORMS:
        return own.made(guesses.GROUP_NORMS)
    held = listed if wrap is None else wrap(listed)
    if feed.container == LISTS:
        return [held]
    return generator(held) if feed.container == "iterator" and wrap is None else held


KINDS = {word: kind for kind, word in guesses.CARRIERS.items()}


def generator(listed: List[Any]) -> Iterator[Any]:
    """Return a generator over the items, as `module.parameters()` is one."""
    return (item for item in listed)
