"""Find out by trying how a target is fed, what the fields of its answer mean, and what it does to gradients."""

import contextlib
import inspect
import itertools
import math
import traceback
from typing import Any, Callable, Dict, Iterator, List, Optional, Sequence, Set, Tuple

import torch

from ..answers.answers import flatten, kind_of
from ..answers.roles import count_roles, declared_roles, norm_role
from ..base.refusals import CannotFeedError, CannotReadError
from ..base.torch_internals import raise_if_out_of_memory
from ..gradients.gradients import benign, total_norm
from ..process import placeholders
from ..process.placeholders import PlaceholderTouched
from . import groups as process_groups
from . import spectral_search
from .caller import CONSTRUCTOR, Caller
from .effects import Effects, gradients_now, observe, purpose
from .given import GroupInput
from .guesses import TOTAL_NORM, TOTAL_NORM_NUMBER
from .named_objects import UnknownValueError, no_value
from .obstacles import SAME, Obstacles
from .plan import MADE, Feed, Groups, Plan
from .promises import names_a_statistic, writes_by_its_own_words
from .stand_ins import Surroundings
from .uses import Used
from .ways import possible_feeds

_HEALTH_WORDS = ("health", "ok", "valid", "is_finite", "finite")
_MOST_REMEDIES = 24
_OF_VALUES = (UnknownValueError, AttributeError, TypeError)
"""What a target raises that reads a value which is missing, or which is not what its name says."""
_SECOND_GROUP = ([None], [torch.ones(2, 3)])


def find_plan(caller: Caller, request: Dict[str, Any]) -> Plan:
    """Try every way to feed the target until one gives an answer that depends on the gradients, or limits them.

    A collector of tensors also takes parameters, whose values are zeros: an answer that stays the same for other
    gradients is none. Where nobody named a contract, what is no collector of gradients may be one of spectra.
    Raises CannotFeedError with what each attempt said, CannotReadError where `returns` names no field.
    """
    caller.refuse_unknown_arguments()
    caller.is_searched = True
    try:
        return _find_plan(caller, request)
    finally:
        caller.is_searched, caller.around = False, Surroundings({}, ())
        process_groups.leave()


def _find_plan(caller: Caller, request: Dict[str, Any]) -> Plan:
    if request.get("contract") in spectral_search.CONTRACTS:
        return spectral_search.find(caller, request)
    try:
        return _find_gradient_plan(caller, request)
    except (CannotFeedError, CannotReadError) as error:
        other = None
        with contextlib.suppress(Exception, PlaceholderTouched):  # its constructor may raise anything
            other = None if request.get("contract") else spectral_search.guess(caller, request)
        if other is None:
            raise error from None
        return other


def _find_gradient_plan(caller: Caller, request: Dict[str, Any]) -> Plan:
    """Once more with its module as before the first call, where each answer was the same: it may keep the first one."""
    try:
        return _try_feeds(caller, request)
    except CannotFeedError as error:
        if caller.starts_fresh or not any(SAME in said for said in error.attempts):
            raise
        caller.starts_fresh = True
        try:
            return _try_feeds(caller, request)
        except (CannotFeedError, CannotReadError):
            caller.starts_fresh = False
            raise error from None


def _try_feeds(caller: Caller, request: Dict[str, Any]) -> Plan:
    obstacles = Obstacles()
    closed: Set[Any] = set()
    by_use: List[Feed] = []
    for feed in itertools.chain(possible_feeds(caller, request, obstacles.add), by_use):
        way = (feed.setup, feed.paths, feed.by_use is None)
        if way in closed:
            continue
        for second in _SECOND_GROUP if len(feed.setup_slots or feed.slots) == 2 else _SECOND_GROUP[:1]:
            try:
                plan = _try_feed(caller, feed, second, request, obstacles)
            except (CannotReadError, MemoryError):
                raise
            except (Exception, PlaceholderTouched) as error:
                raise_if_out_of_memory(error)
                placeholders.forget()  # another way may do without
                obstacles.add(error, _describe(feed))
                if feed.by_use is None and feed not in by_use and isinstance(error, _OF_VALUES):
                    by_use.append(feed._replace(by_use={}))
                if feed.setup is None and caller.needs_instance() and not _was_called(caller, error):
                    closed.add(way)  # its constructor gets the same arguments again
                continue
            if plan is not None:
                return plan
    raise obstacles.reason()


def _was_called(caller: Caller, error: BaseException) -> bool:
    """Whether the target itself ran before this was raised."""
    code = getattr(inspect.unwrap(caller.function), "__code__", None)
    raised = [error, *([error.__cause__] if error.__cause__ is not None else [])]
    return any(frame.f_code is code for each in raised for frame, _ in traceback.walk_tb(each.__traceback__))


def _try_feed(caller: Caller, feed: Feed, second: Any, request: Dict[str, Any], obstacles: Obstacles) -> Optional[Plan]:
    """The plan of one feed; None where its answer says nothing of the gradients. Raises what the target raises."""
    feed, answer = _first_answer(caller, feed, second)
    read = caller.around.read
    depends = answer is not None and _depends_on_gradients(_with_fixed_norms(caller), feed, second, answer)
    effects = _effects(caller, feed, second)
    if not depends and not effects.is_an_answer and not flatten(answer):
        feed = feed._replace(refusal=_refusal(caller, feed, second))
        answer = _ask(caller, feed, benign(), second) if feed.refusal else answer
        if not feed.refusal and answer is None:
            keeping = feed._replace(keeps=True)
            kept = _ask(caller, keeping, benign(), second)
            depends = _depends_on_gradients(_with_fixed_norms(caller), keeping, second, kept)
            feed, answer = (keeping, kept) if depends else (feed, answer)
    if not (depends or effects.is_an_answer or feed.refusal):
        obstacles.add_silence(answer, _describe(feed))
        return None
    if not (depends or feed.refusal):  # what follows a total norm of ours alone is no answer: the effect is
        answer = None
    plan = _read_plan(caller, feed, second, answer, request, effects)
    return plan.with_filled(read)


