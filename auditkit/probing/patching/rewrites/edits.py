"""Edits of a file's text by position, and the rewrites that are made of them."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from auditkit.probing.patching.fragments import CannotComplete

_WORD = re.compile(r"\w+|[^\w\s]+")


@dataclass(frozen=True, order=True)
class Edit:
    """The text from `first` to before `last` becomes `text`; positions are (line from 1, column from 0, in characters).

    Nothing is taken out where both are the same.
    """

    first: tuple[int, int]
    last: tuple[int, int]
    text: str

    def moved(self, lines: int) -> Edit:
        """The same edit so many lines further down."""
        (first, left), (last, right) = self.first, self.last
        return Edit((first + lines, left), (last + lines, right), self.text)


@dataclass(frozen=True)
class Rewrite:
    """One change of a function: what it may mend, and how.

    `name` is a short id, `probes` the ids of the probes whose findings it may mend, `change` one sentence that
    names the line and what becomes of it.
    """

    name: str
    probes: frozenset[str]
    change: str
    edits: tuple[Edit, ...]

    @property
    def size(self) -> int:
        """How many words and operators the edits write, and one for each place that they change."""
        return sum(1 + len(_WORD.findall(edit.text)) for edit in self.edits)


def rewrite_of(
    name: str, probes: Iterable[str], edits: Sequence[Edit], told: str, lines: Iterable[int] = ()
) -> Iterator[Rewrite]:
    """One rewrite, where there are edits; what is told begins with the `lines`, or with that of the first edit."""
    if edits:
        places = sorted(set(lines)) or [edits[0].first[0]]
        change = f"line{'s' if len(places) > 1 else ''} {', '.join(map(str, places))}: {told}"
        yield Rewrite(name, frozenset(probes), change, tuple(dict.fromkeys(edits)))


def edited(lines: Sequence[str], edits: Sequence[Edit]) -> list[str]:
    """The lines after all edits; the same edit twice is one. Raises CannotComplete where two of them overlap.

    A further argument stands behind what is added to the one before it.
    """
    ordered = sorted(set(edits), key=lambda edit: (edit.first, edit.last, _is_argument(edit), edit.text))
    for before, after in itertools.pairwise(ordered):
        is_same_place = before.first == after.first == before.last == after.last
        if after.first < before.last or (is_same_place and _is_argument(before) == _is_argument(after)):
            raise CannotComplete(f"two changes of line {after.first[0]} do not go together")
    text = list(lines)
    for edit in reversed(ordered):
        (first, left), (last, right) = edit.first, edit.last
        text[first - 1 : last] = [text[first - 1][:left] + edit.text + text[last - 1][right:]]
    return "\n".join(text).split("\n")


def _is_argument(edit: Edit) -> bool:
    return edit.text.startswith(", ")


def is_inside(edit: Edit, other: Edit) -> bool:
    """Whether all that an edit changes is text that the other takes out."""
    return other.first <= edit.first and edit.last <= other.last and other.first != other.last
