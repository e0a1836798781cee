"""Where in the checkout something happens."""

import contextlib
import inspect
from typing import Any, Callable, List, Optional, Sequence

from . import lines, mutation, precision, retention, tracing
from .feeding import Given
from .frames import Site, most_common
from .measures import Measures
from .simulated_device import on_device


class Places(Measures):
    """The lines to blame; the definition of the target where no single line is."""

    def where_raised(self, error: BaseException) -> Optional[Site]:
        """The checkout's line closest to where `error` was raised."""
        return self._roots.of_traceback(error.__traceback__) or self.definition()

    def where_nonfinite(self, grads: Sequence[Any], second: Optional[Sequence[Any]] = None) -> Optional[Site]:
        """The line where finite values become infinite or NaN."""
        return self._first(grads, tracing.becomes_nonfinite, second)

    def where_retained(self, make: Callable[[], Sequence[Any]], with_graph: bool = False) -> Optional[Site]:
        """The line that made what outlives a call, or, `with_graph`, what in the answer carries a graph."""
        repeated = self._repeated(make)
        found = retention.where_retained(repeated, make, with_graph, self.device, self._roots)
        return found or self.definition()

    def where_imprecise(self, grads: Sequence[Any], tolerance: float) -> Optional[Site]:
        """The line whose value is the first to be off by more than `tolerance` (relative)."""
        call = self._prepared(grads, True)
        return precision.first_imprecise(call, tolerance, self.device, self._roots) or self.definition()

    def where_zero(self, grads: Sequence[Any]) -> Optional[Site]:
        """The line where non-zero values become all zero."""
        return self._first(grads, tracing.becomes_zero)

    def where_count_rounds(self, grads: Sequence[Any], exact_count: int) -> Optional[Site]:
        """The line where an exact count becomes an inexact float, or where a fraction is averaged."""
        return self._first(grads, tracing.rounds_count(exact_count)) or self._first(grads, tracing.averages)

    def _first(
        self, grads: Sequence[Any], description: tracing.Description, second: Optional[Sequence[Any]] = None
    ) -> Optional[Site]:
        try:
            call = self._prepared(grads, True, second=second)
        except Exception:
            return self.definition()
        return tracing.first_operator(call, description, self.device, self._roots) or self.definition()

    def where_different(self, grads: Sequence[Any], others: Sequence[Any]) -> Optional[Site]:
        """The line that first computes something else from `grads` than from `others`, the same values."""
        calls = [self._prepared(each, True) for each in (grads, others)]
        return tracing.first_difference(calls[0], calls[1], self.device, self._roots) or self.definition()

    def where_changed(self, grads: Sequence[Any], leaves: Sequence[Any] = ()) -> Optional[Site]:
        """The line that first changes what the target was given."""
        given: List[Given] = []
        call = self._prepared(grads, True, given)
        with on_device(self.device):
            watched = mutation.Watched(given, leaves)
            return mutation.first_changing_line(call, watched, self._roots) or self.definition()

    def where_read_again(self, grads: Sequence[Any], second: Optional[Sequence[Any]] = None) -> Optional[Site]:
        """The line that reads an iterator of the gradients after its end."""
        handed: List[lines.WatchedIterator] = []

        def watch(listed: List[Any]) -> lines.WatchedIterator:
            handed.append(lines.WatchedIterator(listed, self._roots))
            return handed[-1]

        with on_device(self.device), contextlib.suppress(Exception):
            self._prepared(grads, True, None, second, watch)()
        found = [iterator.read_again for iterator in handed if iterator.read_again is not None]
        return found[0] if found else self.definition()

    def most_common(self, sites: List[Optional[Site]]) -> Optional[Site]:
        return most_common(sites) or self.definition()

    def definition(self) -> Optional[Site]:
        """The line where the target is defined: the location when no single line is to blame."""
        function = inspect.unwrap(self._caller.function)
        code = getattr(function, "__code__", None)
        relative = self._roots.relative(code.co_filename) if code is not None else None
        if code is None or relative is None:
            return None
        return Site(relative, code.co_firstlineno, getattr(function, "__qualname__", function.__name__))
