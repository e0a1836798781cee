"""One norm after the other, each a launch of its own, as one operator over all gradients."""

from __future__ import annotations

import ast
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass

from auditkit.probing.patching.local_names import names_of
from auditkit.probing.patching.rewrites.edits import Edit, Rewrite, is_inside, rewrite_of
from auditkit.probing.patching.rewrites.function_text import FunctionText
from auditkit.probing.patching.rewrites.norms import float64_edits, narrowing, operand_of_norm, rooted, summed_squares
from auditkit.probing.patching.rewrites.returned_types import returned_as_before
from auditkit.probing.patching.rewrites.sparse import STORED, sparse_edits, without_copy
from auditkit.probing.source_code.modules import dotted_name

_MENDS = frozenset({
    "launches_grow_with_tensors", "norm_overflows_on_finite_grads", "norm_underflows_to_zero",
    "norm_depends_on_grouping", "norm_loses_accuracy", "fails_on_gradients_of_two_devices",
})  # fmt: skip
_STORED = frozenset({"fails_on_sparse_grads", "fails_on_mixed_dtypes", "clip_destroys_gradients"})
_READS = frozenset({"syncs_grow_with_tensors", "sync_in_loop", "graph_breaks_under_compile"})


def norms_together(functions: Sequence[FunctionText]) -> Iterator[Rewrite]:
    """Norms of a list in float64 by torch._foreach_norm, brought to one device; what reads them reads once."""
    edits: list[Edit] = []
    lines: list[int] = []
    mends = _MENDS
    gathered = {edit.text.split()[0] for edit in sparse_edits(functions) if edit.text.startswith("\n")}
    for function in functions:
        for statement in (one for suite in function.suites for one in suite if function.has_own_lines(one)):
            found = _list_of_norms(function, statement)
            mends |= _READS if found else frozenset()
            if not found and (found := _stack_of_norms(function, statement, gathered)):
                mends |= _STORED
            edits += found
            lines += [edit.first[0] for edit in found if edit.first != edit.last][:1]
        for node in function.nodes:
            edit = _sum_of_squares(function, node) if isinstance(node, ast.Call) else None
            if edit is not None and not any(is_inside(edit, other) for other in edits):
                edits.append(edit)
                lines.append(edit.first[0])
    if edits:
        wide = float64_edits(functions)[0] if mends > _STORED else []
        edits += [edit for edit in wide if not any(is_inside(edit, other) for other in edits)]
        sparse = [edit for edit in sparse_edits(functions) if not any(is_inside(edit, other) for other in edits)]
        told = "all norms in one operator, in float64, on one device"
        for ended, kept in returned_as_before(functions, [*edits, *sparse], mends):
            yield from rewrite_of("norms_together", ended, kept, told, lines)


@dataclass(frozen=True)
class _Norms:
    """The parts of `[p.grad.norm(2).item() for p in parameters]`."""

    operand: ast.expr
    order: str
    is_read: bool


def _list_of_norms(function: FunctionText, statement: ast.stmt) -> list[Edit]:
    match statement:
        case ast.Assign(targets=[ast.Name(id=name)], value=ast.ListComp(generators=[source]) as values):
            norms = _norms(function, values.elt)
            if norms is None:
                return []
        case _:
            return []
    is_list = isinstance(norms.operand, ast.Name) and isinstance(source.iter, ast.Name) and not source.ifs
    lines = []
    if is_list and isinstance(source.iter, ast.Name):
        grads = source.iter.id
    else:
        grads = function.fresh("grads")
        each = names_of(norms.operand).loads & names_of(source.target).stores
        if not each:
            return []
        clauses = function.between(function.last(values.elt), function.last(values))
        operand = function.text(norms.operand)
        lines.append(f"{grads} = [{operand}{clauses}")
        lines.append(f"{grads} = [{STORED} for {{0}} in {grads}]".format("grad", "grad"))
    torch, step = function.torch, function.step
    foreach = f"{torch}._foreach_norm({grads}, {norms.order}, dtype={torch}.float64)"
    lines += [f"{name} = []", f"if {grads}:", f"{step}{name} = {foreach}"]
    if norms.is_read:
        stacked = f"{torch}.stack([norm.to({name}[0].device) for norm in {name}])"
        lines.append(f"{step}{name} = {stacked}.tolist()")
    blanks = function.indentation(statement)
    return [function.replace(statement, f"\n{blanks}".join(lines))]


