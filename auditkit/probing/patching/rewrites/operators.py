"""Replace one operator by another that returns the same result without a view or a copy."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence

from auditkit.probing.patching.local_names import names_of
from auditkit.probing.patching.rewrites.edits import Edit, Rewrite, rewrite_of
from auditkit.probing.patching.rewrites.function_text import FunctionText
from auditkit.probing.patching.rewrites.norms import float64_edits
from auditkit.probing.source_code.modules import dotted_name


def reshaped(functions: Sequence[FunctionText]) -> Iterator[Rewrite]:
    """`.view(-1)`, which needs one run of memory, as `.reshape(-1)`."""
    edits = []
    for function in functions:
        for node in function.nodes:
            match node:
                case ast.Call(func=ast.Attribute(value=owner, attr="view"), args=[ast.UnaryOp(), *_]):
                    first, last = function.last(owner), function.first(node.args[0])
                    edits.append(Edit(first, last, function.between(first, last).replace("view", "reshape", 1)))
    told = "reshape takes any strides, where view raises"
    return rewrite_of("reshaped", {"fails_on_noncontiguous_grads"}, edits, told)


def without_double_copies(functions: Sequence[FunctionText]) -> Iterator[Rewrite]:
    """Lists of float64 copies whose norms are then taken: the norms take the dtype instead."""
    edits: list[Edit] = []
    for function in functions:
        for node in function.nodes:
            match node:
                case ast.Assign(targets=[ast.Name(id=name)], value=ast.ListComp(elt=ast.Call() as elt)):
                    cast = _cast(elt, function.torch)
                    if cast is not None and _is_only_normed(function, name):
                        edits.append(Edit(function.last(cast), function.last(elt), ""))
    if edits:
        norms = float64_edits(functions)[0]
        probes = {"peak_memory_grows_with_params", "launches_grow_with_tensors"}
        told = "no float64 copies of the gradients, the norms are formed in float64"
        yield from rewrite_of("without_double_copies", probes, [*edits, *norms], told)


def _cast(call: ast.Call, torch: str) -> ast.expr | None:
    """What `.double()` or `.to(torch.float64)` is called on."""
    match call:
        case ast.Call(func=ast.Attribute(value=inner, attr="double" | "float"), args=[]):
            return inner
        case ast.Call(func=ast.Attribute(value=inner, attr="to"), args=[dtype]):
            return inner if dotted_name(dtype) in (f"{torch}.float64", f"{torch}.double", f"{torch}.float32") else None
    return None


def _is_only_normed(function: FunctionText, name: str) -> bool:
    """Whether all that is done with a list is to take norms of it."""
    calls = [node for node in function.nodes if isinstance(node, ast.Call) and node.args]
    normed = [node for node in calls if "norm" in dotted_name(node.func) and name in names_of(node.args[0]).loads]
    loads = [node for node in function.nodes if isinstance(node, ast.Name) and node.id == name]
    return len(normed) == len([node for node in loads if isinstance(node.ctx, ast.Load)])
