"""Calls that run a backward pass or an optimizer's step, directly or in helpers of the same module."""

from __future__ import annotations

import ast
from dataclasses import dataclass, field, replace

from auditkit.probing.find import vocabulary
from auditkit.probing.source.modules import Class, Function, Module, dotted_name


def is_backward(call: ast.Call) -> bool:
    """Return whether a call runs a backward pass."""
    return (isinstance(call.func, ast.Attribute) and call.func.attr == "backward") or _is_of_scaler(call)


def is_step(call: ast.Call) -> bool:
    """Return whether a call is an optimizer's or a scaler's step; a wrapper may have `step_and_update_lr`."""
    is_named = isinstance(call.func, ast.Attribute) and call.func.attr.split("_")[0] == "step"
    return _is_of_scaler(call) or (
        is_named and vocabulary.STEPPED.fullmatch(ast.unparse(call.func.value)) is not None  # type: ignore[attr-defined]
    )


def _is_of_scaler(call: ast.Call) -> bool:
    """Return whether a call is `loss_scaler(loss, optimizer, ...)`, which runs the backward pass, clips and steps."""
    names = [dotted_name(each) for each in (call.func, *call.args[:2])]
    return len(names) == 3 and names[0].endswith("scaler") and vocabulary.LOSS.fullmatch(names[1]) is not None


def is_handed_loss(function: Function) -> bool:
    """Return whether the caller computes the loss, so that the function is only part of a training step."""
    return any(vocabulary.LOSS.fullmatch(item.arg) for item in function.parameters)


@dataclass
class TrainingCalls:
    """Which calls of a module run a backward pass or a step; `owner` is the class that `self` stands for.

    A helper that does both is a training step of its own, unless the loss is an argument.
    """

    module: Module
    owner: Class | None = None
    _found: dict[str, tuple[bool, bool]] = field(default_factory=dict)

    def inside(self, owner: Class | None) -> TrainingCalls:
        """Return the calls inside another class of the module."""
        return replace(self, owner=owner)

    def is_backward(self, call: ast.Call) -> bool:
        """Return whether a call runs a backward pass, directly or in a helper."""
        return is_backward(call) or self._in_helper(call)[0]

    def is_step(self, call: ast.Call) -> bool:
        """Return whether a call is an optimizer's or a scaler's step, directly or in a helper."""
        return is_step(call) or self._in_helper(call)[1]

    def is_any(self, call: ast.Call) -> bool:
        return self.is_backward(call) or self.is_step(call)

    def of(self, function: Function) -> tuple[bool, bool]:
        """Return whether a function runs a backward pass, and whether it steps."""
        name, within = function.qualified_name, self.inside(function.owner)
        if name not in self._found:
            self._found[name] = (False, False)  # stops recursion
            made = [node for node in function.nodes if isinstance(node, ast.Call)]
            goes_backward = any(map(within.is_backward, made))
            self._found[name] = (goes_backward, any(map(within.is_step, made)))
        return self._found[name]

    def helper(self, call: ast.Call) -> Function | None:
        """Return the called function of the module: by its name, or as a method of `self`."""
        name = dotted_name(call.func)
        if name in self.module.functions:
            return self.module.functions[name]
        is_own = self.owner is not None and name.startswith("self.")
        owners = [self.owner, *self.module.classes.values()] if is_own and self.owner is not None else []
        return next((found for each in owners if (found := each.methods.get(name.removeprefix("self.")))), None)

    def _in_helper(self, call: ast.Call) -> tuple[bool, bool]:
        helper = self.helper(call)
        found = self.of(helper) if helper is not None else (False, False)
        is_whole = helper is not None and all(found) and not is_handed_loss(helper)
        return (False, False) if is_whole else found
