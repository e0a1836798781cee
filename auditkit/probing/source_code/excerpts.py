"""Cut the lines around a location out of the checkout, clipped to the function that holds it."""

from __future__ import annotations

import ast
from pathlib import Path

from auditkit.model.runs.measurement import CodeExcerpt, Location
from auditkit.probing.discovery.blocks.blocks import blocks_of
from auditkit.probing.source_code.modules import PARSER, Module, parse_module, source_bytes
from auditkit.probing.source_code.statements import first_line, last_line

_LINES_BEFORE = 4
_LINES_AFTER = 3
_LONGEST_STATEMENT = 12
_LONGEST_LINE = 240


def cut_excerpt(root: Path, location: Location, tree: ast.Module | None = None) -> CodeExcerpt | None:
    """The code evidence at `location`; None where the file cannot be read or has no such line.

    That of an installed package is cut where the package lies. `tree` is the file's, where it was parsed already.
    """
    path = Path(location.folder or root) / location.file
    try:
        text = path.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return None
    lines = text.splitlines()
    if not 1 <= location.line <= len(lines):
        return None
    block = _block(path, location) if "#" in (location.function or "") else None
    first, last = block or _extent(tree or _parsed(text), location.line, len(lines))
    return CodeExcerpt(location.file, first, tuple(line[:_LONGEST_LINE] for line in lines[first - 1 : last]))


def _block(path: Path, location: Location) -> tuple[int, int] | None:
    """The lines of the block that a location is in, as far as they are near it; None where the file has none there."""
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
    """The lines to show: some around `line`, with whole statements where they are short, within its function."""
    nodes = _nodes_around(tree, line)
    functions = [node for node in nodes if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)]
    statements = [node for node in nodes if not hasattr(node, "body")]
    first, last = line - _LINES_BEFORE, line + _LINES_AFTER
    if statements and last_line(statements[-1]) - statements[-1].lineno < _LONGEST_STATEMENT:
        first, last = min(first, statements[-1].lineno), max(last, last_line(statements[-1]))
    if functions:
        first, last = max(first, first_line(functions[-1])), min(last, last_line(functions[-1]))
    return max(1, first), min(last, line_count)


def _nodes_around(tree: ast.Module, line: int) -> list[ast.stmt]:
    """Every statement that holds `line`, outermost first."""
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
