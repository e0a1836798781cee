"""From a feed that answers to its plan: what the answer says of gradients, and what the call does to them."""

import math
import re
from typing import Any, Callable, Dict, Iterator, List, Optional, Sequence

import torch

from ..answers.answers import flatten, kind_of
from ..answers.roles import count_roles, declared_roles, norm_role
from ..base.torch_internals import raise_if_out_of_memory
from ..gradients.gradients import benign, total_norm
from .caller import CONSTRUCTOR, Caller, file_of
from .effects import OTHER, SAME, THINNED, Effects, gradients_now, observe
from .given import GroupInput
from .guesses import FOUND_HOST, OF_ONE_SAMPLE, TOTAL_NORM, TOTAL_NORM_NUMBER, Guess
from .plan import MADE, Feed, Groups, Plan
from .promises import names_a_statistic, only_measures, writes_by_its_own_words
from .repeated import RepeatedCall

_ASKS_FOR_DEVICE = re.compile(r"\.to\(\s*(\w[\w.]*\(\)\.\w*device\w*\(\))")
_WARM_UP = 64
"""Calls after which a limit that moves has found its place."""
_HEALTH_WORDS = ("health", "ok", "valid", "is_finite", "finite")


def answer_of(caller: Caller, feed: Feed, grads: Sequence[Any], second: Sequence[Any]) -> Any:
    """What the target, fed in this way, returns for these gradients."""
    return caller.prepare(feed, (grads, second))()


def refusal(caller: Caller, feed: Feed, second: Any) -> str:
    """The type of the exception by which the target refuses what is not finite, in any tensor; "" for none."""
    refused = set()
    for grads in list(_odd_gradients())[1:]:
        try:
            answer_of(caller, feed, grads, second)
        except Exception as error:
            raise_if_out_of_memory(error)
            refused.add(type(error).__name__)
    return refused.pop() if len(refused) == 1 else ""


def with_fixed_norms(caller: Caller) -> Caller:
    """The same target with the same total norm at each call: what follows that alone follows our own value."""
    for path, made in caller.around.read.items():
        if made.value in (TOTAL_NORM, TOTAL_NORM_NUMBER):
            norm = total_norm(benign())
            caller = caller.with_argument(path, norm if made.value == TOTAL_NORM else float(norm))
    return caller


def depends_on_gradients(caller: Caller, feed: Feed, second: Any, answer: Any) -> bool:
    """Whether other gradients give another answer: larger ones, none but zeros, or some that are not finite.

    A health check may see only the latter, each of the tensors by itself; refusing them is an answer too.
    """
    if not flatten(answer):
        return False
    text = repr(flatten(answer))
    if repr(flatten(answer_of(caller, feed, _larger(), second))) != text:
        return True
    for grads in _odd_gradients():
        try:
            if repr(flatten(answer_of(caller, feed, grads, second))) != text:
                return True
        except Exception as error:
            raise_if_out_of_memory(error)
            return True
    return False


def _odd_gradients() -> Iterator[List[torch.Tensor]]:
    """None but zeros; then one of the tensors with elements that are not finite."""
    yield [torch.zeros_like(grad) for grad in benign()]
    for index in range(len(benign())):
        for bad in (math.nan, math.inf):
            grads = benign()
            grads[index].view(-1)[:5] = bad
            yield grads


def effects_of(caller: Caller, feed: Feed, second: Any) -> Effects:
    """What the target, fed in this way, does to gradients."""

    def apply(grads: List[torch.Tensor]) -> List[Optional[torch.Tensor]]:
        given: List[GroupInput] = []
        caller.prepare(feed, (grads, second), given=given)()
        return gradients_now(given[0])

    return observe(apply)


def _effects_once_warm(caller: Caller, feed: Feed, second: Any) -> Effects:
    """What one object of a target's class does to gradients after many calls: a limit may follow those before."""
    repeated = RepeatedCall(caller, feed, benign(), second)
    for _ in range(_WARM_UP):
        repeated.call(benign())

    def apply(grads: List[torch.Tensor]) -> List[Optional[torch.Tensor]]:
        repeated.call(grads)
        return repeated.left()

    return observe(apply)


def switched_on(caller: Caller, feed: Feed, second: Any, effects: Effects) -> Dict[str, float]:
    """The argument by which a target changes finite gradients where its default of 1 or 0.0 changes none."""
    for name, value in {} if effects.forms else caller.neutral_numbers().items():
        other = 2 * value or 1.0
        if effects_of(caller.with_argument(name, other), feed, second).forms:
            return {name: other}
    return {}


