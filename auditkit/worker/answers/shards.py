"""Which keys a shard plan gives to which rank, read from whatever it returns."""

from typing import Any, Dict, List, Mapping, NamedTuple, Tuple

import torch

from ..base.refusals import CannotReadError
from ..gradients.forms import ShardCase, identity
from .roles import Role

OWN, OWNERS, ALL = "own keys", "owner of each key", "keys of every rank"
_LISTS: Tuple[type, ...] = (list, tuple, set, frozenset, range, type({}.keys()))


class Share(NamedTuple):
    """The keys of one rank, by their index where they are known; `kind` says what was returned."""

    keys: List[Any]
    kind: str

    @property
    def roles(self) -> Dict[str, Role]:
        return {"shard": Role("", kind=self.kind)}


def owned_keys(answer: Any, case: ShardCase) -> Share:
    """Return the share of `case.rank`. Raises CannotReadError where the answer is no plan."""
    ranks = range(case.world_size)
    if isinstance(answer, slice):
        answer = range(case.key_count)[answer]
    if isinstance(answer, torch.Tensor) and not answer.is_floating_point() and answer.dim() == 1:
        answer = answer.tolist()
    if isinstance(answer, Mapping):  # key to owner, or rank to keys, or the share itself
        values = list(answer.values())
        if values and all(isinstance(value, _LISTS) for value in values):
            return Share([identity(key, case) for key in answer.get(case.rank, ())], ALL)
        if len(answer) == case.key_count and all(_is_rank(value, ranks) for value in values):
            return Share([identity(key, case) for key, value in answer.items() if value == case.rank], OWNERS)
        return Share([identity(key, case) for key in answer], OWN)
    if not isinstance(answer, _LISTS) and not hasattr(answer, "__next__"):
        raise CannotReadError("its answer ({}) is no collection of keys".format(type(answer).__name__))
    items = list(answer)
    is_sequence = isinstance(answer, (list, tuple))
    if is_sequence and len(items) == case.world_size and all(_is_share(item, case) for item in items):
        return Share([identity(key, case) for key in items[case.rank]], ALL)
    if len(items) == case.key_count > case.world_size and all(_is_rank(item, ranks) for item in items):
        return Share([index for index, owner in enumerate(items) if owner == case.rank], OWNERS)
    return Share([identity(key, case) for key in items], OWN)


def _is_rank(value: Any, ranks: range) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value in ranks


def _is_share(item: Any, case: ShardCase) -> bool:
    """Whether an item of a list is itself a collection of keys, and not one key that is a tuple."""
    is_key = isinstance(item, tuple) and isinstance(identity(item, case), int)
    return isinstance(item, (Mapping, *_LISTS)) and not is_key
