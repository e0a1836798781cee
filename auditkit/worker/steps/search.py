"""Find by trying how to feed a training step: until a run gives an optimizer a gradient."""

import itertools
import re
from typing import Any, Dict, Iterator, List, Optional

from ..base.frames import Site, SourceRoots
from ..base.refusals import CannotFeedError
from ..feed.caller import Caller
from ..feed.plan import Feed, Groups, Plan
from ..feed.recorded import sizes_of
from ..feed.signatures import source_of
from . import roles
from .runs import ALL, FIXED, OPTION, Run, StepFeed, StepRuns, left_alone
from .seam import added_up, norm_of
from .toy_model import FORMS, NEXT_TOKENS, PIXELS, RETURNS, make_batches
from .values import Case, unpacked

CONTRACT = "train_step"
_BATCHES, _MOST_BATCHES = 4, 128
_NAMES_TOKENS = re.compile(
    r"ignore_index|input_ids|attention_mask|view\(-1|reshape\(-1|flatten\(0, ?1|token", re.IGNORECASE
)
_SHIFTS = re.compile(r"(labels|targets|input_ids|tokens|y)[\"']?\]?\[(\.\.\.|:), ?1:\]")
_NAMES_PIXELS = re.compile(r"mask|segm|dice|n_classes|num_classes")
_NAMES_ITEMS = re.compile(r"\*\*\w|\[[\"']\w+[\"']\]|\.items\(")


def find_plan(caller: Caller, request: Dict[str, Any], roots: SourceRoots) -> Plan:
    """Return the plan of the first way in which the step gives an optimizer a gradient of the model.

    Raises CannotFeedError with the outcome of each attempt.
    """
    caller.refuse_unknown_arguments()
    said: List[str] = []
    with left_alone():
        hopeless: List[Dict[str, Any]] = []
        for feed in _feeds(caller):
            if any(all(getattr(feed, name) == way[name] for name in way) for way in hopeless):
                continue
            runs = StepRuns(caller, feed, roots)
            try:
                run = runs.run(Case(make_batches(_BATCHES, feed.task), accumulate=1))
            except CannotFeedError as error:
                said.append(_at(str(error), roots.of_traceback(error.__traceback__)))
            except Exception as error:  # An object's constructor may raise anything.
                text = "{}: {}".format(type(error).__name__, " ".join(str(error).split())[:160])
                said.append(_at(text, roots.of_traceback(error.__traceback__)))
            else:
                if feed.task == "tokens" and any(_SHIFTS.search(source_of(code)) for code in run.trace.executed):
                    feed = feed._replace(task=NEXT_TOKENS)
                found = _with_accumulation(caller, feed, run, roots)
                if found is not None:
                    return _plan(found, run)
                said.append(_why_not(run))
            hopeless.append({name: getattr(feed, name) for name in _mattered(runs)})
        for size in sizes_of(caller.recorded["arguments"], True) if caller.recorded else ():
            feed = StepFeed("scores", "tuple", "samples", recorded=size)
            try:
                run = StepRuns(caller, feed, roots).run(Case(make_batches(2, feed.task), accumulate=1))
            except Exception as error:
                said.insert(0, "as recorded: {}: {}".format(type(error).__name__, " ".join(str(error).split())[:200]))
            else:
                if _hands_over(run):
                    return _plan(feed, run)._replace(recorded=size)
                said.insert(0, "as recorded: {}".format(_why_not(run)))
    raise CannotFeedError("{}: {}".format(roles.NO_WAY, "; ".join(list(dict.fromkeys(said))[:6])))


def _mattered(runs: StepRuns) -> List[str]:
    """Return the fields of a feed that its last run depended on: it may have read no batch, or not called the model."""
    values = runs.last
    read = {guess.value for guess in values.read.values() if isinstance(guess.value, str)}
    has_batches = values.loader.drawn or any(map(roles.is_one_batch, read))
    return ["is_made", *(["task", "form"] if has_batches else []), *(["returns"] if values.model.calls else [])]


def _feeds(caller: Caller) -> Iterator[StepFeed]:
    """Yield every combination; those that match names in the source come first."""
    source = source_of(caller.function)
    tasks = ["samples", "tokens", "values"]
    if _NAMES_TOKENS.search(source):
        tasks = ["tokens", "samples", "values"]
    tasks += [PIXELS] if _NAMES_PIXELS.search(source) else []
    is_mapping = _NAMES_ITEMS.search(source) and not unpacked(source)  # unpacked, a mapping gives its keys
    forms = sorted(FORMS, key=lambda form: form == "mapping", reverse=bool(is_mapping))
    ways = (False, True) if caller.needs_instance() else (False,)
    for is_made, task, form, returns in itertools.product(ways, tasks, forms, RETURNS):
        yield StepFeed(returns, form, task, is_made=is_made)


def _at(text: str, site: Optional[Site]) -> str:
    return "{} ({}:{})".format(text, site.file, site.line) if site is not None else text


def _why_not(run: Run) -> str:
    if run.raised is not None:
        return _at(str(run.raised), run.raised.site)
    if not run.trace.steps:
        taken = run.values.loader.drawn
        return "no torch optimizer made a step ({} batches were read)".format(taken)
    return "the optimizer got no gradient of the model"


def _hands_over(run: Run) -> bool:
    """Return whether a step got some gradient, or backward computed one for another optimizer."""
    return run.raised is None and any(norm_of(step.grads) > 0 or added_up(step.micros) for step in run.trace.steps)


def _with_accumulation(caller: Caller, feed: StepFeed, run: Run, roots: SourceRoots) -> Optional[StepFeed]:
    """Return the feed with the way in which the step accumulates; None if no number of batches makes it step."""
    read = [guess.value for guess in run.values.read.values()]
    feed = feed._replace(sets_limit=roles.LIMIT in read)
    runs = StepRuns(caller, feed, roots)
    if roles.ACCUMULATION in read and _hands_over(run):
        told = runs.run(Case(make_batches(2 * _BATCHES, feed.task), accumulate=_BATCHES))
        if _hands_over(told) and len(told.trace.steps) < len(run.trace.steps) * 2:
            return feed._replace(accumulates=OPTION)
    count = _BATCHES
    while not _hands_over(run) and run.raised is None and run.trace.micros and count < _MOST_BATCHES:
        count *= 2
        run = runs.run(Case(make_batches(count, feed.task)))
    if not _hands_over(run):
        return None
    first = len(run.trace.steps[0].micros)
    if len(run.trace.steps) == 1 and first == count:
        longer = runs.run(Case(make_batches(count + 2, feed.task)))
        if len(longer.trace.steps) == 1 and len(longer.trace.steps[0].micros) == count + 2:
            return feed._replace(accumulates=ALL)
    return feed._replace(accumulates=FIXED if first > 1 else "", fixed_count=max(1, first))


def _plan(feed: StepFeed, run: Run) -> Plan:
    return Plan(
        feed=Feed("module", "list", [], None, []),
        groups=Groups.ONE,
        contract=CONTRACT,
        answer_kind="nothing",
        fields={},
        roles={},
        health=[],
        notes=[],
        step=dict(feed._asdict()),
    ).with_filled(run.values.read)
