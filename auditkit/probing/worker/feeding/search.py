"""Find out by trying how a target is fed, what the fields of its answer mean, and what it does to gradients."""

import math
from typing import Any, Dict, Iterator, List, Optional, Sequence, Tuple

import torch

from ..answers.answers import flatten, kind_of
from ..answers.roles import count_roles, declared_roles, norm_role
from ..base.refusals import CannotFeedError, CannotReadError
from ..base.torch_internals import raise_if_out_of_memory
from ..gradients.gradients import benign
from . import spectral_search
from .caller import (
    CONSTRUCTOR,
    Caller,
    GroupInput,
    optional_first_parameter,
    required_parameters,
    setup_method,
)
from .effects import Effects, gradients_now, observe, purpose
from .plan import Feed, Groups, Plan
from .promises import names_a_statistic, writes_by_its_own_words

_HEALTH_WORDS = ("health", "ok", "valid", "is_finite", "finite")
_SAME = "its answer is the same for other gradients"
_SECOND_GROUP = ([None], [torch.ones(2, 3)])


def find_plan(caller: Caller, request: Dict[str, Any]) -> Plan:
    """Try every way to feed the target until one gives an answer that depends on the gradients, or limits them.

    A collector of tensors also takes parameters, whose values are zeros: an answer that stays the same for other
    gradients is none. Where nobody named a contract, what is no collector of gradients may be one of spectra.
    Raises CannotFeedError with what each attempt said, CannotReadError where `returns` names no field.
    """
    caller.refuse_unknown_arguments()
    if request.get("contract") in spectral_search.CONTRACTS:
        return spectral_search.find(caller, request)
    try:
        return _find_gradient_plan(caller, request)
    except (CannotFeedError, CannotReadError):
        other = None if request.get("contract") else spectral_search.guess(caller, request)
        if other is None:
            raise
        return other


def _find_gradient_plan(caller: Caller, request: Dict[str, Any]) -> Plan:
    """Once more with its module as before the first call, where each answer was the same: it may keep the first one."""
    try:
        return _try_feeds(caller, request)
    except CannotFeedError as error:
        if caller.starts_fresh or _SAME not in str(error):
            raise
        caller.starts_fresh = True
        try:
            return _try_feeds(caller, request)
        except (CannotFeedError, CannotReadError):
            caller.starts_fresh = False
            raise error from None


def _try_feeds(caller: Caller, request: Dict[str, Any]) -> Plan:
    said: Dict[str, List[str]] = {}
    unread = ""
    for feed in possible_feeds(caller, request):
        for second in _SECOND_GROUP:
            try:
                answer = _ask(caller, feed, benign(), second)
                depends = answer is not None and _depends_on_gradients(caller, feed, second, answer)
                effects = _effects(caller, feed, second)
            except (CannotFeedError, MemoryError):
                raise
            except Exception as error:
                raise_if_out_of_memory(error)
                reason = "{}: {}".format(type(error).__name__, " ".join(str(error).split())[:160])
                said.setdefault(reason, []).append(_describe(feed))
                continue
            if answer is None and not effects.is_an_answer:
                said.setdefault("returned None", []).append(_describe(feed))
                continue
            if depends or effects.is_an_answer:
                return _read_plan(caller, feed, second, answer, request, effects)
            said.setdefault(_SAME, []).append(_describe(feed))
            unread = unread or ("" if flatten(answer) else kind_of(answer))
    if unread:
        raise CannotReadError("its answer ({}) holds no single number".format(unread))
    attempts = ("{}: {}".format(", ".join(dict.fromkeys(feeds)), reason) for reason, feeds in said.items())
    raise CannotFeedError("no way to feed it gave an answer: " + "; ".join(attempts))


def _depends_on_gradients(caller: Caller, feed: Feed, second: Any, answer: Any) -> bool:
    """Whether other gradients give another answer: larger ones, none but zeros, or some that are not finite.

    A health check may see only the latter, each of the tensors by itself; refusing them is an answer too.
    """
    if not flatten(answer):
        return False
    text = repr(flatten(answer))
    larger = [grad * 4 for grad in benign(zeros=5)]
    if repr(flatten(_ask(caller, feed, larger, second))) != text:
        return True
    return any(_tells(caller, feed, second, text, odd) for odd in _odd_gradients())


def _odd_gradients() -> Iterator[List[torch.Tensor]]:
    """None but zeros; then one of the tensors with elements that are not finite."""
    yield [torch.zeros_like(grad) for grad in benign()]
    for index in range(len(benign())):
        for bad in (math.nan, math.inf):
            grads = benign()
            grads[index].view(-1)[:5] = bad
            yield grads


def _tells(caller: Caller, feed: Feed, second: Any, text: str, grads: List[torch.Tensor]) -> bool:
    """Whether these gradients are answered with another text, or refused."""
    try:
        return repr(flatten(_ask(caller, feed, grads, second))) != text
    except Exception as error:
        raise_if_out_of_memory(error)
        return True


def _effects(caller: Caller, feed: Feed, second: Any) -> Effects:
    def apply(grads: List[torch.Tensor]) -> List[Optional[torch.Tensor]]:
        given: List[GroupInput] = []
        caller.prepare(feed, (grads, second), given=given)()
        return gradients_now(given[0])

    return observe(apply)


