"""The text and the signature of a function."""

from __future__ import annotations

import ast

from auditkit.model.revisions.comparison import FunctionText
from auditkit.model.runs.measurement import CodeExcerpt
from auditkit.probing.source.modules import Function

MOST_LINES = 80
"""A longer function is cut: a review shows what changed, not a file."""


def text_of(function: Function) -> FunctionText:
    """The function from its first decorator on, at most `MOST_LINES` lines of it."""
    node = function.node
    first = min((item.lineno for item in node.decorator_list), default=node.lineno)
    last = min(node.end_lineno or node.lineno, first + MOST_LINES - 1)
    lines = function.module.lines[first - 1 : last]
    return FunctionText(CodeExcerpt(function.module.file, first, tuple(lines)), signature_of(function))


def signature_of(function: Function) -> str:
    """`total_norm(parameters, eps: float=1e-08) -> float`."""
    node = function.node
    returns = f" -> {ast.unparse(node.returns)}" if node.returns is not None else ""
    return f"{function.name}({ast.unparse(node.args)}){returns}"
