"""Which rewrites are tried together for a ticket: the smallest edits first that may end all of its findings."""

from __future__ import annotations

import itertools
from collections.abc import Collection, Iterator, Sequence

from auditkit.probing.patching.rewrites.rewrite import Rewrite

_MOST_SETS = 8
"""Sets that are tried for one ticket: a second or two each."""
_MOST_LOOKED_AT = 10_000


class RewriteSets:
    """Sets of rewrites that may end all of `wanted`, by what each says it may end; the smallest edit first.

    What none of them says it may end is perhaps gone with the rest.
    """

    def __init__(self, rewrites: Sequence[Rewrite], wanted: Collection[str]) -> None:
        self._rewrites = rewrites
        self._wanted = _claims(rewrites) & frozenset(wanted)
        self._vain: list[tuple[str, frozenset[Rewrite]]] = []

    def __iter__(self) -> Iterator[tuple[Rewrite, ...]]:
        """One after the other; what is said of one by `left` decides on those that follow."""
        sizes = range(1, len(self._rewrites) + 1)
        sets = (chosen for size in sizes for chosen in itertools.combinations(self._rewrites, size))
        may_end = [one for one in itertools.islice(sets, _MOST_LOOKED_AT) if self._wanted <= _claims(one)]
        by_size = sorted(may_end, key=lambda chosen: (sum(one.size for one in chosen), len(chosen)))
        return itertools.islice((chosen for chosen in by_size if not self._is_vain(chosen)), _MOST_SETS)

    def left(self, probe: str, chosen: Sequence[Rewrite]) -> None:
        """With `chosen` the probe still reproduces: no set is tried that has no other rewrite for it."""
        self._vain.append((probe, _rewrites_for(probe, chosen)))

    def _is_vain(self, chosen: Sequence[Rewrite]) -> bool:
        return any(_rewrites_for(probe, chosen) <= others for probe, others in self._vain)


def _claims(rewrites: Sequence[Rewrite]) -> frozenset[str]:
    return frozenset[str]().union(*(one.probes for one in rewrites))


def _rewrites_for(probe: str, chosen: Sequence[Rewrite]) -> frozenset[Rewrite]:
    return frozenset(one for one in chosen if probe in one.probes)
