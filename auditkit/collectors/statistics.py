"""The statistics that a user reads, computed from the measures of each gradient."""

import math
import sys
from collections.abc import Sequence
from dataclasses import dataclass, fields
from itertools import compress
from typing import NamedTuple

from .records import GradientMeasure

# A gradient tensor vanishes below and explodes above these L2 norms.
VANISHING_NORM_THRESHOLD = 1e-7
EXPLODING_NORM_THRESHOLD = 100.0


class NormThresholds(NamedTuple):
    """The L2 norms below and above which a gradient tensor vanishes and explodes."""

    vanishing: float = VANISHING_NORM_THRESHOLD
    exploding: float = EXPLODING_NORM_THRESHOLD


DEFAULT_THRESHOLDS = NormThresholds()


@dataclass(frozen=True, slots=True, repr=False)
class GradientStats:
    """Statistics of a set of gradients; the same fields and types for an empty set.

    Norms are L2, as Python floats. Tensors without elements count in `tensor_count` and `per_tensor_norms`
    and nowhere else. A complex element counts as its two real parts.
    """

    total_norm: float  # as IEEE 754 has it: NaN with any NaN, else inf with any Inf; 0.0 for no elements
    finite_norm: float  # of the elements that are neither NaN nor Inf
    per_tensor_norms: tuple[float, ...]  # in the order given, gradients that are None left out
    min_norm: float  # over per_tensor_norms; NaN with any NaN; 0.0 for none
    max_norm: float
    norm_ratio: float  # max_norm over the smallest norm that is not zero; 1.0 for none
    zero_count: int
    nan_count: int
    inf_count: int
    vanishing_count: int  # tensors with a norm below the threshold
    exploding_count: int  # tensors with a norm above the threshold
    element_count: int
    tensor_count: int
    health: float  # share of tensors that neither vanish nor explode; 0.0 with any NaN or Inf, 1.0 for none
    names: tuple[str, ...] = ()  # of the tensors in per_tensor_norms, "" for one that was given without

    @property
    def norms(self) -> dict[str, float]:
        """The norm of each tensor by its name, or by its place in `per_tensor_norms` where it has none."""
        names = self.names or [""] * len(self.per_tensor_norms)
        pairs = zip(names, self.per_tensor_norms, strict=True)
        return {name or str(place): norm for place, (name, norm) in enumerate(pairs)}

    def as_dict(self, prefix: str = "", *, per_tensor: bool = False) -> dict[str, float]:
        """Return the numbers by name, each after `prefix`, for a logger; `per_tensor` adds `norm/NAME` for each."""
        numbers = {name: getattr(self, name) for name in _NUMBERS}
        if per_tensor:
            numbers |= {f"norm/{name}": norm for name, norm in self.norms.items()}
        return {prefix + name: number for name, number in numbers.items()}

    def __repr__(self) -> str:
        bad = {"NaN": self.nan_count, "Inf": self.inf_count}
        parts = [f"total_norm={self.total_norm:.6g}", f"{self.tensor_count} tensors", f"health={self.health:.2f}"]
        return f"GradientStats({', '.join(parts + [f'{count} {name}' for name, count in bad.items() if count])})"


_NUMBERS = tuple(field.name for field in fields(GradientStats) if field.name not in ("per_tensor_norms", "names"))


def summarize(
    measures: Sequence[GradientMeasure],
    element_counts: Sequence[int],
    names: Sequence[str] = (),
    thresholds: NormThresholds = DEFAULT_THRESHOLDS,
) -> GradientStats:
    """Return the statistics of gradients with these measures, numbers of elements and names, of length T."""
    finite_norms_T, nonzero_counts_T, nan_counts_T, inf_counts_T = (
        zip(*measures, strict=True) if measures else ((),) * 4
    )
    nan_count, inf_count = sum(nan_counts_T), sum(inf_counts_T)
    norms_T = tuple([measure.norm for measure in measures]) if nan_count or inf_count else finite_norms_T
    sized_norms = norms_T if all(element_counts) else list(compress(norms_T, element_counts))
    finite_norm = math.hypot(*finite_norms_T)
    element_count = sum(element_counts)
    vanishing_count = sum([norm < thresholds.vanishing for norm in sized_norms])
    exploding_count = sum([norm > thresholds.exploding for norm in sized_norms])
    min_norm, max_norm = _extremes(sized_norms, nan_count)
    return GradientStats(
        total_norm=math.nan if nan_count else math.inf if inf_count else finite_norm,
        finite_norm=finite_norm,
        per_tensor_norms=norms_T,
        min_norm=min_norm,
        max_norm=max_norm,
        norm_ratio=_norm_ratio(sized_norms, max_norm),
        zero_count=element_count - sum(nonzero_counts_T),
        nan_count=nan_count,
        inf_count=inf_count,
        vanishing_count=vanishing_count,
        exploding_count=exploding_count,
        element_count=element_count,
        tensor_count=len(norms_T),
        health=_health(vanishing_count + exploding_count, len(sized_norms), nan_count + inf_count),
        names=tuple(names),
    )


def _extremes(norms: Sequence[float], nan_count: int) -> tuple[float, float]:
    """Return the smallest and the largest norm; NaN for both with any NaN, which min() would miss."""
    if nan_count:
        return math.nan, math.nan
    return min(norms, default=0.0), max(norms, default=0.0)


def _norm_ratio(norms: Sequence[float], max_norm: float) -> float:
    smallest = min((norm for norm in norms if norm > 0.0), default=max_norm)
    if not math.isfinite(max_norm):
        return max_norm
    # The quotient of two float64 may not be one: finite norms have a finite ratio.
    return min(max_norm / smallest, sys.float_info.max) if smallest else 1.0


def _health(unhealthy_count: int, sized_count: int, nonfinite_count: int) -> float:
    if nonfinite_count:
        return 0.0
    return 1.0 - unhealthy_count / sized_count if sized_count else 1.0
