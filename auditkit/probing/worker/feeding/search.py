"""Find out by trying how a target is fed; what its answer means is read elsewhere, see `reading.py`."""

import contextlib
import inspect
import itertools
import traceback
from typing import Any, Dict, Iterator, List, Optional, Sequence, Set, Tuple

import torch

from ..answers.answers import flatten
from ..base.refusals import CannotFeedError, CannotReadError
from ..base.torch_internals import raise_if_out_of_memory
from ..gradients.gradients import benign
from ..process import placeholders
from ..process.placeholders import PlaceholderTouched
from . import groups as process_groups
from . import spectral_search
from .caller import Caller
from .guesses import GROUP_NORMS
from .named_objects import UnknownValueError, no_value
from .obstacles import SAME, Obstacles
from .plan import MADE, NORMS, Feed, Plan
from .reading import (
    answer_of,
    depends_on_gradients,
    effects_of,
    found_devices,
    read_plan,
    refusal,
    switched_on,
    with_fixed_norms,
)
from .stand_ins import Surroundings
from .uses import Used
from .ways import possible_feeds

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
    placeholders.forget()  # what loading touched is none of the target's doing
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
        process_groups.leave()  # a group that one way was given would be missing from the plan of the next
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
    depends = answer is not None and depends_on_gradients(with_fixed_norms(caller), feed, second, answer)
    effects = effects_of(caller, feed, second)
    settings = switched_on(caller, feed, second, effects)
    for name, value in settings.items():
        caller = caller.with_argument(name, value)
        answer, effects = answer_of(caller, feed, benign(), second), effects_of(caller, feed, second)
    if not depends and not effects.is_an_answer and not flatten(answer):
        feed = feed._replace(refusal=refusal(caller, feed, second))
        answer = answer_of(caller, feed, benign(), second) if feed.refusal else answer
        if not feed.refusal and answer is None:
            keeping = feed._replace(keeps=True)
            kept = answer_of(caller, keeping, benign(), second)
            depends = depends_on_gradients(with_fixed_norms(caller), keeping, second, kept)
            feed, answer = (keeping, kept) if depends else (feed, answer)
    if not (depends or effects.is_an_answer or feed.refusal):
        obstacles.add_silence(answer, _describe(feed))
        return None
    if not (depends or feed.refusal):  # what follows a total norm of ours alone is no answer: the effect is
        answer = None
    plan = read_plan(caller, feed, second, answer, request, effects, settings)
    if feed.container == NORMS or any(made.value == GROUP_NORMS for made in read.values()):
        plan = plan._replace(clips=False)  # by norms of ours: nobody checked them before
    return plan.with_filled({**read, **found_devices(caller.function)})


def _first_answer(caller: Caller, feed: Feed, second: Any) -> Tuple[Feed, Any]:
    """The answer, with the feed that makes what the target reads before it is called. Raises what the target raises."""
    for _ in range(_MOST_REMEDIES):
        try:
            answer = answer_of(caller, feed, benign(), second)
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


def _describe(feed: Feed) -> str:
    how = feed.takes if feed.container == "list" else "{} ({})".format(feed.takes, feed.container)
    return how if feed.setup != MADE else "an object made without __init__ and {}".format(how)
