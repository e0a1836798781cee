"""Run a training step with auditkit's model and batches, and record what reaches the optimizer."""

import contextlib
import inspect
import logging
import math
import re
import warnings
from types import FunctionType
from typing import Any, Callable, Dict, Iterator, NamedTuple, Optional, Sequence, Tuple

import torch

from ..base.frames import SourceRoots, chain
from ..base.lines import is_deliberate
from ..base.refusals import CannotFeedError, NotApplicable, TargetRaised
from ..base.torch_internals import import_first, raise_if_out_of_memory
from ..feed import groups, guesses, recorded, uninitialized
from ..feed.caller import Caller
from ..feed.signatures import VARIADIC, annotation_text, is_block, source_of
from ..feed.stub import raised_at
from ..feed.uninitialized import SELF
from ..serve import placeholders
from . import roles
from .host import on_host
from .readings import effective
from .seam import Step, Trace, norm_of
from .toy_model import Batch, ToyModel, make_batches, uneven_counts, widened
from .values import MOST_PASSES, Case, EnoughBatches, Values, put_stub

_MOST_RETRIES = 16
_CALCULATES = r"[-+*/%<>]=? ?{0}\b|\b{0} ?[-+*/%<>]"
_SAVES = re.compile(r"_?save(_\w+)?")
_RESHAPED = re.compile(r"shape '\[-1, ([\d, ]+)\]' is invalid for input of size")
_MOST_FEATURES = 1_000_000
OPTION, ALL, FIXED = "option", "all", "fixed"
"""How a step knows the number of its micro-batches: an option, all available ones, or its own number."""


class StepFeed(NamedTuple):
    """How to feed a training step: the model's result, the form of a batch, the kind of targets.

    `accumulates` is one of the words above, or "" for a step after every batch; `fixed_count` is the step's own number.
    `is_made` means that its object is created without the constructor, `sets_limit` that it reads a limit of gradients.
    `recorded` is the size of a recorded call, whose model and batches are not varied.
    """

    returns: str
    form: str
    task: str
    accumulates: str = ""
    fixed_count: int = 1
    is_made: bool = False
    sets_limit: bool = False
    recorded: str = ""


class Run(NamedTuple):
    """One run: its trace, its values, and its error. `is_ended` means that it exited."""

    trace: Trace
    values: Values
    raised: Optional[TargetRaised] = None
    is_ended: bool = False


