"""Helpers for libcst trees, and the base class of rewrites."""

from __future__ import annotations

import ast
import textwrap
from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, TypeVar, cast

import libcst as cst
from libcst.helpers import parse_template_expression, parse_template_statement

from auditkit.probing.fix.local_names import Names, names_of
from auditkit.probing.source.modules import PARSER

if TYPE_CHECKING:
    from auditkit.probing.fix.rewrites.drafts import Draft, Unit

_NO_FILE = cst.Module([])
Line = cst.SimpleStatementLine | cst.If | cst.For
Listing = cst.ListComp | cst.SetComp | cst.GeneratorExp
_Node = TypeVar("_Node", bound=cst.CSTNode)


class Pattern(cst.CSTTransformer):
    """A change of one function's own statements; functions and classes inside it do not change."""

    def __init__(self, draft: Draft, unit: Unit) -> None:
        super().__init__()
        self.draft = draft
        self.unit = unit
        self.torch = draft.torch

    def visit_FunctionDef(self, node: cst.FunctionDef) -> bool:
        return node is self.unit.node


def bracketed(node: cst.BaseExpression) -> cst.BaseExpression:
    """Return the expression in parentheses, unless it already has some."""
    return node if node.lpar else node.with_changes(lpar=[cst.LeftParen()], rpar=[cst.RightParen()])


def code(node: cst.CSTNode) -> str:
    """Return the text of a node; of a statement without the comments above it."""
    return _NO_FILE.code_for_node(node)


def parsed(*nodes: cst.CSTNode) -> list[ast.stmt]:
    """Return the nodes as Python's own syntax trees."""
    texts = (f"({code(node)})" if isinstance(node, cst.BaseExpression) else code(node) for node in nodes)
    return _statements("\n".join(map(textwrap.dedent, texts)))


def _statements(text: str) -> list[ast.stmt]:
    with PARSER:
        return ast.parse(text).body


def names(*nodes: cst.CSTNode) -> Names:
    """Return the plain names that some nodes read and set."""
    return names_of(parsed(*nodes))


def stores(target: cst.BaseExpression) -> frozenset[str]:
    """Return the names that an assignment to a target sets."""
    return names_of(_statements(f"{code(target)} = _")).stores


def dotted(node: cst.CSTNode) -> str:
    """Return `a.b.c` for names and attributes of names, "" for anything else."""
    if isinstance(node, cst.Attribute):
        owner = dotted(node.value)
        return f"{owner}.{node.attr.value}" if owner else ""
    return node.value if isinstance(node, cst.Name) else ""


def last_name(node: cst.CSTNode) -> str:
    """Return `isnan` for `torch.isnan` and for `(a + b).isnan`."""
    return node.attr.value if isinstance(node, cst.Attribute) else dotted(node)


def is_same(node: cst.BaseExpression, other: cst.BaseExpression) -> bool:
    return ast.dump(parsed(node)[0]) == ast.dump(parsed(other)[0])


def inside(node: cst.CSTNode) -> Iterator[cst.CSTNode]:
    """Yield the node and its descendants in text order, without inner functions and classes."""
    yield node
    for child in node.children:
        if not isinstance(child, cst.FunctionDef | cst.ClassDef):
            yield from inside(child)


def expression(template: str, **parts: cst.BaseExpression | str) -> cst.BaseExpression:
    """Return a new expression; `{x}` in the template is replaced by the part `x`."""
    return parse_template_expression(template, **cast(Any, _nodes(parts)))


def statement(template: str, **parts: cst.BaseExpression | str) -> Line:
    """Return a new statement of one or more lines."""
    return cast(Line, parse_template_statement(template, **cast(Any, _nodes(parts))))


def _nodes(parts: dict[str, cst.BaseExpression | str]) -> dict[str, cst.BaseExpression]:
    return {name: cst.parse_expression(part) if isinstance(part, str) else part for name, part in parts.items()}


def assigned(node: cst.CSTNode) -> tuple[str, cst.BaseExpression | None]:
    """Return the name and the value of a line `name = value`; no value for any other statement."""
    match node:
        case cst.SimpleStatementLine(body=[cst.Assign(targets=[cst.AssignTarget(target=cst.Name(name))], value=value)]):
            return name, value
    return "", None


def flattened(*lines: Iterable[cst.BaseStatement]) -> cst.FlattenSentinel[cst.BaseStatement]:
    return cst.FlattenSentinel([line for group in lines for line in group])


def swapped(node: _Node, new: Mapping[Any, Any], are_statements: bool = False) -> _Node:
    """Return the node with some descendants replaced: by nodes, several of them, or none."""
    by_id = {id(one): other for one, other in new.items()}
    left_out = cst.BaseExpression | cst.SimpleStatementLine | cst.BaseParenthesizableWhitespace

    class Swap(cst.CSTTransformer):
        def on_visit(self, node: cst.CSTNode) -> bool:
            return id(node) not in by_id and not (are_statements and isinstance(node, left_out))

        def on_leave(self, original_node: cst.CSTNode, updated_node: cst.CSTNode) -> Any:
            return by_id.get(id(original_node), updated_node)

    return cast(_Node, node.visit(Swap()))
