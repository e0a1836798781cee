"""Aligned SVDs of replicas: exact decompositions, columns that agree, memory that does not grow with R."""

import pytest
import torch
from torch import Tensor

from auditkit.collectors.spectral import AlignedSvds, aligned_svds, svd
from auditkit.collectors.spectral.svd import replica_bytes
from tests.collectors.spectral.planted import plant
from tests.collectors.test_memory import peak_bytes


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


@pytest.mark.parametrize("chunk", [1, 2, 5, 100])
def test_the_chunk_does_not_change_the_result(chunk: int) -> None:
    grads_RNM = replicas((10, 7))
    whole, chunked = aligned_svds(grads_RNM, chunk=5), aligned_svds(list(grads_RNM), chunk=chunk)
    # Not bit for bit: LAPACK rounds differently by where in memory a matrix begins.
    torch.testing.assert_close(chunked.U_RND, whole.U_RND)
    torch.testing.assert_close(chunked.svals_RD, whole.svals_RD)
    torch.testing.assert_close(chunked.V_RMD, whole.V_RMD)


def test_the_reference_can_be_chosen() -> None:
    planted = plant(6, 12, 8, [6.0, 4.0], seed=1)
    first = aligned_svds(planted.grads_RNM, reference="first")
    assert first.reference_count == 1
    own = torch.linalg.svd(planted.grads_RNM[0], full_matrices=False)
    torch.testing.assert_close(first.svals_RD[0], own.S)
    torch.testing.assert_close(first.U_RND[0], own.U)
    true_NM = planted.U_NK * torch.tensor([6.0, 4.0]) @ planted.V_MK.T
    given = aligned_svds(planted.grads_RNM, reference=true_NM)
    assert given.reference_count == 0
    assert planted.true_echoes(given).diagonal(dim1=1, dim2=2).min() > 0.5


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


def test_gradients_near_the_ends_of_float32_have_a_finite_reference() -> None:
    """The sum of these replicas overflows; their mean does not."""
    grads_RNM = torch.eye(3).mul(3e38).expand(6, -1, -1)
    torch.testing.assert_close(rebuilt(aligned_svds(grads_RNM)), grads_RNM)


@pytest.mark.parametrize("shape", [(9, 6), (6, 9)])
def test_rank_deficient_replicas_are_decomposed(shape: tuple[int, int]) -> None:
    """Rank 2 of 6: the two directions agree, the rest is some orthonormal completion, and singular values are 0."""
    planted = plant(4, *shape, [3.0, 2.0], seed=5)
    true_NM = planted.U_NK * torch.tensor([3.0, 2.0]) @ planted.V_MK.T
    scales = torch.tensor([1.0, 1.1, 0.9, 1.2])[:, None, None]
    aligned = aligned_svds(true_NM * scales)
    torch.testing.assert_close(rebuilt(aligned), true_NM * scales)
    torch.testing.assert_close(planted.true_echoes(aligned).diagonal(dim1=1, dim2=2), torch.ones(4, 2))
    assert aligned.svals_RD[:, 2:].max() < 1e-5


def test_replicas_with_equal_singular_values_agree() -> None:
    """Orthogonal gradients, as Muon's updates are: every basis is one, and all replicas get the reference's."""
    orthogonal = torch.linalg.qr(torch.randn(12, 8, generator=torch.Generator().manual_seed(0))).Q
    noise_RNM = 1e-7 * torch.randn(4, 12, 8, generator=torch.Generator().manual_seed(1))
    aligned = aligned_svds(orthogonal + noise_RNM)
    torch.testing.assert_close(rebuilt(aligned), orthogonal + noise_RNM, atol=3e-6, rtol=0)
    torch.testing.assert_close(aligned.U_RND, aligned.U_RND[:1].expand(4, -1, -1), atol=1e-5, rtol=0)
    plain = torch.linalg.svd(orthogonal + noise_RNM, full_matrices=False).U
    assert (plain - plain[:1]).abs().max() > 0.1  # the control: a plain SVD takes any basis


@pytest.mark.parametrize("shape", [(96, 64), (64, 96)])
def test_memory_beyond_the_results_does_not_grow_with_the_replicas(shape: tuple[int, int]) -> None:
    """At 8 and at 32 replicas the same extra bytes, within what the chunk was chosen by; one batch is the control."""
    extra = {}
    for count in (8, 32):
        grads_RNM = torch.randn(count, *shape, generator=torch.Generator().manual_seed(0))
        results_bytes = 4 * count * (min(shape) * (sum(shape) + 1))
        extra[count] = peak_bytes(lambda grads=grads_RNM: aligned_svds(grads, chunk=4)) - results_bytes
        one_batch = peak_bytes(lambda grads=grads_RNM: torch.linalg.svd(grads, full_matrices=False))
        assert one_batch > results_bytes + grads_RNM.nbytes
    assert extra[32] <= extra[8] + 4096
    # The reference and its decomposition are there beside the chunk's four replicas.
    assert extra[32] <= 5 * replica_bytes(*shape, torch.float32)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float32, torch.float64])
def test_chunks_are_the_replicas_in_order_and_promoted(dtype: torch.dtype) -> None:
    grads_RNM = torch.arange(5 * 6).reshape(5, 2, 3).to(dtype)
    promoted = torch.promote_types(dtype, torch.float32)
    chunks = [part.clone() for part in svd._chunks(list(grads_RNM), 2, torch.device("cpu"), promoted)]
    assert [len(part) for part in chunks] == [2, 2, 1]
    assert torch.equal(torch.cat(chunks), grads_RNM.to(promoted))
