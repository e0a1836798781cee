"""One target as calls: asked with gradients, answering with fields, roles and errors."""

import contextlib
import functools
import inspect
import math
from typing import Any, Callable, Dict, Iterator, List, Optional, Sequence, Tuple

import torch

from ..answers import declarations, structures
from ..answers.answers import flatten, relative_difference, types_of, words
from ..base import lines
from ..base.frames import Site, SourceRoots, chain
from ..base.refusals import CannotFeedError, NotApplicable, TargetRaised, Unavailable
from ..base.torch_internals import misses_cuda, raise_if_out_of_memory
from ..feeding import effects
from ..feeding.caller import Caller
from ..feeding.given import GroupInput, generator
from ..feeding.guesses import OF_ONE_CALL
from ..feeding.plan import Groups, Plan
from ..feeding.promises import Promise, own_words, sync_promise
from ..feeding.repeated import RepeatedCall
from ..simulated.device import on_device
from .cases import Cases

Make = Callable[[], List[Any]]
Conversion = Callable[[Sequence[Any], Sequence[str]], List[Any]]
_PLANTED = {"zero": {"zeros": 5}, "nan": {"nans": 5}, "inf": {"infs": 5}}


class Calls:
    """Calls of one target on one device, as its plan feeds it, each on fresh gradients."""

    def __init__(self, plan: Plan, caller: Caller, device: str, roots: SourceRoots) -> None:
        self.plan = plan
        for name, value in plan.settings.items():
            caller = caller.with_argument(name, value)
        self.caller = caller
        caller.starts_fresh = plan.starts_fresh
        self.device = device
        self.roots = roots
        self.cases = Cases(device)

    def on(self, device: str) -> "Calls":
        """The same target, asked on another device."""
        return Calls(self.plan, self.caller, device, self.roots)

    @property
    def roles(self) -> Dict[str, Any]:
        """What the answer's fields mean: `norm`, `zero`, `nan`, `inf`, by name."""
        return self.plan.roles

    def answer(self, grads: Sequence[Any], second: Optional[Sequence[Any]] = None) -> Dict[str, Any]:
        """Every number of the target's answer by field. Raises TargetRaised.

        A target that changes gradients and returns no number answers with the norm that it leaves.
        """
        return self.answer_with_types(grads, second)[0]

    def answer_with_types(
        self, grads: Sequence[Any], second: Optional[Sequence[Any]] = None
    ) -> Tuple[Dict[str, Any], Dict[str, str]]:
        """The numbers of the target's answer and the types of its parts, both by field. Raises TargetRaised."""
        given: List[GroupInput] = []
        with on_device(self.device), self.target_errors():
            raw = self.prepared(grads, True, given, second)()
            types = types_of(raw)
        return effects.effect(given) if self.plan.writes and not self.plan.fields else flatten(raw), types

    def words(self, grads: Sequence[Any]) -> Dict[str, str]:
        """Every text, member of an enumeration and None of the target's answer by field. Raises TargetRaised."""
        with on_device(self.device), self.target_errors():
            return words(self.prepared(grads)())

    def ask(
        self, grads: Sequence[Any], second: Optional[Sequence[Any]] = None, whole: bool = True, one_pass: bool = False
    ) -> structures.Answer:
        """The answer with its structure; `one_pass` hands the gradients over as a generator. Raises TargetRaised."""
        wrap = generator if one_pass else None
        step = (whole and self.caller.finish) or self.caller.function
        optional = declarations.declares_none(declarations.return_declaration(step))
        with on_device(self.device), self.target_errors():
            read = structures.take_answer(self.prepared(grads, whole, None, second, wrap), self.roots, optional)
        answer = read()
        return answer._replace(broken={path: self._raised(error) for path, error in answer.broken.items()})

    @property
    def has_finish(self) -> bool:
        """Whether a second step finishes the answer."""
        return self.caller.finish is not None

    @property
    def sync_promise(self) -> Optional[Promise]:
        """How often the collecting step synchronises by its own words; None where they say nothing."""
        return sync_promise(self.caller.function)

    @property
    def own_words(self) -> str:
        """The target's name, its docstring and the names of the fields that it returns."""
        return " ".join([own_words(self.caller.function), *self.plan.fields])

    @property
    def declares_sized(self) -> bool:
        """Whether the target says that it wants a list, not any iterable."""
        feed = self.plan.feed
        return declarations.declares_sized(self.caller.annotation(feed.setup, (feed.setup_slots or feed.slots)[0]))

    def norm(self, grads: Sequence[Any]) -> float:
        """The norm that the target reports (the root of a squared one). Raises TargetRaised, NotApplicable."""
        role = self.role("norm")
        value = self.answer(grads).get(role.path)
        if value is None:
            return math.nan
        number = float(value)
        return math.sqrt(number) if role.degree == 2 and number >= 0 else number

    def number(self, role: Optional[str], grads: Sequence[Any], second: Optional[Sequence[Any]] = None) -> Any:
        """The role's number, None where the answer lacks it; how many numbers it holds where `role` is None.

        Raises TargetRaised.
        """
        answer = self.answer(grads, second)
        return len(answer) if role is None else answer.get(self.role(role).path)

    def number_of_changed(
        self, role: Optional[str], make: Make, change: Conversion, first: Sequence[str], second: Optional[Sequence[str]]
    ) -> Any:
        """The role's number for gradients in the dtypes, or on the devices, `first` by turns. Raises TargetRaised.

        `change` is `as_dtypes` or `on_devices`; `second` is for the second group, None as the plan found it.
        """
        second_group = None if second is None else change(self.cases.benign(seed=1), second)
        return self.number(role, change(make(), first), second_group)

    def reference_number(
        self, role: Optional[str], make: Make, change: Conversion, plain: Sequence[str], second: Optional[Sequence[str]]
    ) -> Tuple[Any, bool]:
        """The number with all gradients in `plain`, and whether a second call gives the same."""
        kinds = None if second is None else plain
        value, again = (self.number_of_changed(role, make, change, plain, kinds) for _ in range(2))
        return value, not relative_difference(value, again)

    def compared_roles(self) -> Iterator[Tuple[Optional[str], Callable[[], List[Any]]]]:
        """The roles whose numbers can be compared, each with a maker of gradients that show it.

        The first comes without a role where there is no norm: it shows whether anything raises.
        """
        yield ("norm" if "norm" in self.roles else None), self.cases.powers_of_two
        for role, planted in _PLANTED.items():
            if role in self.roles:
                yield role, functools.partial(self.cases.benign, **planted)

    def raw(self, grads: Sequence[Any]) -> Any:
        """What the target returns, as it is. Raises TargetRaised."""
        with on_device(self.device), self.target_errors():
            return self.prepared(grads)()

    def left_by(self, grads: Sequence[Any]) -> List[Optional[torch.Tensor]]:
        """The gradients after one call, dense on the host; None where one was taken away. Raises TargetRaised."""
        given: List[GroupInput] = []
        with on_device(self.device), self.target_errors():
            self.prepared(grads, given=given)()
        return effects.on_host(effects.gradients_now(given[0]))

    @property
    def writes_gradients(self) -> bool:
        """Whether the target is there to change gradients, by what it does to them."""
        return bool(self.plan.writes)

    def role(self, name: str) -> Any:
        """The role `name` of the answer. Raises NotApplicable where the answer has none."""
        if name not in self.plan.roles:
            raise NotApplicable("its answer has no {}; fields: {}".format(name, ", ".join(self.plan.fields) or "none"))
        return self.plan.roles[name]

    @contextlib.contextmanager
    def target_errors(self) -> Any:
        try:
            yield
        except (MemoryError, KeyboardInterrupt, SystemExit, NotApplicable):
            raise
        except Exception as error:
            raise_if_out_of_memory(error)
            # What a target raises because we had no value for it is no defect of the target's.
            for each in chain(error):
                if isinstance(each, CannotFeedError):
                    raise each from error
                if misses_cuda(each):
                    raise Unavailable("the target asks for CUDA: {}".format(each), "no_device") from error
            raise self._raised(error) from error

    def _raised(self, error: Exception) -> Exception:
        site = self.roots.of_traceback(error.__traceback__)
        return TargetRaised(error, site, lines.is_deliberate(error, self.roots))

    def prepared(
        self,
        grads: Sequence[Any],
        whole: bool = True,
        given: Optional[List[GroupInput]] = None,
        second: Optional[Sequence[Any]] = None,
        wrap: Optional[Callable[[List[Any]], Any]] = None,
    ) -> Callable[[], Any]:
        """A fresh call on `grads`; `whole` adds the step that finishes an asynchronous answer.

        Without `second` the second group is the one that the plan was found with.
        """
        if second is None:
            second = self.second_group()
        with on_device(self.device):
            return self.caller.prepare(self.plan.feed, (grads, second), whole, given, wrap)

    def second_group(self) -> List[Any]:
        """The second group that the plan was found with: one gradient, or a parameter without any."""
        return self.cases.place([torch.ones(2, 3)]) if self.plan.groups is Groups.TWO_WITH_GRADIENTS else [None]

    def repeated(self, make: Callable[[], Sequence[Any]]) -> RepeatedCall:
        """One instance of the target that is called again and again on gradients like those of `make`.

        Raises NotApplicable where it reads what is made for one call alone.
        """
        made = [path for path, value in self.plan.filled.items() if value in OF_ONE_CALL]
        # Arguments beside a list of gradients are made anew for each call, as that list is.
        stale = [path for path in made if "." in path or self.plan.feed.takes != "gradients"]
        if stale:
            raise NotApplicable("a later call would get {} of the first one".format(" and ".join(stale)))
        second = self.second_group()
        with on_device(self.device):
            return RepeatedCall(self.caller, self.plan.feed, make(), second)

    def answers_in_turn(self, makes: Sequence[Make]) -> List[Dict[str, Any]]:
        """The answers of one instance to these gradients one after the other. Raises TargetRaised."""
        repeated = self.repeated(makes[0])
        with on_device(self.device), self.target_errors():
            return [flatten(repeated.call(make())) for make in makes]

    def definition(self) -> Optional[Site]:
        """The line where the target is defined: the location when no single line is to blame."""
        function = inspect.unwrap(self.caller.function)
        code = getattr(function, "__code__", None)
        relative = self.roots.relative(code.co_filename) if code is not None else None
        if code is None or relative is None:
            return None
        return Site(relative, code.co_firstlineno, getattr(function, "__qualname__", function.__name__))
