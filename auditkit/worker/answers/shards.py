"""Which keys a shard plan gives to which rank: it returns the keys of one rank, or those of every rank."""

from typing import Any, List, Mapping, NamedTuple, Tuple

from ..base.refusals import CannotReadError
from ..gradients.forms import ShardCase, identity

_LISTS: Tuple[type, ...] = (list, tuple, set, frozenset, range, type({}.keys()))


class Share(NamedTuple):
    """The keys of one rank, by their index where they are known; `kind` says what was returned."""

    keys: List[Any]
    kind: str


def owned_keys(answer: Any, case: ShardCase) -> Share:
    """Return the share of `case.rank`. Raises CannotReadError if the result is no plan."""
    if not isinstance(answer, (Mapping, *_LISTS)) and not hasattr(answer, "__next__"):
        raise CannotReadError("its answer ({}) is no collection of keys".format(type(answer).__name__))
    items = list(answer)
    is_sequence = isinstance(answer, (list, tuple))
    if is_sequence and len(items) == case.world_size and all(_is_share(item, case) for item in items):
        return Share([identity(key, case) for key in items[case.rank]], "keys of every rank")
    return Share([identity(key, case) for key in items], "own keys")


def _is_share(item: Any, case: ShardCase) -> bool:
    """Whether an item of a list is itself a collection of keys, and not one key that is a tuple."""
    is_key = isinstance(item, tuple) and isinstance(identity(item, case), int)
    return isinstance(item, (Mapping, *_LISTS)) and not is_key
