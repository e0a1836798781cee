"""Hints read from source: the structure of a function's result, and its keys."""

from __future__ import annotations

import ast
import re

from auditkit.probing.find.gradient_flow import GradientFlow
from auditkit.probing.find.gradient_names import is_finite_check
from auditkit.probing.source.modules import Function, dotted_name, is_constant, targets_of, text_in


def values_of(function: Function, value: ast.expr) -> list[ast.expr]:
    """Return a returned expression, and the values that its name was assigned."""
    name = dotted_name(value)
    given = [getattr(node, "value", None) for node in function.nodes if name in map(dotted_name, targets_of(node))]
    return [value, *(item for item in given if name and isinstance(item, ast.expr))]


def literal_keys(function: Function, value: ast.expr) -> list[str]:
    """Return the text keys of a returned dict: written in it, or assigned under its name before."""
    name = dotted_name(value)
    dicts = [node for node in (*ast.walk(value), *values_of(function, value)[1:]) if isinstance(node, ast.Dict)]
    keys = [text_in(item) for node in dicts for item in node.keys]
    stored = (target for node in function.nodes for target in targets_of(node) if isinstance(target, ast.Subscript))
    keys += [text_in(target.slice) for target in stored if name and dotted_name(target.value) == name]
    return list(dict.fromkeys(filter(None, keys)))


def consumed_keys(function: Function, name: str) -> list[str]:
    """Return the text keys that a function requires of its parameter `name`: `stats["n"]`, not `stats.get("n")`."""
    read = (node for node in function.nodes if isinstance(node, ast.Subscript) and dotted_name(node.value) == name)
    return list(dict.fromkeys(filter(None, (text_in(node.slice) for node in read))))


_SEVERAL = frozenset(("dict", "Dict", "Mapping", "tuple", "Tuple", "list", "List"))


def returns_several(function: Function) -> bool:
    """Return whether a function returns a mapping or a sequence: by its annotation, else by a returned literal."""
    annotation = function.node.returns
    if annotation is not None:
        return not _SEVERAL.isdisjoint(re.findall(r"\w+", ast.unparse(annotation)))
    containers = ast.Dict | ast.DictComp | ast.Tuple | ast.List | ast.ListComp
    returned = [node.value for node in function.nodes if isinstance(node, ast.Return) and node.value is not None]
    return any(isinstance(item, containers) for value in returned for item in values_of(function, value))


def flags_of(function: Function) -> list[str]:
    """Return the parameters with default False under which the function returns something else."""

    def returns(node: ast.AST, flag: str) -> bool:
        return isinstance(node, ast.If) and dotted_name(node.test) == flag and isinstance(node.body[-1], ast.Return)

    flags = [name for name, default in function.defaults.items() if is_constant(default, False)]
    return [flag for flag in flags if any(returns(node, flag) for node in function.nodes)]


def tells_flags(function: Function, flow: GradientFlow) -> bool:
    """Return whether the result is a flag or a count of NaN, infinity or zeros, not a norm."""
    kept = [re.sub(r"\W", "_", name).strip("_") for name in flow.stores]
    return is_finite_check(function.name) or flow.tells_flags or (bool(kept) and all(map(is_finite_check, kept)))
