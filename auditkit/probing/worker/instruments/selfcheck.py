"""An instrument is checked before it is believed: known toys, in the same process, just before use."""

import platform
from typing import Any, Callable, Dict, List, Sequence

import torch

from ..base.frames import SourceRoots
from ..feeding.given import GroupInput
from ..simulated.device import on_device
from ..simulated.tensor import to_simulated
from ..steps.seam import Trace, norm_of
from .graph_capture import Step, replay_graph
from .graphs import trace
from .launches import count_launches
from .memory import held_bytes, peak_bytes
from .mutation import Snapshot, first_changing_line
from .ranks import run_ranks, why_not
from .syncs import count_syncs
from .transfers import count_transfers

_TEN_MIB = 10 << 20
_RANKS_LIMIT_S = 30.0


class SelfCheckError(Exception):
    """The instrument did not read what it must; nothing it says can be believed."""


def check(instrument: str, device: str, roots: SourceRoots) -> None:
    """Run the toy of `instrument` (`syncs`, `launches`, `memory`). Raises SelfCheckError."""
    if instrument in _CHECKS:
        _CHECKS[instrument](device, roots)


def _toy(device: str) -> torch.Tensor:
    values = torch.tensor([1.0, 2.0, 3.0])
    if device == "simulated":
        return to_simulated(values)
    return values.to("cuda") if device == "cuda" else values


def _check_syncs(device: str, roots: SourceRoots) -> None:
    toy = _toy(device)

    def four_syncs() -> Any:
        copied = toy.cpu()
        reads = toy[0].item(), toy.tolist(), toy.nonzero()
        return reads, copied.tolist(), copied[1].item(), toy.to(toy.device), toy.histc(4, 0, 3)

    _expect("sync counter", count_syncs(four_syncs, device, roots).total, 4, "a function with 4 syncs")


def _check_launches(device: str, roots: SourceRoots) -> None:
    toy = _toy(device)

    def three_launches() -> Any:
        return (toy + 1).mul_(2).view(-1).sum()

    three_launches()
    _expect("launch counter", count_launches(three_launches, device, roots).total, 3, "a function with 3 launches")