def _stack_of_norms(function: FunctionText, statement: ast.stmt, gathered: Collection[str]) -> list[Edit]:
    """`torch.stack([torch.norm(g, 2).to(device) for g in grads])`: the norms in a line before it, and their stack.

    `gathered` are lists of stored values.
    """
    calls = [node for node in ast.walk(statement) if isinstance(node, ast.Call)]
    stacks = [call for call in calls if dotted_name(call.func) == f"{function.torch}.stack" and len(call.args) == 1]
    if len(stacks) != 1 or not isinstance(statement, ast.Assign | ast.Return):
        return []
    match stacks[0].args[0]:
        case (ast.ListComp(elt=elt, generators=[source]) | ast.GeneratorExp(elt=elt, generators=[source])) as values:
            pass
        case _:
            return []
    brought = f"norm.to({function.fresh('norms')}[0].device)"
    match elt:
        case ast.Call(func=ast.Attribute(value=norm, attr="to"), args=[home], keywords=[]):
            norms, brought = _norms(function, norm), f"norm.to({function.text(home)})"
        case _:
            norms = _norms(function, elt)
    if norms is None or norms.is_read:
        return []
    torch, name, operand = function.torch, function.fresh("norms"), function.text(norms.operand)
    is_stored = isinstance(source.iter, ast.Name) and source.iter.id in gathered
    clauses = function.between(function.last(elt), function.last(values))[:-1]
    each = operand if is_stored else STORED.format(operand, function.text(without_copy(norms.operand)))
    listed = " ".join([each, *clauses.split()])
    line = f"{name} = {torch}._foreach_norm([{listed}], {norms.order}, dtype={torch}.float64)"
    narrow = [edit for call in calls for edit in narrowing(function, call)]
    return [
        function.line_before(statement, line), function.replace(values, f"[{brought} for norm in {name}]"), *narrow
    ]  # fmt: skip


def _norms(function: FunctionText, elt: ast.expr) -> _Norms | None:
    match elt:
        case ast.Call(func=ast.Attribute(value=ast.Call() as call, attr="item"), args=[]):
            is_read = True
        case ast.Call() as call:
            is_read = False
        case _:
            return None
    operand = operand_of_norm(call, function.torch)
    if operand is None or any(word.arg not in ("p", "ord", "dtype") for word in call.keywords):
        return None
    orders = [word.value for word in call.keywords if word.arg != "dtype"]
    given = [item for item in [*call.args, *orders] if item is not operand]
    return _Norms(operand, function.text(given[0]) if given else "2", is_read)


def _sum_of_squares(function: FunctionText, call: ast.Call) -> Edit | None:
    """`sum(g.pow(2).sum() for g in grads)`, with the root of it where that is taken."""
    inner = rooted(call)
    match inner or call:
        case ast.Call(
            func=ast.Name(id="sum"),
            args=[
                ast.GeneratorExp(
                    elt=ast.Call() as elt,
                    generators=[ast.comprehension(target=ast.Name(id=each), iter=ast.Name(id=grads), ifs=[])],
                )
            ],
        ):
            squared = summed_squares(elt, function.torch)
        case _:
            return None
    if not isinstance(squared, ast.Name) or squared.id != each:
        return None
    torch = function.torch
    norms = f"{torch}._foreach_norm({grads}, 2, dtype={torch}.float64)"
    stacked = f"{torch}.stack([norm.to({grads}[0].device) for norm in {norms}])"
    root = "" if inner else ".square()"
    return function.replace(call, f"{torch}.linalg.vector_norm({stacked}){root}")
