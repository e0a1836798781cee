"""On a machine with a GPU: aligned SVDs of gradients on either side, and the memory that they take."""

import pytest
import torch

from auditkit.collectors.spectral import aligned_svds, spectral_echoes
from auditkit.collectors.spectral.svd import replica_bytes
from tests.collectors.spectral.planted import plant

pytestmark = pytest.mark.gpu

STRENGTHS = [6.0, 4.0, 3.0]


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float32, torch.float64])
@pytest.mark.parametrize("shape", [(96, 64), (64, 96)])
def test_gradients_of_the_host_are_worked_on_by_the_device(dtype: torch.dtype, shape: tuple[int, int]) -> None:
    """Sent in chunks, five of them and a rest: the same directions and echoes as on the CPU."""
    grads_RNM = plant(11, *shape, STRENGTHS, seed=0).grads_RNM.to(dtype)
    on_device, on_cpu = aligned_svds(grads_RNM, chunk=2), aligned_svds(grads_RNM, device="cpu")
    assert on_device.U_RND.device.type == "cpu"
    torch.testing.assert_close(on_device.svals_RD[:, :3], on_cpu.svals_RD[:, :3], atol=1e-4, rtol=1e-4)
    torch.testing.assert_close(on_device.U_RND[:, :, :3], on_cpu.U_RND[:, :, :3], atol=1e-3, rtol=0)
    torch.testing.assert_close(on_device.V_RMD[:, :, :3], on_cpu.V_RMD[:, :, :3], atol=1e-3, rtol=0)
    echoes = [spectral_echoes(aligned).echo_D[:3] for aligned in (on_device, on_cpu)]
    torch.testing.assert_close(*echoes, atol=1e-3, rtol=0)


@pytest.mark.parametrize("results_on_cpu", [False, True])
def test_results_lie_where_they_are_asked_for(results_on_cpu: bool) -> None:
    grads_RNM = plant(4, 32, 24, STRENGTHS, seed=0).grads_RNM.cuda()
    aligned = aligned_svds(grads_RNM, results_on_cpu=results_on_cpu)
    assert {part.device.type for part in (aligned.U_RND, aligned.svals_RD, aligned.V_RMD)} == {
        "cpu" if results_on_cpu else "cuda"
    }
    rebuilt = (aligned.U_RND * aligned.svals_RD[:, None]) @ aligned.V_RMD.mT
    torch.testing.assert_close(rebuilt.cuda(), grads_RNM, atol=1e-4, rtol=1e-4)


def test_the_device_holds_a_chunk_and_not_the_replicas() -> None:
    """Peak device memory at 8 and at 32 replicas is the same, when the results leave at once."""
    peaks = {}
    for count in (8, 32):
        grads_RNM = torch.randn(count, 256, 128, generator=torch.Generator().manual_seed(0))
        aligned_svds(grads_RNM[:4], chunk=4)  # cuSOLVER's handles and workspaces stay
        torch.cuda.reset_peak_memory_stats()
        before = torch.cuda.memory_allocated()
        aligned_svds(grads_RNM, chunk=4)
        peaks[count] = torch.cuda.max_memory_allocated() - before
    assert peaks[32] <= peaks[8] + 4096
    assert peaks[32] <= 6 * replica_bytes(256, 128, torch.float32)
