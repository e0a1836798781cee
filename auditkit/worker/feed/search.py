"""Find by trying how to call a target; `reading.py` reads what its result means."""

import contextlib
import re
import traceback
from typing import Any, Dict, List, Optional, Tuple

import torch

from ..answers.answers import flatten, kind_of
from ..base.refusals import CannotFeedError, CannotReadError
from ..base.torch_internals import raise_if_out_of_memory
from ..serve import placeholders
from ..serve.placeholders import PlaceholderTouched
from ..simulated.device import on_device
from . import groups, spectral_search
from .caller import Caller, file_of
from .plan import MADE, Feed, Plan
from .reading import Trial, plan_of
from .recorded import feed_of, sizes_of
from .stub import Stub, UnknownValueError, no_value
from .surroundings import Surroundings
from .ways import possible_feeds

_MOST_REMEDIES = 24
_NAMES_A_DEVICE = re.compile(r"cuda|nvidia|device|gpu|accelerator", re.IGNORECASE)
_SECOND_GROUP = ([None], [torch.ones(2, 3)])
SAME = "its result is the same for other gradients"


def find_plan_anywhere(caller: Caller, request: Dict[str, Any], has_cuda: bool) -> Plan:
    """Return the plan on the host; if there is none and an error names CUDA, the plan on a device.

    The device is a real or the simulated one. If neither has a plan, raises the error of the search on the host.
    """
    if caller.recorded:
        said = []
        for size in sizes_of(caller.recorded["arguments"], False):
            try:
                return _find_recorded_plan(caller, request, size)
            except Exception as error:  # If the recording is not enough, guess as without one.
                said.append("{}: {}".format(type(error).__name__, " ".join(str(error).split())[:200]))
        why = "as recorded: {}".format("; ".join(dict.fromkeys(said)))
        try:
            plan = find_plan_anywhere(caller.replaced(recorded={}), request, has_cuda)
            return plan._replace(notes=[*plan.notes, "guessed, because called " + why])
        except CannotFeedError as error:
            raise CannotFeedError("{}; {}".format(error, why), error.attempts) from None
    try:
        return find_plan(caller, request)
    except MemoryError:
        raise
    except Exception as error:
        text = " ".join((str(error), *getattr(error, "attempts", ())))
        is_bare = "AssertionError" in text and "cuda" in file_of(caller.function).lower()
        if not (is_bare or _NAMES_A_DEVICE.search(text)):
            raise
        on_host = error
    device = "cuda" if has_cuda else "simulated"
    try:
        with on_device(device):
            return find_plan(caller.replaced(device=device), request)._replace(device=device)
    except Exception:
        raise on_host from None


def _find_recorded_plan(caller: Caller, request: Dict[str, Any], size: str) -> Plan:
    """Return the plan of the call that a run recorded. Raises CannotFeedError if it carried no gradients."""
    called = caller.as_recorded(size)
    feed = feed_of(called.recorded["arguments"], caller.needs_instance())
    if feed is None:
        raise CannotFeedError("no argument carried gradients")
    called.is_searched = True
    placeholders.forget()
    try:
        plan = _find_gradient_plan(called, {**request, "feeds": [feed]})
    finally:
        groups.leave()
    note = "inputs are built from the calls recorded on {}".format(caller.recorded["when"])
    return plan._replace(recorded=size, notes=[*plan.notes, note])


def find_plan(caller: Caller, request: Dict[str, Any]) -> Plan:
    """Try every way to feed the target until one gives a result that depends on the gradients, or limits them.

    A collector of tensors also accepts parameters, whose values are zeros: a result that stays the same for other
    gradients does not count. Without a contract, a target that is no collector of gradients may be one of spectra.
    Raises CannotFeedError with why each attempt failed, CannotReadError if `returns` names no field.
    """
    caller.refuse_unknown_arguments()
    caller.is_searched = True
    placeholders.forget()  # Ignore stubs used during loading.
    try:
        if request.get("contract") in spectral_search.CONTRACTS:
            return spectral_search.find(caller, request)
        return _find_gradient_plan(caller, request)
    except (CannotFeedError, CannotReadError):
        if request.get("contract"):
            raise
        other = None
        with contextlib.suppress(Exception, PlaceholderTouched):  # Its constructor may raise anything.
            other = spectral_search.guess(caller, request)
        if other is None:
            raise
        return other
    finally:
        caller.is_searched, caller.around = False, Surroundings({}, ())
        groups.leave()


