"""Batches of replica gradients with known singular vectors: `grads_RNM`, R replicas of an N x M matrix.

All are computed in float64 from fixed seeds and cast at the end, so that a case has the same numbers in every process.
"""

from typing import List, NamedTuple

import torch

from .gradients import DTYPES


class Svd(NamedTuple):
    """Singular vectors as columns, values in their order: R matrices (`U_RND`, `S_RD`, `V_RMD`) or one."""

    left: torch.Tensor
    svals: torch.Tensor
    right: torch.Tensor


def replicas(
    count: int, rows: int, columns: int, gap: float = 0.5, noise: float = 0.1, dtype: str = "float32"
) -> torch.Tensor:
    """Return one matrix, the signal, plus separate Gaussian noise for each replica, as (R, N, M).

    The signal's smallest singular value is 1 and neighbours differ by `gap`; `noise` is about the largest singular
    value of the noise.
    """
    generator = torch.Generator().manual_seed(0)
    rank = min(rows, columns)
    left, right = (_orthonormal(size, rank, generator) for size in (rows, columns))
    signal = left * _falling(rank, gap) @ right.T
    errors = torch.randn(count, rows, columns, generator=generator, dtype=torch.float64)
    return (signal + errors * (noise / (rows**0.5 + columns**0.5))).to(DTYPES[dtype])


def identical(count: int, rows: int, columns: int) -> torch.Tensor:
    """Return one matrix with well separated singular values, `count` times."""
    return replicas(1, rows, columns, noise=0.0).repeat(count, 1, 1)


def orthogonal(count: int, columns: int) -> torch.Tensor:
    """Return replicas of (`count` x `columns`) rows whose left singular vectors are orthogonal to each other's."""
    generator = torch.Generator().manual_seed(1)
    rows = count * columns
    basis = _orthonormal(rows, rows, generator).reshape(rows, count, columns).permute(1, 0, 2)
    rights = torch.stack([_orthonormal(columns, columns, generator) for _ in range(count)])
    return (basis * _falling(columns, 0.5) @ rights.mT).float()


def _orthonormal(rows: int, columns: int, generator: torch.Generator) -> torch.Tensor:
    return torch.linalg.qr(torch.randn(rows, columns, generator=generator, dtype=torch.float64))[0]


def _falling(rank: int, gap: float) -> torch.Tensor:
    """Return `rank` singular values down to 1, in steps of `gap`."""
    return 1 + gap * torch.arange(rank - 1, -1, -1, dtype=torch.float64)


def decomposed(matrices: torch.Tensor) -> Svd:
    """Return the reduced SVD in float64, of one matrix or of a batch; V as columns, not as rows."""
    left, svals, right_rows = torch.linalg.svd(matrices.double(), full_matrices=False)
    return Svd(left, svals, right_rows.mT)


def similarity(one: Svd, reference: Svd) -> torch.Tensor:
    """Return |<u_i, u_j>| |<v_i, v_j>| for every direction i of one replica and j of the reference, as (D, D)."""
    return (one.left.mT @ reference.left).abs() * (one.right.mT @ reference.right).abs()


def best_assignment(scores: torch.Tensor) -> List[int]:
    """Return the row for every column of a square matrix, each row once, with the largest sum of scores.

    The shortest augmenting path method (Jonker and Volgenant 1987) in O(D^3) steps of Python: 1 ms at 12, for the few
    directions of probes. An audited interpreter may lack SciPy.
    """
    size, costs = scores.shape[0], (-scores).tolist()
    row_price, column_price = [0.0] * size, [0.0] * (size + 1)
    row_of = [-1] * (size + 1)  # of each column; the last one is where a path starts
    for row in range(size):
        row_of[size], column = row, size
        distance, came_from, rest = [float("inf")] * size, [size] * size, set(range(size))
        while row_of[column] != -1:
            current, done = row_of[column], [each for each in range(size + 1) if each not in rest]
            for other in rest:
                length = costs[current][other] - row_price[current] - column_price[other]
                if length < distance[other]:
                    distance[other], came_from[other] = length, column
            column = min(sorted(rest), key=lambda other: distance[other])
            step = distance[column]
            for other in done:
                row_price[row_of[other]] += step
                column_price[other] -= step
            for other in rest:
                distance[other] -= step
            rest.discard(column)
        while column != size:  # change the assignment along the cheapest path
            row_of[column] = row_of[came_from[column]]
            column = came_from[column]
    return row_of[:size]


def aligned(raw: Svd, reference: Svd) -> Svd:
    """Return every replica's directions in the order and signs of `reference` (one SVD) that fit best."""
    ordered = []
    for each in map(Svd, *raw):
        order = best_assignment(similarity(each, reference))
        left, right = each.left[:, order], each.right[:, order]
        signs = torch.where((left * reference.left).sum(0) * (right * reference.right).sum(0) < 0, -1.0, 1.0)
        ordered.append(Svd(left, each.svals[order], right * signs))
    return Svd(*map(torch.stack, zip(*ordered, strict=True)))
