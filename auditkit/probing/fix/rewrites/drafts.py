"""A file in which some functions change, as syntax trees that keep every space and comment."""

from __future__ import annotations

import ast
import difflib
import keyword
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import libcst as cst

from auditkit.probing.find.blocks.blocks import Block
from auditkit.probing.fix.local_names import names_of, parameters
from auditkit.probing.fix.patches import CannotComplete, FunctionFile
from auditkit.probing.fix.rewrites.syntax import code, parsed, swapped
from auditkit.probing.source.modules import Function

_WORD = re.compile(r"\w+|[^\w\s]")


@dataclass(frozen=True)
class Unit:
    """A function that a rewrite may change: `node` is its definition; for a block, a definition made around it.

    `written` are its statements in the file, `top` is the index of the module's statement around them.
    """

    function: Function
    node: cst.FunctionDef
    written: Sequence[cst.CSTNode]
    top: int

    @property
    def changes(self) -> dict[cst.CSTNode, Any]:
        """What takes the place of each statement of the file."""
        new = self.node.body.body if isinstance(self.function, Block) else [self.node]
        gone = dict.fromkeys(self.written[1:], cst.RemoveFromParent())
        return {self.written[0]: cst.FlattenSentinel(new), **gone}

    @cached_property
    def text(self) -> str:
        return code(self.node)


@dataclass(frozen=True)
class Draft:
    """The file `place` with changed `units`, the first of which is the target, and `helpers` defined above it."""

    place: FunctionFile
    module: cst.Module
    units: tuple[Unit, ...]
    helpers: tuple[str, ...] = ()

    @classmethod
    def of(cls, place: FunctionFile, functions: Sequence[Function]) -> Draft:
        """Parse the file. Raises CannotComplete if libcst cannot parse it."""
        try:
            module = cst.parse_module(place.data)
        except (cst.ParserSyntaxError, UnicodeError) as error:
            raise CannotComplete(f"cannot be made: {place.file} cannot be parsed: {error}") from None
        tree = place.function.module.tree
        written = [node for node in ast.walk(tree) if isinstance(node, ast.stmt)]
        written.sort(key=lambda node: (node.lineno, node.col_offset))
        there = dict(zip(written, _statements(module), strict=True))
        return cls(place, module, tuple(_unit(function, there) for function in functions))

    @cached_property
    def torch(self) -> str:
        """The file's name for torch."""
        imports = self.place.function.module.imports
        return next((item.local for item in imports if item.module == "torch" and not item.name), "torch")

    @cached_property
    def indent(self) -> str:
        return self.module.default_indent

    def fresh(self, name: str, unit: Unit) -> str:
        """Return the name, or a similar one that neither the function nor its file uses."""
        (definition,) = parsed(unit.node)
        assert isinstance(definition, ast.FunctionDef | ast.AsyncFunctionDef)
        found = [names_of(definition.body), names_of([definition, *self.place.function.module.tree.body])]
        used = parameters(definition.args).union(*(one.loads | one.stores for one in found))
        tried = [name, *(f"{name}_{number}" for number in range(2, 100))]
        return next(one for one in tried if one not in used and not keyword.iskeyword(one))

    def changed(self, visitor: Callable[[Draft, Unit], cst.CSTTransformer]) -> Draft:
        """Return the draft with each function changed by a visitor."""
        return replace(self, units=tuple(self.visited(unit, visitor(self, unit)) for unit in self.units))

    def visited(self, unit: Unit, visitor: cst.CSTTransformer) -> Unit:
        node = unit.node.visit(visitor)
        assert isinstance(node, cst.FunctionDef)
        return replace(unit, node=node)

    @property
    def text(self) -> tuple[str, ...]:
        """The text of the functions and helpers."""
        return (*(unit.text for unit in self.units), *self.helpers)

    @cached_property
    def data(self) -> bytes:
        """The bytes of the file; unchanged parts stay identical."""
        module = swapped(self.module, {old: new for one in self.units for old, new in one.changes.items()}, True)
        body = list(module.body)
        top = self.units[0].top if self.units else 0
        for helper in reversed(self.helpers):
            blank = [line for line in getattr(body[top], "leading_lines", ()) if line.comment is None]
            defined = cst.parse_statement(helper, module.config_for_parsing)
            body.insert(top, defined.with_changes(leading_lines=blank))
        return module.with_changes(body=body).bytes

    @cached_property
    def lines(self) -> list[int]:
        """The changed lines of the file before the change, and those between which lines are added."""
        changed = {line for first, last, _ in self._hunks for line in range(first + 1, last + 1)}
        return sorted(
            changed | {line for first, last, _ in self._hunks if first == last for line in (first, first + 1)}
        )

    @property
    def places(self) -> list[int]:
        """The first line of each change."""
        return [first + (last > first) for first, last, _ in self._hunks]

    @cached_property
    def size(self) -> tuple[int, int]:
        """How many lines the diff removes and adds, and how many words it adds."""
        added = [line for _, _, new in self._hunks for line in new]
        taken = sum(last - first for first, last, _ in self._hunks)
        return taken + len(added), sum(len(_WORD.findall(line)) for line in added)

    @cached_property
    def _hunks(self) -> list[tuple[int, int, list[str]]]:
        before, after = (data.decode(self.module.encoding).split("\n") for data in (self.place.data, self.data))
        matcher = difflib.SequenceMatcher(None, before, after, autojunk=False)
        return [(i, j, after[k:m]) for tag, i, j, k, m in matcher.get_opcodes() if tag != "equal"]


_Place = tuple[cst.CSTNode, cst.CSTNode, int, int]


def _statements(module: cst.Module) -> Iterator[_Place]:
    """Yield every statement in text order: its suite, its index there, and the index of its top-level statement."""

    def walk(node: cst.CSTNode, top: int) -> Iterator[_Place]:
        for place, child in enumerate(node.body if isinstance(node, cst.Module | cst.IndentedBlock) else node.children):
            at = place if node is module else top
            if isinstance(child, cst.SimpleStatementLine):
                yield from ((part, node, place, at) for part in child.body)
            elif isinstance(child, cst.BaseCompoundStatement | cst.BaseSmallStatement):
                yield child, node, place, at
                yield from walk(child, at)
            elif not isinstance(child, cst.BaseExpression):
                yield from walk(child, at)

    return walk(module, 0)


def _unit(function: Function, there: dict[ast.stmt, _Place]) -> Unit:
    if not isinstance(function, Block):
        node, _, _, top = there[function.node]
        assert isinstance(node, cst.FunctionDef)
        return Unit(function, node, [node], top)
    places = [there[statement] for statement in function.statements]
    (_, suite, first, top), end = places[0], places[-1][2] + 1
    written = suite.body[first:end]  # type: ignore[attr-defined]
    node = cst.FunctionDef(cst.Name(function.name), cst.Parameters(), cst.IndentedBlock(written))
    return Unit(function, node, written, top)
