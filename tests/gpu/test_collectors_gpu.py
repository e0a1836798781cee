"""On a machine with a GPU: both device passes keep the promises of the CPU pass, and what the Triton pass costs."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest
import torch
from torch import Tensor
from torch.profiler import ProfilerActivity, profile

from auditkit.collectors import clip_gradients, collect_gradients
from auditkit.collectors.device_pass import measure_on_device
from auditkit.collectors.pending import Backend
from auditkit.collectors.records import GradientMeasure, decode_record, shifts_for
from auditkit.collectors.triton_pass import TRITON_DTYPES, measure_with_triton, runs_on_triton
from auditkit.worker.base.frames import SourceRoots
from auditkit.worker.measure.syncs import count_launches, count_syncs
from tests.collectors.oracle import MeasureFunction
from tests.collectors.test_passes import (  # noqa: F401 - collected here with the fixture below
    test_counts_above_two_to_the_24_are_exact,
    test_empty_tensors_measure_zero,
    test_float8,
    test_float64_at_its_ends,
    test_nonfinite_elements_are_counted_and_left_out_of_the_finite_norm,
    test_norm_is_homogeneous_over_the_normal_range,
    test_norm_of_many_pieces,
    test_strides_do_not_matter,
)

pytestmark = pytest.mark.gpu

DTYPES = [torch.float32, torch.bfloat16, torch.float16, torch.float64]
ROOTS = SourceRoots(str(Path(__file__).parent))


def on_gpu(tensor: Tensor) -> Tensor:
    """Return a tensor of the same strides and storage offset on the device."""
    storage = tensor.untyped_storage().cuda()
    made = torch.empty(0, dtype=tensor.dtype, device="cuda")
    return made.set_(storage, tensor.storage_offset(), tensor.shape, tensor.stride())


def triton_measures(tensors: Sequence[Tensor]) -> list[GradientMeasure]:
    if tensors[0].dtype not in TRITON_DTYPES:
        return torch_measures(tensors)
    on_device = [on_gpu(tensor) for tensor in tensors]
    assert runs_on_triton(on_device)
    shifts = shifts_for(tensors[0].dtype)
    return decode_record(measure_with_triton(on_device, shifts).tolist(), shifts)


def torch_measures(tensors: Sequence[Tensor]) -> list[GradientMeasure]:
    shifts = shifts_for(tensors[0].dtype)
    return decode_record(measure_on_device([on_gpu(tensor) for tensor in tensors], shifts).tolist(), shifts)


@pytest.fixture(params=[triton_measures, torch_measures], name="measure", ids=["triton", "torch"])
def _measure(request: pytest.FixtureRequest) -> MeasureFunction:
    function: MeasureFunction = request.param
    return function


def gradients_of(count: int, dtype: torch.dtype = torch.float32) -> list[Tensor]:
    """Odd lengths, so that views of one bucket start anywhere."""
    lengths = [1 + 997 * (n % 7) for n in range(count)]
    return list(torch.randn(sum(lengths), device="cuda").to(dtype).split(lengths))


@pytest.mark.parametrize("backend", ["torch", "triton"])
@pytest.mark.parametrize("dtype", DTYPES)
def test_collect_waits_for_nothing_and_materialize_once(backend: Backend, dtype: torch.dtype) -> None:
    """0 synchronizations, then 1; NaN and Inf change nothing."""
    gradients = gradients_of(300, dtype)
    gradients[7].fill_(torch.nan)
    gradients[8].fill_(torch.inf)
    collect_gradients(gradients_of(3, dtype), backend=backend).materialize()  # compiles
    fresh = gradients_of(200, dtype)
    for case in (fresh, gradients, gradients):
        assert count_syncs(lambda case=case: collect_gradients(case, backend=backend), "cuda", ROOTS).total == 0
    pending = collect_gradients(gradients, backend=backend)
    assert count_syncs(pending.materialize, "cuda", ROOTS).total == 1


def test_materialize_copies_once() -> None:
    """One copy to the host for four dtypes in two passes; none while collecting."""
    gradients = [gradient for dtype in DTYPES for gradient in gradients_of(20, dtype)]
    gradients.append(torch.randn(30, 40, device="cuda")[:, ::3])
    collect_gradients(gradients).materialize()
    with profile(activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA]) as collecting:
        pending = collect_gradients(gradients)
        torch.cuda.synchronize()
    with profile(activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA]) as materializing:
        pending.materialize()
    assert copies_to_host(collecting) == 0
    assert copies_to_host(materializing) == 1


def copies_to_host(profiler: profile) -> int:
    return sum(event.name.startswith("Memcpy DtoH") for event in profiler.events() or ())


@pytest.mark.parametrize("dtype", DTYPES)
def test_a_replayed_graph_gives_the_eager_bits(dtype: torch.dtype) -> None:
    """A capture runs ordinary operators, also with the kernels as backend, and gives what they give eagerly."""
    for captured in ("torch", "triton"):
        gradients = gradients_of(40, dtype)
        collect_gradients(gradients)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            pending = collect_gradients(gradients, backend=captured)
        for seed in range(3):
            torch.manual_seed(seed)
            for gradient in gradients:
                gradient.normal_()
            graph.replay()
            assert pending.materialize() == collect_gradients(gradients, backend="torch").materialize()


@pytest.mark.parametrize("backend", ["torch", "triton"])
@pytest.mark.parametrize("shape", ["one tensor", "tiny beside huge"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_extra_memory_is_bounded(backend: Backend, shape: str, dtype: torch.dtype) -> None:
    """4 MB, 32 bytes a chunk and 1 KB a tensor, at 100M elements."""
    gradients = [torch.ones(100_000_000, device="cuda", dtype=dtype)]
    if shape == "tiny beside huge":
        gradients += [torch.ones(5, device="cuda", dtype=dtype) for _ in range(1000)]
    collect_gradients(gradients_of(3, dtype), backend=backend).materialize()
    torch.cuda.synchronize()
    before = torch.cuda.memory_allocated()
    torch.cuda.reset_peak_memory_stats()
    collect_gradients(gradients, backend=backend).materialize()
    chunks = 100_000_000 / 65536 + len(gradients)
    assert torch.cuda.max_memory_allocated() - before <= 4 * 2**20 + 32 * chunks + 1024 * len(gradients)


def test_both_backends_agree() -> None:
    """Counts exactly, norms to their bound; two launches only where the kernels were requested."""
    gradients = gradients_of(64)
    found = {}
    for backend in ("torch", "triton"):
        found[backend] = collect_gradients(gradients, backend=backend).materialize()
        launches = count_launches(lambda backend=backend: collect_gradients(gradients, backend=backend), "cuda", ROOTS)
        assert (launches.total == 2) == (backend == "triton")
    ours, theirs = found["triton"], found["torch"]
    assert (ours.zero_count, ours.nan_count, ours.inf_count) == (theirs.zero_count, theirs.nan_count, theirs.inf_count)
    assert ours.per_tensor_norms == pytest.approx(theirs.per_tensor_norms, rel=1e-12)


@pytest.mark.parametrize("dtype", DTYPES)
def test_clipping_waits_for_nothing(dtype: torch.dtype) -> None:
    """0 synchronizations, the limit afterwards, and the norm that materialize reads, on the device."""
    gradients = [gradient * 300 for gradient in gradients_of(100, dtype)]
    expected = collect_gradients(gradients).materialize().total_norm
    clip_gradients(gradients_of(3, dtype), 1.0)  # compiles
    norms: list[Tensor] = []
    work = lambda: norms.append(clip_gradients(gradients, 1.0, nonfinite="zero"))  # noqa: E731
    assert count_syncs(work, "cuda", ROOTS).total == 0
    assert norms[0].device.type == "cuda"
    assert norms[0].item() == pytest.approx(expected, rel=1e-12)
    assert collect_gradients(gradients).materialize().total_norm == pytest.approx(1.0, rel=1e-2)
