"""Imports that code may do without: it catches that the module is missing, and goes on."""

import ast
import functools
import os
from types import FrameType
from typing import Any, List, Optional, Sequence, Set, Tuple

_MISSES = frozenset(("ImportError", "ModuleNotFoundError", "Exception", "BaseException"))
_ENDS = frozenset(("exit", "_exit", "quit"))
_WORKER = os.path.dirname(os.path.dirname(os.path.abspath(__file__))) + os.sep
# Between an import and what asked for it lie frames of these.
_MACHINERY = tuple(os.path.join(_WORKER, "process", name) for name in ("placeholders.py", "cut_out.py"))


def is_forgiven(frame: Optional[FrameType]) -> bool:
    """Whether an import in `frame` may fail: code between it and our own that loads the module catches that."""
    while frame is not None:
        path = frame.f_code.co_filename
        if path.startswith(_WORKER) and path not in _MACHINERY:
            return False
        if path not in _MACHINERY and any(first <= frame.f_lineno <= last for first, last in _forgiving_lines(path)):
            return True
        frame = frame.f_back
    return False


@functools.lru_cache(maxsize=None)
def _forgiving_lines(path: str) -> List[Tuple[int, int]]:
    """The lines of a file in which a failed import is caught, first and last of each part."""
    try:
        with open(path, "rb") as file:
            tree = ast.parse(file.read())
    except (OSError, ValueError, SyntaxError, RecursionError):
        return []
    bodies = [node.body for node in ast.walk(tree) if isinstance(node, (ast.Try, ast.With)) and forgives(node)]
    return [(body[0].lineno, body[-1].end_lineno or body[-1].lineno) for body in bodies]


def forgives(statement: Any) -> bool:
    """Whether a `try` or a `with` goes on where an import in its body fails."""
    if isinstance(statement, ast.With):
        calls = [item.context_expr for item in statement.items if isinstance(item.context_expr, ast.Call)]
        return any(_last_word(call.func) == "suppress" and _last_words(call.args) & _MISSES for call in calls)
    catching = [each for each in statement.handlers if each.type is None or _last_words([each.type]) & _MISSES]
    return bool(catching) and not _ends(catching[0].body[-1])


def _ends(last: ast.stmt) -> bool:
    """Whether a handler only says what is missing: its last statement raises again, or exits."""
    if isinstance(last, ast.Expr) and isinstance(last.value, ast.Call):
        return _last_word(last.value.func) in _ENDS
    return isinstance(last, ast.Raise)


def _last_word(expression: ast.expr) -> str:
    return expression.attr if isinstance(expression, ast.Attribute) else getattr(expression, "id", "")


def _last_words(expressions: Sequence[ast.expr]) -> Set[str]:
    return {_last_word(node) for each in expressions for node in ast.walk(each) if isinstance(node, ast.expr)}
