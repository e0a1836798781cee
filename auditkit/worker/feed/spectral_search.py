"""Find by trying how to call a target of spectra or shards, and where its result has what its contract promises."""

import inspect
import re
from typing import Any, Dict, List, Mapping, NamedTuple, Optional, Tuple

import torch

from ..answers.answers import kind_of
from ..answers.factors import echo_roles, factor_roles
from ..answers.roles import Role
from ..base.refusals import CannotFeedError, CannotReadError
from ..base.torch_internals import raise_if_out_of_memory
from ..gradients import forms, matrices, slot_names
from ..gradients.forms import ShardCase, identity
from .caller import Caller
from .plan import Feed, Groups, Plan
from .signatures import required_parameters

ALIGNED_SVD, SPECTRAL_ECHO, SHARD_PLAN = "aligned_svd", "spectral_echo", "shard_plan"
CONTRACTS = (ALIGNED_SVD, SPECTRAL_ECHO, SHARD_PLAN)
_REPLICAS, _ROWS, _COLUMNS = 5, 9, 6


def find(caller: Caller, request: Dict[str, Any]) -> Plan:
    """Return the plan of the first feed whose result has what `request["contract"]` promises.

    Raises CannotFeedError with why each attempt failed.
    """
    contract, takes = request["contract"], request.get("takes")
    slots = _slots(caller, contract)
    combinations = forms.combinations(slots, "shard" if contract == SHARD_PLAN else contract)
    feeds = [Feed(forms.takes_of(each), "list", slots, None, [], each) for each in combinations]
    feeds = [feed for feed in feeds if takes in (None, feed.takes)]
    if not feeds:
        wanted = " as {}".format(takes) if takes else ""
        text = "nothing is known to fit its arguments {}{}: give the rest with --argument NAME=VALUE"
        raise CannotFeedError(text.format(", ".join(slots) or "(it has none)", wanted))
    failed: List[str] = []
    for feed in feeds:
        try:
            return _try(caller, feed, contract)
        except (CannotFeedError, MemoryError):
            raise
        except Exception as error:
            raise_if_out_of_memory(error)
            text = " ".join(str(error).split())[:160]
            failed.append("{}: {}: {}".format(",".join(feed.forms), type(error).__name__, text))
    raise CannotFeedError("no way to feed it gave a result: " + "; ".join(dict.fromkeys(failed)))


def guess(caller: Caller, request: Dict[str, Any]) -> Optional[Plan]:
    """Return the plan of the first of the three contracts that fits; None if none fits.

    A shard plan is guessed only for a function that takes a rank, a number of ranks, or keys: any function that returns
    strings would fit otherwise.
    """
    names = _slots(caller, SHARD_PLAN)
    takes_keys = any(slot_names.is_shard_word(name) or re.search(r"(^|_)(keys|names)$", name) for name in names)
    for contract in CONTRACTS if takes_keys else CONTRACTS[:2]:
        try:
            return find(caller, {**request, "contract": contract})
        except (CannotFeedError, CannotReadError):
            continue
    return None


def _slots(caller: Caller, contract: str) -> List[str]:
    """Return the required arguments; of a shard plan also rank and world size if they have a default."""
    own = ["self"] if caller.needs_instance() else []
    # A number that is guessed for other targets is here the rank, or the number of keys.
    given = [name for name in caller.arguments if name not in caller.guesses or not slot_names.is_known(name)]
    slots = required_parameters(caller.function, [*given, *own])
    if contract != SHARD_PLAN:
        return slots
    names = [name for name in inspect.signature(caller.function).parameters if name not in (*given, *own)]
    return [name for name in names if name in slots or slot_names.is_shard_word(name)]


def _try(caller: Caller, feed: Feed, contract: str) -> Plan:
    def result_of(case: Any) -> Any:
        return caller.prepare(feed, ([case],))()

    promised = "singular values or vectors of the matrices"
    if contract == SHARD_PLAN:
        case = ShardCase(7, 0, 2)
        result = result_of(case)
        roles = {"shard": Role("", kind=owned_keys(result, case).kind)}
    elif contract == ALIGNED_SVD:
        batch = matrices.replicas(_REPLICAS, _ROWS, _COLUMNS)
        result = result_of(batch)
        roles = factor_roles(result, batch)
    else:
        batch = matrices.identical(_REPLICAS, 4 * _ROWS, _COLUMNS)
        result = result_of(batch)
        unrelated = torch.randn(batch.shape, generator=torch.Generator().manual_seed(2))
        roles = echo_roles(result, result_of(4 * batch), result_of(unrelated), _REPLICAS)
        promised = "part that is high for identical replicas and low for unrelated ones"
    if not roles:
        raise CannotReadError("its result ({}) holds no {}".format(kind_of(result), promised))
    fields = {role.path: name for name, role in roles.items()}
    plan = Plan(feed, Groups.ONE, contract, kind_of(result), fields, roles, [], [])
    return plan.with_filled(caller.around.read)


_LISTS: Tuple[type, ...] = (list, tuple, set, frozenset, range, type({}.keys()))


class Share(NamedTuple):
    """The keys of one rank, by index if known; `kind` says what was returned."""

    keys: List[Any]
    kind: str


def owned_keys(answer: Any, case: ShardCase) -> Share:
    """Return the share of `case.rank`. Raises CannotReadError if the result is not a shard plan."""
    if not isinstance(answer, (Mapping, *_LISTS)) and not hasattr(answer, "__next__"):
        raise CannotReadError("its result ({}) is no collection of keys".format(type(answer).__name__))
    items = list(answer)
    is_sequence = isinstance(answer, (list, tuple))
    if is_sequence and len(items) == case.world_size and all(_is_share(item, case) for item in items):
        return Share([identity(key, case) for key in items[case.rank]], "keys of every rank")
    return Share([identity(key, case) for key in items], "own keys")


def _is_share(item: Any, case: ShardCase) -> bool:
    """Return whether an item of a list is a collection of keys, and not one key that is a tuple."""
    is_key = isinstance(item, tuple) and isinstance(identity(item, case), int)
    return isinstance(item, (Mapping, *_LISTS)) and not is_key
