"""Echoes: 1 for identical replicas, 0 for noise, the true echo for a known signal, and their own error."""

import pytest
import torch
from torch import Tensor

from auditkit.collectors.spectral import LEAST_REPLICAS, AlignedSvds, aligned_svds, spectral_echoes
from tests.collectors.spectral.planted import expected_echo, plant

pytestmark = pytest.mark.process

# Above the threshold (48 / 32) ** 0.25 = 1.11 of what a single replica shows: far, near; the last is below it.
STRENGTHS = [4.0, 2.5, 1.6, 0.8]
SHAPE = (48, 32)


def triple_ols_echo(aligned: AlignedSvds) -> Tensor:
    """Control: the public triple-product estimator, whose normalization counts pairs that its sum leaves out."""
    gram_DRR = torch.einsum("and,bnd->dab", aligned.U_RND, aligned.U_RND)
    overlap_DRR = gram_DRR * torch.einsum("amd,bmd->dab", aligned.V_RMD, aligned.V_RMD)
    overlap_DRR = overlap_DRR * (1 - torch.eye(overlap_DRR.shape[1]))
    products_DR = ((overlap_DRR @ overlap_DRR) * overlap_DRR.mT).sum(-1)
    return (products_DR / overlap_DRR.square().sum((1, 2))[:, None]).clamp_min(0).sqrt().mean(1)


@pytest.mark.parametrize("replica_count", [3, 4, 5, 8, 16, 64])
@pytest.mark.parametrize("shape", [(6, 4), (4, 6), (5, 5)])
def test_identical_replicas_echo_one(replica_count: int, shape: tuple[int, int]) -> None:
    """At every R that is accepted; the control reads sqrt((R - 2) / R)."""
    gradient = torch.randn(*shape, generator=torch.Generator().manual_seed(0))
    aligned = aligned_svds(gradient.expand(replica_count, -1, -1))
    echoes = spectral_echoes(aligned)
    torch.testing.assert_close(echoes.echo_D, torch.ones(min(shape), dtype=torch.float64), atol=1e-6, rtol=0)
    assert echoes.standard_error_D.max() < 1e-6
    control = torch.full((min(shape),), (1 - 2 / replica_count) ** 0.5)
    torch.testing.assert_close(triple_ols_echo(aligned), control)


def test_too_few_replicas_are_refused_with_the_number_needed() -> None:
    aligned = aligned_svds(torch.randn(2, 4, 3))
    with pytest.raises(ValueError, match="2 replicas: an echo needs at least 3"):
        spectral_echoes(aligned)
    assert LEAST_REPLICAS == 3


def noise_overlaps(replica_count: int, trials: int, of_all: bool) -> Tensor:
    """Return signed squared echoes of pure noise, aligned with half of it, or with all of it as control."""
    generator = torch.Generator().manual_seed(replica_count)
    found = []
    for _ in range(trials):
        grads_RNM = torch.randn(replica_count, 24, 16, generator=generator)
        reference = grads_RNM.mean(0) if of_all else "half"
        echo_D = spectral_echoes(aligned_svds(grads_RNM, reference=reference)).echo_D
        found.append(echo_D * echo_D.abs())
    return torch.stack(found)


@pytest.mark.parametrize("replica_count", [3, 8])
def test_noise_echoes_zero_in_expectation(replica_count: int) -> None:
    """The mean overlap of 150 sets of pure noise is 0 within 3 standard errors; aligned with all of it, it is not."""
    mean_T = noise_overlaps(replica_count, 150, of_all=False).mean(1)
    standard_error = mean_T.std() / len(mean_T) ** 0.5
    assert mean_T.mean().abs() < 3 * standard_error
    control_T = noise_overlaps(replica_count, 150, of_all=True).mean(1)
    assert control_T.mean() > 10 * standard_error


def simulate(replica_count: int, trials: int) -> tuple[Tensor, Tensor, Tensor]:
    """Return true echoes, estimates and standard errors of the planted directions: each (trials, K)."""
    found = []
    for seed in range(trials):
        planted = plant(replica_count, *SHAPE, STRENGTHS, seed=seed)
        # The columns follow the true directions, so that the estimate and the truth speak of the same one.
        true_NM = planted.U_NK * torch.tensor(STRENGTHS) @ planted.V_MK.T
        aligned = aligned_svds(planted.grads_RNM, reference=true_NM)
        echoes = spectral_echoes(aligned)
        true_RK = planted.true_echoes(aligned).diagonal(dim1=1, dim2=2)
        rank = len(STRENGTHS)
        found.append((true_RK.double().mean(0), echoes.echo_D[:rank], echoes.standard_error_D[:rank]))
    true_TK, echo_TK, error_TK = (torch.stack(parts) for parts in zip(*found, strict=True))
    return true_TK, echo_TK, error_TK


@pytest.mark.parametrize("replica_count", [3, 8])
def test_a_known_signal_echoes_as_it_truly_does(replica_count: int) -> None:
    """Bias below a third of the stated error at every strength; nine of ten estimates within two of it."""
    true_TK, echo_TK, error_TK = simulate(replica_count, 100)
    assert (true_TK.mean(0)[:3] > torch.tensor([0.88, 0.72, 0.40])).all()
    bias_K = (echo_TK - true_TK).mean(0)
    assert (bias_K.abs() < error_TK.mean(0) / 3).all(), bias_K
    within = ((echo_TK - true_TK).abs() <= 2 * error_TK).double().mean(0)
    assert (within >= 0.9).all(), within


@pytest.mark.parametrize("strength", [4.0, 2.5])
def test_large_matrices_echo_what_random_matrix_theory_says(strength: float) -> None:
    """The oracle knows neither our alignment nor our estimator."""
    planted = plant(8, 192, 128, [strength], seed=1)
    echoes = spectral_echoes(aligned_svds(planted.grads_RNM))
    assert echoes.echo_D[0].item() == pytest.approx(expected_echo(strength, 192, 128), abs=0.02)
