"""A function of a file as rewrites read it: its statements, and the text and position of each of their nodes."""

from __future__ import annotations

import ast
import keyword
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

from auditkit.probing.discovery.blocks.blocks import Block
from auditkit.probing.discovery.blocks.marks import own_nodes
from auditkit.probing.patching.local_names import names_of, parameters
from auditkit.probing.patching.rewrites.edits import Edit
from auditkit.probing.source_code.modules import Function

_LONGEST = (88, 100, 120)


@dataclass(frozen=True)
class FunctionText:
    """A function, method or block, and the lines of its file."""

    function: Function
    lines: Sequence[str]

    @cached_property
    def suite(self) -> Sequence[ast.stmt]:
        """Its own statements; of a block those of the file alone."""
        return self.function.statements if isinstance(self.function, Block) else self.function.node.body

    @cached_property
    def nodes(self) -> list[ast.AST]:
        """Every node of its statements, without those of functions inside."""
        return list(own_nodes(self.suite))

    @cached_property
    def suites(self) -> list[Sequence[ast.stmt]]:
        """Its suites of statements, the outermost first."""
        return [self.suite, *(suite for node in self.nodes for suite in _suites(node))]

    @cached_property
    def torch(self) -> str:
        """The name that its file has for torch."""
        imports = self.function.module.imports
        return next((item.local for item in imports if item.module == "torch" and not item.name), "torch")

    @cached_property
    def step(self) -> str:
        """What a statement inside another is indented by: the shortest indentation of the file, or four blanks."""
        blanks = {line[: len(line) - len(line.lstrip())] for line in self.lines if line.strip()} - {""}
        tabs_or_blanks = sorted(blanks, key=len)
        return next((one for one in tabs_or_blanks if one in ("\t", "  ", "    ", "        ")), "    ")

    @cached_property
    def line_limit(self) -> int:
        """The customary line length that the file keeps to."""
        longest = max((len(line) for line in self.lines), default=0)
        return next((limit for limit in _LONGEST if longest <= limit), _LONGEST[-1])

    @cached_property
    def _names(self) -> frozenset[str]:
        node = self.function.node
        used = names_of([node, *self.function.module.tree.body])
        return used.loads | used.stores | parameters(node.args) | names_of(node.body).stores

    def fresh(self, name: str) -> str:
        """The name, or one like it, that neither the function nor its file uses."""
        tried = [name, *(f"{name}_{number}" for number in range(2, 100))]
        return next(one for one in tried if one not in self._names and not keyword.iskeyword(one))

    def position(self, line: int, byte_column: int) -> tuple[int, int]:
        """A position of a syntax tree as one of the text: its columns are bytes of UTF-8."""
        return line, len(self.lines[line - 1].encode()[:byte_column].decode(errors="ignore"))

    def first(self, node: ast.expr | ast.stmt) -> tuple[int, int]:
        return self.position(node.lineno, node.col_offset)

    def last(self, node: ast.expr | ast.stmt) -> tuple[int, int]:
        return self.position(node.end_lineno or node.lineno, node.end_col_offset or 0)

    def text(self, node: ast.expr | ast.stmt) -> str:
        """What the file says for a node, the first line from its column on."""
        return self.between(self.first(node), self.last(node))

    def between(self, first: tuple[int, int], last: tuple[int, int]) -> str:
        if first[0] == last[0]:
            return self.lines[first[0] - 1][first[1] : last[1]]
        inner = self.lines[first[0] : last[0] - 1]
        return "\n".join([self.lines[first[0] - 1][first[1] :], *inner, self.lines[last[0] - 1][: last[1]]])

    def replace(self, node: ast.expr | ast.stmt, text: str) -> Edit:
        return Edit(self.first(node), self.last(node), text)

    def insert_after(self, node: ast.expr | ast.stmt, text: str) -> Edit:
        return Edit(self.last(node), self.last(node), text)

    def line_after(self, statement: ast.stmt, text: str) -> Edit:
        """A line of its own behind a statement, and the comment beside it, indented as it is."""
        line = self.last(statement)[0]
        place = line, len(self.lines[line - 1])
        blanks = self.indentation(statement)
        return Edit(place, place, "".join(f"\n{blanks}{part}" for part in text.split("\n")))

    def line_before(self, statement: ast.stmt, text: str) -> Edit:
        """A line of its own before a statement, indented as it is."""
        start, blanks = self.first(statement), self.indentation(statement)
        return Edit(start, start, "".join(f"{part}\n{blanks}" for part in text.split("\n")))

    def top_of_holder(self) -> tuple[int, int]:
        """Where the module's own statement that holds the function begins, with its decorators and comments."""
        line = self.function.node.lineno
        body = self.function.module.tree.body
        holder = next(item for item in body if item.lineno <= line <= (item.end_lineno or item.lineno))
        top = min([holder.lineno, *(item.lineno for item in getattr(holder, "decorator_list", ()))])
        while top > 1 and self.lines[top - 2].startswith("#"):
            top -= 1
        return top, 0

    def indentation(self, statement: ast.stmt) -> str:
        """The blanks, or tabs, that its line begins with."""
        line = self.lines[statement.lineno - 1]
        return line[: len(line) - len(line.lstrip())]

    def has_own_lines(self, statement: ast.stmt) -> bool:
        """Whether nothing but a comment stands beside it on its lines."""
        (first, left), (last, right) = self.first(statement), self.last(statement)
        behind = self.lines[last - 1][right:].strip()
        return not self.lines[first - 1][:left].strip() and (not behind or behind.startswith("#"))


def _suites(node: ast.AST) -> Iterator[Sequence[ast.stmt]]:
    for name in ("body", "orelse", "finalbody"):
        suite = getattr(node, name, None)
        if isinstance(suite, list) and suite:
            yield suite
