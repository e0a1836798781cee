"""Excerpts of the lines around a location, inside the function around it."""

from __future__ import annotations

import ast
from pathlib import Path

from auditkit.model.runs.measurement import CodeExcerpt, Location
from auditkit.probing.checkout.reading import lies_inside
from auditkit.probing.source.modules import FunctionNode, Module, parse_module, source_bytes
from auditkit.probing.source.statements import first_line, last_line, nodes_around

_LINES_BEFORE = 4
_LINES_AFTER = 3
_LONGEST_STATEMENT = 12
_LONGEST_OPENING = 20
_LONGEST_LINE = 240


def cut_excerpt(root: Path, location: Location) -> CodeExcerpt | None:
    """Return the code excerpt at `location`; None if the file cannot be read or has no such line.

    The file may be in an installed package. Files outside are not read, since a target can forge the location.
    """
    top = Path(location.folder or root)
    path = top / location.file
    if not lies_inside(path, top):
        return None
    data = source_bytes(path)
    lines = data.decode("utf-8", "replace").splitlines()
    if not 1 <= location.line <= len(lines):
        return None
    parsed = parse_module(path, data, top, location.file)
    tree = parsed.tree if isinstance(parsed, Module) else ast.Module([], [])
    first, last = _extent(tree, location.line, len(lines))
    return CodeExcerpt(location.file, first, tuple(line[:_LONGEST_LINE] for line in lines[first - 1 : last]))


def _extent(tree: ast.Module, line: int, line_count: int) -> tuple[int, int]:
    """Return the lines to show: the whole statement of `line`, with its loop and nearby lines, in its function.

    For a definition, return the lines after its docstring, or all of it if it is short.
    """
    nodes = nodes_around(tree, line)
    functions = [node for node in nodes if isinstance(node, FunctionNode)]
    if functions and line < functions[-1].body[0].lineno:
        function = functions[-1]
        first, last = first_line(function), last_line(function)
        if last - first >= _LONGEST_OPENING:
            body = function.body[ast.get_docstring(function) is not None :] or function.body
            first, last = body[0].lineno, min(last, body[0].lineno + _LONGEST_OPENING - 1)
        return _trimmed(function, line, first, last)
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


def _trimmed(scope: ast.AST, line: int, first: int, last: int) -> tuple[int, int]:
    """Extend or trim to whole statements without blank lines around that of `line`."""
    statements = [node for node in ast.walk(scope) if isinstance(node, ast.stmt)]
    cut = (node for node in statements if not hasattr(node, "body") and node.lineno < first <= last_line(node))
    first = min((node.lineno for node in cut if first - node.lineno < _LONGEST_STATEMENT), default=first)
    starts = [start for node in statements if first <= (start := first_line(node)) <= line]
    ends = [end for node in statements if line <= (end := last_line(node)) <= last]
    return min(starts, default=first), max(ends, default=last)
