"""Traffic: nothing is read while collecting, one read per device afterwards, operators do not grow."""

from collections.abc import Callable, Sequence
from pathlib import Path

import pytest
import torch
from torch import Tensor

from auditkit.collectors import collect_dual_gradients, collect_gradients
from auditkit.worker.base.frames import SourceRoots
from auditkit.worker.measure.syncs import count_launches, count_syncs
from auditkit.worker.simulated.device import simulated_cuda
from auditkit.worker.simulated.tensor import State, to_simulated

ROOTS = SourceRoots(str(Path(__file__).parent))


def device_gradients(count: int, dtype: torch.dtype = torch.float32, index: int = 0) -> list[Tensor]:
    return [to_simulated(torch.randn(7, 9).to(dtype), index) for _ in range(count)]


def reads(work: Callable[[], object]) -> int:
    return count_syncs(work, "simulated", ROOTS).total


def operators(work: Callable[[], object]) -> int:
    return count_launches(work, "simulated", ROOTS).total


def enhanced_stats_of_seed_000(gradients: Sequence[Tensor]) -> list[float]:
    """Control: one read for each tensor, as the audited collector had."""
    return [gradient.norm(2).item() for gradient in gradients]


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])
def test_collect_reads_nothing_and_materialize_reads_once(dtype: torch.dtype) -> None:
    """0 reads, then 1, however many gradients there are and whatever is in them."""
    for count in (1, 4, 64):
        gradients = [*device_gradients(count, dtype), to_simulated(torch.tensor([torch.nan, torch.inf, 0.0]).to(dtype))]
        pending = []
        assert reads(lambda gradients=gradients, pending=pending: pending.append(collect_gradients(gradients))) == 0
        assert reads(pending[0].materialize) == 1
    assert reads(lambda: enhanced_stats_of_seed_000(gradients)) == 65


def test_one_read_per_device(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two CUDA devices and the CPU in one call: two reads; dtypes and groups add none."""
    monkeypatch.setattr(State, "device_count", 2)
    gradients = [torch.ones(3)]
    for index in (0, 1):
        for dtype in (torch.float32, torch.float16, torch.float64):
            gradients += device_gradients(3, dtype, index)
    with simulated_cuda():
        pending = collect_dual_gradients(gradients, gradients[:8])
    assert reads(pending.materialize) == 2


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_operators_do_not_grow_with_tensors(dtype: torch.dtype) -> None:
    """4 and 256 small gradients take the same number of operators."""
    few, many = device_gradients(4, dtype), device_gradients(256, dtype)
    assert operators(lambda: collect_gradients(few)) == operators(lambda: collect_gradients(many))
    assert operators(lambda: enhanced_stats_of_seed_000(few)) < operators(lambda: enhanced_stats_of_seed_000(many))


def test_materialize_reads_the_device_anew() -> None:
    """A replayed CUDA graph writes new numbers into the same buffer; materialize shows them."""
    with simulated_cuda():
        pending = collect_gradients(device_gradients(2))
    assert pending.materialize() == pending.materialize()
    ((buffer, _),) = pending._sets._buffers.values()
    buffer.zero_()
    assert pending.materialize().total_norm == 0.0


def test_collect_compiles_without_a_graph_break() -> None:
    """Dynamo traces collect_gradients whole, also for CPU tensors, and the answer is the same."""
    gradients = [torch.randn(3, 4), torch.randn(5).double(), None, torch.tensor([torch.nan])]
    torch._dynamo.reset()
    compiled = torch.compile(collect_gradients, fullgraph=True, backend="eager")
    actual, expected = compiled(gradients).materialize(), collect_gradients(gradients).materialize()
    assert actual.finite_norm == pytest.approx(expected.finite_norm, rel=1e-6)
    assert (actual.nan_count, actual.zero_count) == (1, 0)


def test_total_norm_is_what_materialize_reads() -> None:
    """Of every dtype and scale, beside NaN and Inf, with and without a compiler's records; 0-d and float64."""
    ends = [torch.tensor([3e300, 1.0]).double(), torch.tensor([1e-300]).double(), torch.full((3,), 1e20)]
    tiny = [torch.full((4,), 5e-324, dtype=torch.float64), torch.full((4,), 1e-45)]
    for gradients in (
        *(ends, tiny, tiny[:1], ends[:1], []),
        *([torch.tensor([bad, 1.0]), torch.ones(2).half()] for bad in (torch.nan, torch.inf)),
        [torch.tensor([torch.nan]), torch.tensor([torch.inf]).double()],
    ):
        with simulated_cuda():
            records = [to_simulated(gradient) for gradient in gradients]
            for form in (gradients, records, gradients[:1] + records[1:]):
                pending = collect_gradients(form)
                norm, expected = pending.total_norm, pending.materialize().total_norm
                assert (norm.shape, norm.dtype) == ((), torch.float64)
                assert norm.item() == pytest.approx(expected, rel=1e-14, abs=0, nan_ok=True)
