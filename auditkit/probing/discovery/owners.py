"""Classes around collectors: what making one needs, and which method hands it the modules."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable

from auditkit.model.enums import Takes
from auditkit.probing.source_code.modules import Class, Function, dotted_name

_SETUP_NAME = re.compile(r"(register|attach|watch|track|bind|setup|set_up|add|set|monitor|observe)(_.*)?")


def setup_method(function: Function, kinds_of: Callable[[Function, ast.arg], tuple[Takes, ...]]) -> Function | None:
    """The public method that hands modules or parameters to the attributes `function` reads.

    `register(host, seed)` for a monitor. Methods named like it come first.
    """
    if function.owner is None:
        return None
    read = _self_attributes(function, ast.Load)
    for name in sorted(_self_calls(function) & function.owner.methods.keys()):
        read |= _self_attributes(function.owner.methods[name], ast.Load)
    fitting = [
        method
        for method in function.owner.methods.values()
        if method is not function
        and not method.name.startswith("_")
        and method.is_bound
        and method.required
        and all(set(kinds_of(method, item)) - {Takes.GRADIENTS} for item in method.required)
        and _self_attributes(method, ast.Store) & read
    ]
    return min(fitting, key=lambda method: not _SETUP_NAME.fullmatch(method.name), default=None)


def _self_calls(function: Function) -> set[str]:
    return {
        node.func.attr
        for node in function.nodes
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute)
        if dotted_name(node.func.value) == "self"
    }


def _self_attributes(function: Function, context: type[ast.expr_context]) -> set[str]:
    """The attributes of `self` that are read, or set; one that is stored or appended into counts as set."""
    nodes = function.nodes
    holders = [node for node in nodes if isinstance(node, ast.Attribute) and isinstance(node.ctx, context)]
    if context is ast.Store:
        for node in nodes:
            if isinstance(node, ast.Subscript) and isinstance(node.ctx, ast.Store):
                holders += [node.value] if isinstance(node.value, ast.Attribute) else []
            elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
                changed = node.func.value
                changes = node.func.attr in ("append", "extend", "add", "update")
                holders += [changed] if changes and isinstance(changed, ast.Attribute) else []
    return {node.attr for node in holders if dotted_name(node.value) == "self"}


def required_by_constructor(owner: Class, constructor: Function | None) -> tuple[str, ...]:
    """The names of the arguments that making an instance needs; `constructor` may be a base's."""
    if constructor is not None:
        return tuple(item.arg for item in constructor.required)
    decorators = {dotted_name(item.func if isinstance(item, ast.Call) else item) for item in owner.node.decorator_list}
    if {"dataclass", "dataclasses.dataclass"} & decorators:
        return tuple(ast.unparse(item.target) for item in owner.fields if item.value is None)
    return ()
