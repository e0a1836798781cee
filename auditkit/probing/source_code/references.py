"""Collect the names that a file's code uses. One walk of the tree: 0.7 us a node."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterable
from typing import Any

from auditkit.probing.source_code.facts import References
from auditkit.probing.source_code.modules import FunctionNode, targets_of
from auditkit.probing.source_code.walking import FIELDS

_NAME_IN_TEXT = re.compile(r"[A-Za-z_]\w*(?:[.:][A-Za-z_]\w*)*")
_LONGEST_NAME = 200
# A key of a mapping is data: `stats["grad_norm"]` names no function `grad_norm`.
_KEY_METHODS = frozenset(("get", "pop", "setdefault"))

Calls = dict[FunctionNode, list[ast.Call]]
"""The calls in the body of each function and method that others can name."""


class _Collected:
    def __init__(self, imported: frozenset[str]) -> None:
        self.imported = imported
        self.names: set[str] = set()
        self.attributes: set[str] = set()
        self.own: set[str] = set()
        self.dotted: set[str] = set()
        self.strings: set[str] = set()
        self.calls: list[ast.Call] = []
        self.calls_of: Calls = {}

    def add(self, other: _Collected, own_name: str) -> None:
        """Take over what a definition uses, its own name left out."""
        self.names |= other.names - {own_name}
        self.own |= other.own - {own_name}
        self.attributes |= other.attributes
        self.dotted |= other.dotted
        self.strings |= other.strings
        self.calls_of |= other.calls_of


def collect_references(tree: ast.Module, imported: frozenset[str]) -> tuple[References, Calls]:
    """Everything that `tree` refers to, and its calls; `imported` are the local names that its imports bind."""
    found = _Collected(imported)
    _collect_body(tree.body, found)
    references = References(
        frozenset(found.names),
        frozenset(found.attributes),
        frozenset(found.own),
        frozenset(found.dotted),
        frozenset(found.strings),
    )
    return references, found.calls_of


def _collect_body(body: Iterable[ast.stmt], found: _Collected) -> None:
    """The statements of a module or class: each definition apart, so that recursion is not a use."""
    rest: list[ast.AST] = []
    for statement in body:
        if isinstance(statement, FunctionNode):
            inner = _Collected(found.imported)
            _walk(_header(statement), inner)
            inner.calls.clear()
            _walk(statement.body, inner)
            inner.calls_of[statement] = inner.calls
            found.add(inner, statement.name)
        elif isinstance(statement, ast.ClassDef):
            inner = _Collected(found.imported)
            _collect_body(statement.body, inner)
            _walk([*statement.bases, *statement.keywords, *statement.decorator_list], inner)
            found.add(inner, statement.name)
        elif isinstance(statement, ast.If | ast.Try):
            rest += _conditions(statement)
            _collect_body(_inner(statement), found)
        elif not _sets_exports(statement):
            rest.append(statement)
    _walk(rest, found)


def _header(function: FunctionNode) -> list[ast.AST]:
    """What stands before a function's body."""
    returns = [] if function.returns is None else [function.returns]
    return [*function.decorator_list, function.args, *returns, *getattr(function, "type_params", ())]


def _inner(statement: ast.If | ast.Try) -> list[ast.stmt]:
    """The statements directly inside, of every branch."""
    inner = [*statement.body, *statement.orelse]
    if isinstance(statement, ast.Try):
        inner += statement.finalbody
        inner += [item for handler in statement.handlers for item in handler.body]
    return inner


def _conditions(statement: ast.If | ast.Try) -> list[ast.AST]:
    if isinstance(statement, ast.If):
        return [statement.test]
    return [handler.type for handler in statement.handlers if handler.type is not None]


def _sets_exports(statement: ast.stmt) -> bool:
    targets = [statement.target] if isinstance(statement, ast.AugAssign) else targets_of(statement)
    return any(isinstance(target, ast.Name) and target.id == "__all__" for target in targets)


def _walk(roots: Iterable[ast.AST], found: _Collected) -> None:
    waiting: list[ast.AST] = list(roots)
    names, strings = found.names, found.strings
    while waiting:
        node = waiting.pop()
        kind = type(node)
        if kind is ast.Name:
            if type(node.ctx) is not ast.Store:  # type: ignore[attr-defined]
                names.add(node.id)  # type: ignore[attr-defined]
        elif kind is ast.Attribute:
            waiting.append(_attribute(node, found))  # type: ignore[arg-type]
        elif kind is ast.Constant:
            value = node.value  # type: ignore[attr-defined]
            if type(value) is str and len(value) <= _LONGEST_NAME and _NAME_IN_TEXT.fullmatch(value):
                strings.update(re.split("[.:]", value))
        elif kind is ast.Expr and type(node.value) is ast.Constant:  # type: ignore[attr-defined]
            continue  # a docstring
        else:
            before = len(waiting)
            for name in FIELDS.get(kind, ()):
                child = getattr(node, name)
                if type(child) is list:
                    waiting += child
                elif child is not None:
                    waiting.append(child)
            keys = _KEYS_OF.get(kind)
            if keys is not None:
                texts = {id(key) for key in keys(node) if type(key) is ast.Constant}
                if texts:
                    waiting[before:] = [child for child in waiting[before:] if id(child) not in texts]
            if kind is ast.Call:
                found.calls.append(node)  # type: ignore[arg-type]


def _attribute(node: ast.Attribute, found: _Collected) -> ast.AST:
    """Note one attribute; what is left to walk is the expression that it is read of."""
    value = node.value
    if isinstance(value, ast.Name):
        if value.id in found.imported:
            found.dotted.add(f"{value.id}.{node.attr}")
        elif value.id in ("self", "cls"):
            found.own.add(node.attr)
        else:
            found.attributes.add(node.attr)
    elif (path := _imported_path(node, found.imported)) is not None:
        found.dotted.add(path)
    else:
        found.attributes.add(node.attr)
    return value


def _imported_path(node: ast.Attribute, imported: frozenset[str]) -> str | None:
    """`package.module.name` where `package` is imported, None for attributes of anything else."""
    parts = [node.attr]
    value: ast.expr = node.value
    while isinstance(value, ast.Attribute):
        parts.append(value.attr)
        value = value.value
    if isinstance(value, ast.Name) and value.id in imported:
        return ".".join([value.id, *reversed(parts)])
    return None


def _keys_of_call(node: ast.Call) -> list[ast.expr]:
    is_lookup = type(node.func) is ast.Attribute and node.func.attr in _KEY_METHODS
    return node.args[:1] if is_lookup else []


_KEYS_OF: dict[type[ast.AST], Callable[[Any], Iterable[ast.AST | None]]] = {
    ast.Dict: lambda node: node.keys,
    ast.Subscript: lambda node: (node.slice,),
    ast.Compare: lambda node: (node.left, *node.comparators),
    ast.Call: _keys_of_call,
}
"""For each kind of node what of it may be a text key of a mapping."""
