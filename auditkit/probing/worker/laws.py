"""Exact counts as a law in the number of tensors: `3n+1`, not "many"."""

from typing import Dict, NamedTuple


class Law(NamedTuple):
    """The line through the smallest and the largest n; `exact` where every other point lies on it."""

    slope: float
    constant: float
    exact: bool

    @property
    def text(self) -> str:
        """`3n+1`, `n`, `5`; a line that misses a point is marked as approximate."""
        if self.slope == 0 and self.exact:
            return "{:g}".format(self.constant)
        factor = "" if self.slope == 1 else "{:.4g}".format(self.slope)
        line = "{}n{:+.4g}".format(factor, self.constant) if self.constant else factor + "n"
        return line if self.exact else "about " + line


def fit_law(counts: Dict[int, int]) -> Law:
    """The law of `{n: count}`; at least two different n."""
    smallest, largest = min(counts), max(counts)
    slope = (counts[largest] - counts[smallest]) / (largest - smallest)
    constant = counts[smallest] - slope * smallest
    exact = all(abs(slope * n + constant - count) < 1e-9 for n, count in counts.items())
    return Law(slope, constant, exact)
