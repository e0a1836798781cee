"""Measures gradients that lie in host memory, a cache-sized piece at a time.

Reading a CPU tensor is no synchronization, so this pass branches on what it reads: NaN and Inf are only
looked for in pieces whose norm is not finite. Every piece is converted to float64 in one buffer that is used
again and again: no temporary grows with the gradients.
"""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from .records import SMALLEST_ACCURATE_NORM, WIDE_SHIFTS, GradientMeasure
from .strided import iter_pieces

# 248 KiB of float64 stay in the second-level cache between conversion and the reads after it. Below 32768
# elements ATen opens no parallel region: nothing waits for cores that others use, and no OpenMP pool starts,
# which a later fork would not survive.
PIECE_ELEMENTS = 31 * 1024

_SHIFT = max(WIDE_SHIFTS)


def measure_on_cpu(tensors: Sequence[Tensor]) -> list[GradientMeasure]:
    """Return the measure of each strided, real CPU tensor.

    Peak extra memory: 9 bytes * min(PIECE_ELEMENTS, largest tensor), and 40 bytes
    for every PIECE_ELEMENTS of the largest tensor.
    """
    largest = max((tensor.numel() for tensor in tensors), default=0)
    scratch = _Scratch(min(PIECE_ELEMENTS, largest))
    return [_measure_tensor(tensor, scratch) for tensor in tensors]


class _Scratch:
    """The float64 buffer of one pass, as a tensor and as an array, and a mask of the same length."""

    def __init__(self, length: int) -> None:
        self.values = torch.empty(length, dtype=torch.float64, device="cpu")
        self.array: npt.NDArray[np.float64] = self.values.numpy()
        self.mask: npt.NDArray[np.bool_] = np.empty(length, dtype=np.bool_)


def _measure_tensor(tensor: Tensor, scratch: _Scratch) -> GradientMeasure:
    norms = []
    nonzero_count = nan_count = inf_count = 0
    for piece in iter_pieces(tensor, PIECE_ELEMENTS):
        measure = _measure_piece(piece, scratch)
        norms.append(measure.finite_norm)
        nonzero_count += measure.nonzero_count
        nan_count += measure.nan_count
        inf_count += measure.inf_count
    return GradientMeasure(math.hypot(*norms), nonzero_count, nan_count, inf_count)


def _measure_piece(piece: Tensor, scratch: _Scratch) -> GradientMeasure:
    count = piece.numel()
    values_N, array_N, mask_N = scratch.values[:count], scratch.array[:count], scratch.mask[:count]
    (values_N if piece.dim() == 1 else values_N.view(piece.shape)).copy_(piece)
    np.equal(array_N, 0.0, out=mask_N)
    nonzero_count = count - int(np.count_nonzero(mask_N))
    norm = _plain_norm(values_N)
    if SMALLEST_ACCURATE_NORM <= norm < math.inf or nonzero_count == 0:
        return GradientMeasure(norm, nonzero_count, 0, 0)
    nan_count = inf_count = 0
    if not math.isfinite(norm):
        nan_count, inf_count = _zero_nonfinite(array_N, mask_N)
    return GradientMeasure(_norm_of_any_scale(values_N), nonzero_count, nan_count, inf_count)


def _zero_nonfinite(array_N: npt.NDArray[np.float64], mask_N: npt.NDArray[np.bool_]) -> tuple[int, int]:
    """Count NaN and Inf, and replace them by zero in place."""
    np.isinf(array_N, out=mask_N)
    inf_count = int(np.count_nonzero(mask_N))
    np.copyto(array_N, 0.0, where=mask_N)
    np.isnan(array_N, out=mask_N)
    nan_count = int(np.count_nonzero(mask_N))
    np.copyto(array_N, 0.0, where=mask_N)
    return nan_count, inf_count


def _norm_of_any_scale(values_N: Tensor) -> float:
    """Return the norm of finite float64 values, scaling them in place where their squares leave the range."""
    norm = _plain_norm(values_N)
    if norm == math.inf:
        return _plain_norm(values_N.mul_(2.0**-_SHIFT)) * 2.0**_SHIFT
    if norm < SMALLEST_ACCURATE_NORM:
        return _plain_norm(values_N.mul_(2.0**_SHIFT)) * 2.0**-_SHIFT
    return norm


def _plain_norm(values_N: Tensor) -> float:
    # Not torch.dot or numpy's: their float64 starts the threads of a BLAS, from 8192 elements on in MKL.
    norm: Any = torch.linalg.vector_norm(values_N).item()
    return float(norm)
