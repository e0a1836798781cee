"""Peak extra memory does not grow with the gradients, by the allocator's own events."""

from collections.abc import Callable, Sequence

import pytest
import torch
from torch import Tensor

from auditkit.collectors import collect_gradients
from auditkit.collectors.cpu_pass import CONVERTED_ELEMENTS
from auditkit.collectors.device_pass import measure_on_device
from auditkit.collectors.records import shifts_for
from auditkit.worker.measure import memory

pytestmark = pytest.mark.process

SHAPES = {"one tensor": lambda n: [n], "many tensors": lambda n: [10_000] * (n // 10_000)}

# CPU: 20 bytes * 31744 where bfloat16 is widened, two buffers of 8 bytes * 31744 for float64. Numpy's and Python's,
# 8 bytes * 31744 and 256 KiB, are not in the allocator's events.
CPU_PEAK_BYTES = 20 * CONVERTED_ELEMENTS
# Device: 8 bytes * 2**19 for a batch and its copy, 8 * 65536 for a segment in float64.
DEVICE_PEAK_BYTES = 5 * 2**20
# Record, its copy and rows per segment: T * K * 8 bytes each.
BYTES_PER_TENSOR = 256


def peak_bytes(work: Callable[[], object]) -> int:
    return memory.peak_bytes(work, "cpu")


def norms_of_seed_003(gradients: Sequence[Tensor]) -> object:
    """Control: every gradient copied to float64, as the audited fix did."""
    return torch._foreach_norm([gradient.double() for gradient in gradients])


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float64])
@pytest.mark.parametrize("element_count", [2_000_000, 5_000_000])
def test_peak_is_constant(shape: str, dtype: torch.dtype, element_count: int) -> None:
    """One constant holds at both sizes and shapes; NaN everywhere, the worst case, included."""
    gradients = [torch.full((n,), torch.nan, dtype=dtype) for n in SHAPES[shape](element_count)]
    per_tensor_bytes = BYTES_PER_TENSOR * len(gradients)
    assert peak_bytes(lambda: collect_gradients(gradients)) <= CPU_PEAK_BYTES + per_tensor_bytes
    device_peak = peak_bytes(lambda: measure_on_device(gradients, shifts_for(dtype)))
    assert device_peak <= DEVICE_PEAK_BYTES + per_tensor_bytes
    if dtype != torch.float64:
        assert peak_bytes(lambda: norms_of_seed_003(gradients)) >= 8 * element_count


def test_strided_gradients_are_not_copied_whole() -> None:
    """Slices and transposes are read in place."""
    base = torch.ones(3000, 1000)
    for view in (base.t(), base[:, ::2], base[:, :1].expand(-1, 1000)):
        assert peak_bytes(lambda view=view: collect_gradients([view])) <= CPU_PEAK_BYTES
        assert peak_bytes(lambda view=view: measure_on_device([view], (0,))) <= DEVICE_PEAK_BYTES
