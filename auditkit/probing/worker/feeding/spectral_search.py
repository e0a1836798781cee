"""Find out by trying how a target of spectra or of shards is fed, and where its answer holds what it promises."""

import inspect
import re
from typing import Any, Dict, List, Optional

import torch

from ..answers.answers import kind_of
from ..answers.factors import echo_roles, factor_roles
from ..answers.roles import Role
from ..answers.shards import owned_keys
from ..base.refusals import CannotFeedError, CannotReadError
from ..base.torch_internals import raise_if_out_of_memory
from ..gradients import forms, matrices, slot_names
from .caller import Caller
from .plan import Feed, Groups, Plan
from .signatures import required_parameters

ALIGNED_SVD, SPECTRAL_ECHO, SHARD_PLAN = "aligned_svd", "spectral_echo", "shard_plan"
CONTRACTS = (ALIGNED_SVD, SPECTRAL_ECHO, SHARD_PLAN)
_REPLICAS, _ROWS, _COLUMNS = 5, 9, 6


def find(caller: Caller, request: Dict[str, Any]) -> Plan:
    """The first way to feed it whose answer holds what `request["contract"]` promises.

    Raises CannotFeedError with what each attempt said.
    """
    contract = request["contract"]
    said: List[str] = []
    for feed in _feeds(caller, request, contract):
        try:
            plan = _try(caller, feed, contract)
        except (CannotFeedError, MemoryError):
            raise
        except Exception as error:
            raise_if_out_of_memory(error)
            text = "{}: {}".format(type(error).__name__, " ".join(str(error).split())[:160])
            said.append("{}: {}".format(",".join(feed.forms), text))
            continue
        return plan
    raise CannotFeedError("no way to feed it gave an answer: " + "; ".join(dict.fromkeys(said)))


def guess(caller: Caller, request: Dict[str, Any]) -> Optional[Plan]:
    """The plan of the first of the three contracts that fits; None where none does.

    A plan of who owns what is guessed only of a function that takes a rank, how many there are, or keys: any
    function that returns some texts would fit otherwise.
    """
    names = _slots(caller, SHARD_PLAN)
    takes_keys = any(forms.is_shard_word(name) or re.search(r"(^|_)(keys|names)$", name) for name in names)
    for contract in CONTRACTS:
        if contract == SHARD_PLAN and not takes_keys:
            continue
        try:
            return find(caller, {**request, "contract": contract})
        except (CannotFeedError, CannotReadError):
            continue
    return None


def _feeds(caller: Caller, request: Dict[str, Any], contract: str) -> List[Feed]:
    slots = _slots(caller, contract)
    if contract == SHARD_PLAN:
        combinations = forms.shard_forms(slots)
    else:
        combinations = forms.matrix_forms(slots, align_first=contract == SPECTRAL_ECHO)
    takes = request.get("takes")
    feeds = [Feed(forms.takes_of(each), "list", slots, None, [], each) for each in combinations]
    feeds = [feed for feed in feeds if takes in (None, feed.takes)]
    if not feeds:
        wanted = " as {}".format(takes) if takes else ""
        raise CannotFeedError(
            "nothing is known to fit its arguments {}{}: give the rest with --argument NAME=VALUE".format(
                ", ".join(slots) or "(it has none)", wanted
            )
        )
    return feeds


def _slots(caller: Caller, contract: str) -> List[str]:
    """The required arguments; of a shard plan also rank and world size where they have a default."""
    function = caller.bound()
    # A number that is guessed elsewhere says here which rank asks, or how many keys there are.
    given = [name for name in caller.arguments if name not in caller.guesses or not _is_of_the_question(name)]
    slots = required_parameters(function, given)
    if contract != SHARD_PLAN:
        return slots
    known = [name for name in inspect.signature(function).parameters if name not in given]
    return [name for name in known if name in slots or forms.is_shard_word(name)]


def _is_of_the_question(name: str) -> bool:
    return forms.is_shard_word(name) or slot_names.is_count(name) or bool(slot_names.matrix_kind(name))


def _try(caller: Caller, feed: Feed, contract: str) -> Plan:
    if contract == SHARD_PLAN:
        case = forms.ShardCase(7, 0, 2)
        answer = _ask(caller, feed, case)
        return _plan(caller, feed, contract, answer, owned_keys(answer, case).roles)
    batch = matrices.replicas(_REPLICAS, _ROWS, _COLUMNS)
    if contract == ALIGNED_SVD:
        answer = _ask(caller, feed, batch)
        roles = factor_roles(answer, batch)
        promised = "singular values or vectors of the matrices"
    else:
        batch = matrices.identical(_REPLICAS, 4 * _ROWS, _COLUMNS)
        answer = _ask(caller, feed, batch)
        unrelated = torch.randn(batch.shape, generator=torch.Generator().manual_seed(2))
        roles = echo_roles(answer, _ask(caller, feed, 4 * batch), _ask(caller, feed, unrelated), _REPLICAS)
        promised = "part that is high for identical replicas and low for unrelated ones"
    if not roles:
        raise CannotReadError("its answer ({}) holds no {}".format(kind_of(answer), promised))
    return _plan(caller, feed, contract, answer, roles)


def _ask(caller: Caller, feed: Feed, case: Any) -> Any:
    return caller.prepare(feed, ([case],))()


def _plan(caller: Caller, feed: Feed, contract: str, answer: Any, roles: Dict[str, Role]) -> Plan:
    return Plan(
        feed=feed,
        groups=Groups.ONE,
        contract=contract,
        answer_kind=kind_of(answer),
        fields={role.path: name for name, role in roles.items()},
        roles=roles,
        health=[],
        notes=[],
    ).with_filled(caller.around.read)
