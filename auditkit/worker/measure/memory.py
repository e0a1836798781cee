"""Memory in bytes: the peak that a call adds, the checkout's lines that allocated it, and what stays after calls.

On the CPU the numbers are the allocator's own events (`torch.profiler(profile_memory=True)`): a dispatch mode does not
see allocations inside a kernel, such as the int64 copy that `bool.sum()` builds. tracemalloc counts NumPy and Python
memory, in a separate run. On CUDA the numbers are `max_memory_allocated` above the baseline.
"""

import bisect
import contextlib
import gc
import sys
import tracemalloc
import weakref
from typing import Any, Callable, Dict, Iterator, List, NamedTuple, Optional, Sequence, Tuple

import torch

from ..answers.answers import graph_tensors
from ..base.frames import Site, SourceRoots
from ..base.nested import list_leaves
from ..feed.repeated import RepeatedCall
from ..simulated.device import on_device
from ..simulated.tensor import EachOperator
from .selfcheck import expect

_OPERATOR_RANGE = "auditkit.operator."
_MARK = "auditkit.mark."
_TEN_MIB = 10 << 20


class LiveBytes(NamedTuple):
    """Bytes that one line allocated and that live at the peak; `site` is None outside the checkout."""

    site: Optional[Site]
    live_bytes: int


class Peak(NamedTuple):
    """The peak in bytes above the baseline, and the lines that allocated it, largest first."""

    peak_bytes: int
    live: List[LiveBytes]


def peak_bytes(call: Callable[[], Any], device: str) -> int:
    """Return the peak of `call` above the baseline, in bytes; the result lives until then."""
    with recording_peak(device) as found:
        kept = call()
    del kept
    return found[0].peak_bytes


def live_at_peak(call: Callable[[], Any], device: str, roots: SourceRoots) -> List[LiveBytes]:
    """Return the lines that allocated the peak, largest first; on CUDA by each operator's own growth."""
    with recording_peak(device, roots) as found:
        kept = call()
    del kept
    return found[0].live


@contextlib.contextmanager
def recording_peak(device: str, roots: Optional[SourceRoots] = None) -> Iterator[List[Peak]]:
    """Record a block's memory; the list has one `Peak` after the block. Without `roots` it has no lines."""
    found: List[Peak] = []
    if device == "cuda":
        with _recording_on_cuda(roots, found):
            yield found
        return
    sites: List[Optional[Site]] = []

    def run(func: Any, args: Any, kwargs: Any) -> Any:
        """Mark the operator in the profile with the index of its line in `sites`."""
        assert roots is not None
        sites.append(roots.innermost(sys._getframe(1)))
        with torch.profiler.record_function(_OPERATOR_RANGE + str(len(sites) - 1)):
            return func(*args, **kwargs)

    with on_device(device), _recording() as events, EachOperator(run) if roots else contextlib.nullcontext():
        yield found
    worst, blocks = _worst(_changes(events))
    found.append(Peak(worst, _by_line(blocks, events, sites)))


@contextlib.contextmanager
def _recording_on_cuda(roots: Optional[SourceRoots], found: List[Peak]) -> Iterator[None]:
    torch.cuda.synchronize()
    torch.cuda.reset_peak_memory_stats()
    baseline = worst = torch.cuda.memory_allocated()
    grown: Dict[Optional[Site], int] = {}

    def run(func: Any, args: Any, kwargs: Any) -> Any:
        nonlocal worst
        assert roots is not None
        site = roots.innermost(sys._getframe(1))
        torch.cuda.reset_peak_memory_stats()
        before = torch.cuda.memory_allocated()
        result = func(*args, **kwargs)
        growth = torch.cuda.max_memory_allocated() - before
        worst = max(worst, before + growth)
        grown[site] = grown.get(site, 0) + growth
        return result

    with EachOperator(run) if roots else contextlib.nullcontext():
        yield
    torch.cuda.synchronize()
    found.append(Peak(max(worst, torch.cuda.max_memory_allocated()) - baseline, _sorted_by_bytes(grown)))


