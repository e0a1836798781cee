"""What is no set of replica gradients is refused in one line that names the replica."""

from pathlib import Path

import pytest
import torch
import torch.distributed as dist
from torch import Tensor

from auditkit.collectors.spectral import aligned_svds
from auditkit.collectors.spectral.replicas import checked_replicas

GOOD = torch.ones(3, 2)


def holding(value: float) -> Tensor:
    bad = GOOD.clone()
    bad[1, 1] = value
    return bad


@pytest.mark.parametrize(
    ("bad", "message"),
    [
        (holding(float("nan")), "replica 2 holds NaN or infinity"),
        (holding(float("inf")), "replica 2 holds NaN or infinity"),
        (holding(-float("inf")), "replica 2 holds NaN or infinity"),
        (torch.ones(2, 3), r"replica 2 has shape \(2, 3\), replica 0 has \(3, 2\)"),
        (torch.ones(3), r"replica 2 has shape \(3,\): expected rows x columns"),
        (torch.ones(0, 2), r"replica 2 has shape \(0, 2\): expected rows x columns, both above 0"),
        (GOOD.double(), "replica 2 has dtype torch.float64, replica 0 has torch.float32"),
        (GOOD.long(), "replica 2 is torch.int64, torch.strided: expected dense numbers of 16, 32 or 64 bits"),
        (GOOD.to(torch.complex64), "replica 2 is torch.complex64"),
        (GOOD.to(torch.float8_e5m2), "replica 2 is torch.float8_e5m2"),
        (GOOD.to_sparse(), "replica 2 is torch.float32, torch.sparse_coo"),
        (GOOD.to("meta"), "replica 2 is on device meta: it has no values"),
    ],
)
def test_a_replica_that_is_no_matrix_like_the_others_is_named(bad: Tensor, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        aligned_svds([GOOD, GOOD, bad])


@pytest.mark.parametrize(
    ("grads", "message"),
    [
        (GOOD, r"grads_RNM has shape \(3, 2\): expected replicas x rows x columns"),
        (torch.ones(1, 1, 3, 2), r"grads_RNM has shape \(1, 1, 3, 2\)"),
        (GOOD[None], "the number of replicas is 1: aligning needs at least 2"),
        ([], "the number of replicas is 0: aligning needs at least 2"),
    ],
)
def test_what_is_no_stack_of_replicas_is_refused(grads: Tensor | list[Tensor], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        aligned_svds(grads)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64])
def test_finite_numbers_whose_sum_overflows_are_accepted(dtype: torch.dtype) -> None:
    """The quick look, a sum, only acquits."""
    large = torch.full((50, 50), torch.finfo(dtype).max, dtype=dtype)
    assert [replica.data_ptr() for replica in checked_replicas([large, large])] == [large.data_ptr()] * 2


def test_gradients_that_autograd_follows_are_accepted() -> None:
    aligned = aligned_svds([torch.randn(3, 2, requires_grad=True) for _ in range(2)])
    assert not aligned.U_RND.requires_grad


def test_a_sharded_gradient_is_refused(tmp_path: Path) -> None:
    """Its SVD would be that of nobody's matrix, or a collective that other ranks know nothing of."""
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.tensor import Shard, distribute_tensor

    dist.init_process_group("gloo", init_method=f"file://{tmp_path}/store", rank=0, world_size=1)
    try:
        sharded = distribute_tensor(GOOD, init_device_mesh("cpu", (1,)), [Shard(0)])
        with pytest.raises(ValueError, match="replica 0 is a DTensor: gather it first"):
            aligned_svds([sharded, sharded])
    finally:
        dist.destroy_process_group()
