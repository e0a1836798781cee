"""The instruments, each for one call of the target: counts, bytes, graphs, changes, and the lines to blame."""

import contextlib
from typing import Any, Callable, Dict, List, Optional, Sequence

from ..answers.answers import host_numbers, read_properties
from ..base import lines
from ..base.frames import Site, most_common
from ..base.refusals import NotApplicable, TargetRaised
from ..feed.given import GroupInput
from ..measure import graph_capture, memory, mutation, tracing
from ..measure.graphs import Stop, Trace, fullgraph_failure, is_declared_eager, trace
from ..measure.syncs import Count, count_launches, count_syncs
from ..measure.transfers import Traffic, count_transfers
from ..simulated.device import on_device
from .calls import Calls

Make = Callable[[], Sequence[Any]]


class Measures:
    """What a call costs and does, and where; a place is the target's definition if no single line is to blame."""

    def __init__(self, calls: Calls) -> None:
        self._calls = calls

    def syncs(self, grads: Sequence[Any], whole: bool = True) -> Count:
        """Count syncs of one call; `whole=False` excludes the finishing step."""
        self._warm_up(grads, whole)
        with self._calls.target_errors():
            return count_syncs(self._read(grads, whole), self._calls.device, self._calls.roots)

    def launches(self, grads: Sequence[Any]) -> Count:
        """Count kernel launches of one call."""
        self._warm_up(grads, True)
        with self._calls.target_errors():
            return count_launches(self._read(grads, True), self._calls.device, self._calls.roots)

    def transfers(self, grads: Sequence[Any]) -> Traffic:
        """Count what one whole call moves between devices, in bytes."""
        with self._calls.target_errors():
            return count_transfers(self._read(grads, True), self._calls.device, self._calls.roots)

    def peak_bytes(self, grads: Sequence[Any], python: bool = False) -> int:
        """Return the peak bytes that one call adds, by the allocator, or of NumPy and `python` memory."""
        measure = memory.python_peak_bytes if python else memory.peak_bytes
        with self._calls.target_errors():
            return measure(self._calls.prepared(grads), self._calls.device)

    def live_at_peak(self, grads: Sequence[Any]) -> List[memory.LiveBytes]:
        """Return the checkout's lines that allocated the peak of one call, largest first."""
        with self._calls.target_errors():
            return memory.live_at_peak(self._calls.prepared(grads), self._calls.device, self._calls.roots)

    def held_bytes(self, make: Make, counts: Sequence[int], python: bool = False) -> Dict[int, int]:
        """Return the bytes that one instance keeps after so many calls, each on new gradients that are then dropped."""
        measure = memory.python_held_bytes if python else memory.held_bytes
        with self._calls.target_errors():
            repeated = self._calls.repeated(make)

            def step() -> None:
                repeated.call(make())
                repeated.forget()

            return measure(step, counts, self._calls.device)

    def kept_by_answer(self, make: Make) -> memory.AnswerMemory:
        """Return the bytes that only the result keeps alive, and its tensors with a graph, by path."""
        with self._calls.target_errors():
            return memory.kept_by_answer(self._calls.repeated(make), make, self._calls.device)

    def available_bytes(self) -> int:
        """Return the memory that a case may use on this device now."""
        return memory.available_bytes(self._calls.device)

    def changes(self, grads: Sequence[Any], leaves: Sequence[Any] = ()) -> List[mutation.Mutation]:
        """Return what one call changes in its inputs; `leaves` are those of `with_graph`. Raises TargetRaised."""
        given: List[GroupInput] = []
        call = self._calls.prepared(grads, given=given)
        with on_device(self._calls.device):
            watched = mutation.Snapshot(given, leaves)
            with self._calls.target_errors():
                call()
            return watched.changes()

    def replay(self, grads: Sequence[Any], others: Sequence[Any]) -> graph_capture.Replay:
        """Capture the collecting step in a CUDA graph on `grads` and replay it on the values of `others`.

        Raises NotApplicable if the result is on the host, TargetRaised if an ordinary call raises.
        """
        groups = (grads, self._calls.second_group())

        def make_step() -> graph_capture.Step:
            return graph_capture.Step(*self._calls.caller.steps(self._calls.plan.feed, groups))

        with self._calls.target_errors():
            step = make_step()
            is_on_device = graph_capture.holds_device_tensor(step.collect())
            if step.finish is None and not is_on_device and not self._calls.plan.writes:
                raise NotApplicable("its result is on the host: a read cannot be captured")
            return graph_capture.replay_graph(make_step, grads, others)

    def graphs(self, grads: Sequence[Any], whole: bool = True) -> Trace:
        """Count the graphs that torch.compile makes of one call; `whole=False` excludes the finishing step."""
        self._warm_up(grads, whole)
        return trace(self._compilable(grads, whole), self._calls.roots)

    def fullgraph_failure(self, grads: Sequence[Any], whole: bool = True) -> Optional[Stop]:
        """Return why `torch.compile(fullgraph=True)` rejects the call; None if it compiles."""
        return fullgraph_failure(self._compilable(grads, whole), self._calls.roots)

    def _compilable(self, grads: Sequence[Any], whole: bool) -> Callable[[], Any]:
        """Return a call for torch.compile. Raises NotApplicable if its result would not be about the target."""
        if self._calls.device == "simulated":
            hint = ": use --device auto or cpu" if self._calls.plan.device == "cpu" else ""
            raise NotApplicable("torch.compile does not trace the simulated device" + hint)
        if is_declared_eager(self._calls.caller.function):
            raise NotApplicable("it is declared to run outside compiled code (torch.compiler.disable)")
        return self._calls.prepared(grads, whole)

    def returns_host_numbers(self) -> bool:
        """Return whether a number outside of tensors in the result depends on the gradients: it was read back."""
        seen = set()
        for case in ({}, {"scale": 4.0}, {"zeros": 5}, {"nans": 5}, {"infs": 5}):
            with contextlib.suppress(TargetRaised):
                seen.add(repr(host_numbers(self._calls.raw(self._calls.cases.benign(**case)))))
        return len(seen) > 1

    def where(
        self, what: str, grads: Sequence[Any], *numbers: int, second: Optional[Sequence[Any]] = None
    ) -> Optional[Site]:
        """Return the line of the first operator that does `what`, a function of measure/tracing.py with `numbers`."""
        described = getattr(tracing, what)
        try:
            call = self._calls.prepared(grads, second=second)
        except Exception:
            return self._calls.definition()
        description = described(*numbers) if numbers else described
        found = tracing.first_operator(call, description, self._calls.device, self._calls.roots)
        return found or self._calls.definition()

    def where_raised(self, error: BaseException) -> Optional[Site]:
        """Return the checkout's line closest to where `error` was raised."""
        return self._calls.roots.of_traceback(error.__traceback__) or self._calls.definition()

    def where_retained(self, make: Make, with_graph: bool = False) -> Optional[Site]:
        """Return the line that created what outlives a call, or, `with_graph`, a tensor with a graph in the result."""
        repeated, (device, roots) = self._calls.repeated(make), (self._calls.device, self._calls.roots)
        return memory.where_retained(repeated, make, with_graph, device, roots) or self._calls.definition()

    def where_imprecise(self, grads: Sequence[Any], tolerance: float) -> Optional[Site]:
        """Return the line of the first value that is off by more than `tolerance` (relative)."""
        call, (device, roots) = self._calls.prepared(grads), (self._calls.device, self._calls.roots)
        return tracing.first_imprecise(call, tolerance, device, roots) or self._calls.definition()

    def where_different(self, grads: Sequence[Any], others: Sequence[Any]) -> Optional[Site]:
        """Return the line of the first value that differs between `grads` and `others`, which have the same values."""
        first, second = (self._calls.prepared(each) for each in (grads, others))
        found = tracing.first_difference(first, second, self._calls.device, self._calls.roots)
        return found or self._calls.definition()

    def where_changed(self, grads: Sequence[Any], leaves: Sequence[Any] = ()) -> Optional[Site]:
        """Return the line that first changes the target's inputs."""
        given: List[GroupInput] = []
        call = self._calls.prepared(grads, given=given)
        with on_device(self._calls.device):
            watched = mutation.Snapshot(given, leaves)
            return mutation.first_changing_line(call, watched, self._calls.roots) or self._calls.definition()

    def where_read_again(self, grads: Sequence[Any], second: Optional[Sequence[Any]] = None) -> Optional[Site]:
        """Return the line that reads an iterator of the gradients after its end."""
        passed: List[lines.WatchedIterator] = []

        def watch(listed: List[Any]) -> lines.WatchedIterator:
            passed.append(lines.WatchedIterator(listed, self._calls.roots))
            return passed[-1]

        with on_device(self._calls.device), contextlib.suppress(Exception):
            self._calls.prepared(grads, second=second, wrap=watch)()
        found = [iterator.read_again for iterator in passed if iterator.read_again is not None]
        return found[0] if found else self._calls.definition()

    def most_common(self, sites: List[Optional[Site]]) -> Optional[Site]:
        """Return the line that occurs most often."""
        return most_common(sites) or self._calls.definition()

    def _read(self, grads: Sequence[Any], whole: bool) -> Callable[[], Any]:
        """Return a call; a whole one includes reading the properties of its result, as a user would."""
        call = self._calls.prepared(grads, whole)

        def call_and_read() -> Any:
            answer = call()
            read_properties(answer)
            return answer

        return call_and_read if whole else call

    def _warm_up(self, grads: Sequence[Any], whole: bool) -> None:
        with on_device(self._calls.device), self._calls.target_errors():
            # The next count needs the gradients as they were before a target changed them.
            fresh = [grad.clone() for grad in grads] if self._calls.plan.writes else grads
            self._calls.prepared(fresh, whole)()
