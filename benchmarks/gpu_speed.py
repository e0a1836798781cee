"""Speed: our collectors against torch's and the audited versions, alone and inside a training step.

Times are between CUDA events, around calls that have been warmed up. Bytes read count every gradient once; the copy
kernel reads and writes each byte, and is the limit of what the device's memory moves.
"""

from __future__ import annotations

import functools
import itertools
import statistics
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from auditkit.collectors import PendingGradientStats, collect_gradients
from auditkit.collectors.records import shifts_for
from auditkit.collectors.triton_pass import measure_with_triton
from benchmarks.gpu_machine import Machine, Shape
from benchmarks.gpu_rows import Document, Row
from benchmarks.rival_collectors import BASELINE, COLLECTORS, OURS, foreach_float32, gpt2_shapes
from examples.train_with_statistics import CHARACTERS, SmallTransformer

WARM_UPS, CALLS = 3, 20
SLOW_MS, SLOW_CALLS = 200.0, 3
SHAPES: dict[str, list[Shape]] = {"1B": [(10_000, 10_000)] * 10, "124M": gpt2_shapes()}
DTYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16}
LAYOUTS = ("contiguous", "strided")
TOTAL_NORM, COLLECT = "torch.nn.utils.get_total_norm", "auditkit.collectors, collect alone"
TRITON = OURS + ', backend="triton"'
KERNELS, COPY = "auditkit.collectors, the two kernels alone", "copy kernel"
CALLED: dict[str, Callable[[Sequence[Tensor]], Any]] = {
    OURS: COLLECTORS[OURS],
    BASELINE: COLLECTORS[BASELINE],
    TOTAL_NORM: COLLECTORS[TOTAL_NORM],
    TRITON: lambda gradients: collect_gradients(gradients, backend="triton").materialize(),
    COLLECT: collect_gradients,
    KERNELS: lambda gradients: measure_with_triton(gradients, shifts_for(gradients[0].dtype)),
}
OTHERS = {name: collector for name, collector in COLLECTORS.items() if name not in CALLED}


class Case(NamedTuple):
    """Gradients of one model, dtype and layout; strided ones are every other element of their memory."""

    model: str
    dtype: str
    layout: str


CASES = [Case(*each) for each in itertools.product(SHAPES, DTYPES, LAYOUTS)]


def applies(case: Case, name: str) -> bool:
    """The kernels take what lies in one piece."""
    return case.layout == "contiguous" or name != KERNELS


class InStep(NamedTuple):
    """What a training step does after backward, and what reads that after the optimizer's step."""

    collect: Callable[[list[Tensor]], Any]
    read: Callable[[Any], Any]


IN_STEP = {
    "no statistics": InStep(lambda _: None, lambda _: None),
    OURS: InStep(collect_gradients, PendingGradientStats.materialize),
    BASELINE: InStep(foreach_float32, lambda norms: torch.stack(list(norms)).tolist()),
    TOTAL_NORM: InStep(nn.utils.get_total_norm, float),
    **{name: InStep(collector, lambda _: None) for name, collector in OTHERS.items()},
}


def rows(machine: Machine) -> list[Row]:
    """Every row of this part, the most valuable first; a capture that fails spoils its process, and has its own."""
    import torch._dynamo  # noqa: F401 - an optimizer's first step imports it: 2 s in every process that has none

    def timed(called: dict[str, Any]) -> list[Row]:
        return [
            Row(f"{' '.join(case)}: {name}", lambda case=case, call=call: time_case(machine, case, call))
            for case in CASES
            for name, call in called.items()
            if applies(case, name)
        ]

    def steps(is_graph: bool) -> list[Row]:
        kind = "CUDA graph" if is_graph else "eager"
        return [
            Row(f"training {kind}: {name}", lambda used=used: time_step(machine, used, is_graph), 45, alone=is_graph)
            for name, used in IN_STEP.items()
        ]

    copies = [Row(f"{model}: {COPY}", lambda model=model: time_copy(machine, model)) for model in SHAPES]
    return [*copies, *timed(CALLED), *steps(False), *steps(True), *timed(OTHERS)]


def event_ms(machine: Machine, call: Callable[[], object]) -> list[float]:
    """Milliseconds on the device from one call to its end, each call once; a slow one has fewer turns."""
    for _ in range(WARM_UPS):
        first_ms = _once(machine, [call])[0]
    return _once(machine, [call] * (SLOW_CALLS if first_ms > SLOW_MS or machine.is_preflight else CALLS))


