"""The code that a ticket cites, as a digest that comments, blank lines and moved lines do not change, and whether a
review judged that code."""

from __future__ import annotations

import ast
import hashlib
import re
import sys
from collections.abc import Iterator, Sequence

from auditkit.model.tickets.review import Review
from auditkit.model.tickets.ticket import LineRange

_DIGITS = 12
_JUDGED = re.compile(r"([0-9a-f]{12})(?: code:([0-9a-f]{12}))?")
_NAME = re.compile(r"[A-Za-z_][\w.]*")


def code_digest(source: str, function: str, lines: Sequence[LineRange]) -> str:
    """Twelve hex digits of the body of `function` in `source`; else of the cited lines; "" for neither.

    `function` is a Function/Class cell as written: `` `Governor.roll_back()` ``. A source that does not
    parse has lines only.
    """
    body = _body(source, function)
    if body:
        return _digest("\n".join(map(_dump, body)))
    rows = source.splitlines()
    cited = [row.rstrip() for span in lines for row in rows[span.first - 1 : span.last]]
    return _digest("\n".join(cited)) if cited else ""


def _body(source: str, function: str) -> list[ast.stmt]:
    name = _NAME.search(function.strip("`* "))
    try:
        tree = ast.parse(source)
    except (SyntaxError, ValueError):
        return []
    wanted = f".{name[0]}" if name else ""
    found = [node for path, node in _definitions(tree) if wanted and f".{path}".endswith(wanted)]
    return found[0].body if found else []


def _definitions(
    parent: ast.AST, above: str = ""
) -> Iterator[tuple[str, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef]]:
    for node in ast.iter_child_nodes(parent):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            path = f"{above}.{node.name}" if above else node.name
            yield path, node
            yield from _definitions(node, path)
        else:
            yield from _definitions(node, above)


def _dump(node: ast.AST) -> str:
    # Python 3.13 leaves empty lists out unless it is told not to; digests must not depend on the version.
    if sys.version_info >= (3, 13):
        return ast.dump(node, show_empty=True)
    return ast.dump(node)


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "replace")).hexdigest()[:_DIGITS]


def judged_text(digest: str, code: str = "") -> str:
    """What a review's Judged row says: the ticket's digest, and that of the code where it was looked at."""
    return f"{digest} code:{code}" if code else digest


def is_stale(review: Review, digest: str, code: str = "") -> bool:
    """Whether the ticket's digest, or that of the code where both are known, is not the one reviewed.

    A review that does not say what it judged is not stale: nobody can tell.
    """
    judged = _JUDGED.fullmatch(review.judged)
    if judged is None:
        return False
    return judged[1] != digest or bool(code and judged[2] and judged[2] != code)
