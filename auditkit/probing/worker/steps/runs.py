"""Runs of a training step on our model and batches, each recorded as a trace of what reached the optimizer."""

import contextlib
import functools
import inspect
import linecache
import logging
import math
import re
import textwrap
import warnings
from types import CodeType
from typing import Any, Callable, Dict, Iterator, NamedTuple, Optional, Tuple

import torch

from ..base.frames import SourceRoots, chain
from ..base.lines import is_deliberate
from ..base.refusals import CannotFeedError, TargetRaised
from ..base.torch_internals import import_first, raise_if_out_of_memory
from ..feeding import groups, guesses, uninitialized
from ..feeding.caller import Caller
from ..feeding.signatures import VARIADIC, annotation_text
from ..feeding.stub import raised_at
from ..feeding.uninitialized import SELF
from ..process import placeholders
from . import lightning, roles
from .absent import stand_in
from .adapters import adapter_of, part_of
from .host import on_host
from .seam import Trace
from .toy_model import ToyModel, widened
from .values import Case, EnoughBatches, Values

_MOST_RETRIES = 16
_SAVES = re.compile(r"_?save(_\w+)?")
_RESHAPED = re.compile(r"shape '\[-1, ([\d, ]+)\]' is invalid for input of size")
_MULTIPLIED = re.compile(r"shapes cannot be multiplied \(\d+x(\d+) and (\d+)x\d+\)")
_CONVOLVED = re.compile(r"input to conv2d, but got input of size: \[3, \d+\]")
_CHANNELS = re.compile(r"expected input\[3, \d+, (\d+), \d+\] to have (\d+) channels")
_OUT_OF_BOUNDS = re.compile(r"Target (\d+) is out of bounds")
_SIDES = (28, 32, 64, 16, 8)
"""Heights and widths of pictures that are tried in turn, MNIST's first."""
_MOST_FEATURES = 1_000_000
OPTION, ALL, FIXED = "option", "all", "fixed"
"""How a step knows that it has enough micro-batches: it is told, takes all that there are, or a number of its own."""


class StepFeed(NamedTuple):
    """How a training step is fed: what the model returns, the form of a batch, what the targets are.

    `accumulates` is one of the words above, "" for a step after every batch; `fixed_count` is a number of its own.
    `is_made` is an object without its constructor, `sets_limit` that it reads a limit of gradients.
    """

    returns: str
    form: str
    task: str
    accumulates: str = ""
    fixed_count: int = 1
    is_made: bool = False
    sets_limit: bool = False


class Run(NamedTuple):
    """What one run did: its trace, the values that it was handed, and what it raised."""

    trace: Trace
    values: Values
    raised: Optional[TargetRaised] = None
    is_ended: bool = False


