"""Which rewrites together mend all findings of a ticket: each alone first, then the smallest sets."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from typing import TypeVar

_MOST_SETS = 8
"""Sets of several rewrites that are asked for one ticket: about a second each."""

_Rewrite = TypeVar("_Rewrite")


def sufficient_sets(
    rewrites: Sequence[_Rewrite], wanted: frozenset[str], mended: Callable[[tuple[_Rewrite, ...]], frozenset[str]]
) -> Iterator[tuple[_Rewrite, ...]]:
    """The sets with which all of `wanted` is `mended`, each rewrite alone first, in their order; asked one by one.

    Of sets of one size those come first whose rewrites mend all of it one by one. The last one tried is all of them.
    """
    alone = {}
    for rewrite in rewrites:
        alone[rewrite] = mended((rewrite,))
        if wanted <= alone[rewrite]:
            yield (rewrite,)
    sizes = range(2, len(rewrites) + 1)
    sets = itertools.islice(
        (chosen for size in sizes for chosen in itertools.combinations(rewrites, size)), _MOST_SETS * _MOST_SETS
    )

    def misses(chosen: tuple[_Rewrite, ...]) -> bool:
        return not wanted <= frozenset().union(*(alone[one] for one in chosen))

    promising = sorted(sets, key=lambda chosen: (misses(chosen), len(chosen)))[: _MOST_SETS - 1]
    for chosen in dict.fromkeys([*promising, *([tuple(rewrites)] if len(rewrites) > 1 else [])]):
        if wanted <= mended(chosen):
            yield chosen
