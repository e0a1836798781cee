"""Whether anything makes an instance of a class: a use of it that is no annotation and no question of type."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable

from auditkit.probing.source_code.facts import Definition
from auditkit.probing.source_code.modules import Module, dotted_name
from auditkit.probing.source_code.walking import children

RESULT_CLASS = re.compile(r"\w*(Stats|Statistics|Metrics|Health|Report|Quality)")
_DATACLASSES = frozenset(("dataclass", "define", "frozen"))
_TYPES_ONLY = ("annotation", "returns")
_ONLY_ASK = frozenset(("isinstance", "issubclass", "cast", "TypeVar"))


def is_result_class(item: Definition) -> bool:
    """Whether a class is a dataclass for results, by its decorator and its name."""
    decorators = {name.rpartition(".")[2] for name in item.decorators}
    return item.kind == "class" and RESULT_CLASS.fullmatch(item.name) is not None and bool(decorators & _DATACLASSES)


def made_names(module: Module) -> frozenset[str]:
    """The last words of what a module's code uses for more than types: calls, factories, base classes.

    In a class `cls` is its name.
    """
    found: set[str] = set()
    _collect(module.tree.body, (), found)
    return frozenset(found)


def _collect(roots: Iterable[ast.AST], classes: tuple[str, ...], found: set[str]) -> None:
    waiting = list(roots)
    while waiting:
        node = waiting.pop()
        if isinstance(node, ast.Name):
            if isinstance(node.ctx, ast.Load):
                found.add(node.id)
                found.update(classes if node.id == "cls" else ())
        elif isinstance(node, ast.ClassDef) and node.name not in classes:
            _collect(_inner(node), (*classes, node.name), found)
        else:
            if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Load) and dotted_name(node):
                found.add(node.attr)
            waiting += _inner(node)


def _inner(node: ast.AST) -> list[ast.AST]:
    """The nodes directly inside one in which a class may be used, not only named."""
    if isinstance(node, ast.Call) and dotted_name(node.func).rpartition(".")[2] in _ONLY_ASK:
        return []
    return children(node, _TYPES_ONLY)