def python_peak_bytes(call: Callable[[], Any], device: str) -> int:
    """Return the peak of NumPy and Python memory during `call`, by tracemalloc, which slows Python."""
    with _tracing_python(), on_device(device):
        baseline = tracemalloc.get_traced_memory()[0]
        tracemalloc.reset_peak()
        call()
        return max(0, tracemalloc.get_traced_memory()[1] - baseline)


def held_bytes(step: Callable[[], Any], counts: Sequence[int], device: str) -> Dict[int, int]:
    """Return the bytes that live after each number of calls in `counts`, above those before the first call.

    `step` returns nothing that must live. Cycles are collected before each reading.
    """
    if device == "cuda":
        return _held(step, counts, _allocated_on_cuda)
    with on_device(device), _recording() as events:
        for count in _calls(step, counts):
            with torch.profiler.record_function(_MARK + str(count)):
                pass
    marks = {int(event.name[len(_MARK) :]): event.start_time_ns for event in events if event.name.startswith(_MARK)}
    changes = _changes(events)
    return {count: sum(c.change_bytes for c in changes if c.time_ns <= mark) for count, mark in marks.items()}


def python_held_bytes(step: Callable[[], Any], counts: Sequence[int], device: str) -> Dict[int, int]:
    """Return the same as `held_bytes` for NumPy and Python memory, by tracemalloc, which slows Python."""
    with _tracing_python(), on_device(device):
        return _held(step, counts, lambda: tracemalloc.get_traced_memory()[0])


def _allocated_on_cuda() -> int:
    torch.cuda.synchronize()
    return torch.cuda.memory_allocated()


def _held(step: Callable[[], Any], counts: Sequence[int], read: Callable[[], int]) -> Dict[int, int]:
    held: Dict[int, int] = {}
    baseline = read()
    for count in _calls(step, counts):
        held[count] = read() - baseline
    return held


def _calls(step: Callable[[], Any], counts: Sequence[int]) -> Iterator[int]:
    """Call `step` up to the largest of `counts`; yield at each of them, with cycles collected."""
    for count in range(1, max(counts) + 1):
        step()
        if count in counts:
            gc.collect()
            yield count


@contextlib.contextmanager
def _tracing_python() -> Iterator[None]:
    tracemalloc.start()
    try:
        yield
    finally:
        tracemalloc.stop()


@contextlib.contextmanager
def _recording() -> Iterator[List[Any]]:
    """Yield a list that has the profiler's events after the block, in the order of their start.

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
    """A block that was allocated (positive) or freed (negative) during a recording."""

    time_ns: int
    change_bytes: int
    address: int


def _changes(events: List[Any]) -> List[_Change]:
    """Return every allocation, and the release of each of these blocks.

    Releases of older blocks are left out: the profiler identifies a block by its address, and may report an earlier
    recording's block.
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


def _worst(changes: List[_Change]) -> Tuple[int, List[_Change]]:
    """Return the largest sum of live bytes, and the blocks that live then."""
    live: Dict[int, _Change] = {}
    current = worst = 0
    at_worst: List[_Change] = []
    for change in changes:
        current += change.change_bytes
        if change.change_bytes > 0:
            live[change.address] = change
        else:
            del live[change.address]
        if current > worst:
            worst, at_worst = current, list(live.values())
    return worst, at_worst


def _by_line(blocks: List[_Change], events: List[Any], sites: List[Optional[Site]]) -> List[LiveBytes]:
    """Return the bytes of the blocks by the line whose operator allocated them."""
    ranges = sorted(
        (event.start_time_ns, event.end_time_ns, int(event.name[len(_OPERATOR_RANGE) :]))
        for event in events
        if event.name.startswith(_OPERATOR_RANGE)
    )
    totals: Dict[Optional[Site], int] = {}
    for block in blocks:
        place = bisect.bisect_right(ranges, (block.time_ns, sys.maxsize, 0)) - 1
        _, end_ns, index = ranges[place] if place >= 0 else (0, 0, 0)
        site = sites[index] if block.time_ns <= end_ns else None
        totals[site] = totals.get(site, 0) + block.change_bytes
    return _sorted_by_bytes(totals)


