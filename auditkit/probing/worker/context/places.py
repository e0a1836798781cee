"""Where in the checkout something happens."""

import contextlib
from typing import Any, Callable, List, Optional, Sequence

from ..base import lines
from ..base.frames import Site, most_common
from ..feeding.given import GroupInput
from ..instruments import mutation, retention, tracing
from ..simulated.device import on_device
from .calls import Calls


class Places:
    """The lines to blame; the definition of the target where no single line is."""

    def __init__(self, calls: Calls) -> None:
        self._calls = calls

    def where_raised(self, error: BaseException) -> Optional[Site]:
        """The checkout's line closest to where `error` was raised."""
        return self._calls.roots.of_traceback(error.__traceback__) or self._calls.definition()

    def where_nonfinite(self, grads: Sequence[Any], second: Optional[Sequence[Any]] = None) -> Optional[Site]:
        """The line where finite values become infinite or NaN."""
        return self._first(grads, tracing.becomes_nonfinite, second)

    def where_retained(self, make: Callable[[], Sequence[Any]], with_graph: bool = False) -> Optional[Site]:
        """The line that made what outlives a call, or, `with_graph`, what in the answer carries a graph."""
        repeated = self._calls.repeated(make)
        found = retention.where_retained(repeated, make, with_graph, self._calls.device, self._calls.roots)
        return found or self._calls.definition()

    def where_imprecise(self, grads: Sequence[Any], tolerance: float) -> Optional[Site]:
        """The line whose value is the first to be off by more than `tolerance` (relative)."""
        call = self._calls.prepared(grads)
        return (
            tracing.first_imprecise(call, tolerance, self._calls.device, self._calls.roots) or self._calls.definition()
        )

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
            call = self._calls.prepared(grads, second=second)
        except Exception:
            return self._calls.definition()
        return (
            tracing.first_operator(call, description, self._calls.device, self._calls.roots) or self._calls.definition()
        )

    def where_different(self, grads: Sequence[Any], others: Sequence[Any]) -> Optional[Site]:
        """The line that first computes something else from `grads` than from `others`, the same values."""
        calls = [self._calls.prepared(each) for each in (grads, others)]
        return (
            tracing.first_difference(calls[0], calls[1], self._calls.device, self._calls.roots)
            or self._calls.definition()
        )

    def where_changed(self, grads: Sequence[Any], leaves: Sequence[Any] = ()) -> Optional[Site]:
        """The line that first changes what the target was given."""
        given: List[GroupInput] = []
        call = self._calls.prepared(grads, given=given)
        with on_device(self._calls.device):
            watched = mutation.Snapshot(given, leaves)
            return mutation.first_changing_line(call, watched, self._calls.roots) or self._calls.definition()

    def where_read_again(self, grads: Sequence[Any], second: Optional[Sequence[Any]] = None) -> Optional[Site]:
        """The line that reads an iterator of the gradients after its end."""
        handed: List[lines.WatchedIterator] = []

        def watch(listed: List[Any]) -> lines.WatchedIterator:
            handed.append(lines.WatchedIterator(listed, self._calls.roots))
            return handed[-1]

        with on_device(self._calls.device), contextlib.suppress(Exception):
            self._calls.prepared(grads, second=second, wrap=watch)()
        found = [iterator.read_again for iterator in handed if iterator.read_again is not None]
        return found[0] if found else self._calls.definition()

    def where_becomes_matrix(self, grads: Sequence[Any], kept: int) -> Optional[Site]:
        """The line that makes (R, K, K) diagonal matrices of K = `kept`."""
        return self._first(grads, tracing.becomes_diagonal(grads[0].shape[0], kept))

    def most_common(self, sites: List[Optional[Site]]) -> Optional[Site]:
        """The line that occurs most often."""
        return most_common(sites) or self._calls.definition()