class StepRuns:
    """One training step, which is run again and again, each time on a new model."""

    def __init__(self, caller: Caller, feed: StepFeed, roots: SourceRoots) -> None:
        self.caller, self.feed, self.roots = caller, feed, roots
        self._source = source_of(caller.function)
        self._part = part_of(caller.owner, roots) if adapter_of(caller.owner) else None
        self._globals: Dict[str, guesses.Guess] = {}
        self._attributes: Dict[str, guesses.Guess] = {}
        self._shape: Tuple[int, ...] = (roles.CLASSES,)
        self._classes = roles.CLASSES
        import_first(roles.IMPORTED_BY_STEPS)

    def run(self, case: Case) -> Run:
        """One run. What the step raises is returned; raises CannotFeedError where something it wants is not known."""
        for _ in range(_MOST_RETRIES):
            values, trace = self.values(case), Trace(self.roots, self._part)
            try:
                call = self.ready(values)
                trace.watch(values.trained)
                if values.trained is not values.model:  # a step may ask its parts alone
                    trace.ran.update(map(id, values.trained.parameters()))
                with trace.recording():
                    raised, is_ended = call()
                placeholders.raise_if_touched()  # the step may have caught it
            except placeholders.PlaceholderTouched as touched:
                if not stand_in(touched.path):
                    raise
                continue
            if raised is None or not self._fill(raised.__cause__, values):
                values.read.update(self._globals)
                return Run(trace, values, raised, is_ended)
        raise CannotFeedError("it reads more than {} things that are not here".format(_MOST_RETRIES))

    def _fill(self, error: Optional[BaseException], values: Values) -> bool:
        """Make up what the step did without, where anything is known for it: then it is run again."""
        return self._fill_global(error, values) or self._fill_attribute(error) or self._widen(error)

    def _fill_attribute(self, error: Optional[BaseException]) -> bool:
        """Give our model what the checkout's own has: `model.n_classes`, `model.config`."""
        if not isinstance(error, AttributeError) or not isinstance(error.obj, ToyModel):
            return False
        guess = roles.known(error.name or "")
        if guess is None or not error.name or error.name in self._attributes:
            return False
        self._attributes[error.name] = guess
        return True

    def _fill_global(self, error: Optional[BaseException], values: Values) -> bool:
        """Give a module the name that a script's last lines would have made: `args`, `logger`, `device`."""
        if _join_a_group(error):
            return True
        if not isinstance(error, NameError) or isinstance(error, UnboundLocalError) or not error.name:
            return False
        guess = roles.known(error.name)
        if guess is None or error.name in self._globals:
            return False
        raised_at(error)[0].f_globals[error.name] = values.made(guess, error.name)
        self._globals[error.name] = guess
        return True

    def _widen(self, error: Optional[BaseException]) -> bool:
        """Give samples the features, or the form of pictures, that a step or a model of its own takes."""
        said = str(error) if isinstance(error, (RuntimeError, IndexError)) else ""
        reshaped, multiplied = _RESHAPED.search(said), _MULTIPLIED.search(said)
        channels, target = _CHANNELS.search(said), _OUT_OF_BOUNDS.search(said)
        before, shape = (self._shape, self._classes), self._shape
        if target is not None:
            self._classes = min(self._classes, int(target.group(1)))
        elif _CONVOLVED.search(said):
            self._shape = (1, _SIDES[0], _SIDES[0])
        elif channels is not None and int(channels.group(1)) == shape[0] and len(shape) == 3:
            self._shape = (int(channels.group(2)), *shape[1:])
        elif len(shape) == 3 and (multiplied or reshaped):
            later = _SIDES[_SIDES.index(shape[1]) + 1 :][:1]
            self._shape = (shape[0], *later * 2) if later else shape
        elif multiplied is not None and int(multiplied.group(1)) == shape[0]:
            self._shape = (int(multiplied.group(2)),)
        elif reshaped is not None:
            self._shape = (max(*shape, math.prod(map(int, reshaped.group(1).split(",")))),)
        return (self._shape, self._classes) != before and math.prod(self._shape) <= _MOST_FEATURES

    def values(self, case: Case) -> Values:
        """What is handed over in one run."""
        case = case._replace(batches=widened(case.batches, self._shape, self._classes))
        values = Values(self.caller.given, case, self.feed.returns, self.feed.form, self._source)
        for name, guess in self._attributes.items():
            setattr(values.model, name, values.made(guess, "model." + name))
            values.read["model." + name] = guess
        return values

    def ready(self, values: Values) -> Callable[[], Tuple[Optional[TargetRaised], bool]]:
        """The whole run as a call, in silence and on the host: what the step raised, and whether it ended itself."""
        with _quiet_on_host(values.case):
            bound = self.bound(values)

        def call() -> Tuple[Optional[TargetRaised], bool]:
            with _quiet_on_host(values.case):
                try:
                    for number in range(values.case.calls):
                        if number and guesses.Guess(roles.EPOCHS) in values.read.values():
                            break  # the first call had all epochs
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
        """The whole run as a call without arguments: the step once, once for every batch, or until it has them all."""
        adapter = adapter_of(self.caller.owner)
        if adapter is not None and adapter.needs_object:
            lightning.prepare(self.caller.owner)  # type: ignore[arg-type]
            torch.manual_seed(0)
            values.trained = made = self._instance(values)
            torch.manual_seed(values.case.seed)
            return adapter.drive(made, values)
        if adapter is not None:
            return adapter.drive(self.caller.owner, values)
        function = self._bound_function(values)
        slots = self._slots(function, values)
        by_batch = [name for name, guess in slots.items() if isinstance(guess, str) and roles.is_one_batch(guess)]
        fixed = self._arguments({name: guess for name, guess in slots.items() if name not in by_batch}, values)

        def once() -> None:
            drawn = self._arguments({name: slots[name] for name in by_batch}, values)
            values.returned.append(_exhausted(function(**fixed, **drawn)))

        def for_each_batch() -> None:
            for item in values.loader:
                values.batch = item
                once()

        def until_drawn() -> None:
            if by_batch:  # the script has drawn one before its loop begins
                values.batch = next(values.loader)
            begun, before = values.loader.drawn, -1
            while before < values.loader.drawn < begun + len(values.loader):
                before = values.loader.drawn
                once()

        if is_block(self.caller.function) and not {roles.BATCHES, roles.GIVES_BATCH}.isdisjoint(slots.values()):
            return until_drawn
        return for_each_batch if by_batch else once

    def _bound_function(self, values: Values) -> Callable[..., Any]:
        names = getattr(self.caller.function, "__globals__", {})
        names.update({name: values.scaler for name, each in names.items() if isinstance(each, torch.amp.GradScaler)})
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
        """What each argument that is handed over stands for: the required ones, and those that the case sets."""
        asked = {roles.ACCUMULATION, roles.LIMIT, *([guesses.SCALER] if values.case.scales else [])}
        found: Dict[str, Any] = {}
        for name, parameter in inspect.signature(called).parameters.items():
            if parameter.kind in VARIADIC:
                continue
            guess = roles.known(name, annotation_text(parameter.annotation), self._source)
            is_open = parameter.default is parameter.empty
            if not (is_open or name in self.caller.given or (guess is not None and guess.value in asked)):
                continue
            guess = guess or guesses.Guess(None)  # what no name explains is often optional by its use
            found[name] = guess.value
            if name not in self.caller.given:
                values.read[name] = guess
        return found

    def _arguments(self, slots: Dict[str, Any], values: Values) -> Dict[str, Any]:
        given = self.caller.given
        return {
            name: given[name] if name in given else values.made(guesses.Guess(words), name)
            for name, words in slots.items()
        }

    def _raised(self, error: Exception) -> TargetRaised:
        raise_if_out_of_memory(error)
        for each in chain(error):
            if isinstance(each, CannotFeedError):
                raise each from error
        return TargetRaised(error, self.roots.of_traceback(error.__traceback__), is_deliberate(error, self.roots))


