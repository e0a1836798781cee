"""The imports of a Python file, read and not run: what, where, and when."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass


@dataclass(frozen=True)
class Import:
    """One imported module: `when` is "import" at import time, "call" in a function, "types" for checkers.

    `guarded` says that it stands in a `try` or an `if` (a module that need not be there), `main` that it
    stands under `if __name__ == "__main__"`.
    """

    module: str
    line: int
    when: str
    guarded: bool = False
    main: bool = False

    @property
    def top(self) -> str:
        return self.module.partition(".")[0]


def imports_of(source: str, package: str = "") -> list[Import]:
    """Every import of `source`; relative ones are resolved against `package`.

    `from a.b import c` counts as `a.b.c` as well: `c` may be a module.
    """
    return list(_walk(ast.parse(source).body, package, Import("", 0, "import")))


def _walk(nodes: list[ast.stmt], package: str, context: Import) -> Iterator[Import]:
    for node in nodes:
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield _found(alias.name, node, context)
        elif isinstance(node, ast.ImportFrom):
            base = _absolute(node, package)
            for alias in node.names:
                yield _found(f"{base}.{alias.name}" if alias.name != "*" else base, node, context)
        else:
            yield from _inside(node, package, context)


def _inside(node: ast.stmt, package: str, context: Import) -> Iterator[Import]:
    inner = context
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
        inner = _with(context, when="call")
    elif isinstance(node, ast.Try):
        inner = _with(context, guarded=True)
    elif isinstance(node, ast.If):
        condition = ast.unparse(node.test)
        if "TYPE_CHECKING" in condition:
            yield from _walk(node.body, package, _with(context, when="types"))
            yield from _walk(node.orelse, package, context)
            return
        inner = _with(context, guarded=True, main=context.main or "__main__" in condition)
    for field in ("body", "orelse", "finalbody"):
        yield from _walk(getattr(node, field, []), package, inner)
    for part in (*getattr(node, "handlers", []), *getattr(node, "cases", [])):
        yield from _walk(part.body, package, inner)


def _with(context: Import, **changes: object) -> Import:
    return Import(**{**context.__dict__, **changes})  # type: ignore[arg-type]


def _found(module: str, node: ast.stmt, context: Import) -> Import:
    return _with(context, module=module, line=node.lineno)


def _absolute(node: ast.ImportFrom, package: str) -> str:
    if not node.level:
        return node.module or ""
    parts = package.split(".")
    base = ".".join(parts[: len(parts) - node.level + 1])
    return f"{base}.{node.module}" if node.module else base
