"""Comparisons that NaN slips through, and branches that wait for the device."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Sequence
from typing import TypeGuard

from auditkit.probing.patching.local_names import names_of
from auditkit.probing.patching.rewrites.edits import Edit, Rewrite, rewrite_of
from auditkit.probing.patching.rewrites.function_text import FunctionText
from auditkit.probing.source_code.modules import dotted_name

_TOO_LARGE = re.compile(r"explod|large|upper|high|max_norm|threshold", re.IGNORECASE)
_SMALL = re.compile(r"vanish|small|lower|low\b|min", re.IGNORECASE)
_NUMBERS_ON_DEVICE = frozenset({"sum", "max", "min", "mean", "norm", "vector_norm", "any", "all", "count_nonzero"})


def nan_is_too_large(functions: Sequence[FunctionText]) -> Iterator[Rewrite]:
    """`norms > limit` is false for NaN; `~(norms <= limit)` is true."""
    edits = [edit for function in functions for edit in _comparisons(function)]
    told = "what is not at most the limit, NaN too, counts as above it"
    return rewrite_of("nan_is_too_large", {"nonfinite_grads_look_healthy"}, edits, told)


def _comparisons(function: FunctionText) -> Iterator[Edit]:
    for node in function.nodes:
        match node:
            case ast.Call(func=ast.Attribute(value=ast.Compare() as compared, attr="sum"), args=[]):
                yield from _inverted(function, compared, "~(", ")")
            case ast.Call(func=ast.Name(id="sum"), args=[ast.GeneratorExp(generators=[ast.comprehension(ifs=[test])])]):
                if isinstance(test, ast.Compare):
                    yield from _inverted(function, test, "not ", "")


def _inverted(function: FunctionText, compared: ast.Compare, opening: str, closing: str) -> Iterator[Edit]:
    limit = dotted_name(compared.comparators[0]).rpartition(".")[2]
    if not isinstance(compared.ops[0], ast.Gt) or len(compared.ops) > 1:
        return
    if not _TOO_LARGE.search(limit) or _SMALL.search(limit):
        return
    left, right = function.last(compared.left), function.first(compared.comparators[0])
    yield Edit(function.first(compared), function.first(compared), opening)
    yield Edit(left, right, function.between(left, right).replace(">", "<=", 1))
    if closing:
        yield Edit(function.last(compared), function.last(compared), closing)


def infinity_counts_too(functions: Sequence[FunctionText]) -> Iterator[Rewrite]:
    """`isnan(x)` in code that looks for NaN alone as `~isfinite(x)`, which infinity is as well."""
    names = {dotted_name(node.func).rpartition(".")[2] for one in functions for node in one.nodes if _is_call(node)}
    edits = [] if names & {"isinf", "isfinite"} else [edit for one in functions for edit in _not_finite(one)]
    told = "infinity is looked for as NaN is"
    return rewrite_of("infinity_counts_too", {"nonfinite_grads_look_healthy"}, edits, told)


def _is_call(node: ast.AST) -> TypeGuard[ast.Call]:
    return isinstance(node, ast.Call)


def _not_finite(function: FunctionText) -> Iterator[Edit]:
    for node in function.nodes:
        if _is_call(node) and isinstance(node.func, ast.Attribute) and node.func.attr == "isnan":
            first, last, name = function.first(node), function.last(node), function.last(node.func)
            yield Edit(first, first, "(not " if dotted_name(node.func) == "math.isnan" else "(~")
            yield Edit((name[0], name[1] - len("isnan")), name, "isfinite")
            yield Edit(last, last, ")")


def chosen_on_device(functions: Sequence[FunctionText]) -> Iterator[Rewrite]:
    """`if total > 0: share = share / total` and `if scale < 1: grad.mul_(scale)` without a branch."""
    edits = [edit for function in functions for edit in _branches(function)]
    probes = {"async_collect_synchronizes", "graph_breaks_under_compile", "sync_in_loop", "syncs_grow_with_tensors"}
    return rewrite_of("chosen_on_device", probes, edits, "chosen on the device, where the branch waits for it")


def _branches(function: FunctionText) -> Iterator[Edit]:
    for node in function.nodes:
        match node:
            case ast.If(test=test, body=[ast.Assign(targets=[ast.Name(id=name)], value=value)], orelse=[]):
                if name in names_of(value).loads and _is_on_device(function, test) and function.has_own_lines(node):
                    condition, chosen = function.text(test), function.text(value)
                    where = f"{name} = {function.torch}.where({condition}, {chosen}, {name})"
                    yield Edit(function.first(node), function.last(node), where)
            case ast.If(
                test=ast.Compare(
                    left=ast.Name(id=name), ops=[ast.Lt() | ast.LtE()], comparators=[ast.Constant(value=1)]
                ),
                body=[ast.Expr(value=ast.Call(func=ast.Attribute(attr="mul_"), args=[ast.Name() as factor]) as scaled)],
                orelse=[],
            ) if factor.id == name and _is_tensor(function, name) and function.has_own_lines(node):
                # Every turn multiplies by 1 where it is large enough: one launch, as the comparison was.
                scaling = f"{function.text(scaled)[: -len(name) - 1]}{name}.clamp(max=1))"
                yield Edit(function.first(node), function.last(node), scaling)


def _is_on_device(function: FunctionText, test: ast.expr) -> bool:
    """Whether a comparison is of a tensor: a name whose every value comes from a reduction that is not read."""
    match test:
        case ast.Compare(left=ast.Name(id=name), ops=[ast.Gt() | ast.Lt() | ast.GtE() | ast.LtE()]):
            return _is_tensor(function, name)
    return False


def _is_tensor(function: FunctionText, name: str, depth: int = 2) -> bool:
    """Whether a name is only set to reductions, and to what is computed of such names."""
    set_to = list(_values(function, name))
    return bool(set_to) and all(_is_reduction(value) or _is_of_tensors(function, value, depth) for value in set_to)


def _is_of_tensors(function: FunctionText, value: ast.expr, depth: int) -> bool:
    if not isinstance(value, ast.BinOp) or not depth or any(isinstance(node, ast.Call) for node in ast.walk(value)):
        return False
    return any(_is_tensor(function, name, depth - 1) for name in sorted(names_of(value).loads))


def _values(function: FunctionText, name: str) -> Iterator[ast.expr]:
    for node in function.nodes:
        match node:
            case ast.Assign(targets=[ast.Name(id=target)], value=value) if target == name:
                yield value
            case ast.Assign(targets=[ast.Tuple(elts=targets)], value=ast.Tuple(elts=values)):
                names = [target.id if isinstance(target, ast.Name) else "" for target in targets]
                yield from (value for target, value in zip(names, values, strict=False) if target == name)


def _is_reduction(value: ast.expr) -> bool:
    return (
        isinstance(value, ast.Call) and isinstance(value.func, ast.Attribute) and value.func.attr in _NUMBERS_ON_DEVICE
    )
