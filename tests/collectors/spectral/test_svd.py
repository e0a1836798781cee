"""Aligned SVDs of replicas: exact decompositions, columns that agree, memory that does not grow with R."""

import pytest
import torch
from torch import Tensor

from auditkit.collectors.spectral import AlignedSvds, aligned_svds
from tests.collectors.spectral.planted import plant


def rebuilt(aligned: AlignedSvds) -> Tensor:
    return (aligned.U_RND * aligned.svals_RD[:, None, :]) @ aligned.V_RMD.mT


def replicas(shape: tuple[int, int], count: int = 5, dtype: torch.dtype = torch.float32) -> Tensor:
    return plant(count, *shape, [6.0, 4.0, 3.0], seed=0).grads_RNM.to(dtype)


@pytest.mark.parametrize("shape", [(12, 8), (8, 12), (9, 9), (1, 5), (5, 1)])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_every_replica_is_decomposed(shape: tuple[int, int], dtype: torch.dtype) -> None:
    """U diag(s) V^T is the gradient, U and V are orthonormal: tall, wide, square, one row, one column."""
    grads_RNM = torch.randn(5, *shape, dtype=dtype, generator=torch.Generator().manual_seed(0))
    aligned = aligned_svds(grads_RNM)
    rank = min(shape)
    assert aligned.U_RND.shape == (5, shape[0], rank)
    assert aligned.svals_RD.shape == (5, rank)
    assert aligned.V_RMD.shape == (5, shape[1], rank)
    assert aligned.U_RND.dtype == aligned.svals_RD.dtype == aligned.V_RMD.dtype == dtype
    torch.testing.assert_close(rebuilt(aligned), grads_RNM)
    for vectors in (aligned.U_RND, aligned.V_RMD):
        torch.testing.assert_close(vectors.mT @ vectors, torch.eye(rank, dtype=dtype).expand(5, -1, -1))


def test_columns_agree_with_the_reference() -> None:
    """Strong directions point the same way in all replicas; the known-bad control, a plain SVD, does not."""
    planted = plant(6, 40, 30, [6.0, 5.5, 5.0], seed=3)
    aligned = aligned_svds(planted.grads_RNM)
    assert aligned.assignment == "optimal"
    assert aligned.reference_count == 3
    # The order of the strengths is not that of every replica's own singular values: these are the true directions.
    assert planted.true_echoes(aligned).mean(0).diagonal().min() > 0.8
    reference_U, _, reference_Vh = torch.linalg.svd(planted.grads_RNM[:3].mean(0), full_matrices=False)
    agreement_RD = (aligned.U_RND * reference_U).sum(1) + (aligned.V_RMD * reference_Vh.T).sum(1)
    assert agreement_RD.min() >= -1e-6
    plain_U, _, plain_Vh = torch.linalg.svd(planted.grads_RNM, full_matrices=False)
    assert ((plain_U * reference_U).sum(1) + (plain_Vh.mT * reference_Vh.T).sum(1)).min() < -0.1


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_16_bit_gradients_are_worked_on_in_float32(dtype: torch.dtype) -> None:
    """Bit for bit what the same numbers in float32 give."""
    grads_RNM = replicas((10, 7), dtype=dtype)
    narrow, wide = aligned_svds(grads_RNM), aligned_svds(grads_RNM.float())
    assert narrow.U_RND.dtype == torch.float32
    assert torch.equal(narrow.U_RND, wide.U_RND)
    assert torch.equal(narrow.svals_RD, wide.svals_RD)
    assert torch.equal(narrow.V_RMD, wide.V_RMD)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"chunk": 0}, "chunk is 0: expected at least 1 replica"),
        ({"reference": "mean"}, "reference is 'mean': expected 'half', 'first' or a tensor"),
        ({"reference": torch.ones(2, 2)}, r"reference has shape \(2, 2\), replica 0 has \(10, 7\)"),
        ({"reference": torch.full((10, 7), torch.nan)}, "reference holds NaN or infinity"),
        ({"reference": torch.ones(7)}, r"reference has shape \(7,\)"),
    ],
)
def test_wrong_arguments_are_refused(arguments: dict[str, object], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        aligned_svds(replicas((10, 7)), **arguments)  # type: ignore[arg-type]
