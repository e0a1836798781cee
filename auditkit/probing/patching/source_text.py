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

    def indentation(self, node: ast.stmt) -> str:
        """The blanks, or tabs, that its line begins with."""
        line = self._lines[node.lineno - 1]
        return line[: len(line) - len(line.lstrip())]

    def line_above(self, node: ast.stmt) -> int:
        """The last line above a statement and the comments above it."""
        first = node.lineno
        while self._is_remark(self._lines[first - 2]):
            first -= 1
        return first - 1

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
    """The original's signature and docstring (and the `with` around its body) with the statements `items` below."""
    body = statements_of(original)
    indent = source.indentation(body[0])
    lines = source.lines(original.lineno, source.line_above(body[0]))
    if body[0].lineno == original.lineno:  # def f(x): return x
        outer = source.indentation(original)
        indent = outer + _INDENT
        lines = indented(ast.unparse(_empty(original)).splitlines()[:1], outer)
    for item in items:
        if item.rewritten:
            lines += indented(ast.unparse(item.node).splitlines(), indent)
        elif item.is_original:
            lines += source.statement(item.node, body, indent)
        else:
            lines += [line for line in fix.statement(item.node, fix_body, indent) if line.strip() != "..."]
    return lines


def statements_of(function: _FunctionNode) -> Sequence[ast.stmt]:
    """Its statements without the docstring; those inside, where all of them stand in one `with`."""
    has_text = ast.get_docstring(function, clean=False) is not None and len(function.body) > 1
    body = function.body[1:] if has_text else function.body
    is_wrapped = len(body) == 1 and isinstance(body[0], ast.With) and body[0].lineno < body[0].body[0].lineno
    return body[0].body if is_wrapped and isinstance(body[0], ast.With) else body


def _empty(function: _FunctionNode) -> ast.stmt:
    kind = type(function)
    empty = kind(name=function.name, args=function.args, body=[ast.Pass()], decorator_list=[], returns=function.returns)
    return ast.fix_missing_locations(empty)
