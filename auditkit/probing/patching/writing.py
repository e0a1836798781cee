"""From statements back to source text, with the comments that stood above them."""

from __future__ import annotations

import ast
import textwrap
from collections.abc import Sequence

from auditkit.probing.patching.program import Item

_FunctionNode = ast.FunctionDef | ast.AsyncFunctionDef
_INDENT = "    "


class SourceText:
    """The lines of a file or a block, asked for statements by their syntax trees."""

    def __init__(self, text: str) -> None:
        self._lines = text.split("\n")

    def lines(self, first: int, last: int) -> list[str]:
        """Lines `first` to `last`, from 1, both included."""
        return self._lines[first - 1 : last]

    def statement(self, node: ast.stmt, body: Sequence[ast.stmt], indent: str) -> list[str]:
        """A statement of `body` with the comments above it, indented anew; by its tree where lines cannot be cut."""
        place = next(place for place, item in enumerate(body) if item is node)
        above = (body[place - 1].end_lineno or 0) if place else 0
        below = body[place + 1].lineno if place + 1 < len(body) else 0
        end = node.end_lineno or node.lineno
        if end in (above, below) or above == node.lineno or self._has_deep_text(node, indent):
            return indented(ast.unparse(node).splitlines(), indent)
        first = node.lineno
        while first - 1 > above and self._is_remark(self._lines[first - 2]):
            first -= 1
        return indented(textwrap.dedent("\n".join(self.lines(first, end))).splitlines(), indent)

    def _is_remark(self, line: str) -> bool:
        return not line.strip() or line.lstrip().startswith("#")

    def _has_deep_text(self, node: ast.stmt, indent: str) -> bool:
        """Whether it holds a string over several lines, which another indentation would change."""
        if node.col_offset == len(indent):
            return False
        parts = (part for part in ast.walk(node) if isinstance(part, ast.Constant | ast.JoinedStr))
        return any(part.end_lineno != part.lineno for part in parts)


def indented(lines: Sequence[str], indent: str) -> list[str]:
    return [indent + line if line.strip() else "" for line in lines]


def write_function(
    original: _FunctionNode, source: SourceText, items: Sequence[Item], fix: SourceText, fix_body: Sequence[ast.stmt]
) -> list[str]:
    """The original's signature and docstring with the statements `items` below."""
    base = " " * original.col_offset
    body = _without_docstring(original)
    header_end = original.body[0].end_lineno if body is not original.body else _header_end(original)
    if header_end is None or original.body[0].lineno == original.lineno:
        header = indented([f"{ast.unparse(_empty(original)).splitlines()[0]}"], base)
    else:
        header = source.lines(original.lineno, header_end)
    lines = list(header)
    for item in items:
        if item.rewritten:
            lines += indented(ast.unparse(item.node).splitlines(), base + _INDENT)
        elif item.is_original:
            lines += source.statement(item.node, body, base + _INDENT)
        else:
            lines += _fix_statement(item.node, fix, fix_body, base + _INDENT)
    return lines


def _fix_statement(node: ast.stmt, fix: SourceText, fix_body: Sequence[ast.stmt], indent: str) -> list[str]:
    written = fix.statement(node, fix_body, indent)
    return [line for line in written if line.strip() != "..."]


def _without_docstring(function: _FunctionNode) -> Sequence[ast.stmt]:
    return function.body[1:] if ast.get_docstring(function, clean=False) is not None else function.body


def _header_end(function: _FunctionNode) -> int | None:
    """The last line of the signature; None where the body begins on it."""
    ends = [item.end_lineno or item.lineno for item in ast.walk(function.args) if isinstance(item, ast.expr | ast.arg)]
    ends += [function.returns.end_lineno or 0] if function.returns else []
    first = function.body[0].lineno
    last = max([function.lineno, *ends])
    return first - 1 if last < first else None


def _empty(function: _FunctionNode) -> ast.stmt:
    kind = type(function)
    empty = kind(name=function.name, args=function.args, body=[ast.Pass()], decorator_list=[], returns=function.returns)
    return ast.fix_missing_locations(empty)
