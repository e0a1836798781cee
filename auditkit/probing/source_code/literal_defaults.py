"""Literal numbers as defaults of parameters, and which calls hand those parameters on."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator

from auditkit.probing.source_code.facts import Forward, Signature
from auditkit.probing.source_code.modules import Class, Function, Module, dotted_name
from auditkit.probing.source_code.references import Calls


def signatures_of(module: Module, calls: Calls) -> Iterator[Signature]:
    """The functions, methods and dataclasses of a module with a literal number as a default."""
    for owner in module.classes.values():
        signature = _of_dataclass(owner)
        if signature is not None:
            yield signature
    for function in module.defined():
        signature = _of_function(function, calls.get(function.node, ()))
        if signature is not None:
            yield signature


def _of_function(function: Function, calls: Iterable[ast.Call]) -> Signature | None:
    if function.decorators & {"overload", "abstractmethod"}:
        return None
    defaults = tuple(
        (name, value, default.lineno)
        for name, default in function.defaults.items()
        if (value := literal_number(default)) is not None
    )
    if not defaults:
        return None
    owner = function.owner.qualified_name if function.owner is not None else ""
    forwards = tuple(_forwards(calls, {name for name, _, _ in defaults}))
    return Signature(function.qualified_name, function.name, owner, function.node.lineno, defaults, forwards)


def _of_dataclass(owner: Class) -> Signature | None:
    """A dataclass's fields are the parameters of the `__init__` that is made for it."""
    made = (item.func if isinstance(item, ast.Call) else item for item in owner.node.decorator_list)
    if not any(dotted_name(item).rpartition(".")[2] in ("dataclass", "define", "frozen") for item in made):
        return None
    defaults = tuple(
        (item.target.id, value, item.lineno)
        for item in owner.fields
        if isinstance(item.target, ast.Name) and item.value is not None
        if (value := literal_number(item.value)) is not None
    )
    name = owner.qualified_name
    return Signature(name, "__init__", name, owner.node.lineno, defaults) if defaults else None


def literal_number(node: ast.expr) -> float | None:
    """The number that an expression writes out, with its sign; None for anything else, truth values included."""
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        inner = literal_number(node.operand)
        return None if inner is None else -inner
    if isinstance(node, ast.Constant) and isinstance(node.value, int | float) and not isinstance(node.value, bool):
        try:
            return float(node.value)
        except OverflowError:
            return None
    return None


def _forwards(calls: Iterable[ast.Call], parameters: set[str]) -> Iterator[Forward]:
    for node in calls:
        callee = dotted_name(node.func)
        if not callee:
            continue
        for position, given in enumerate(node.args):
            if isinstance(given, ast.Name) and given.id in parameters:
                yield Forward(given.id, callee, "", position)
        for keyword in node.keywords:
            if keyword.arg and isinstance(keyword.value, ast.Name) and keyword.value.id in parameters:
                yield Forward(keyword.value.id, callee, keyword.arg, -1)
