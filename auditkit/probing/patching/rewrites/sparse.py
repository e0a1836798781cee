"""Sparse gradients as their stored values, where a gradient is first read."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from auditkit.probing.discovery.blocks.blocks import Block
from auditkit.probing.patching.local_names import names_of
from auditkit.probing.patching.rewrites.edits import Edit, Rewrite
from auditkit.probing.patching.rewrites.function_text import FunctionText

_MENDS = frozenset({"fails_on_sparse_grads"})
_HANDLED = frozenset({"is_sparse", "coalesce", "to_dense", "stored_values", "layout"})
_SAME_TENSOR = frozenset({"detach", "data", "clone"})
_READ_OF_ANY = frozenset({"is_sparse", "device", "dtype", "shape", "size", "numel", "requires_grad", "layout", "dim"})
_STORED = "{0}.coalesce().values() if {1}.is_sparse else {0}"


@dataclass(frozen=True)
class _Source:
    """A gradient as it is first read: `node` with `.detach()` and the like, `gradient` without."""

    node: ast.expr
    gradient: ast.expr


def stored_values(functions: Sequence[FunctionText]) -> Iterator[Rewrite]:
    edits = sparse_edits(functions)
    if edits:
        change = f"line {edits[0].first[0]}: of a sparse gradient its stored values are read"
        yield Rewrite("sparse_values", _MENDS, change, tuple(edits))
    elif edits := [edit for function in functions[:1] for edit in _of_parameters(function)]:
        change = f"line {edits[0].first[0]}: of sparse gradients that it is given the stored values are read"
        yield Rewrite("given_sparse_values", _MENDS, change, tuple(edits))
    edits = [edit for function in functions for node in function.nodes for edit in _summed_first(function, node)]
    if edits:
        change = f"line {edits[0].first[0]}: the values of one element that are stored twice are added first"
        yield Rewrite("coalesced_values", _MENDS, change, tuple(edits))


def _of_parameters(function: FunctionText) -> Iterator[Edit]:
    """A line before all others that takes the stored values of a parameter's gradients."""
    if isinstance(function.function, Block) or _mentions(function, _HANDLED):
        return
    body = function.function.node.body
    has_text = ast.get_docstring(function.function.node, clean=False) is not None and len(body) > 1
    for parameter in function.function.parameters:
        name = parameter.arg
        if name in ("grads", "gradients") and function.has_own_lines(body[has_text]):
            each = function.fresh("g")
            stored = _STORED.format(each, each)
            yield function.line_before(body[has_text], f"{name} = [{stored} for {each} in {name}]")


def _summed_first(function: FunctionText, node: ast.AST) -> Iterator[Edit]:
    """`grad._values()`, which is private and has some elements twice, as `grad.coalesce().values()`."""
    match node:
        case ast.Call(func=ast.Attribute(value=owner, attr="_values"), args=[], keywords=[]):
            yield Edit(function.last(owner), function.last(node), ".coalesce().values()")


def sparse_edits(functions: Sequence[FunctionText]) -> list[Edit]:
    """Every first read of a gradient, with the values of a sparse one; none where the code thinks of them already."""
    if any(_mentions(function, _HANDLED) for function in functions):
        return []
    return [edit for function in functions for edit in _of_function(function)]


def _mentions(function: FunctionText, words: frozenset[str]) -> bool:
    names = {node.attr if isinstance(node, ast.Attribute) else "" for node in function.nodes}
    return bool(words & (names | names_of(function.suite).loads))


def _of_function(function: FunctionText) -> Iterator[Edit]:
    parents = {child: node for node in function.nodes for child in ast.iter_child_nodes(node)}
    taken: set[ast.AST] = set()
    for node in function.nodes:
        if isinstance(node, ast.Assign) and len(node.targets) == 1 and isinstance(node.targets[0], ast.Name):
            edit, gradient = _gathered(function, node, node.targets[0].id)
            if edit is not None and gradient is not None:
                taken.add(gradient)
                yield edit
    for node in function.nodes:
        source = _source(node.elt) if isinstance(node, ast.ListComp | ast.GeneratorExp) else None
        if source is not None and source.gradient not in taken:
            taken.add(source.gradient)
            yield function.replace(source.node, _stored(function, source))
    loops = [node for node in function.nodes if isinstance(node, ast.For)]
    for loop in loops:
        yield from _named_in_loop(function, loop, parents, taken)
    for inner in function.nodes:
        if isinstance(inner, ast.Attribute) and _is_gradient(inner) and inner not in taken:
            read = _widest(inner, parents)
            reader = parents.get(read.node)
            if isinstance(reader, ast.Attribute) and reader.attr not in _READ_OF_ANY and _is_called(reader, parents):
                yield function.replace(read.node, f"({_stored(function, read)})")
            elif isinstance(reader, ast.Call) and read.node in reader.args:
                yield function.replace(read.node, _stored(function, read))


