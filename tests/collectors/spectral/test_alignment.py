"""Order, signs and bases of singular vectors: what an SVD leaves open, the reference settles."""

import itertools
import sys

import numpy as np
import pytest
import torch
from torch import Tensor

from auditkit.collectors.spectral.alignment import align, assign, available_assignment


def decomposition(rows_N: int, columns_M: int, svals: list[float], seed: int = 0) -> tuple[Tensor, Tensor, Tensor]:
    generator = torch.Generator().manual_seed(seed)
    U = torch.linalg.qr(torch.randn(rows_N, len(svals), generator=generator, dtype=torch.float64)).Q
    V = torch.linalg.qr(torch.randn(columns_M, len(svals), generator=generator, dtype=torch.float64)).Q
    return U, torch.tensor(svals, dtype=torch.float64), V


def rotation(size: int, seed: int) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.linalg.qr(torch.randn(size, size, generator=generator, dtype=torch.float64)).Q


@pytest.mark.parametrize("how", ["optimal", "greedy"])
@pytest.mark.parametrize("shape", [(7, 5), (5, 7), (5, 5)])
def test_shuffled_and_flipped_columns_come_back(how: str, shape: tuple[int, int]) -> None:
    U, svals, V = decomposition(*shape, [5.0, 4.0, 3.0, 2.0, 1.0])
    order, signs = torch.tensor([3, 0, 4, 1, 2]), torch.tensor([-1.0, 1.0, -1.0, -1.0, 1.0], dtype=torch.float64)
    reference = U[:, order] * signs, svals[order], V[:, order] * signs
    found = align(U, svals, V, reference[0], reference[2], how)
    for part, expected in zip(found, reference, strict=True):
        torch.testing.assert_close(part, expected)


def test_a_sign_follows_both_vectors_together() -> None:
    """The sum of both agreements decides, so that one weak overlap of the wrong sign does not."""
    U, svals, V = decomposition(3, 3, [1.0])
    other = torch.linalg.qr(torch.cat([V, torch.ones(3, 1, dtype=torch.float64)], 1)).Q[:, 1:]
    nearly_orthogonal = torch.nn.functional.normalize(other - 0.01 * V, dim=0)
    aligned_U, _, aligned_V = align(-U, svals, -nearly_orthogonal, U, V, "optimal")
    torch.testing.assert_close(aligned_U, U)
    torch.testing.assert_close(aligned_V, nearly_orthogonal)


@pytest.mark.parametrize("seed", range(5))
def test_the_optimal_assignment_is_the_best_of_all_permutations(seed: int) -> None:
    score = np.random.default_rng(seed).random((6, 6))
    columns = np.arange(6)
    best = max(score[list(rows), columns].sum() for rows in itertools.permutations(range(6)))
    assert score[assign(score, "optimal"), columns].sum() == pytest.approx(best)


def test_greedy_takes_the_largest_score_first_even_where_that_is_not_the_best() -> None:
    """0.9 + 0.1 against 0.8 + 0.8: the known case in which greedy loses."""
    score = np.array([[0.9, 0.8], [0.8, 0.1]])
    assert assign(score, "greedy").tolist() == [0, 1]
    assert assign(score, "optimal").tolist() == [1, 0]


def test_without_scipy_the_assignment_is_greedy_and_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    assert available_assignment() == "optimal"
    monkeypatch.setitem(sys.modules, "scipy", None)
    monkeypatch.setitem(sys.modules, "scipy.optimize", None)
    assert available_assignment() == "greedy"


@pytest.mark.parametrize("shape", [(8, 6), (6, 8)])
def test_the_basis_of_equal_singular_values_is_turned_to_the_reference(shape: tuple[int, int]) -> None:
    """U Q and V Q decompose the same matrix: the reference chooses Q, and the product stays."""
    U, svals, V = decomposition(*shape, [3.0, 2.0, 2.0, 2.0, 1.0, 0.5])
    turned_U, turned_V = U.clone(), V.clone()
    turned_U[:, 1:4], turned_V[:, 1:4] = U[:, 1:4] @ rotation(3, 1), V[:, 1:4] @ rotation(3, 1)
    assert (turned_U * U).sum(0)[1:4].abs().max() < 0.99  # the control: without the turn they disagree
    aligned_U, _, aligned_V = align(turned_U, svals, turned_V, U, V, "optimal")
    torch.testing.assert_close(aligned_U, U)
    torch.testing.assert_close(aligned_V, V)
