"""The changes of one function that are tried for a ticket, one after the other."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from auditkit.probing.patching.fragments import CannotComplete
from auditkit.probing.patching.patches import FunctionFile
from auditkit.probing.patching.rewrites.rewrite import Rewrite, rewritten
from auditkit.workflows.fixes.combinations import RewriteSets
from auditkit.workflows.fixes.file_change import FileChange


@dataclass(frozen=True)
class Candidate:
    """A change of the function at `place`: what it makes of its file, of which rewrites."""

    place: FunctionFile
    change: FileChange
    rewrites: tuple[Rewrite, ...]

    @property
    def changes(self) -> tuple[str, ...]:
        """What each of its rewrites does, as sentences."""
        return tuple(one.change for one in self.rewrites)

    @property
    def lines(self) -> set[int]:
        """The lines of the file that it changes."""
        edits = [edit for one in self.rewrites for edit in one.edits]
        return {line for edit in edits for line in range(edit.first[0], edit.last[0] + 1)}


class Candidates:
    """Sets of `rewrites` that may mend all of the `wanted` probes, as changes of a file of `checkout`.

    `refused` says why the last one that cannot be made cannot.
    """

    def __init__(
        self, place: FunctionFile, checkout: Path, rewrites: Sequence[Rewrite], wanted: Collection[str]
    ) -> None:
        self._place, self._path = place, checkout / place.file
        self._sets = RewriteSets(rewrites, wanted)
        self.refused = ""

    def __iter__(self) -> Iterator[Candidate]:
        """One after the other; what is said of one by `left` decides on those that follow."""
        for chosen in self._sets:
            try:
                patch = rewritten(self._place, chosen)
                change = FileChange.of(self._place.file, self._path.read_bytes(), patch.text, self._place.encoding)
                change.difference()
            except CannotComplete as error:
                self.refused = str(error)
            else:
                yield Candidate(self._place, change, chosen)

    def left(self, probe: str, candidate: Candidate) -> None:
        """With `candidate` the probe still reproduces ("" where none does)."""
        if probe:
            self._sets.left(probe, candidate.rewrites)
