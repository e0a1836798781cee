"""The Triton kernels in Triton's interpreter, on CPU tensors: all that both other passes promise, and their own.

Not collected by itself: the interpreter is chosen before triton is first imported, so test_triton_pass.py runs
this file in a process of its own, with TRITON_INTERPRET=1 and its selection.
"""

import math
from collections.abc import Sequence

import pytest
import torch
from torch import Tensor

from auditkit.collectors import collect_gradients, device_pass, pending, triton_pass
from auditkit.collectors.records import GradientMeasure, decode_record, shifts_for
from auditkit.collectors.triton_kernels import BLOCK_BYTES
from tests.collectors import oracle
from tests.collectors.oracle import device_measures, norm_error_bound, relative_error


def triton_measures(tensors: Sequence[Tensor]) -> list[GradientMeasure]:
    """Run the kernels on tensors of one dtype, and decode their record; float8 takes the other way in real use."""
    if tensors[0].dtype not in triton_pass.TRITON_DTYPES:
        return device_measures(tensors)
    shifts = shifts_for(tensors[0].dtype)
    return decode_record(triton_pass.measure_with_triton(tensors, shifts).tolist(), shifts)


oracle.PASSES["triton"] = triton_measures

# Their fixture is parametrized over PASSES when they are imported.
from tests.collectors.test_passes import *  # noqa: E402, F403
from tests.collectors.test_passes import DTYPES, _measure, random_tensor  # noqa: E402, F401


@pytest.fixture(name="chunk")
def _small_chunk(dtype: torch.dtype, monkeypatch: pytest.MonkeyPatch) -> int:
    """Two blocks, so that chunks are many and the interpreter has little to do."""
    monkeypatch.setattr(triton_pass, "CHUNK_ELEMENTS", 2 * BLOCK_BYTES // dtype.itemsize)
    return triton_pass.CHUNK_ELEMENTS


def assert_matches_oracle(measure: GradientMeasure, gradient: Tensor) -> None:
    values = gradient.reshape(-1).tolist()
    finite = [value for value in values if math.isfinite(value)]
    assert measure.nonzero_count == sum(value != 0 for value in values)
    assert measure.nan_count == sum(map(math.isnan, values))
    assert measure.inf_count == sum(map(math.isinf, values))
    # The bound of any order of additions: the kernels add by lanes, loads, blocks and chunks, rounding as often.
    expected = math.sqrt(math.fsum(value * value for value in finite))  # off by three roundings at most
    assert relative_error(measure.finite_norm, expected) <= norm_error_bound(len(values))


@pytest.mark.parametrize("dtype", DTYPES)
def test_triton_measures_views_of_one_bucket_wherever_they_start(dtype: torch.dtype, chunk: int) -> None:
    """Views at each offset from a 16-byte boundary, of lengths around a load, a block and a chunk."""
    block = chunk // 2
    lengths = [0, 1, 3, 15, 17, block - 1, block, block + 1, chunk - 1, chunk, chunk + 5]
    bucket = random_tensor(sum(lengths) + 16, dtype)
    bucket[::5] = 0
    for offset in range(0, 16 // dtype.itemsize, 3):
        views = list(bucket[offset : offset + sum(lengths)].split(lengths))
        for measure, view in zip(triton_measures(views), views, strict=True):
            assert_matches_oracle(measure, view)


@pytest.mark.parametrize("dtype", DTYPES)
def test_triton_finds_nonfinite_elements_in_every_part_of_a_chunk(dtype: torch.dtype, chunk: int) -> None:
    """In the masked first and last block, between them, at the ends of chunks; not in neighbours, all NaN."""
    block = chunk // 2
    base = random_tensor(chunk + block + 9, dtype)
    gradients = []
    for n, place in enumerate((0, 5, block, block + 1, chunk - 2, chunk - 1, chunk + 1, -1)):
        gradient = torch.full((len(base) + 9,), math.nan, dtype=dtype)[1:-8].copy_(base)
        gradient[place] = (math.nan, math.inf, -math.inf)[n % 3]
        gradients.append(gradient)
    norms = set()
    measures = triton_measures(gradients)
    for measure, gradient in zip(measures, gradients, strict=True):
        assert (measure.nan_count, measure.inf_count) == (int(gradient.isnan().sum()), int(gradient.isinf().sum()))
        assert measure.nan_count + measure.inf_count == 1
        assert measure.nonzero_count == len(base)
        norms.add(measure.finite_norm)
    assert len(norms) == 8 or dtype in (torch.float16, torch.bfloat16)  # another element left out for each place
    assert_matches_oracle(measures[0], gradients[0])


@pytest.mark.usefixtures("chunk")
@pytest.mark.parametrize("dtype", DTYPES)
def test_triton_and_torch_records_are_equal_where_sums_are_exact(
    dtype: torch.dtype, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Small integers have exact sums in any order, at each shift: the records are the same bit for bit.

    The torch pass takes roots of segments and squares them again: segments whose norm is an integer.
    """
    monkeypatch.setattr(device_pass, "SEGMENT_ELEMENTS", 128**2)
    gradient = torch.full((2 * 128**2,), 2.0, dtype=dtype)
    gradients = [gradient, gradient.view(2, 128, 128)[0].t(), torch.zeros(3, dtype=dtype), gradient[:9]]
    shifts = shifts_for(dtype)
    ours = triton_pass.measure_with_triton(gradients, shifts)
    theirs = triton_pass.measure_on_device(gradients, shifts)
    assert torch.equal(ours, theirs)  # the root of 2**17 is no integer: both round it from the same sum


def test_triton_keeps_the_order_where_some_tensors_are_measured_by_operators() -> None:
    """Strided and dense gradients alternate; each column of the record is its own."""
    base = random_tensor(6000, torch.float32).view(20, 30, 10)
    gradients = [base[n, :, :: 1 + n % 3] * 2.0**n if n % 2 else base[n, :, :: 1 + n % 3] for n in range(20)]
    for measure, gradient in zip(triton_measures(gradients), gradients, strict=True):
        assert_matches_oracle(measure, gradient)


def test_triton_runs_unless_the_backend_is_torch(monkeypatch: pytest.MonkeyPatch) -> None:
    """CPU tensors take the path of CUDA tensors; torch operators are asked for by name, the kernels are the default."""
    monkeypatch.setattr(pending, "_reads_now", lambda key: False)
    monkeypatch.setattr(pending, "runs_on_triton", lambda tensors, is_required: True)
    launch, launched = triton_pass._launch, []
    monkeypatch.setattr(triton_pass, "_launch", lambda *given: launched.append(1) or launch(*given))
    gradients = [torch.arange(-3.0, 4.0), torch.ones(5)]
    by_operators = collect_gradients(gradients, backend="torch").materialize()
    assert launched == []
    assert collect_gradients(gradients).materialize() == by_operators
    assert collect_gradients(gradients, backend="triton").materialize() == by_operators
    assert launched == [1, 1]