def _why_it_writes(caller: Caller, feed: Feed, second: Any, answer: Any, effects: Effects) -> str:
    larger = [grad * 4 for grad in benign(zeros=5)]
    is_a_statistic = repr(flatten(_ask(caller, feed, larger, second))) != repr(flatten(answer))

    def follows_an_argument() -> bool:
        """Whether another value of a number that it is given or has as a default changes the factor."""
        others = [caller.with_argument(name, 2 * value or 1) for name, value in caller.numbers().items()]
        factors = [each.ordinary[0].factor for each in (_effects(one, feed, second) for one in others) if each.ordinary]
        return any(factor != effects.ordinary[0].factor for factor in factors)

    own_words, is_named_one = writes_by_its_own_words(caller.function), names_a_statistic(caller.function)
    return purpose(effects, is_a_statistic, follows_an_argument, own_words, is_named_one)


def possible_feeds(caller: Caller, request: Dict[str, Any]) -> List[Feed]:
    """Feeds worth trying, likeliest first. Raises CannotFeedError where arguments are left over."""
    setup, setup_slots, slots = _slots(caller, request)
    slot = (setup_slots or slots)[0]
    order = _guess_takes(slot, str(caller.annotation(setup, slot)))
    order = list(dict.fromkeys([*request.get("takes_order", ()), *order]))
    takes = [request["takes"]] if request.get("takes") else order
    feeds = []
    for kind in takes:
        feeds.append(Feed(kind, "list", slots, setup, setup_slots))
        if kind != "module":
            feeds.append(Feed(kind, "iterator", slots, setup, setup_slots))
    return feeds


def _slots(caller: Caller, request: Dict[str, Any]) -> Tuple[Optional[str], List[str], List[str]]:
    given = list(caller.arguments)
    in_constructor = caller.constructor_slots() if caller.needs_instance() else []
    if 1 <= len(in_constructor) <= 2 and required_parameters(caller.function, given) == ["self"]:
        return CONSTRUCTOR, in_constructor, []
    function = caller.function if caller.owner is None else caller.bound()
    slots = required_parameters(function, given)
    if caller.owner is not None and (not slots or request.get("setup")):
        setup = setup_method(caller.owner, caller.method, request.get("setup"))
        if setup is not None:
            setup_slots = required_parameters(getattr(caller.new_instance(), setup), given)
            if 1 <= len(setup_slots) <= 2:
                return setup, setup_slots, slots
    if not slots:
        slots = optional_first_parameter(function, given)
    if not slots:
        raise CannotFeedError("it takes no gradients: no argument and no set-up method")
    if len(slots) > 2:
        raise CannotFeedError(
            "it needs {}, more than gradients can fill: give the rest with --argument {}=VALUE".format(
                ", ".join(slots), slots[-1]
            )
        )
    return None, [], slots


def _guess_takes(slot: str, annotation: str) -> List[str]:
    """All four ways, ordered by the argument's name and annotation."""
    text = (slot + " " + annotation).lower()
    likely = []
    if "named" in text:
        likely.append("named_parameters")
    if "module" in text or slot.lower() in ("model", "net", "network", "host", "seed"):
        likely.append("module")
    if "grad" in slot.lower():
        likely.append("gradients")
    if "param" in text:
        likely.append("parameters")
    return likely + [kind for kind in ("module", "parameters", "gradients", "named_parameters") if kind not in likely]


def _describe(feed: Feed) -> str:
    return feed.takes if feed.container == "list" else feed.takes + " (iterator)"


def _ask(caller: Caller, feed: Feed, grads: Sequence[Any], second: Sequence[Any]) -> Any:
    return caller.prepare(feed, (grads, second))()


def _read_plan(caller: Caller, feed: Feed, second: Any, answer: Any, request: Dict[str, Any], effects: Effects) -> Plan:
    def ask(grads: Sequence[Any]) -> Dict[str, Any]:
        return flatten(_ask(caller, feed, grads, second))

    fields = flatten(answer)
    notes: List[str] = []
    roles = declared_roles(request.get("returns") or {}, fields, ask)
    if "norm" not in roles:
        norm = norm_role(ask)
        if norm is not None:
            roles["norm"] = norm
        else:
            nothing = "it returns no number: its answer is what it does to the gradients"
            notes.append("no field of the answer scales with the gradients: no norm to judge" if fields else nothing)
    roles.update({k: v for k, v in count_roles(ask).items() if k not in roles})
    groups = Groups.TWO if len(feed.setup_slots or feed.slots) == 2 else Groups.ONE
    return Plan(
        feed=feed,
        groups=groups if second == [None] or groups is Groups.ONE else Groups.TWO_WITH_GRADIENTS,
        contract=request.get("contract") or _contract(feed, groups, answer),
        answer_kind=kind_of(answer),
        fields={path: type(value).__name__ for path, value in fields.items()},
        roles=roles,
        health=_health_fields(fields, request.get("returns") or {}),
        notes=notes,
        clips=effects.limits,
        writes=_why_it_writes(caller, feed, second, answer, effects),
        starts_fresh=caller.starts_fresh,
        filled=caller.filled,
        others=caller.others,
    )


def _contract(feed: Feed, groups: Groups, answer: Any) -> str:
    if feed.setup is not None and (feed.setup != CONSTRUCTOR or groups is Groups.TWO):
        return "monitor"
    if groups is Groups.TWO:
        return "dual_stats"
    return "grad_norm" if kind_of(answer) in ("number", "tensor", "nothing") else "grad_stats"


def _health_fields(fields: Dict[str, Any], returns: Dict[str, str]) -> List[str]:
    return [path for path in fields if _is_health(path) or path == returns.get("health")]


def _is_health(path: str) -> bool:
    leaf = path.split(".")[-1].lower().rstrip("()")
    if leaf in _HEALTH_WORDS or leaf.startswith("is_finite"):
        return True
    return "health" in leaf and "unhealth" not in leaf