def _once(machine: Machine, calls: Sequence[Callable[[], object]]) -> list[float]:
    pairs = [(machine.cuda.Event(enable_timing=True), machine.cuda.Event(enable_timing=True)) for _ in calls]
    for call, (start, end) in zip(calls, pairs, strict=True):
        start.record()
        call()
        end.record()
    machine.cuda.synchronize()
    return [start.elapsed_time(end) for start, end in pairs]


def _timing(machine: Machine, ms: Sequence[float], moved_bytes: int) -> Document:
    properties = machine.cuda.get_device_properties(0)
    bytes_per_s = moved_bytes / statistics.median(ms) * 1e3
    found = {"ms": statistics.quantiles(ms, n=4, method="inclusive"), "calls": len(ms), "bytes": moved_bytes}
    found |= {"bytes_per_s": bytes_per_s}
    # Two transfers a clock; torch below 2.10 does not tell, and the copy kernel alone is the limit then.
    clock_khz, bus_bits = (getattr(properties, name, 0) for name in ("memory_clock_rate", "memory_bus_width"))
    nominal = 2 * clock_khz * 1e3 * bus_bits / 8
    return found | ({"share_of_nominal": bytes_per_s / nominal} if nominal else {})


def time_copy(machine: Machine, model: str) -> Document:
    """The limit: as many float32 elements as the model has, copied in one piece; read and written bytes."""
    elements = sum(torch.Size(shape).numel() for shape in machine.shapes(SHAPES[model]))
    source, target = (torch.ones(elements, device=machine.device) for _ in range(2))
    return _timing(machine, event_ms(machine, lambda: target.copy_(source)), 2 * source.nbytes)


def time_case(machine: Machine, case: Case, call: Callable[[Sequence[Tensor]], Any]) -> Document:
    """One collector on the gradients of one case."""
    gradients = _gradients(machine, case)
    read_bytes = sum(gradient.numel() * gradient.element_size() for gradient in gradients)
    return _timing(machine, event_ms(machine, lambda: call(gradients)), read_bytes)


@functools.lru_cache(maxsize=1)
def _gradients(machine: Machine, case: Case) -> list[Tensor]:
    """Normal values of deviation 1e-3; only the last case's are kept."""
    step = 2 if case.layout == "strided" else 1
    return [
        torch.empty((*shape[:-1], shape[-1] * step), dtype=DTYPES[case.dtype], device=machine.device).normal_(0, 1e-3)[
            ..., ::step
        ]
        for shape in machine.shapes(SHAPES[case.model])
    ]


# --- in a training step ------------------------------------------------------------------------------------


def time_step(machine: Machine, used: InStep, is_graph: bool) -> Document:
    """A step of a small transformer: forward, backward, `used.collect`, SGD, `used.read`; captured but for the read."""
    width, layers, length, batch = (8, 1, 8, 2) if machine.is_preflight else (512, 8, 64, 16)
    torch.manual_seed(0)
    model = SmallTransformer(width, layers, length).to(machine.device)
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3, momentum=0.9)
    tokens_BL, targets_BL = (torch.randint(len(CHARACTERS), (batch, length), device=machine.device) for _ in range(2))

    def step() -> Any:
        optimizer.zero_grad(set_to_none=False)  # the addresses stay, as a captured graph needs
        logits_BLC = model(tokens_BL)
        nn.functional.cross_entropy(logits_BLC.flatten(0, 1), targets_BL.flatten()).backward()
        collected = used.collect([parameter.grad for parameter in model.parameters() if parameter.grad is not None])
        optimizer.step()
        return collected

    whole = _captured(machine, step, used.read) if is_graph else lambda: used.read(step())
    ms = event_ms(machine, whole)
    parameters = sum(parameter.numel() for parameter in model.parameters())
    return {"ms": statistics.quantiles(ms, n=4, method="inclusive"), "calls": len(ms), "parameters": parameters}


def _captured(machine: Machine, step: Callable[[], Any], read: Callable[[Any], Any]) -> Callable[[], object]:
    """The step as a graph: warmed up on a stream of its own, as torch's documentation says, then captured."""
    cuda = machine.cuda
    aside = cuda.Stream()
    aside.wait_stream(cuda.current_stream())
    with cuda.stream(aside):
        for _ in range(WARM_UPS):
            step()
    cuda.current_stream().wait_stream(aside)
    graph = cuda.CUDAGraph()
    with cuda.graph(graph):
        held = step()

    def replay() -> None:
        graph.replay()
        read(held)

    return replay
