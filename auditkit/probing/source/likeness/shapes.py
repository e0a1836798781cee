"""The shape of an expression: its syntax with placeholders for local names, in one spelling for all.

Two expressions of one shape do the same to other values, as `p.grad.norm(2).item()` and `float(g.norm())`.
"""

from __future__ import annotations

import ast
import copy
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from auditkit.probing.source.likeness.operations import FullName, operation
from auditkit.probing.source.likeness.spelling import Folder, Normaliser

LEAST_OPERATIONS = 2
Comprehension = ast.ListComp | ast.SetComp | ast.GeneratorExp
_GRADIENT = re.compile(r"(^|_)grad(s|ient|ients)?(_|$)")


@dataclass(frozen=True)
class Shape:
    """`text` is the shape as it is spelled, `key` the same for every spelling.

    `head` is what is done last, `operations` how many tensor operations there are, and `reads_gradient`
    whether one is done to a gradient: `.grad`, or a name that says so.
    """

    text: str
    key: str
    head: str
    operations: int
    reads_gradient: bool

    @property
    def is_telling(self) -> bool:
        """Whether the shape says something: `total.sqrt()` stands everywhere, `grad.sqrt()` does not."""
        return self.operations + self.reads_gradient >= LEAST_OPERATIONS


class Shapes:
    """The shapes of the expressions `parts` of one statement, in a module with these imports.

    An expression whose truth is asked (of `if`, `while`, `assert`, `not`) is read from the device, so its
    shape is not that of the same expression elsewhere.
    """

    def __init__(self, statement: ast.stmt, parts: Sequence[ast.expr], full_name: FullName) -> None:
        self._full_name = full_name
        self.nodes = [node for part in parts for node in ast.walk(part) if isinstance(node, ast.expr)]
        self._asked = {id(asked) for node in (statement, *self.nodes) for asked in _asked(node)}

    def head(self, node: ast.AST) -> str:
        """What a node does last, the same for every spelling: a comparison that costs little.

        "" for what is no tensor operation, no comprehension, and nothing whose truth is asked.
        """
        if id(node) in self._asked:
            return "if"
        return "for" if isinstance(node, Comprehension) else operation(node, self._full_name)

    def shape(self, node: ast.expr) -> Shape:
        """The shape of one of `nodes`.

        What is rarer than any method counts as two operations: an operator for many tensors at once, one
        whose truth is asked, and one that a comprehension does for each element.
        """
        text = ast.unparse(Normaliser(self._full_name).visit(copy.deepcopy(node)))
        computed = list(_computed(node))
        operations = [name for item in computed if (name := operation(item, self._full_name))]
        rare = sum(name.startswith("_foreach_") for name in operations)
        rare += isinstance(node, Comprehension) + (id(node) in self._asked)
        return Shape(
            f"if {text}" if id(node) in self._asked else text,
            self.key(node),
            self.head(node),
            len(operations) + rare if operations else 0,
            bool(operations) and any(map(_reads_gradient, computed)),
        )

    def key(self, node: ast.expr) -> str:
        """What every spelling of the shape has in common."""
        key = ast.unparse(Folder(self._full_name).visit(copy.deepcopy(node)))
        return f"if {key}" if id(node) in self._asked else key


def _asked(node: ast.AST) -> Iterator[ast.expr]:
    """The expressions whose truth `node` itself asks."""
    if isinstance(node, ast.If | ast.While | ast.IfExp | ast.Assert):
        yield from _operands(node.test)
    elif isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
        yield from _operands(node.operand)


def _operands(node: ast.expr) -> Iterator[ast.expr]:
    """The tests that `and` and `or` join."""
    if isinstance(node, ast.BoolOp):
        for value in node.values:
            yield from _operands(value)
    else:
        yield node


def _computed(node: ast.expr) -> Iterator[ast.AST]:
    """The nodes of an expression without what its comprehensions iterate and test."""
    waiting: list[ast.AST] = [node]
    while waiting:
        item = waiting.pop()
        yield item
        waiting += [child for child in ast.iter_child_nodes(item) if not isinstance(child, ast.comprehension)]


def _reads_gradient(node: ast.AST) -> bool:
    name = node.attr if isinstance(node, ast.Attribute) else node.id if isinstance(node, ast.Name) else ""
    return _GRADIENT.search(name) is not None
