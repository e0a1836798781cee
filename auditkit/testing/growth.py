"""How figures may grow with a size: the laws that guards name."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import pairwise

from auditkit.errors import BadInputError, nearest_names

__tracebackhide__ = True  # pytest shows the test's own line

CONSTANT, LINEAR = "constant", "linear"
_NAMES = {CONSTANT: "the same at every size", LINEAR: "no faster than the size"}
_STEEPER = 1.1
"""From one pair of sizes to the next a line's slope stays the same, but for what allocators round up."""


def known(growth: str | None) -> str | None:
    """`growth` itself. Raises BadInputError for a law that is not known."""
    if growth is not None and growth not in _NAMES:
        near = nearest_names(str(growth), _NAMES) or list(_NAMES)
        raise BadInputError(f"no law of growth is called {growth!r}", f"did you mean {' or '.join(near)}?")
    return growth


def in_words(growth: str) -> str:
    """What a law allows."""
    return f"{growth}: {_NAMES[growth]}"


def keeps(figures: Mapping[int, float], growth: str, tolerance: float = 0.0) -> bool:
    """Whether the figures by size keep to a law; a slope up to `tolerance`, in figures a size, is none."""
    points = sorted(figures.items())
    slopes = [(high - low) / (larger - smaller) for (smaller, low), (larger, high) in pairwise(points)]
    if growth == CONSTANT:
        return all(slope <= tolerance for slope in slopes)
    return all(later <= earlier * _STEEPER + tolerance for earlier, later in pairwise(slopes))


def listed(figures: Mapping[int, float]) -> str:
    """`4 at 4, 16 at 16`."""
    return ", ".join(f"{figure:,} at {size:,}" for size, figure in sorted(figures.items()))