def _find_gradient_plan(caller: Caller, request: Dict[str, Any]) -> Plan:
    """Search; if the result was always the same, search again with the module restored before each call."""
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
    obstacles = _Obstacles()
    for feed in request.get("feeds") or possible_feeds(caller, request, obstacles.add):
        groups.leave()  # A group from an earlier way would be missing from the next plan.
        for second in _SECOND_GROUP if len(feed.setup_slots or feed.slots) == 2 else _SECOND_GROUP[:1]:
            try:
                trial, answer = _first_result(Trial(caller, feed, second))
                plan = plan_of(trial, answer, request)
            except (CannotReadError, MemoryError):
                raise
            except (Exception, PlaceholderTouched) as error:
                raise_if_out_of_memory(error)
                placeholders.forget()  # Another way may not need it.
                for path in list(caller.around.unexplained())[:1]:
                    obstacles.add(no_value(path))
                obstacles.add(error, _describe(feed))
                continue
            if plan is not None:  # Later calls infer no value if this one needed none.
                return plan._replace(feed=plan.feed._replace(by_use=plan.feed.by_use or None))
            obstacles.add_silence(answer, _describe(feed))
    raise obstacles.reason()


def _first_result(trial: Trial) -> Tuple[Trial, Any]:
    """Return the trial that creates the values that the target reads, and its result.

    Raises the target's errors.
    """
    for _ in range(_MOST_REMEDIES):
        raised, path, wrong = None, "", {}
        try:
            answer = trial.result()
        except Exception as error:
            raised = error
            try:
                path = trial.caller.around.remedy(error)
            except UnknownValueError as unknown:
                raised = unknown
            if not path or path in trial.feed.paths:
                path, wrong = "", trial.caller.around.explained_wrongly(error)
        around, paths = trial.caller.around, trial.feed.paths
        is_of_a_value = isinstance(raised, (UnknownValueError, AttributeError, TypeError, type(None)))
        if around.waiting and is_of_a_value and not wrong:
            raise no_value(next(iter(around.waiting))) from raised
        if raised is not None and not (path or wrong):
            raise raised
        if not wrong:
            read = (each for each in around.read if "." in each and each not in paths)
            paths = (*paths, *read, *filter(None, [path]))
        trial = trial.with_feed(by_use={**around.by_use, **wrong}, paths=paths)
        if raised is None:
            placeholders.raise_if_touched()  # The target may have caught it.
            if isinstance(answer, Stub):
                raise no_value(vars(answer)["_path"])
            return trial, answer
    raise CannotFeedError("it needs more than {} values that auditkit would have to create".format(_MOST_REMEDIES))


def _describe(feed: Feed) -> str:
    how = feed.takes if feed.container == "list" else "{} ({})".format(feed.takes, feed.container)
    return how if feed.setup != MADE else "an object made without __init__ and {}".format(how)


class _Obstacles:
    """Why the ways to feed a target failed; `reason` is the most informative one."""

    def __init__(self) -> None:
        self._said: List[Tuple[int, str]] = []
        self._unread = ""
        self._touched: Optional[PlaceholderTouched] = None

    def add(self, error: BaseException, how: str = "") -> None:
        """Record an error of the target fed in this way, of its constructor, or of auditkit."""
        if isinstance(error, PlaceholderTouched):
            self._touched = error if how or self._touched is None else self._touched
        elif isinstance(error, CannotFeedError):
            self._said.append((0 if isinstance(error, UnknownValueError) else 2, str(error)))
        else:
            frames = traceback.extract_tb(error.__traceback__)
            text = " ".join(str(error).split())[:160] or "at line {}".format(frames[-1].lineno if frames else 0)
            where = "called with {} it".format(how) if how else "its constructor"
            self._said.append((1 if how else 3, "{} raises {}: {}".format(where, type(error).__name__, text)))

    def add_silence(self, answer: Any, how: str) -> None:
        """Record a result that does not follow the gradients."""
        self._said.append((1, "called with {} {}".format(how, "it returns None" if answer is None else SAME)))
        self._unread = self._unread or ("" if answer is None or flatten(answer) else kind_of(answer))

    def reason(self) -> BaseException:
        """Return one reason; the use of an absent module only if no missing value was named."""
        if self._touched is not None and all(rank > 0 for rank, _ in self._said):
            return self._touched
        if self._unread:
            return CannotReadError("its result ({}) holds no single number".format(self._unread))
        best = min(self._said, key=lambda said: said[0], default=(0, "there is no way to feed it"))
        return CannotFeedError(best[1], tuple(text for _, text in self._said))
