"""The changes of one function that are tried for a ticket: sets of rewrites, the smallest edit first."""

from __future__ import annotations

import itertools
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass

from auditkit.model.runs.run import ProbeResult
from auditkit.probing.fix.file_change import FileChange
from auditkit.probing.fix.patches import FunctionFile
from auditkit.probing.fix.rewrites.rewrite import Rewrite, rewritten

_MOST_SETS = 8
"""Sets that are tried for one ticket: a second or two each."""
_MOST_LOOKED_AT = 10_000


@dataclass(frozen=True)
class Candidate:
    """A change of the function at `place`: the changed file, the lines that change in it, and the rewrites."""

    place: FunctionFile
    change: FileChange
    lines: frozenset[int]
    rewrites: tuple[Rewrite, ...]


class RewriteSets:
    """Sets of rewrites that may end all of `wanted`, by what each says it may end; the smallest edit first.

    What none of them says it may end is perhaps gone with the rest.
    """

    def __init__(self, rewrites: Sequence[Rewrite], wanted: Collection[str]) -> None:
        self._rewrites = rewrites
        self._wanted = _claims(rewrites) & frozenset(wanted)
        self._vain: list[tuple[str, frozenset[Rewrite]]] = []

    def __iter__(self) -> Iterator[tuple[Rewrite, ...]]:
        """Yield one after the other; what `left` gets of one decides on those that follow."""
        sizes = range(1, len(self._rewrites) + 1)
        sets = (chosen for size in sizes for chosen in itertools.combinations(self._rewrites, size))
        may_end = [one for one in itertools.islice(sets, _MOST_LOOKED_AT) if self._wanted <= _claims(one)]
        # Two variants of one rewrite do not go together.
        may_end = [one for one in may_end if len({each.name for each in one}) == len(one)]
        by_size = sorted(may_end, key=_size)
        return itertools.islice((chosen for chosen in by_size if not self._is_vain(chosen)), _MOST_SETS)

    def left(self, probe: str, chosen: Sequence[Rewrite]) -> None:
        """With `chosen` the probe still reproduces: no set is tried that has no other rewrite for it."""
        self._vain.append((probe, _rewrites_for(probe, chosen)))

    def _is_vain(self, chosen: Sequence[Rewrite]) -> bool:
        return any(_rewrites_for(probe, chosen) <= others for probe, others in self._vain)


def made(place: FunctionFile, chosen: tuple[Rewrite, ...], findings: Sequence[ProbeResult]) -> Candidate:
    """The file with a set of rewrites made. Raises CannotComplete where it cannot be made or shown."""
    draft = rewritten(place, chosen, findings)
    change = FileChange(place.file, place.data, draft.data)
    change.difference()
    return Candidate(place, change, frozenset(draft.lines), chosen)


def _claims(rewrites: Sequence[Rewrite]) -> frozenset[str]:
    return frozenset[str]().union(*(one.probes for one in rewrites))


def _rewrites_for(probe: str, chosen: Sequence[Rewrite]) -> frozenset[Rewrite]:
    return frozenset(one for one in chosen if probe in one.probes)


def _size(chosen: Sequence[Rewrite]) -> tuple[int, int, int]:
    return sum(one.size[0] for one in chosen), sum(one.size[1] for one in chosen), len(chosen)