def _sorted_by_bytes(totals: Dict[Optional[Site], int]) -> List[LiveBytes]:
    return [LiveBytes(site, count) for site, count in sorted(totals.items(), key=lambda item: -item[1])]


class AnswerMemory(NamedTuple):
    """`held` bytes that live as long as a result, and the `paths` of its tensors with a graph."""

    held: int
    paths: List[str]


def kept_by_answer(repeated: RepeatedCall, make: Callable[[], Sequence[torch.Tensor]], device: str) -> AnswerMemory:
    """Return what the result of one call keeps alive after the gradients are dropped; one call warms up."""
    with on_device(device):
        repeated.call(make())
        repeated.forget()
    paths: List[str] = []
    results: List[Any] = []

    def hold_then_drop() -> None:
        if results:
            results.clear()
            return
        grads = make()
        results.append(repeated.call(grads))
        repeated.forget()
        # The result may be the gradients themselves, whose graph is not the target's.
        given = {id(grad) for grad in grads}
        paths.extend(path for path, tensor in graph_tensors(results[0]).items() if id(tensor) not in given)

    held = held_bytes(hold_then_drop, (1, 2), device)
    return AnswerMemory(held[1] - held[2], paths)


def where_retained(
    repeated: RepeatedCall,
    make: Callable[[], Sequence[torch.Tensor]],
    with_graph: bool,
    device: str,
    roots: SourceRoots,
) -> Optional[Site]:
    """Return the line that created the largest tensor that outlives its call; None if only the gradients do.

    With `with_graph` the result is kept, and only its tensors with a graph count.
    """
    made: List[Tuple[weakref.ref, Optional[Site]]] = []

    def run(func: Any, args: Any, kwargs: Any) -> Any:
        result = func(*args, **kwargs)
        site = roots.innermost(sys._getframe(1))
        made.extend((weakref.ref(leaf), site) for leaf in list_leaves(result) if isinstance(leaf, torch.Tensor))
        return result

    with on_device(device):
        repeated.call(make())
        grads = make()
        with EachOperator(run):
            answer = repeated.call(grads)
        given = {id(grad) for grad in grads}
        carrying = {id(tensor) for tensor in graph_tensors(answer).values()} if with_graph else given
        del grads
        if not with_graph:
            answer = None
        repeated.forget()
        gc.collect()
        alive = [(tensor, site) for reference, site in made for tensor in [reference()] if tensor is not None]
        found = [
            (tensor.numel(), site)
            for tensor, site in alive
            if id(tensor) not in given and (id(tensor) in carrying or not with_graph)
        ]
        return max(found, key=lambda entry: entry[0])[1] if found else None


def available_bytes(device: str) -> int:
    """Return the available memory: of the GPU, or of the machine."""
    if device == "cuda":
        return int(torch.cuda.mem_get_info()[0])
    with open("/proc/meminfo") as meminfo:
        for line in meminfo:
            if line.startswith("MemAvailable:"):
                return int(line.split()[1]) * 1024
    return 0


def self_check(device: str, roots: SourceRoots) -> None:
    """Check that one toy allocates 10 MiB, and the other keeps 1 MiB of each call."""
    place = "cuda" if device == "cuda" else "cpu"
    kept: List[Any] = []

    def ten_mib() -> Any:
        return torch.empty(_TEN_MIB, dtype=torch.uint8, device=place)

    def keeps_one_mib() -> None:
        kept.append(ten_mib()[: _TEN_MIB // 10].clone())

    expect("peak memory", peak_bytes(ten_mib, place), _TEN_MIB, "10 MiB")
    held = held_bytes(keeps_one_mib, (1, 4), place)
    expect("held memory", held[4] - held[1], 3 << 20, "three calls that keep 1 MiB each")