class StepRuns:
    """One training step, which runs repeatedly, each time with a new model."""

    def __init__(self, caller: Caller, feed: StepFeed, roots: SourceRoots) -> None:
        self.caller, self.feed, self.roots = caller, feed, roots
        self._source = source_of(caller.function)
        self._globals: Dict[str, guesses.Guess] = {}
        self._attributes: Dict[str, guesses.Guess] = {}
        self._features = roles.CLASSES
        self.last: Values
        import_first(roles.IMPORTED_BY_STEPS)

    def run(self, case: Case) -> Run:
        """Return one run, including the step's error. Raises CannotFeedError for a value that no name explains."""
        for _ in range(_MOST_RETRIES):
            values, trace = self.values(case), Trace(self.roots)
            try:
                call = self.ready(values)
                trace.watch(values.model)
                with trace.recording():
                    raised, is_ended = call()
                placeholders.raise_if_touched()  # The step may have caught it.
            except placeholders.PlaceholderTouched as touched:
                if not put_stub(touched.path):
                    raise
                continue
            if raised is None or not self._fill(raised.__cause__, values):
                values.read.update(self._globals)
                return Run(trace, values, raised, is_ended)
        raise CannotFeedError("it needs more than {} values that are not available".format(_MOST_RETRIES))

    def checked(self, case: Case) -> Run:
        """Return one run. Raises the step's error, and NotApplicable if gradients and steps are not in sequence."""
        run = self.run(case)
        if run.raised is not None:
            raise run.raised
        if any(step.closure_calls > 1 for step in run.trace.steps):
            raise NotApplicable("its optimizer calls backward more than once per step, by a closure")
        if any(step.is_inside_backward for step in run.trace.steps):
            raise NotApplicable("its optimizers step inside of backward, each with part of the gradients")
        return run

    def case(self, steps: int, micro_batches: int = 4, is_uneven: bool = False, **options: Any) -> Case:
        """Return a case of `steps` steps, with `micro_batches` each unless the step has its own number."""
        if self.feed.recorded and (options or is_uneven):
            raise NotApplicable("its model and batches are those of the recorded run, which auditkit does not vary")
        ways = self.feed.accumulates
        per_step = micro_batches if ways in (OPTION, ALL) else self.feed.fixed_count
        count = per_step if ways == ALL else per_step * steps
        batches = make_batches(count, self.feed.task, uneven_counts(count) if is_uneven else None)
        return Case(batches, accumulate=per_step, calls=steps if ways == ALL else 1, **options)

    def windows(self, steps: int, micro_batches: int = 4, **options: Any) -> Run:
        """Return a run of such a case. Raises as `checked` does, and NotApplicable if it makes no step."""
        return self._with_steps(self.case(steps, micro_batches, **options))

    def first_step(self, batches: Sequence[Batch], count: int) -> Step:
        """Return the first step of a run on these micro-batches. Raises as `windows` does."""
        return self._with_steps(Case(list(batches), accumulate=count)).trace.steps[0]

    def _with_steps(self, case: Case) -> Run:
        run = self.checked(case)
        if not run.trace.steps:
            raise NotApplicable("it makes no step of {} batches".format(len(case.batches)))
        return run

    def limit_that_clips(self, usual: Run) -> Optional[Tuple[float, float]]:
        """Return a limit and the gain of a model whose gradients exceed it; None if the step sets no limit."""
        norm, gain, clips = norm_of(effective(usual.trace.steps[0])), 1.0, usual.trace.clips
        if self.feed.sets_limit:
            return 0.1 * norm, gain
        if not clips:
            return None
        limit = min((clip.limit for clip in clips if not clip.is_by_value), default=clips[0].limit)
        while norm < 4 * limit and gain < 1e6:
            gain *= 10
            norm = norm_of(effective(self.windows(1, 4, gain=gain).trace.steps[0]))
        return limit, gain

    def _fill(self, error: Optional[BaseException], values: Values) -> bool:
        """Create what the step lacked, if it is known; return whether to run again."""
        if "init_process_group" in str(error) and not torch.distributed.is_initialized():
            return groups.world() is not None  # It reduces over a group without checking whether there is one.
        return self._fill_global(error, values) or self._fill_attribute(error) or self._widen(error)

    def _fill_attribute(self, error: Optional[BaseException]) -> bool:
        """Give the model an attribute of the checkout's own: `model.n_classes`, `model.config`."""
        if not isinstance(error, AttributeError) or not isinstance(error.obj, ToyModel):
            return False
        guess = roles.known(error.name or "")
        if guess is None or not error.name or error.name in self._attributes:
            return False
        self._attributes[error.name] = guess
        return True

    def _fill_global(self, error: Optional[BaseException], values: Values) -> bool:
        """Give a module the name that a script's last lines would define: `args`, `logger`, `device`."""
        if not isinstance(error, NameError) or isinstance(error, UnboundLocalError) or not error.name:
            return False
        guess = roles.known(error.name)
        if guess is None or error.name in self._globals:
            return False
        raised_at(error)[0].f_globals[error.name] = values.made(guess.value, error.name)
        self._globals[error.name] = guess
        return True

    def _widen(self, error: Optional[BaseException]) -> bool:
        """Give samples as many features as the step reshapes them to."""
        found = _RESHAPED.search(str(error)) if isinstance(error, RuntimeError) else None
        wanted = 0 if found is None else math.prod(map(int, found.group(1).split(",")))
        is_wider = self._features < wanted <= _MOST_FEATURES
        self._features = wanted if is_wider else self._features
        return is_wider

    def values(self, case: Case) -> Values:
        """Return new values for one run."""
        case = case._replace(batches=widened(case.batches, self._features))
        values = Values(self.caller.given, case, self.feed.returns, self.feed.form, self._source)
        for name, guess in self._attributes.items():
            setattr(values.model, name, values.made(guess.value, "model." + name))
            values.read["model." + name] = guess
        self.last = values
        return values

    def ready(self, values: Values) -> Callable[[], Tuple[Optional[TargetRaised], bool]]:
        """Return the run as a silent call on the host, which returns the step's error and whether it exited."""
        with _quiet_on_host(values.case):
            bound = self.bound(values)

        def call() -> Tuple[Optional[TargetRaised], bool]:
            with _quiet_on_host(values.case):
                try:
                    for number in range(values.case.calls):
                        if number and guesses.Guess(roles.EPOCHS) in values.read.values():
                            break  # The first call ran all epochs.
                        values.loader.passes = 0
                        bound()
                except EnoughBatches:
                    pass
                except SystemExit:
                    return None, True
                except Exception as error:
                    raised = self._raised(error)
                    raised.__cause__ = error
                    return raised, False
            return None, False

        return call

    def bound(self, values: Values) -> Callable[[], None]:
        """Return the run as a call without arguments: the step once, once per batch, or until all batches are used."""
        if self.feed.recorded:
            return self._replayed(values)
        function = self._bound_function(values)
        slots = self._slots(function, values)
        is_part = roles.BATCH_LOSS in slots.values()
        by_batch = [name for name, guess in slots.items() if isinstance(guess, str) and roles.is_one_batch(guess)]
        fixed = self._arguments({name: guess for name, guess in slots.items() if name not in by_batch}, values)

        def once() -> None:
            drawn = self._arguments({name: slots[name] for name in by_batch}, values)
            answer = function(**fixed, **drawn)
            if inspect.isgenerator(answer):  # A generator runs only when its items are read.
                list(answer)

        def for_each_batch() -> None:
            for item in values.loader:
                values.batch = item
                if is_part:
                    values.optimizer.zero_grad()  # The caller that computes the loss does this.
                once()

        def until_drawn() -> None:
            if by_batch:  # The script draws one before its loop begins.
                values.batch = next(values.loader)
            begun, before = values.loader.drawn, -1
            while before < values.loader.drawn < begun + len(values.loader):
                before = values.loader.drawn
                once()

        if is_block(self.caller.function) and not {roles.BATCHES, roles.GIVES_BATCH}.isdisjoint(slots.values()):
            return until_drawn
        return for_each_batch if by_batch else once

    def _replayed(self, values: Values) -> Callable[[], None]:
        """Return the recorded call, once for each step; its loaders end with the batches."""
        method = self.caller.method if self.caller.needs_instance() else ""
        arguments = recorded.in_size(self.caller.recorded["arguments"], self.feed.recorded)

        def batches(make: Callable[[], Any]) -> Any:
            values.loader.passes = MOST_PASSES - 1  # a second pass ends the run
            values.loader.items = [make() for _ in values.case.batches]
            values.loader._fresh = lambda: values.loader.items  # type: ignore[method-assign]
            return values.loader

        call = recorded.replayed(self.caller.function, method, arguments, batches)

        def all_calls() -> None:
            for _ in values.case.batches:
                if values.loader.drawn < len(values.case.batches):  # A call may use its whole loader.
                    call()

        return all_calls

    def _bound_function(self, values: Values) -> Callable[..., Any]:
        names = getattr(self.caller.function, "__globals__", {})
        names.update({name: values.scaler for name, each in names.items() if isinstance(each, torch.amp.GradScaler)})
        for name in getattr(getattr(self.caller.function, "__code__", None), "co_names", ()):
            # Functions that the step calls for its batches, `get_batch("train")`, which read files.
            words = getattr(roles.known(name), "value", None)
            if words in (roles.BATCHES, roles.GIVES_BATCH) and isinstance(names.get(name), FunctionType):
                names[name] = values.made(roles.GIVES_LOADER if words == roles.BATCHES else words, name)
        if not self.caller.needs_instance():
            return self.caller.function
        return getattr(self._instance(values), self.caller.method)

    def _instance(self, values: Values) -> Any:
        owner: Any = self.caller.owner
        if self.feed.is_made:
            made = uninitialized.make(owner, values)
            for name in filter(_SAVES.fullmatch, dir(owner)):
                made.__dict__[name] = values.filled("{}.{}".format(SELF, name), guesses.Guess(roles.SILENT))
            return made
        return owner(**self._arguments(self._slots(owner, values), values))

    def _slots(self, called: Callable[..., Any], values: Values) -> Dict[str, Any]:
        """Return what each argument means: the required ones, those that the case sets, and numbers for None."""
        asked = {roles.ACCUMULATION, roles.LIMIT, *([guesses.SCALER] if values.case.scales else [])}
        found: Dict[str, Any] = {}
        for name, parameter in inspect.signature(called).parameters.items():
            if parameter.kind in VARIADIC:
                continue
            guess = roles.known(name, annotation_text(parameter.annotation), self._source)
            is_open = parameter.default is parameter.empty
            is_asked = guess is not None and (
                guess.value in asked or (parameter.default is None and self._needs(name, guess.value))
            )
            if not (is_open or name in self.caller.given or is_asked):
                continue
            # An argument that no name explains is often optional, unless the step calculates with it.
            guess = guess or guesses.Guess(1 if self._calculates(name) else None)
            found[name] = guess.value
            if name not in self.caller.given:
                values.read[name] = guess
        return found

    def _needs(self, name: str, value: Any) -> bool:
        """Return whether a step needs a value for what is None by default: parameters to clip, options, or a number."""
        if value == guesses.CONFIG:
            return re.search(r"\b{0}\.\w".format(re.escape(name)), self._source) is not None
        is_number = value == roles.STEPS or (isinstance(value, (int, float)) and not isinstance(value, bool))
        return value == guesses.PARAMETERS or (is_number and self._calculates(name))

    def _calculates(self, name: str) -> bool:
        return re.search(_CALCULATES.format(re.escape(name)), self._source) is not None

    def _arguments(self, slots: Dict[str, Any], values: Values) -> Dict[str, Any]:
        given = self.caller.given
        return {name: given[name] if name in given else values.made(words, name) for name, words in slots.items()}

    def _raised(self, error: Exception) -> TargetRaised:
        raise_if_out_of_memory(error)
        for each in chain(error):
            if isinstance(each, CannotFeedError):
                raise each from error
        return TargetRaised(error, self.roots.of_traceback(error.__traceback__), is_deliberate(error, self.roots))


@contextlib.contextmanager
def _quiet_on_host(case: Case) -> Iterator[None]:
    with on_host(case.scales), warnings.catch_warnings(), contextlib.redirect_stdout(None):
        warnings.simplefilter("ignore")
        told = logging.root.manager.disable
        logging.disable(logging.CRITICAL)
        try:
            yield
        finally:
            logging.disable(told)


@contextlib.contextmanager
def left_alone() -> Iterator[None]:
    """Restore process groups and random numbers afterwards."""
    state = torch.get_rng_state()
    try:
        yield
    finally:
        torch.set_rng_state(state)
        groups.leave()
