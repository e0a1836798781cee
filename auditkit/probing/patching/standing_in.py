"""A whole function of another name in the target's place: fed what the target is fed, where that is known."""

from __future__ import annotations

import ast

from auditkit.model.enums import Takes
from auditkit.probing.patching.names import required_parameters

_FunctionNode = ast.FunctionDef | ast.AsyncFunctionDef
_NAMED = {
    "parameters": Takes.PARAMETERS,
    "params": Takes.PARAMETERS,
    "named_parameters": Takes.NAMED_PARAMETERS,
    "grads": Takes.GRADIENTS,
    "gradients": Takes.GRADIENTS,
    "module": Takes.MODULE,
    "model": Takes.MODULE,
}
_GRADIENTS = "[p.grad for p in {} if p.grad is not None]"
_FED = {
    (Takes.MODULE, Takes.PARAMETERS): "{}.parameters()",
    (Takes.MODULE, Takes.NAMED_PARAMETERS): "{}.named_parameters()",
    (Takes.MODULE, Takes.GRADIENTS): _GRADIENTS.format("{}.parameters()"),
    (Takes.PARAMETERS, Takes.GRADIENTS): _GRADIENTS,
    (Takes.NAMED_PARAMETERS, Takes.PARAMETERS): "[p for _, p in {}]",
    (Takes.NAMED_PARAMETERS, Takes.GRADIENTS): "[p.grad for _, p in {} if p.grad is not None]",
} | {(takes, takes): "{}" for takes in Takes}


def stand_in(tree: ast.Module, original: _FunctionNode, is_method: bool, takes: Takes) -> tuple[list[str], str] | None:
    """The original's definition as a call of the last function of a block, and what is said of it.

    Only where that function asks for one thing, whose name says what it is, and `takes`, what the original is
    fed, can be turned into it; one of the original's name gets another in `tree`. The definition is not indented.
    None where there is no such function.
    """
    defined = [item for item in tree.body if isinstance(item, ast.FunctionDef)]
    if not defined or isinstance(original, ast.AsyncFunctionDef):
        return None
    wanted = required_parameters(defined[-1].args)
    fed = _FED.get((takes, _NAMED[next(iter(wanted))])) if len(wanted) == 1 and wanted <= _NAMED.keys() else None
    given = [*original.args.posonlyargs, *original.args.args][1 if is_method else 0 :]
    if fed is None or not given:
        return None
    if defined[-1].name == original.name:
        defined[-1].name = f"_recommended_{original.name}"
    call = f"{defined[-1].name}({fed.format(given[0].arg)})"
    returns = f" -> {ast.unparse(original.returns)}" if original.returns else ""
    lines = [f"def {original.name}({ast.unparse(original.args)}){returns}:", f"    return {call}"]
    return lines, f"the block defines {defined[-1].name}: {original.name} returns {call}, whatever that is"
