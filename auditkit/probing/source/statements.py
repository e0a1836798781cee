"""The statement at a line, and the function around it: read from the source, never imported."""

from __future__ import annotations

import ast
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from auditkit.model.runs.cause import Statement
from auditkit.model.runs.measurement import Location
from auditkit.probing.checkout.reading import lies_inside
from auditkit.probing.source.modules import Module, parse_module, source_bytes
from auditkit.probing.source.walking import children, suites_of

_DEFINITIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
_LOCALS = "<locals>"


@dataclass(frozen=True)
class Unit:
    """The statement and the function of a line.

    `statement` is None for the line of a definition, which names a function rather than a fault in it. `function` is
    the qualified name as Python writes it, "" at module level; `node` and `parts` are the statement's syntax and the
    expressions to blame in it.
    """

    module: Module
    function: str
    statement: Statement | None = None
    node: ast.stmt | None = None
    parts: tuple[ast.expr, ...] = ()


def unit_of(root: Path, place: Location) -> Unit | None:
    """Return the unit of a location in a checkout, or below the location's own folder; None if it cannot be read."""
    top = Path(place.folder or root)
    path = top / place.file
    module = parse_module(path, source_bytes(path), top, place.file) if lies_inside(path, top) else None
    if isinstance(module, Module) and 1 <= place.line <= len(module.lines):
        return unit_at(module, place.line)
    return None


def unit_at(module: Module, line: int) -> Unit:
    """Return the unit of `line` of a parsed file.

    It is the innermost statement, or only the head of a loop or a condition. If the statement lists items on separate
    lines (elements of a list, a tuple, a set or a dict, or keyword arguments), it is the item on that line: a fault of
    one item does not concern the next.
    """
    around = nodes_around(module.tree, line)
    node = around[-1] if around else None
    path = [name for each in around if isinstance(each, _DEFINITIONS) for name in _names(each)]
    function = ".".join(path).removesuffix(f".{_LOCALS}")
    if node is None or isinstance(node, _DEFINITIONS):
        return Unit(module, function)
    parts = head_of(node)
    first, last = extent(node)
    element = _element(parts, line)
    while element is not None:
        parts, first, last = (element,), element.lineno, last_line(element)
        element = _element(parts, line)
    if not first <= line <= last:
        return Unit(module, function)
    return Unit(module, function, Statement(module.file, first, last), node, parts)


def nodes_around(tree: ast.Module, line: int) -> list[ast.stmt]:
    """Return every statement around a line, outermost first."""
    found: list[ast.stmt] = []
    inside: ast.AST | None = tree
    while inside is not None:
        inner = (child for suite in suites_of(inside) for child in suite)
        inside = next((child for child in inner if first_line(child) <= line <= last_line(child)), None)
        found += [inside] if inside is not None else []
    return found


def _names(node: ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef) -> list[str]:
    return [node.name] if isinstance(node, ast.ClassDef) else [node.name, _LOCALS]


def head_of(node: ast.stmt) -> tuple[ast.expr, ...]:
    """Return the expressions of a statement itself, without those of the statements in it."""
    inner = (child.context_expr if isinstance(child, ast.withitem) else child for child in children(node))
    return tuple(child for child in inner if isinstance(child, ast.expr))


def extent(node: ast.stmt) -> tuple[int, int]:
    """Return the first and the last line of a statement, without the statements in it."""
    if not suites_of(node):
        return node.lineno, last_line(node)
    return node.lineno, max([node.lineno, *map(last_line, head_of(node))])


def _element(parts: Iterable[ast.expr], line: int) -> ast.expr | None:
    """Return the listed item at `line`, if it is the only one there."""
    for part in parts:
        for node in ast.walk(part):
            listed = _listed(node)
            holding = [item for item in listed if item.lineno <= line <= last_line(item)]
            if len(listed) > 1 and len(holding) == 1 and isinstance(node, ast.expr) and holding[0].lineno > node.lineno:
                return holding[0]
    return None


def _listed(node: ast.AST) -> list[ast.expr]:
    if isinstance(node, ast.List | ast.Tuple | ast.Set):
        return node.elts
    if isinstance(node, ast.Dict):
        return node.values
    return [keyword.value for keyword in node.keywords] if isinstance(node, ast.Call) else []


def first_line(node: ast.stmt) -> int:
    """Return the first line of a statement with its decorators."""
    decorators: list[ast.expr] = getattr(node, "decorator_list", [])
    return min([node.lineno, *(decorator.lineno for decorator in decorators)])


def last_line(node: ast.stmt | ast.expr) -> int:
    return node.end_lineno or node.lineno
