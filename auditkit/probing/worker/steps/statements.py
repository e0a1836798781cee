"""Statements of the code that a step runs: whether one looks for NaN, and the one at a line."""

import ast
import functools
import re
from typing import List, Tuple

_GUARDS = re.compile(
    r"isfinite|isnan|isinf|\bnan\b|found_inf|error_if_nonfinite|inf_or_nan|overflow\w*\(", re.IGNORECASE
)
_LOGS = re.compile(r"logg(ing|er)|debug", re.IGNORECASE)


def looks_for_nan(source: str) -> bool:
    """Whether a function looks at what is not finite, other than for a log or a debugger."""
    return any(_GUARDS.search(text) and not _LOGS.search(text) for _, _, text in _statements(source))


def statement_at(source: str, line: int) -> str:
    """The text of the shortest statement at a line of a file, of a compound one its condition; "" for none."""
    around = [(last - first, text) for first, last, text in _statements(source) if first <= line <= last]
    return min(around, default=(0, ""))[1]


@functools.lru_cache(maxsize=None)
def _statements(source: str) -> List[Tuple[int, int, str]]:
    """First and last line and text of everything that a statement evaluates by itself, without its body."""
    try:
        tree = ast.parse(source)
    except SyntaxError:  # a method whose text holds lines that begin further left
        return []
    found = []
    for node in ast.walk(tree):
        own = getattr(node, "test", getattr(node, "iter", None)) if hasattr(node, "body") else node
        is_text = isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
        if isinstance(node, ast.stmt) and isinstance(own, (ast.stmt, ast.expr)) and not is_text:
            found.append((node.lineno, own.end_lineno or own.lineno, ast.unparse(own)))
    return found
