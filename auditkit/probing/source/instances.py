"""Whether anything makes an instance of a class: a use of it that is no annotation and no question of type."""

from __future__ import annotations

import ast
import re

from auditkit.probing.discovery.source_index import Module, dotted_name
from auditkit.probing.source.facts import Definition
from auditkit.probing.source.walking import FIELDS

RESULT_CLASS = re.compile(r"\w*(Stats|Statistics|Metrics|Health|Report|Quality)")
_DATACLASSES = frozenset(("dataclass", "define", "frozen"))
_ONLY_ASK = frozenset(("isinstance", "issubclass", "cast", "TypeVar"))


def is_result_class(item: Definition) -> bool:
    """Whether a class is a dataclass for results, by its decorator and its name."""
    decorators = {name.rpartition(".")[2] for name in item.decorators}
    return item.kind == "class" and RESULT_CLASS.fullmatch(item.name) is not None and bool(decorators & _DATACLASSES)


def may_make(module: Module, name: str) -> bool:
    """Whether code of `module` uses the class `name` for more than types: a call, a factory, a base class.

    In the class itself `cls` is its name.
    """
    waiting: list[tuple[ast.AST, bool]] = [(module.tree, False)]
    while waiting:
        node, in_class = waiting.pop()
        if isinstance(node, ast.Name | ast.Attribute) and isinstance(node.ctx, ast.Load):
            last = dotted_name(node).rpartition(".")[2]
            if last == name or (in_class and last == "cls" and isinstance(node, ast.Name)):
                return True
        in_class = in_class or (isinstance(node, ast.ClassDef) and node.name == name)
        for field in _fields(node):
            value = getattr(node, field)
            waiting += [(item, in_class) for item in (value if isinstance(value, list) else [value])]
    return False


def _fields(node: ast.AST) -> tuple[str, ...]:
    """The fields of a node in which a class may be used, not only named."""
    if isinstance(node, ast.Call) and dotted_name(node.func).rpartition(".")[2] in _ONLY_ASK:
        return ()
    return tuple(name for name in FIELDS.get(type(node), ()) if name not in ("annotation", "returns"))
