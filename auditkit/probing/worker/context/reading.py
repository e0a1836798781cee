"""Which gradients a target reads: of what its answer never follows, nothing can be measured and nothing passes."""

import math
from typing import Any, Callable, List, Set, Tuple

from ..answers.answers import differences
from ..base.refusals import NotApplicable, TargetRaised
from ..gradients import gradients
from ..instruments.graph_capture import unequal_fields
from .calls import Calls

_FACTORS = (4.0, 0.0, math.nan, math.inf)
_TENSORS, _ELEMENTS = 3, 128


class Reading:
    """What the answer follows; and gradients of one kind, refused where it follows none of them."""

    def __init__(self, calls: Calls) -> None:
        self._calls = calls
        self._read: Set[str] = set()

    def gradients(self, tensors: int, elements: int, dtype: str = "float32", magnitude: float = 1.0) -> List[Any]:
        """`Cases.gradients`. Raises NotApplicable where they are matrices and the answer follows none of the dtype."""
        return self._if_read(self._calls.cases.gradients(tensors, elements, dtype, magnitude), dtype)

    def known_norm(
        self, pattern: str, tensors: int, elements: int, dtype: str = "float32", magnitude: float = 1.0
    ) -> Tuple[List[Any], float]:
        """`Cases.known_norm`, refused like `gradients`."""
        grads, norm = self._calls.cases.known_norm(pattern, tensors, elements, dtype, magnitude)
        return self._if_read(grads, dtype), norm

    def reads(self, index: int, tensors: int = 3, first: int = 0) -> bool:
        """Whether the answer follows the gradient `index` of those of `planted`, given from `first` on and around."""

        def make(factor: float) -> List[Any]:
            grads = gradients.small_gradients(tensors)
            grads[index] *= factor
            return self._calls.cases.place(grads[first:] + grads[:first])

        return self._follows(make)

    def _if_read(self, grads: List[Any], dtype: str) -> List[Any]:
        if dtype in self._read or not grads or grads[0].dim() != 2:
            return grads
        if not self._follows(lambda factor: self._calls.cases.gradients(_TENSORS, _ELEMENTS, dtype, factor)):
            raise NotApplicable("its answer does not follow {} gradients of two dimensions".format(dtype))
        self._read.add(dtype)
        return grads

    def _follows(self, make: Callable[[float], List[Any]]) -> bool:
        """Whether other factors give another answer, or there is no sound one to compare with.

        What differs between equal calls, a clock, is left out where there is anything else.
        """
        try:
            usual, again = (self._calls.answer(make(1.0)) for _ in range(2))
        except TargetRaised:
            return True  # it has looked at them
        clocks = set(unequal_fields(usual, again))
        if usual and (clocks == set(usual) or not all(map(math.isfinite, usual.values()))):
            return True
        return any(self._answers_otherwise(usual, clocks, make(factor)) for factor in _FACTORS)

    def _answers_otherwise(self, usual: Any, clocks: Set[str], grads: List[Any]) -> bool:
        try:
            answer = self._calls.answer(grads)
        except TargetRaised:
            return True
        return bool(set(differences(usual, answer)) - clocks or set(answer) - set(usual))