def _gathered(function: FunctionText, statement: ast.Assign, name: str) -> tuple[Edit | None, ast.expr | None]:
    """A line behind `grads = [p.grad for ...]` or `grad = p.grad` that takes the stored values, and the gradient."""
    value = statement.value
    source = _source(value.elt if isinstance(value, ast.ListComp) else value)
    if source is None or not function.has_own_lines(statement):
        return None, None
    each = "grad" if name != "grad" else "g"
    line = f"[{_STORED} for {{0}} in {name}]".format(each, each) if isinstance(value, ast.ListComp) else ""
    line = line or _STORED.format(name, name)
    return function.line_after(statement, f"{name} = {line}"), source.gradient


def _named_in_loop(
    function: FunctionText, loop: ast.For, parents: dict[ast.AST, ast.AST], taken: set[ast.AST]
) -> Iterator[Edit]:
    """In a loop whose statement reads `p.grad` in its middle: `grad = ...` before it, and `grad` there."""
    simple = [node for node in ast.walk(loop) if isinstance(node, ast.Assign | ast.AugAssign | ast.Expr)]
    for statement in simple:
        if not function.has_own_lines(statement):
            continue
        inside = [node for node in ast.walk(statement) if _is_gradient(node) and node not in taken]
        sources = [_widest(node, parents) for node in inside if isinstance(node, ast.Attribute)]
        sources = [one for one in sources if _is_read(one.node, parents)]
        if not sources or len({ast.dump(one.gradient) for one in sources}) > 1:
            continue
        name = function.fresh("grad")
        widest = max(sources, key=lambda one: len(function.text(one.node)))
        taken |= {one.gradient for one in sources}
        start = function.first(statement)
        yield Edit(start, start, f"{name} = {_stored(function, widest)}\n{function.indentation(statement)}")
        for one in sources:
            yield function.replace(one.node, name)
        return


def _is_read(node: ast.expr, parents: dict[ast.AST, ast.AST]) -> bool:
    reader = parents.get(node)
    if isinstance(reader, ast.Attribute):
        return reader.attr not in _READ_OF_ANY and _is_called(reader, parents)
    return isinstance(reader, ast.Call | ast.BinOp)


def _is_called(attribute: ast.Attribute, parents: dict[ast.AST, ast.AST]) -> bool:
    caller = parents.get(attribute)
    return isinstance(caller, ast.Call) and caller.func is attribute and not attribute.attr.endswith("_")


def _is_gradient(node: ast.AST) -> bool:
    return isinstance(node, ast.Attribute) and node.attr == "grad" and isinstance(node.ctx, ast.Load)


def _source(node: ast.expr) -> _Source | None:
    """`p.grad`, `p.grad.detach()` and `p.grad.data` as wholes; None for anything else."""
    inner = node
    while True:
        if isinstance(inner, ast.Call) and not inner.args and isinstance(inner.func, ast.Attribute):
            inner = inner.func
        if not isinstance(inner, ast.Attribute):
            return None
        if inner.attr == "grad":
            return _Source(node, inner)
        if inner.attr not in _SAME_TENSOR:
            return None
        inner = inner.value


def _widest(gradient: ast.Attribute, parents: dict[ast.AST, ast.AST]) -> _Source:
    """The gradient with the `.detach()` and `.data` behind it."""
    node: ast.expr = gradient
    while isinstance(outer := parents.get(node), ast.Attribute) and outer.attr in _SAME_TENSOR:
        call = parents.get(outer)
        node = call if isinstance(call, ast.Call) and call.func is outer else outer
    return _Source(node, gradient)


def _stored(function: FunctionText, source: _Source) -> str:
    return _STORED.format(function.text(source.node), function.text(source.gradient))