def _first_answer(caller: Caller, feed: Feed, second: Any) -> Tuple[Feed, Any]:
    """The answer, with the feed that makes what the target reads before it is called. Raises what the target raises."""
    for _ in range(_MOST_REMEDIES):
        try:
            answer = _ask(caller, feed, benign(), second)
        except Exception as error:
            wrong = [] if feed.by_use is None else caller.around.explained_wrongly(error)
            path = "" if wrong else caller.around.remedy(error)
            if caller.around.unknown:
                raise no_value(caller.around.unknown[0]) from error
            feed = _by_use(caller, feed, wrong)
            if wrong:
                continue
            if isinstance(error, _OF_VALUES):
                _refuse_unexplained(caller, error)
            if not path or path in feed.paths:
                raise
            feed = feed._replace(paths=(*feed.paths, *_read_paths(caller, feed), path))
            continue
        placeholders.raise_if_touched()  # the target may have caught it
        if caller.around.unknown:
            raise no_value(caller.around.unknown[0])
        if isinstance(answer, Used):
            raise answer.unexplained()
        _refuse_unexplained(caller, None)
        return _by_use(caller, feed._replace(paths=(*feed.paths, *_read_paths(caller, feed)))), answer
    raise CannotFeedError("it reads more than {} things that have to be made up".format(_MOST_REMEDIES))


def _by_use(caller: Caller, feed: Feed, wrong: Sequence[str] = ()) -> Feed:
    """The feed with all that uses told, and with the paths whose names told what is wrong."""
    uses = caller.around.uses
    return feed if uses is None else feed._replace(by_use={**uses.told, **dict.fromkeys(wrong, "")})


def _refuse_unexplained(caller: Caller, error: Optional[BaseException]) -> None:
    """Raise UnknownValueError where neither name nor use say what the target reads."""
    uses = caller.around.uses
    if uses is not None and uses.waiting:
        raise no_value(next(iter(uses.waiting))) from error


def _read_paths(caller: Caller, feed: Feed) -> Iterator[str]:
    return (path for path in caller.around.read if "." in path and path not in feed.paths)


def _refusal(caller: Caller, feed: Feed, second: Any) -> str:
    """The type of the exception by which the target refuses what is not finite, in any tensor; "" for none."""
    refused = set()
    for grads in list(_odd_gradients())[1:]:
        try:
            _ask(caller, feed, grads, second)
        except Exception as error:
            raise_if_out_of_memory(error)
            refused.add(type(error).__name__)
    return refused.pop() if len(refused) == 1 else ""


def _with_fixed_norms(caller: Caller) -> Caller:
    """The same target with the same total norm at each call: what follows that alone follows our own value."""
    for path, made in caller.around.read.items():
        if made.value in (TOTAL_NORM, TOTAL_NORM_NUMBER):
            norm = total_norm(benign())
            caller = caller.with_argument(path, norm if made.value == TOTAL_NORM else float(norm))
    return caller


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


def _describe(feed: Feed) -> str:
    how = feed.takes if feed.container == "list" else "{} ({})".format(feed.takes, feed.container)
    return how if feed.setup != MADE else "an object made without __init__ and {}".format(how)


def _ask(caller: Caller, feed: Feed, grads: Sequence[Any], second: Sequence[Any]) -> Any:
    return caller.prepare(feed, (grads, second))()


def _read_plan(caller: Caller, feed: Feed, second: Any, answer: Any, request: Dict[str, Any], effects: Effects) -> Plan:
    def ask(grads: Sequence[Any]) -> Dict[str, Any]:
        return {} if answer is None else flatten(_ask(caller, feed, grads, second))

    fields = flatten(answer)
    notes: List[str] = []
    roles = declared_roles(request.get("returns") or {}, fields, ask)
    is_check = not effects.is_an_answer and "norm" not in roles and _is_check(ask, fields, bool(caller.around.read))
    if "norm" not in roles:
        norm = None if is_check else norm_role(ask)
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
        contract=request.get("contract") or _contract(feed, groups, answer, is_check),
        answer_kind=kind_of(answer),
        fields={path: type(value).__name__ for path, value in fields.items()},
        roles=roles,
        health=_health_fields(fields, request.get("returns") or {}),
        notes=notes,
        clips=effects.limits,
        writes=_why_it_writes(caller, feed, second, answer, effects),
        starts_fresh=caller.starts_fresh,
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


def _contract(feed: Feed, groups: Groups, answer: Any, is_check: bool) -> str:
    if feed.setup not in (None, MADE) and (feed.setup != CONSTRUCTOR or groups is Groups.TWO):
        return "monitor"
    if groups is Groups.TWO:
        return "dual_stats"
    return "grad_norm" if not is_check and kind_of(answer) in ("number", "tensor", "nothing") else "grad_stats"


def _health_fields(fields: Dict[str, Any], returns: Dict[str, str]) -> List[str]:
    return [path for path in fields if _is_health(path) or path == returns.get("health")]


def _is_health(path: str) -> bool:
    leaf = path.split(".")[-1].lower().rstrip("()")
    if leaf in _HEALTH_WORDS or leaf.startswith("is_finite"):
        return True
    return "health" in leaf and "unhealth" not in leaf
