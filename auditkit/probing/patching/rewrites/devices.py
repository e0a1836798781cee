"""Results of several devices, brought to one before they are stacked or added."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence

from auditkit.probing.patching.local_names import names_of
from auditkit.probing.patching.rewrites.edits import Edit, Rewrite, rewrite_of
from auditkit.probing.patching.rewrites.function_text import FunctionText
from auditkit.probing.source_code.modules import dotted_name

_MENDS = frozenset({"fails_on_gradients_of_two_devices"})


def on_one_device(functions: Sequence[FunctionText]) -> Iterator[Rewrite]:
    edits = [edit for function in functions for edit in _edits(function)]
    lines = {edit.first[0] for edit in edits}
    told = "the norms are brought to one device before they are added"
    return rewrite_of("on_one_device", _MENDS, edits, told, lines)


def _edits(function: FunctionText) -> Iterator[Edit]:
    for node in function.nodes:
        match node:
            case ast.Call(func=called, args=[part, *_]) if dotted_name(called) == f"{function.torch}.stack":
                yield from _stacked(function, part)
            case ast.Call(func=ast.Name(id="sum"), args=[ast.GeneratorExp() | ast.ListComp() as parts]):
                yield from _each_to_first(function, parts)
            case ast.IfExp(test=ast.Compare(left=ast.Name(id=total), ops=[ast.Is()]), orelse=ast.BinOp() as added):
                yield from _added(function, total, added)
            case ast.AugAssign(target=ast.Name(id=total), op=ast.Add(), value=value) if _is_tensor(function, total):
                yield _to(function, value, f"{total}.device")


def _stacked(function: FunctionText, part: ast.expr) -> Iterator[Edit]:
    """The list that is stacked: a comprehension, a list of norms under a name, or what _foreach_norm gives."""
    if isinstance(part, ast.ListComp | ast.GeneratorExp):
        yield from _each_to_first(function, part)
        return
    home = part.id if isinstance(part, ast.Name) else _tensors_of(part)
    if home and not _is_on_one_device(function, part):
        each = function.fresh("norm")
        first, last = function.first(part), function.last(part)
        yield Edit(first, first, f"[{each}.to({home}[0].device) for {each} in ")
        yield Edit(last, last, "]")


def _tensors_of(call: ast.expr) -> str:
    """The name of the tensors that `torch._foreach_norm(...)` is called on."""
    if not isinstance(call, ast.Call) or not call.args or not dotted_name(call.func).endswith("_foreach_norm"):
        return ""
    match call.args[0]:
        case ast.Name(id=name) | ast.Call(args=[ast.Name(id=name)]):
            return name
        case ast.ListComp(generators=[ast.comprehension(iter=ast.Name(id=name))]):
            return name
    return ""


def _each_to_first(function: FunctionText, parts: ast.GeneratorExp | ast.ListComp) -> Iterator[Edit]:
    """`torch.norm(g) for g in grads`, each on the device of `grads[0]`; not where its turns go through parameters."""
    match parts.generators:
        case [ast.comprehension(target=ast.Name(id=each), iter=ast.Name(id=tensors), ifs=[])]:
            if not isinstance(parts.elt, ast.Call) or dotted_name(parts.elt.func).endswith((".numel", "len")):
                return
            read = [node for node in ast.walk(parts.elt) if isinstance(node, ast.Attribute)]
            used = {node.attr for node in read if isinstance(node.value, ast.Name) and node.value.id == each}
            if (
                each in names_of(parts.elt).loads
                and not used & {"grad", "numel", "to"}
                and not _ends_with_to(parts.elt)
            ):
                yield _to(function, parts.elt, f"{tensors}[0].device")


def _ends_with_to(node: ast.expr) -> bool:
    return isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in ("to", "item")


def _added(function: FunctionText, total: str, added: ast.BinOp) -> Iterator[Edit]:
    """`x if total is None else total + x`."""
    if isinstance(added.op, ast.Add) and isinstance(added.left, ast.Name) and added.left.id == total:
        yield _to(function, added.right, f"{total}.device")


def _to(function: FunctionText, node: ast.expr, device: str) -> Edit:
    if isinstance(node, ast.Name | ast.Call | ast.Attribute | ast.Subscript):
        return function.insert_after(node, f".to({device})")
    return function.replace(node, f"({function.text(node)}).to({device})")


def _is_tensor(function: FunctionText, name: str) -> bool:
    """Whether a name begins as a tensor of torch's own making."""
    for node in function.nodes:
        match node:
            case ast.Assign(targets=[ast.Name(id=target)], value=ast.Call(func=called)) if target == name:
                return dotted_name(called) in (f"{function.torch}.zeros", f"{function.torch}.tensor")
    return False


def _is_on_one_device(function: FunctionText, part: ast.expr) -> bool:
    """Whether a name holds what has been brought to a device already, or single values under their names."""
    if not isinstance(part, ast.Name):
        return False
    for node in function.nodes:
        match node:
            case ast.Assign(targets=[ast.Name(id=name)], value=value) if name == part.id:
                kept = [value] if not isinstance(value, ast.List) else _appended(function, name)
                words = {inner.attr for one in kept for inner in ast.walk(one) if isinstance(inner, ast.Attribute)}
                return "to" in words or not words & {"_foreach_norm", "norm", "vector_norm", "sum", "square"}
    return True


def _appended(function: FunctionText, name: str) -> list[ast.expr]:
    """What is appended to a list."""
    calls = [node for node in function.nodes if isinstance(node, ast.Call)]
    return [part for call in calls if dotted_name(call.func) == f"{name}.append" for part in call.args]