def _check_memory(device: str, roots: SourceRoots) -> None:
    place = "cuda" if device == "cuda" else "cpu"

    def ten_mib() -> Any:
        return torch.empty(_TEN_MIB, dtype=torch.uint8, device=place)

    _expect("peak memory", peak_bytes(ten_mib, place), _TEN_MIB, "10 MiB")
    kept: List[Any] = []

    def keeps_one_mib() -> None:
        kept.append(ten_mib()[: _TEN_MIB // 10].clone())

    held = held_bytes(keeps_one_mib, (1, 4), place)
    _expect("held memory", held[4] - held[1], 3 << 20, "three calls that keep 1 MiB each")


def _check_mutation(device: str, roots: SourceRoots) -> None:
    grads = [_toy(device) for _ in range(3)]
    given = [GroupInput(None, grads)]

    def changes_one() -> None:
        grads[1].add_(1)

    with on_device(device):
        watched = Snapshot(given)
        changes_one()
        _expect("comparison of gradients", len(watched.changes()), 1, "a function that adds to one gradient")
        site = first_changing_line(changes_one, Snapshot(given), SourceRoots(__file__, (__file__,)))
    line = changes_one.__code__.co_firstlineno + 1
    _expect("line of a change", site.line if site is not None else 0, line, "the same function")


def _check_graphs(device: str, roots: SourceRoots) -> None:
    from torch._dynamo import graph_break
    from torch._dynamo.eval_frame import is_dynamo_supported

    if not is_dynamo_supported():
        raise SelfCheckError("torch.compile does not run on this Python ({})".format(platform.python_version()))
    toy = _toy("cuda" if device == "cuda" else "cpu")

    def clean() -> Any:
        return (toy * 2).sum()

    def one_break() -> Any:
        doubled = toy * 2
        graph_break()
        return doubled.sum()

    def skipped() -> Any:
        read = []
        for _ in range(3):
            read.append((toy * 2).sum().item())
        return read

    checkout = SourceRoots(__file__, (__file__,))
    _expect("graph counter", trace(clean, checkout)[:4], (1, 0, 0, 0), "one graph without a break")
    broken = trace(one_break, checkout)
    _expect("graph counter", broken[:4], (2, 1, 1, 0), "two graphs with one break between them")
    line = one_break.__code__.co_firstlineno + 2
    stop = broken.first_stop
    _expect("line of a break", stop.site.line if stop is not None and stop.site is not None else 0, line, "the same")
    _expect("graph counter", trace(skipped, checkout)[:4], (0, 3, 3, 6), "six operators in a frame that is skipped")


def _check_devices(device: str, roots: SourceRoots) -> None:
    """Two tensors on two devices do not add up."""
    _need_device(device, ("simulated", "cuda"), "two devices")
    host, toy = torch.tensor([1.0, 2.0, 3.0]), _toy(device)
    refused = 0
    with on_device(device):
        try:
            toy + host
        except RuntimeError as error:
            refused = int("same device" in str(error))
    _expect("pair of devices", refused, 1, "one sum over both")


def _check_transfers(device: str, roots: SourceRoots) -> None:
    """12 bytes of `.cpu()` and 4 of `.item()`; the host then sums three elements."""
    _need_device(device, ("simulated", "cuda"), "transfers")
    toy = _toy(device)

    def sixteen_bytes() -> Any:
        toy.cpu().sum()
        toy[0].item()
        toy.to(toy.device)

    moved = count_transfers(sixteen_bytes, device, roots)
    _expect("byte counter", moved.to_host_bytes, 16, "a function that moves 16 bytes to the host")
    _expect("host's work", moved.host_elements, 3, "a function that sums 3 elements on the host")


def _check_ranks(device: str, roots: SourceRoots) -> None:
    """Two ranks that add 1 and 2."""

    def total(rank: int) -> Any:
        import torch.distributed as dist

        number = torch.tensor([rank + 1.0])
        dist.all_reduce(number)
        yield {"sum": number.item()}

    if why_not("cpu", 2) is None:
        answers = run_ranks(2, total, _RANKS_LIMIT_S)
        _expect("process group", answers, [[{"sum": 3.0}]] * 2, "the sum of 1 and 2 over two ranks")


def _check_graph_capture(device: str, roots: SourceRoots) -> None:
    """A doubled tensor follows new values when the graph is replayed."""
    _need_device(device, ("cuda",), "a CUDA graph")
    toy = _toy(device)
    replay = replay_graph(lambda: Step(lambda: (toy * 2).sum(), None), [toy], [toy + 1])
    _expect("replayed graph", int((replay.replayed or {}).get("", 0)), 18, "twice the sum of 2, 3 and 4")


def _check_steps(device: str, roots: SourceRoots) -> None:
    """Backwards of 5 and 10 that make 15, clipped to 3: what the optimizer is handed, and by which line."""
    weight = torch.nn.Parameter(torch.zeros(2))
    optimizer = torch.optim.SGD([weight], lr=1.0)

    def one_step() -> None:
        for scale in (1, 2):
            (weight * torch.tensor([3.0, 4.0]) * scale).sum().backward()
        torch.nn.utils.clip_grad_norm_([weight], 3.0)
        optimizer.step()

    trace = Trace(SourceRoots(__file__, (__file__,)))
    trace.known[id(weight)] = ("weight", weight)
    with trace.recording():
        one_step()
    step = trace.steps[0]
    seen = [*(micro.added for micro in step.micros), *(clip.before for clip in step.clips), step.grads]
    norms = [round(norm_of(grads), 3) for grads in seen]
    _expect("seam of the optimizer", norms, [5.0, 10.0, 15.0, 3.0], "one step")
    line = one_step.__code__.co_firstlineno + 4
    _expect("line of a step", step.site.line if step.site is not None else 0, line, "the same step")


def _need_device(device: str, devices: Sequence[str], wanted: str) -> None:
    if device not in devices:
        raise SelfCheckError("{} cannot be had on the device '{}'".format(wanted, device))


def _expect(instrument: str, read: Any, expected: Any, toy: str) -> None:
    if read != expected:
        raise SelfCheckError("the {} reads {} for {}, expected {}".format(instrument, read, toy, expected))


_CHECKS: Dict[str, Callable[[str, SourceRoots], None]] = {
    "graphs": _check_graphs,
    "syncs": _check_syncs,
    "launches": _check_launches,
    "memory": _check_memory,
    "mutation": _check_mutation,
    "devices": _check_devices,
    "transfers": _check_transfers,
    "graph_capture": _check_graph_capture,
    "ranks": _check_ranks,
    "steps": _check_steps,
}
