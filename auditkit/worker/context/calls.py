"""One target as calls on gradients: results with fields, roles and errors."""

import contextlib
import inspect
import math
from typing import Any, Callable, Dict, Iterator, List, Optional, Sequence, Set, Tuple

import torch

from ..answers import declarations, structures
from ..answers.answers import differences, flatten, types_of, words
from ..base import lines
from ..base.frames import Site, SourceRoots, chain
from ..base.refusals import CannotFeedError, NotApplicable, TargetRaised, Unavailable
from ..base.torch_internals import misses_cuda, raise_if_out_of_memory
from ..feed import effects
from ..feed.caller import Caller
from ..feed.given import GroupInput, generator
from ..feed.guesses import OF_ONE_CALL
from ..feed.plan import Groups, Plan
from ..feed.promises import Promise, names_a_statistic, own_words, sync_promise
from ..feed.repeated import RepeatedCall
from ..gradients import gradients
from ..measure.graph_capture import unequal_fields
from ..simulated.device import on_device
from .cases import Cases

Make = Callable[[], List[Any]]
_FACTORS = (4.0, 0.0, math.nan, math.inf)


class Calls:
    """Calls of one target on one device, as its plan feeds it. Every call raises TargetRaised if the target raises."""

    def __init__(self, plan: Plan, caller: Caller, device: str, roots: SourceRoots) -> None:
        caller = caller.as_recorded(plan.recorded) if plan.recorded else caller
        for name, value in plan.settings.items():
            caller = caller.with_argument(name, value)
        caller.starts_fresh = plan.starts_fresh
        self.plan, self.caller, self.device, self.roots = plan, caller, device, roots
        self.cases = Cases(device)
        self.roles: Dict[str, Any] = plan.roles
        """What the result's fields mean: `norm`, `zero`, `nan`, `inf`, by name."""
        self.has_finish = caller.finish is not None
        """Whether a second step finishes the result."""
        self.writes_gradients = bool(plan.writes)
        """Whether the target's purpose is to change gradients."""
        self._read: Set[str] = set()

    def on(self, device: str) -> "Calls":
        """Return the same target on another device."""
        return Calls(self.plan, self.caller, device, self.roots)

    def raw(self, grads: Sequence[Any]) -> Any:
        """Return the target's result, unchanged."""
        with on_device(self.device), self.target_errors():
            return self.prepared(grads)()

    def answer(self, grads: Sequence[Any], second: Optional[Sequence[Any]] = None) -> Dict[str, Any]:
        """Return every number of the result by field.

        For a target that changes gradients and returns no number, it is their norm afterwards.
        """
        return self.answer_with_types(grads, second)[0]

    def answer_with_types(
        self, grads: Sequence[Any], second: Optional[Sequence[Any]] = None
    ) -> Tuple[Dict[str, Any], Dict[str, str]]:
        """Return the numbers of the result and the types of its parts, both by field."""
        given: List[GroupInput] = []
        with on_device(self.device), self.target_errors():
            raw = self.prepared(grads, True, given, second)()
            types = types_of(raw)
        return self._numbers(raw, given), types

    def answer_and_left(self, grads: Sequence[Any]) -> Tuple[Dict[str, Any], List[Optional[torch.Tensor]]]:
        """Return every number of the result by field, and the gradients afterwards as `left_by` does, of one call."""
        given: List[GroupInput] = []
        with on_device(self.device), self.target_errors():
            raw = self.prepared(grads, given=given)()
        return self._numbers(raw, given), effects.on_host(effects.gradients_now(given[0]))

    def _numbers(self, raw: Any, given: Sequence[GroupInput]) -> Dict[str, Any]:
        return effects.effect(given) if self.plan.writes and not self.plan.fields else flatten(raw)

    def words(self, grads: Sequence[Any]) -> Dict[str, str]:
        """Return every string, enum member and None of the result by field."""
        with on_device(self.device), self.target_errors():
            return words(self.prepared(grads)())

    def ask(
        self, grads: Sequence[Any], second: Optional[Sequence[Any]] = None, whole: bool = True, one_pass: bool = False
    ) -> structures.Answer:
        """Return the result with its structure; `one_pass` passes the gradients as a generator."""
        step = (whole and self.caller.finish) or self.caller.function
        optional = declarations.declares_none(declarations.return_declaration(step))
        with on_device(self.device), self.target_errors():
            call = self.prepared(grads, whole, None, second, generator if one_pass else None)
            read = structures.take_answer(call, self.roots, optional)
        answer = read()
        return answer._replace(broken={path: self._raised(error) for path, error in answer.broken.items()})

    def role(self, name: str) -> Any:
        """Return the role `name` of the result. Raises NotApplicable if the result has none."""
        if name not in self.roles:
            raise NotApplicable("its result has no {}; fields: {}".format(name, ", ".join(self.plan.fields) or "none"))
        return self.roles[name]

    def number(self, role: Optional[str], grads: Sequence[Any], second: Optional[Sequence[Any]] = None) -> Any:
        """Return the role's number, or None if the result lacks it; without a role, how many numbers the result has."""
        answer = self.answer(grads, second)
        return len(answer) if role is None else answer.get(self.role(role).path)

    def norm(self, grads: Sequence[Any]) -> float:
        """Return the norm that the target reports, the root of a squared one. Raises NotApplicable."""
        value = self.number("norm", grads)
        number = math.nan if value is None else float(value)
        return math.sqrt(number) if self.role("norm").degree == 2 and number >= 0 else number

    def left_by(self, grads: Sequence[Any]) -> List[Optional[torch.Tensor]]:
        """Return the gradients after one call, dense on the host; None for a removed one."""
        return self.answer_and_left(grads)[1]

    def answers_in_turn(self, makes: Sequence[Make]) -> List[Dict[str, Any]]:
        """Return the results of one instance for these gradients one after the other."""
        repeated = self.repeated(makes[0])
        with on_device(self.device), self.target_errors():
            return [flatten(repeated.call(make())) for make in makes]

    @property
    def sync_promise(self) -> Optional[Promise]:
        """How often the collecting step synchronizes by its docstring or name; None if they do not say."""
        return sync_promise(self.caller.function)

    @property
    def own_words(self) -> str:
        """The target's name, its docstring and the names of the fields that it returns."""
        return " ".join([own_words(self.caller.function), *self.plan.fields])

    @property
    def is_a_statistic(self) -> bool:
        """Whether the name says that it measures, or larger finite gradients give another result."""
        usual, larger = (self.answer(self.cases.benign(scale=scale)) for scale in (1.0, 4.0))
        return names_a_statistic(self.caller.function) or bool(differences(usual, larger))

    @property
    def declares_sized(self) -> bool:
        """Whether the target declares a list and not any iterable."""
        feed = self.plan.feed
        return declarations.declares_sized(self.caller.annotation(feed.setup, (feed.setup_slots or feed.slots)[0]))

    def definition(self) -> Optional[Site]:
        """Return the line of the target's definition: the location of a defect without a line of its own."""
        function = inspect.unwrap(self.caller.function)
        code = getattr(function, "__code__", None)
        relative = self.roots.relative(code.co_filename) if code is not None else None
        if code is None or relative is None:
            return None
        return Site(relative, code.co_firstlineno, getattr(function, "__qualname__", function.__name__))

    def gradients(self, tensors: int, elements: int, dtype: str = "float32", magnitude: float = 1.0) -> List[Any]:
        """Return `Cases.gradients`. Raises NotApplicable for matrices of a dtype that the result does not depend on."""
        return self._if_read(self.cases.gradients(tensors, elements, dtype, magnitude), dtype)

    def known_norm(
        self, pattern: str, tensors: int, elements: int, dtype: str = "float32", magnitude: float = 1.0
    ) -> Tuple[List[Any], float]:
        """Return `Cases.known_norm`. Raises NotApplicable as `gradients` does."""
        grads, norm = self.cases.known_norm(pattern, tensors, elements, dtype, magnitude)
        return self._if_read(grads, dtype), norm

    def reads(self, index: int, tensors: int = 3, first: int = 0) -> bool:
        """Return whether the result depends on the gradient `index` of `planted`, in the order from `first` on."""

        def make(factor: float) -> List[Any]:
            grads = gradients.small_gradients(tensors)
            grads[index] *= factor
            return self.cases.place(grads[first:] + grads[:first])

        return self._follows(make)

    def _if_read(self, grads: List[Any], dtype: str) -> List[Any]:
        if dtype not in self._read and grads and grads[0].dim() == 2:
            if not self._follows(lambda factor: self.cases.gradients(3, 128, dtype, factor)):
                raise NotApplicable("its result does not follow {} gradients of two dimensions".format(dtype))
            self._read.add(dtype)
        return grads

    def _follows(self, make: Callable[[float], List[Any]]) -> bool:
        """Return whether other factors give another result, or there is no valid result to compare with.

        Fields that differ between equal calls (a clock) are ignored if there are others.
        """
        try:
            usual, again = (self.answer(make(1.0)) for _ in range(2))
            clocks = set(unequal_fields(usual, again))
            if usual and (clocks == set(usual) or not all(map(math.isfinite, usual.values()))):
                return True
            others = (self.answer(make(factor)) for factor in _FACTORS)
            return any(set(differences(usual, other)) - clocks or set(other) - set(usual) for other in others)
        except TargetRaised:
            return True  # It has read them.

    @contextlib.contextmanager
    def target_errors(self) -> Iterator[None]:
        """Raise TargetRaised for the target's errors, but not for a value that auditkit could not provide."""
        try:
            yield
        except (MemoryError, KeyboardInterrupt, SystemExit, NotApplicable):
            raise
        except Exception as error:
            raise_if_out_of_memory(error)
            for each in chain(error):
                if isinstance(each, CannotFeedError):
                    raise each from error
                if misses_cuda(each):
                    raise Unavailable("the target needs CUDA: {}".format(each), "no_device") from error
            raise self._raised(error) from error

    def _raised(self, error: Exception) -> Exception:
        return TargetRaised(error, self.roots.of_traceback(error.__traceback__), lines.is_deliberate(error, self.roots))

    def prepared(
        self,
        grads: Sequence[Any],
        whole: bool = True,
        given: Optional[List[GroupInput]] = None,
        second: Optional[Sequence[Any]] = None,
        wrap: Optional[Callable[[List[Any]], Any]] = None,
    ) -> Callable[[], Any]:
        """Return a new call on `grads`; `whole` includes the step that finishes an asynchronous result.

        Without `second` the second group is that of the plan.
        """
        groups = (grads, self.second_group() if second is None else second)
        with on_device(self.device):
            return self.caller.prepare(self.plan.feed, groups, whole, given, wrap)

    def second_group(self) -> List[Any]:
        """Return the second group that the plan was found with: one gradient, or a parameter without one."""
        return self.cases.place([torch.ones(2, 3)]) if self.plan.groups is Groups.TWO_WITH_GRADIENTS else [None]

    def repeated(self, make: Callable[[], Sequence[Any]]) -> RepeatedCall:
        """Return one instance of the target that can be called repeatedly with gradients like those of `make`.

        Raises NotApplicable if it reads a value that is computed for one call.
        """
        made = [path for path, value in self.plan.filled.items() if value in OF_ONE_CALL]
        # Arguments beside a list of gradients are new for each call, as that list is.
        stale = [path for path in made if "." in path or self.plan.feed.takes != "gradients"]
        if stale:
            raise NotApplicable("a later call would get {} of the first one".format(" and ".join(stale)))
        with on_device(self.device):
            return RepeatedCall(self.caller, self.plan.feed, make(), self.second_group())
