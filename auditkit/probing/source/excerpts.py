"""Excerpts of the lines around a location, inside the function around it."""

from __future__ import annotations

import ast
from pathlib import Path

from auditkit.model.runs.measurement import CodeExcerpt, Location
from auditkit.probing.checkout.reading import lies_inside
from auditkit.probing.find.blocks.blocks import blocks_of
from auditkit.probing.source.modules import PARSER, Module, parse_module, source_bytes
from auditkit.probing.source.statements import first_line, last_line

_LINES_BEFORE = 4
_LINES_AFTER = 3
_LONGEST_STATEMENT = 12
_LONGEST_OPENING = 20
_LONGEST_LINE = 240


def cut_excerpt(root: Path, location: Location, tree: ast.Module | None = None) -> CodeExcerpt | None:
    """Return the code excerpt at `location`; None if the file cannot be read or has no such line.

    The file may be in an installed package. `tree` is the file's, if it was already parsed. Files outside are not read,
    since a target can forge the location.
    """
    top = Path(location.folder or root)
    path = top / location.file
    if not lies_inside(path, top):
        return None
    text = source_bytes(path).decode("utf-8", "replace")
    lines = text.splitlines()
    if not 1 <= location.line <= len(lines):
        return None
    block = _block(path, location) if "#" in (location.function or "") else None
    first, last = block or _extent(tree or _parsed(text), location.line, len(lines))
    return CodeExcerpt(location.file, first, tuple(line[:_LONGEST_LINE] for line in lines[first - 1 : last]))


def _block(path: Path, location: Location) -> tuple[int, int] | None:
    """Return the lines of the block at a location, as far as they are near it; None without a block there."""
    module = parse_module(path, source_bytes(path), path.parent, path.stem)
    found = blocks_of(module) if isinstance(module, Module) else []
    block = next((each for each in found if each.qualified_name == location.function), None)
    if block is None:
        return None
    first, last = block.lines
    return max(first, location.line - _LONGEST_STATEMENT), min(last, location.line + _LONGEST_STATEMENT)


def _parsed(text: str) -> ast.Module:
    try:
        with PARSER:
            return ast.parse(text)
    except (SyntaxError, ValueError):
        return ast.Module([], [])


def _extent(tree: ast.Module, line: int, line_count: int) -> tuple[int, int]:
    """Return the lines to show: the whole statement of `line`, with its loop and nearby lines, in its function.

    For a definition, return the lines after its docstring, or all of it if it is short.
    """
    nodes = _nodes_around(tree, line)
    functions = [node for node in nodes if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)]
    if functions and nodes[-1] is functions[-1] and line <= functions[-1].body[0].lineno:
        return _opening(functions[-1])
    first, last = max(1, line - _LINES_BEFORE), min(line + _LINES_AFTER, line_count)
    inner = nodes[nodes.index(functions[-1]) + 1 :] if functions else nodes
    whole = [
        node for node in inner if not hasattr(node, "body") or isinstance(node, ast.For | ast.AsyncFor | ast.While)
    ]
    for node in whole:
        if last_line(node) - node.lineno < _LONGEST_STATEMENT:
            first, last = min(first, node.lineno), max(last, last_line(node))
        elif line - node.lineno < _LONGEST_STATEMENT:
            first = min(first, node.lineno)
    if functions:
        first, last = max(first, first_line(functions[-1])), min(last, last_line(functions[-1]))
    return _trimmed(functions[-1] if functions else tree, line, first, last)


def _opening(function: ast.FunctionDef | ast.AsyncFunctionDef) -> tuple[int, int]:
    """Return the first statements of a function after its docstring, or all of it if it is short."""
    first, last = first_line(function), last_line(function)
    if last - first < _LONGEST_OPENING:
        return first, last
    body = function.body[1:] if ast.get_docstring(function) is not None else function.body
    start = body[0].lineno if body else first
    ends = [last_line(node) for node in ast.walk(function) if isinstance(node, ast.stmt) and not hasattr(node, "body")]
    return start, max([end for end in ends if start <= end < start + _LONGEST_OPENING], default=last)


def _trimmed(scope: ast.AST, line: int, first: int, last: int) -> tuple[int, int]:
    """Extend or trim to whole statements without blank lines around that of `line`."""
    statements = [node for node in ast.walk(scope) if isinstance(node, ast.stmt)]
    cut = (node for node in statements if not hasattr(node, "body") and node.lineno < first <= last_line(node))
    first = min((node.lineno for node in cut if first - node.lineno < _LONGEST_STATEMENT), default=first)
    starts = [start for node in statements if first <= (start := first_line(node)) <= line]
    ends = [end for node in statements if line <= (end := last_line(node)) <= last]
    return min(starts, default=first), max(ends, default=last)


def _nodes_around(tree: ast.Module, line: int) -> list[ast.stmt]:
    """Return every statement around `line`, outermost first."""
    around: list[ast.stmt] = []
    waiting: list[ast.AST] = list(tree.body)
    while waiting:
        node = waiting.pop()
        if not isinstance(node, ast.stmt):
            waiting += ast.iter_child_nodes(node)
        elif first_line(node) <= line <= last_line(node):
            around.append(node)
            waiting += ast.iter_child_nodes(node)
    return sorted(around, key=first_line)
