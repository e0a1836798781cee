"""Memory in bytes: the peak that a call adds, the checkout's lines that hold it, and what is held after calls.

On the CPU the numbers are the allocator's own events (`torch.profiler(profile_memory=True)`): a dispatch
mode does not see what a kernel allocates inside, such as the int64 copy that `bool.sum()` builds. NumPy
and Python memory is not the allocator's; tracemalloc counts it, in a run of its own. On CUDA the
numbers are `max_memory_allocated` over the baseline.
"""

import bisect
import contextlib
import gc
import sys
import tracemalloc
from typing import Any, Callable, Dict, Iterator, List, NamedTuple, Optional, Sequence, Tuple

import torch

from ..base.frames import Site, SourceRoots
from ..base.torch_internals import OperatorMode
from ..simulated.device import on_device

_OPERATOR_RANGE = "auditkit.operator."
_MARK = "auditkit.mark."


class LiveBytes(NamedTuple):
    """Bytes that one line of the checkout holds at the moment of the peak; None: no line of it."""

    site: Optional[Site]
    live_bytes: int


def peak_bytes(call: Callable[[], Any], device: str) -> int:
    """Bytes above the baseline at the worst moment of `call`; its result is dropped afterwards."""
    if device == "cuda":
        return _peak_on_cuda(call)
    with on_device(device), _recording() as events:
        kept = call()
    del kept
    return _peak(_changes(events))


def python_peak_bytes(call: Callable[[], Any], device: str) -> int:
    """Peak of NumPy and Python memory during `call`, by tracemalloc; slows Python, so run apart."""
    tracemalloc.start()
    try:
        with on_device(device):
            baseline = tracemalloc.get_traced_memory()[0]
            tracemalloc.reset_peak()
            call()
            return max(0, tracemalloc.get_traced_memory()[1] - baseline)
    finally:
        tracemalloc.stop()


def held_bytes(step: Callable[[], Any], counts: Sequence[int], device: str) -> Dict[int, int]:
    """Bytes that live after so many calls of `step` above those before the first, by `counts`.

    `step` returns nothing that must live. Cycles are collected before each reading.
    """
    if device == "cuda":
        return _held_on_cuda(step, counts)
    with on_device(device), _recording() as events:
        for count in _calls(step, counts):
            with torch.profiler.record_function(_MARK + str(count)):
                pass
    marks = {int(event.name[len(_MARK) :]): event.start_time_ns for event in events if event.name.startswith(_MARK)}
    changes = _changes(events)
    return {count: sum(c.change_bytes for c in changes if c.time_ns <= mark) for count, mark in marks.items()}


def python_held_bytes(step: Callable[[], Any], counts: Sequence[int], device: str) -> Dict[int, int]:
    """The same for NumPy and Python memory, by tracemalloc; slows Python, so run apart."""
    held = {}
    tracemalloc.start()
    try:
        with on_device(device):
            baseline = tracemalloc.get_traced_memory()[0]
            for count in _calls(step, counts):
                held[count] = tracemalloc.get_traced_memory()[0] - baseline
    finally:
        tracemalloc.stop()
    return held


def bytes_until_dropped(make: Callable[[], Any], device: str) -> int:
    """Bytes that live exactly as long as what `make` returns."""
    results = [None]

    def hold_then_drop() -> None:
        results[0] = make() if results[0] is None else None

    held = held_bytes(hold_then_drop, (1, 2), device)
    return held[1] - held[2]


def _held_on_cuda(step: Callable[[], Any], counts: Sequence[int]) -> Dict[int, int]:
    held = {}
    torch.cuda.synchronize()
    baseline = torch.cuda.memory_allocated()
    for count in _calls(step, counts):
        torch.cuda.synchronize()
        held[count] = torch.cuda.memory_allocated() - baseline
    return held


def _calls(step: Callable[[], Any], counts: Sequence[int]) -> Iterator[int]:
    """Call `step` up to the largest of `counts`; pauses at each of them, with cycles collected."""
    for count in range(1, max(counts) + 1):
        step()
        if count in counts:
            gc.collect()
            yield count


def live_at_peak(call: Callable[[], Any], device: str, roots: SourceRoots) -> List[LiveBytes]:
    """The lines that hold memory at the peak, largest first; on CUDA by each operator's own growth."""
    with recording_peak(device, roots) as found:
        kept = call()
    del kept
    return found[0].live


class Peak(NamedTuple):
    """Bytes above the baseline at the worst moment, and the lines that hold them, largest first."""

    peak_bytes: int
    live: List[LiveBytes]


@contextlib.contextmanager
def recording_peak(device: str, roots: SourceRoots) -> Iterator[List[Peak]]:
    """Record a block's memory: the one `Peak` is there when the block has ended."""
    operators = _AnnotatedOperators(roots, on_cuda=device == "cuda")
    found: List[Peak] = []
    if device == "cuda":
        operators.worst = baseline = torch.cuda.memory_allocated()
        with operators:
            yield found
        found.append(Peak(operators.worst - baseline, _sorted_by_bytes(operators.growth_bytes)))
        return
    with on_device(device), _recording() as events, operators:
        yield found
    found.append(Peak(_peak(_changes(events)), _attribute(events, operators.sites)))