def is_block(function: Any) -> bool:
    """Whether it was made of statements in the middle of a script or a function."""
    return hasattr(function, "text")


@functools.lru_cache(maxsize=None)
def source_of(function: Any) -> str:
    """The text of a function, or of a code object; "" where it has none.

    `inspect.getsource` resolves the path of every module that is loaded, anew in each process.
    """
    if is_block(function):
        return str(function.text)
    code = getattr(inspect.unwrap(function), "__code__", function)
    return _text_of(code) if isinstance(code, CodeType) else ""


@functools.lru_cache(maxsize=None)
def _text_of(code: CodeType) -> str:
    lines = linecache.getlines(code.co_filename)
    if code.co_name != "<module>":
        lines = inspect.getblock(lines[code.co_firstlineno - 1 :])
    return textwrap.dedent("".join(lines))


def _join_a_group(error: Optional[BaseException]) -> bool:
    """Make a process group of this process alone where a step reduces over one without asking whether there is any."""
    is_missing = "init_process_group" in str(error) and not torch.distributed.is_initialized()
    return is_missing and groups.world() is not None


def _exhausted(answer: Any) -> Any:
    """What a step returns; one that yields what it does has done nothing before it is asked for."""
    return list(answer) if inspect.isgenerator(answer) else answer


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
    """Process groups and random numbers are as before afterwards."""
    state = torch.get_rng_state()
    try:
        yield
    finally:
        torch.set_rng_state(state)
        groups.leave()
