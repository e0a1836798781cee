"""Look for a finding's syntax at other places of the checkout: candidates, unproven until probed.

Only source is read. Of the offending statement the expression with the most tensor operations is looked
for, then its parts, until one stands elsewhere too; docs/design/grouping.md says what is too common.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from auditkit.model.runs.cause import Sibling, Siblings, Statement
from auditkit.model.runs.measurement import Location
from auditkit.probing.source.files import SourceFile, list_files
from auditkit.probing.source.likeness.shapes import LEAST_OPERATIONS, Comprehension, Shape, Shapes
from auditkit.probing.source.modules import Module, parse_module, source_bytes, statements
from auditkit.probing.source.statements import Unit, extent, head_of, unit_at

MOST_PLACES = 60
"""A shape that stands at more places than this, tests left out, is an idiom and no mark of one defect."""

_BLANK_LINES = re.compile(r"\n[ \t\r]*\n")
_CALLED = re.compile(r"([A-Za-z_]\w+)\(|\*\* 2")
_SPELLINGS = {
    "item": ("item(", "float("),
    "float": ("float(", "float32"),
    "double": ("double(", "float64"),
    "": ("*", "pow(", "square("),
}


def find_siblings(root: Path, units: Iterable[Unit]) -> dict[Statement, Siblings]:
    """For the statement of every unit the other places below `root` that are written like it.

    `units` are those of all findings of a run: a place that is one of them is told apart. Files that
    cannot be read or parsed are passed over; tests are read as well.
    """
    shapes = {unit.statement: _shapes(unit) for unit in units if unit.statement is not None}
    search = _Search([shape for listed in shapes.values() for shape in listed])
    for source in list_files(root) if search.is_needed else ():
        search.read(source, root)
    return {statement: _siblings(statement, listed, search, list(shapes)) for statement, listed in shapes.items()}


def _shapes(unit: Unit) -> list[Shape]:
    """What to look for, the most telling first: of expressions with as many operations the shortest."""
    if unit.node is None:
        return []
    shapes = Shapes(unit.node, unit.parts, unit.module.full_name)
    found: dict[str, Shape] = {}
    for node in shapes.nodes:
        # What a comprehension does to each element may as well stand in a loop.
        is_only_a_loop = isinstance(node, Comprehension) and shapes.shape(node.elt).is_telling
        if shapes.head(node) and not is_only_a_loop:
            shape = shapes.shape(node)
            found.setdefault(shape.key, shape)
    telling = [shape for shape in found.values() if shape.is_telling]
    telling.sort(key=lambda shape: (-shape.operations, len(shape.text)))
    # Of a part, being about gradients is not enough: `p.grad.float()` stands in much code that is sound.
    return telling[:1] + [shape for shape in telling[1:] if shape.operations >= LEAST_OPERATIONS]


@dataclass(frozen=True)
class _Wanted:
    """A shape that is looked for: what does its last step, and what a text that has it must hold."""

    head: str
    words: tuple[tuple[str, ...], ...]

    def may_be_in(self, text: str) -> bool:
        return all(any(spelling in text for spelling in spellings) for spellings in self.words)


class _Search:
    """Every place of every wanted shape, in one pass over the files."""

    def __init__(self, shapes: Sequence[Shape]) -> None:
        self._keys = {shape.key for shape in shapes}
        self._wanted = {_Wanted(shape.head, _words(shape)) for shape in shapes}
        self.places: dict[str, list[Sibling]] = defaultdict(list)

    @property
    def is_needed(self) -> bool:
        return bool(self._wanted)

    def read(self, source: SourceFile, root: Path) -> None:
        """Look through one file, where the words of a shape stand together in it: parsing costs far more."""
        data = source_bytes(source.path) if source.kind == "python" else b""
        text = data.decode("utf-8", "replace")
        wanted = [item for item in self._wanted if item.may_be_in(text)]
        wanted = [item for item in wanted if any(map(item.may_be_in, _BLANK_LINES.split(text)))]
        module = parse_module(source.path, data, root, source.name) if wanted else None
        if not isinstance(module, Module):
            return
        for key, line in sorted(set(self._matches(module, wanted))):
            place = Location(source.name, line, unit_at(module, line).function)
            self.places[key].append(Sibling(place, source.is_test))

    def _matches(self, module: Module, wanted: Sequence[_Wanted]) -> Iterator[tuple[str, int]]:
        for statement in statements(module.tree.body):
            first, last = extent(statement)
            text = "\n".join(module.lines[first - 1 : last])
            heads = {item.head for item in wanted if item.may_be_in(text)}
            shapes = Shapes(statement, head_of(statement) if heads else (), module.full_name)
            for node in shapes.nodes:
                key = shapes.key(node) if shapes.head(node) in heads else ""
                if key in self._keys and shapes.shape(node).is_telling:
                    yield key, node.lineno


def _words(shape: Shape) -> tuple[tuple[str, ...], ...]:
    """For each thing that a shape does the ways to spell it."""
    words = {_SPELLINGS.get(word, (f"{word}(",)) for word in _CALLED.findall(shape.key)}
    return tuple(sorted(words if shape.operations >= LEAST_OPERATIONS else {*words, ("grad",)}))


def _siblings(own: Statement, shapes: Sequence[Shape], search: _Search, probed_too: Sequence[Statement]) -> Siblings:
    if not shapes:
        return Siblings(reason="the statement holds too few tensor operations to be told from other code")
    for shape in shapes:
        places = [place for place in search.places[shape.key] if not _holds(own, place.location)]
        if not places:
            continue
        common = sum(not place.is_test for place in places)
        if common > MOST_PLACES:
            return Siblings(shape.text, reason=f"it stands at {common:,} other places and marks no defect")
        probed = [place for place in places if any(_holds(other, place.location) for other in probed_too)]
        return Siblings(
            shape.text,
            tuple(place for place in places if place not in probed),
            tuple(place.location for place in probed),
        )
    return Siblings(shapes[0].text)


def _holds(statement: Statement, place: Location) -> bool:
    return statement.file == place.file and statement.first <= place.line <= statement.last