@contextlib.contextmanager
def _recording() -> Iterator[List[Any]]:
    """The profiler's events of the block in the order of their start, filled in when it ends.

    torch.profiler's own front end imports torch._inductor when it starts: 1 s, and memory, in every child.
    """
    events: List[Any] = []
    with torch.autograd.profiler.profile(use_cpu=True, profile_memory=True) as profiler:
        yield events
    waiting = list(profiler.kineto_results.experimental_event_tree())
    while waiting:
        event = waiting.pop()
        events.append(event)
        waiting.extend(event.children)
    events.sort(key=lambda event: event.start_time_ns)


class _Change(NamedTuple):
    """A block that the allocator gave (positive) or took back (negative) during a recording."""

    time_ns: int
    change_bytes: int
    address: int


def _changes(events: List[Any]) -> List[_Change]:
    """Every allocation, and the release of each of these blocks.

    Releases of older blocks are left out: the profiler knows a block by its address, and reports for an
    older one what an earlier recording saw there, or nothing.
    """
    live = set()
    changes = []
    for event in events:
        if event.tag != torch._C._profiler._EventType.Allocation:
            continue
        change = _Change(event.start_time_ns, event.extra_fields.alloc_size, event.extra_fields.ptr)
        if change.change_bytes > 0:
            live.add(change.address)
        elif change.address not in live:
            continue
        else:
            live.remove(change.address)
        changes.append(change)
    return changes


def _peak(changes: List[_Change]) -> int:
    current = worst = 0
    for change in changes:
        current += change.change_bytes
        worst = max(worst, current)
    return worst


class _AnnotatedOperators(OperatorMode):
    """Marks every operator in the profile with a number, and remembers which line ran it."""

    def __init__(self, roots: SourceRoots, on_cuda: bool) -> None:
        super().__init__()
        self.roots = roots
        self.on_cuda = on_cuda
        self.sites: List[Optional[Site]] = []
        self.growth_bytes: Dict[Optional[Site], int] = {}
        self.worst = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        site = self.roots.innermost(sys._getframe(1))
        if self.on_cuda:
            return self._measured_on_cuda(site, func, args, kwargs or {})
        index = len(self.sites)
        self.sites.append(site)
        with torch.profiler.record_function(_OPERATOR_RANGE + str(index)):
            return func(*args, **(kwargs or {}))

    def _measured_on_cuda(self, site: Optional[Site], func: Any, args: Any, kwargs: Dict[str, Any]) -> Any:
        torch.cuda.reset_peak_memory_stats()
        before = torch.cuda.memory_allocated()
        result = func(*args, **kwargs)
        growth = torch.cuda.max_memory_allocated() - before
        self.worst = max(self.worst, before + growth)
        self.growth_bytes[site] = self.growth_bytes.get(site, 0) + growth
        return result


def _attribute(events: List[Any], sites: List[Optional[Site]]) -> List[LiveBytes]:
    """Live bytes by line at the moment of the peak."""
    ranges = sorted(
        (event.start_time_ns, event.end_time_ns, int(event.name[len(_OPERATOR_RANGE) :]))
        for event in events
        if event.name.startswith(_OPERATOR_RANGE)
    )
    live: Dict[int, _Change] = {}
    current = worst = 0
    at_worst: List[_Change] = []
    for change in _changes(events):
        current += change.change_bytes
        if change.change_bytes > 0:
            live[change.address] = change
        else:
            del live[change.address]
        if current > worst:
            worst, at_worst = current, list(live.values())
    totals: Dict[Optional[Site], int] = {}
    for block in at_worst:
        site = _site_at(block.time_ns, ranges, sites)
        totals[site] = totals.get(site, 0) + block.change_bytes
    return _sorted_by_bytes(totals)


def _site_at(time_ns: int, ranges: List[Tuple[int, int, int]], sites: List[Optional[Site]]) -> Optional[Site]:
    place = bisect.bisect_right(ranges, (time_ns, sys.maxsize, 0)) - 1
    _, end_ns, index = ranges[place] if place >= 0 else (0, 0, 0)
    return sites[index] if time_ns <= end_ns else None


def _sorted_by_bytes(totals: Dict[Optional[Site], int]) -> List[LiveBytes]:
    return [LiveBytes(site, count) for site, count in sorted(totals.items(), key=lambda item: -item[1])]


def _peak_on_cuda(call: Callable[[], Any]) -> int:
    torch.cuda.synchronize()
    torch.cuda.reset_peak_memory_stats()
    baseline = torch.cuda.memory_allocated()
    kept = call()
    torch.cuda.synchronize()
    worst = torch.cuda.max_memory_allocated() - baseline
    del kept
    return worst


def available_bytes(device: str) -> int:
    """Memory that a case may use now: of the GPU, or of the machine."""
    if device == "cuda":
        return int(torch.cuda.mem_get_info()[0])
    with open("/proc/meminfo") as meminfo:
        for line in meminfo:
            if line.startswith("MemAvailable:"):
                return int(line.split()[1]) * 1024
    return 0
