"""Cut the lines around a location out of the checkout, clipped to the function that holds it."""

from __future__ import annotations

import ast
from pathlib import Path

from auditkit.model.measurement import CodeExcerpt, Location

_LINES_BEFORE = 4
_LINES_AFTER = 3
_LONGEST_LINE = 240


def cut_excerpt(root: Path, location: Location) -> CodeExcerpt | None:
    """The code evidence at `location`; None where the file cannot be read or has no such line."""
    path = root / location.file
    try:
        text = path.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return None
    lines = text.splitlines()
    if not 1 <= location.line <= len(lines):
        return None
    first_allowed, last_allowed = _function_extent(text, location.line) or (1, len(lines))
    first = max(first_allowed, location.line - _LINES_BEFORE)
    last = min(last_allowed, location.line + _LINES_AFTER)
    return CodeExcerpt(location.file, first, tuple(line[:_LONGEST_LINE] for line in lines[first - 1 : last]))


def _function_extent(text: str, line: int) -> tuple[int, int] | None:
    """First and last line of the innermost function around `line`."""
    try:
        tree = ast.parse(text)
    except (SyntaxError, ValueError):
        return None
    found: tuple[int, int] | None = None
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            first = min([node.lineno, *(decorator.lineno for decorator in node.decorator_list)])
            last = node.end_lineno or node.lineno
            if first <= line <= last and (found is None or first > found[0]):
                found = (first, last)
    return found
