"""One target as calls: asked with gradients, answering with fields, roles and errors."""

import contextlib
import functools
import math
from typing import Any, Callable, Dict, Iterator, List, Optional, Sequence, Tuple

import torch

from . import asking, declarations, effects, lines, memory
from .answers import differences, flatten, relative_difference
from .cases import Cases
from .feeding import Caller, Given
from .frames import SourceRoots
from .plan import Plan
from .refusals import NotApplicable, TargetRaised
from .simulated_device import on_device
from .structures import common_structure

Make = Callable[[], List[Any]]
Change = Callable[[Sequence[Any], Sequence[str]], List[Any]]
_PLANTED = {"zero": {"zeros": 5}, "nan": {"nans": 5}, "inf": {"infs": 5}}
_WRITING_VERBS = ("clip", "scale", "rescale", "unscale", "normalize", "zero")


class Calls(Cases):
    """Calls of one target as its plan feeds it, each on fresh gradients."""

    def __init__(
        self,
        plan: Plan,
        caller: Caller,
        device: str,
        roots: SourceRoots,
        options: Dict[str, Any],
    ) -> None:
        super().__init__(device)
        self.plan = plan
        self.options = options
        self._caller = caller
        self._roots = roots

    @property
    def roles(self) -> Dict[str, Any]:
        """What the answer's fields mean: `norm`, `zero`, `nan`, `inf`, by name."""
        return self.plan.roles

    def answer(self, grads: Sequence[Any], second: Optional[Sequence[Any]] = None) -> Dict[str, Any]:
        """Every number of the target's answer by field. Raises TargetRaised.

        A clipping target that returns no number answers with the norm that it leaves.
        """
        given: List[Given] = []
        with on_device(self.device), self._target_errors():
            raw = self._prepared(grads, True, given, second)()
        return effects.effect(given) if self.plan.clips and not self.plan.fields else flatten(raw)

    def ask(
        self, grads: Sequence[Any], second: Optional[Sequence[Any]] = None, whole: bool = True, one_pass: bool = False
    ) -> asking.Answer:
        """The answer with its structure; `one_pass` hands the gradients over as a generator. Raises TargetRaised."""
        wrap = asking.one_pass if one_pass else None
        step = (whole and self._caller.finish) or self._caller.function
        optional = declarations.declares_none(declarations.return_declaration(step))
        with on_device(self.device), self._target_errors():
            read = asking.take_answer(self._prepared(grads, whole, None, second, wrap), self._roots, optional)
        answer = read()
        return answer._replace(broken={path: self._raised(error) for path, error in answer.broken.items()})

    @property
    def has_finish(self) -> bool:
        """Whether a second step finishes the answer."""
        return self._caller.finish is not None

    @property
    def declares_sized(self) -> bool:
        """Whether the target says that it wants a list, not any iterable."""
        return declarations.declares_sized(self._caller, self.plan.feed)

    @staticmethod
    def common_structure(answers: Sequence[asking.Answer]) -> Dict[str, str]:
        """The parts that every answer has, without those that stand for one of its tensors."""
        return common_structure([answer.structure for answer in answers])

    @staticmethod
    def differences(first: Dict[str, Any], second: Dict[str, Any]) -> List[str]:
        """The fields of `first` that `second` lacks or holds another value of."""
        return differences(first, second)

    def norm(self, grads: Sequence[Any]) -> float:
        """The norm that the target reports (the root of a squared one). Raises TargetRaised, NotApplicable."""
        role = self.role("norm")
        value = self.answer(grads).get(role.path)
        if value is None:
            return math.nan
        number = float(value)
        return math.sqrt(number) if role.degree == 2 and number >= 0 else number

    def number(self, role: Optional[str], grads: Sequence[Any], second: Optional[Sequence[Any]] = None) -> Any:
        """The role's number, None where the answer or the role is missing. Raises TargetRaised."""
        answer = self.answer(grads, second)
        return None if role is None else answer.get(self.role(role).path)

    def number_of_changed(
        self, role: Optional[str], make: Make, change: Change, first: Sequence[str], second: Optional[Sequence[str]]
    ) -> Any:
        """The role's number for gradients in the dtypes, or on the devices, `first` by turns. Raises TargetRaised.

        `change` is `as_dtypes` or `on_devices`; `second` is for the second group, None as the plan found it.
        """
        second_group = None if second is None else change(self.benign(seed=1), second)
        return self.number(role, change(make(), first), second_group)

    def reference_number(
        self, role: Optional[str], make: Make, change: Change, plain: Sequence[str], second: Optional[Sequence[str]]
    ) -> Tuple[Any, bool]:
        """The number with all gradients in `plain`, and whether a second call gives the same."""
        kinds = None if second is None else plain
        value, again = (self.number_of_changed(role, make, change, plain, kinds) for _ in range(2))
        return value, not relative_difference(value, again)

    def compared_roles(self) -> Iterator[Tuple[Optional[str], Callable[[], List[Any]]]]:
        """The roles whose numbers can be compared, each with a maker of gradients that show it.

        The first comes without a role where there is no norm: it shows whether anything raises.
        """
        yield ("norm" if "norm" in self.roles else None), self.powers_of_two
        for role, planted in _PLANTED.items():
            if role in self.roles:
                yield role, functools.partial(self.benign, **planted)

    @staticmethod
    def relative_difference(value: Optional[float], expected: Optional[float]) -> float:
        """How far a number is from another; infinite where only one of the two is finite."""
        return relative_difference(value, expected)

    def left_by(self, grads: Sequence[Any]) -> List[Optional[torch.Tensor]]:
        """The gradients after one call, dense on the host; None where one was taken away. Raises TargetRaised."""
        given: List[Given] = []
        with on_device(self.device), self._target_errors():
            self._prepared(grads, True, given)()
        return effects.on_host(effects.gradients_now(given[0]))

    @property
    def writes_gradients(self) -> bool:
        """Whether the target is there to change gradients: it clips, or its name says so, as in torch (`clip_`)."""
        name = getattr(self._caller.function, "__name__", "")
        in_name = name.endswith("_") or name.strip("_").split("_")[0] in _WRITING_VERBS
        return in_name or self.plan.clips

    def role(self, name: str) -> Any:
        """The role `name` of the answer. Raises NotApplicable where the answer has none."""
        if name not in self.plan.roles:
            raise NotApplicable("its answer has no {}; fields: {}".format(name, ", ".join(self.plan.fields) or "none"))
        return self.plan.roles[name]

    @contextlib.contextmanager
    def _target_errors(self) -> Any:
        try:
            yield
        except (MemoryError, KeyboardInterrupt, SystemExit):
            raise
        except Exception as error:
            memory.raise_if_out_of_memory(error)
            raise self._raised(error) from error

    def _raised(self, error: Exception) -> Exception:
        site = self._roots.of_traceback(error.__traceback__)
        return TargetRaised(error, site, lines.is_deliberate(error, self._roots))

    def _prepared(
        self,
        grads: Sequence[Any],
        whole: bool,
        given: Optional[List[Given]] = None,
        second: Optional[Sequence[Any]] = None,
        wrap: Optional[Callable[[List[Any]], Any]] = None,
    ) -> Callable[[], Any]:
        """A fresh call on `grads`; `whole` adds the step that finishes an asynchronous answer.

        Without `second` the second group is the one that the plan was found with.
        """
        if second is None:
            second = self._second_group()
        with on_device(self.device):
            return self._caller.prepare(self.plan.feed, (grads, second), whole, given, wrap)

    def _second_group(self) -> List[Any]:
        """The second group that the plan was found with: one gradient, or a parameter without any."""
        return self.place([torch.ones(2, 3)]) if self.plan.groups == 3 else [None]
