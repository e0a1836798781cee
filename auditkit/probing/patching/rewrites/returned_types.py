"""Norms that a rewrite forms in float64, returned in the type that callers had before."""

from __future__ import annotations

import ast
from collections.abc import Collection, Iterator, Sequence

from auditkit.probing.patching.local_names import names_of
from auditkit.probing.patching.rewrites.edits import Edit
from auditkit.probing.patching.rewrites.function_text import FunctionText
from auditkit.probing.source_code.modules import dotted_name, targets_of

NARROW_NORM = frozenset({
    "norm_overflows_on_finite_grads", "norm_underflows_to_zero", "norm_loses_accuracy",
})  # fmt: skip
"""Findings that a norm of 16 bits cannot be without: float16 ends at 65,504."""
_READS = frozenset({"item", "tolist", "float", "int", "bool"})
_GIVEN = frozenset({"grads", "gradients"})


def returned_as_before(
    functions: Sequence[FunctionText], edits: Sequence[Edit], probes: Collection[str]
) -> Iterator[tuple[frozenset[str], list[Edit]]]:
    """The edits with casts of what the first function returns, and which of `probes` they may end.

    The edits alone where it returns no tensor in float64, or where no name holds the gradients whose type it had.
    """
    function, probes = functions[0], frozenset(probes)
    leaves = list(_wide_results(functions, edits))
    grads = _gradients(function)
    if not leaves or not grads:
        yield probes, list(edits)
        return
    dtype, torch = f"{grads}[0].dtype", function.torch
    wide = f"{torch}.promote_types({dtype}, {torch}.float32)"
    if probes - NARROW_NORM:
        yield probes - NARROW_NORM, [*edits, *(edit for leaf in leaves for edit in _cast(function, leaf, dtype))]
    yield probes, [*edits, *(edit for leaf in leaves for edit in _cast(function, leaf, wide))]


def _wide_results(functions: Sequence[FunctionText], edits: Sequence[Edit]) -> Iterator[ast.expr]:
    """The tensors in float64 that the first function returns."""
    function = functions[0]
    widening = [edit.first[0] for edit in edits if "float64" in edit.text]
    helpers = {one.function.name for one in functions[1:] if any(_is_in(line, one.suite) for line in widening)}
    wide: set[str] = set()
    numbers: set[str] = set()

    def is_wide(node: ast.expr) -> bool:
        called = {dotted_name(inner.func) for inner in ast.walk(node) if isinstance(inner, ast.Call)}
        return _is_in_any(widening, node) or bool(names_of(node).loads & wide) or bool(called & helpers)

    for node in function.nodes:
        if isinstance(node, ast.Assign | ast.AnnAssign | ast.AugAssign) and node.value is not None:
            stored = names_of(targets_of(node)).stores
            if _is_number(node.value, numbers):
                numbers |= stored
            elif is_wide(node.value) or _is_in_any(widening, node):
                wide |= stored - numbers
    for node in function.nodes:
        if isinstance(node, ast.Return) and node.value is not None:
            yield from (leaf for leaf in _parts(node.value) if is_wide(leaf) and not _is_number(leaf, numbers))


def _parts(value: ast.expr) -> Iterator[ast.expr]:
    """The values of a mapping, a tuple, or an object that is made; any other value as it is."""
    match value:
        case ast.Dict(values=values) | ast.Tuple(elts=values):
            yield from (part for one in values for part in _parts(one))
        case ast.Call(func=ast.Name(id=name), args=args, keywords=words) if name[:1].isupper():
            yield from (part for one in (*args, *(word.value for word in words)) for part in _parts(one))
        case _:
            yield value


def _is_number(node: ast.expr, numbers: Collection[str]) -> bool:
    """Whether a value is read from the device, or computed from such numbers."""
    match node:
        case ast.Call(func=ast.Attribute(attr=name)) | ast.Call(func=ast.Name(id=name)) if name in _READS:
            return True
        case ast.BinOp(left=left, right=right):
            return all(isinstance(side, ast.Constant) or _is_number(side, numbers) for side in (left, right))
        case ast.ListComp(elt=elt):
            return _is_number(elt, numbers)
        case ast.Name(id=name):
            return name in numbers
    return dotted_name(node.func).startswith("math.") if isinstance(node, ast.Call) else False


def _gradients(function: FunctionText) -> str:
    """The name of a list of gradients; "" where there is none."""
    for node in function.nodes:
        match node:
            case ast.Assign(targets=[ast.Name(id=name)], value=ast.ListComp(elt=elt)):
                if "grad" in {inner.attr for inner in ast.walk(elt) if isinstance(inner, ast.Attribute)}:
                    return name
    given = [parameter.arg for parameter in function.function.parameters]
    return next((name for name in given if name in _GIVEN), "")


def _cast(function: FunctionText, node: ast.expr, dtype: str) -> list[Edit]:
    first, last = function.first(node), function.last(node)
    if isinstance(node, ast.Name | ast.Call | ast.Attribute | ast.Subscript):
        return [Edit(last, last, f".to({dtype})")]
    return [Edit(first, first, "("), Edit(last, last, f").to({dtype})")]


def _is_in_any(lines: Sequence[int], node: ast.expr | ast.stmt) -> bool:
    return any(node.lineno <= line <= (node.end_lineno or node.lineno) for line in lines)


def _is_in(line: int, suite: Sequence[ast.stmt]) -> bool:
    return any(_is_in_any([line], statement) for statement in suite)