def _why_it_writes(caller: Caller, feed: Feed, second: Any, answer: Any, effects: Effects) -> str:
    """Return why changing gradients is what a target is for, in words; "" where it changes none, or ought not to."""
    function = caller.function
    if caller.needs_instance() and not effects.limits:
        effects = next((each for each in [_effects_once_warm(caller, feed, second)] if each.limits), effects)
    if not effects.forms and (effects.nonfinite is None or effects.nonfinite.form == SAME):
        return ""
    is_a_statistic = repr(flatten(answer_of(caller, feed, _larger(), second))) != repr(flatten(answer))
    own_words = writes_by_its_own_words(function)
    if is_a_statistic and only_measures(function) and not own_words:
        return ""
    if effects.limits:
        return "it limits them"
    if effects.forms == [THINNED]:
        return "it drops the small ones"
    if effects.scales and _follows_an_argument(caller, feed, second, effects):
        return "it scales them by what an argument says"
    if not is_a_statistic and OTHER not in effects.forms:
        return "its answer is no statistic of them"
    if not effects.forms and not names_a_statistic(function):
        return own_words or "it changes only what is not finite, and is not called a statistic"
    return own_words


def _follows_an_argument(caller: Caller, feed: Feed, second: Any, effects: Effects) -> bool:
    """Whether another value of a number that the target is given or has as a default changes the factor."""
    for name, value in caller.numbers().items():
        other = effects_of(caller.with_argument(name, 2 * value or 1), feed, second)
        if other.ordinary and other.ordinary[0].factor != effects.ordinary[0].factor:
            return True
    return False


def _larger() -> List[torch.Tensor]:
    return [grad * 4 for grad in benign(zeros=5)]


def found_devices(function: Callable) -> Dict[str, Guess]:
    """The calls by which a target's file asks its program for the device to compute on, where there is no CUDA."""
    calls = [] if torch.cuda.is_available() else _ASKS_FOR_DEVICE.findall(file_of(function))
    return {call: Guess(FOUND_HOST) for call in calls}


def read_plan(
    caller: Caller,
    feed: Feed,
    second: Any,
    answer: Any,
    request: Dict[str, Any],
    effects: Effects,
    settings: Dict[str, float],
) -> Plan:
    """The plan of a feed by which the target answers. Raises CannotReadError where `returns` names no field."""

    def ask(grads: Sequence[Any]) -> Dict[str, Any]:
        return {} if answer is None else flatten(answer_of(caller, feed, grads, second))

    fields, returns = flatten(answer), request.get("returns") or {}
    notes = ["it was called with {}={:g}: its default changes nothing".format(*each) for each in settings.items()]
    roles = declared_roles(returns, fields, ask)
    is_check = (
        not (effects.limits or effects.scales)
        and "norm" not in roles
        and _is_check(ask, fields, bool(caller.around.read))
    )
    if "norm" not in roles:
        norm = None if is_check else norm_role(ask)
        roles.update({} if norm is None else {"norm": norm})
        no_norm = "no field of the answer scales with the gradients: no norm to judge"
        nothing = "it returns no number: its answer is what it does to the gradients"
        notes += [] if norm is not None else [no_norm if fields else nothing]
    roles.update({k: v for k, v in count_roles(ask).items() if k not in roles})
    groups = Groups.TWO if len(feed.setup_slots or feed.slots) == 2 else Groups.ONE
    of_one_sample = any(made.value == OF_ONE_SAMPLE for made in caller.around.read.values())
    is_lone_norm = "norm" in roles and list(fields) == [roles["norm"].path] and not of_one_sample
    writes = _why_it_writes(caller, feed, second, answer, effects)
    return Plan(
        feed=feed,
        groups=groups if second == [None] or groups is Groups.ONE else Groups.TWO_WITH_GRADIENTS,
        contract=request.get("contract") or _contract(feed, groups, answer, is_check, is_lone_norm),
        answer_kind=kind_of(answer),
        fields={path: type(value).__name__ for path, value in fields.items()},
        roles=roles,
        health=[path for path in fields if _is_health(path) or path == returns.get("health")],
        notes=notes,
        clips=effects.limits and bool(writes),
        writes=writes,
        starts_fresh=caller.starts_fresh,
        settings=settings,
    )


def _is_check(ask: Callable[[Sequence[Any]], Dict[str, Any]], fields: Dict[str, Any], has_guessed_values: bool) -> bool:
    """Whether a single number is no norm: a yes or no, a count, or the same for gradients of twice the size.

    A clip factor stays the same below its limit, which we have guessed; so does a norm that has a floor.
    """
    if list(fields) != [""]:
        return False
    if type(fields[""]) in (bool, int):
        return True
    return any(
        repr(ask([grad * scale for grad in benign()])) == repr(ask([grad * 2 * scale for grad in benign()]))
        for scale in ((2.0**-8, 1.0) if has_guessed_values else (1.0,))
    )


def _contract(feed: Feed, groups: Groups, answer: Any, is_check: bool, is_lone_norm: bool) -> str:
    if feed.setup not in (None, MADE) and (feed.setup != CONSTRUCTOR or groups is Groups.TWO):
        return "monitor"
    if groups is Groups.TWO:
        return "dual_stats"
    if feed.keeps and is_lone_norm:
        return "grad_norm"
    return "grad_norm" if not is_check and kind_of(answer) in ("number", "tensor", "nothing") else "grad_stats"


def _is_health(path: str) -> bool:
    leaf = path.split(".")[-1].lower().rstrip("()")
    is_named_so = leaf in _HEALTH_WORDS or leaf.startswith("is_finite")
    return is_named_so or ("health" in leaf and "unhealth" not in leaf)
