"""Sparse gradients as their stored values, where a gradient is first read."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from auditkit.probing.discovery.blocks.blocks import Block
from auditkit.probing.patching.local_names import names_of
from auditkit.probing.patching.rewrites.edits import Edit, Rewrite, rewrite_of
from auditkit.probing.patching.rewrites.function_text import FunctionText
from auditkit.probing.source_code.modules import dotted_name

_MENDS = frozenset({"fails_on_sparse_grads"})
_HANDLED = frozenset({"is_sparse", "coalesce", "to_dense", "stored_values", "layout"})
_SAME_TENSOR = frozenset({"detach", "data", "clone"})
_READ_OF_ANY = frozenset({"is_sparse", "device", "dtype", "shape", "size", "numel", "requires_grad", "layout", "dim"})
STORED = "{0}.coalesce().values() if {1}.is_sparse else {0}"


@dataclass(frozen=True)
class _Source:
    """A gradient as it is first read: `node` with `.detach()` and the like, `gradient` without."""

    node: ast.expr
    gradient: ast.expr

    @property
    def is_copy(self) -> bool:
        """Whether what is done to it does nothing to the gradient."""
        return "clone" in {node.attr for node in ast.walk(self.node) if isinstance(node, ast.Attribute)}


def stored_values(functions: Sequence[FunctionText]) -> Iterator[Rewrite]:
    edits = sparse_edits(functions)
    yield from rewrite_of("sparse_values", _MENDS, edits, "of a sparse gradient its stored values are read")
    if not edits:
        edits = [edit for function in functions[:1] for edit in _of_parameters(function)]
        told = "of sparse gradients that it is given the stored values are read"
        yield from rewrite_of("given_sparse_values", _MENDS, edits, told)


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
            stored = STORED.format(each, each)
            yield function.line_before(body[has_text], f"{name} = [{stored} for {each} in {name}]")


def sparse_edits(functions: Sequence[FunctionText]) -> list[Edit]:
    """Every first read of a gradient, with the values of a sparse one; none where the code thinks of them already."""
    if any(_mentions(function, _HANDLED) for function in functions):
        return []
    return [edit for function in functions for edit in (*_of_function(function), *_written(function))]


def _mentions(function: FunctionText, words: frozenset[str]) -> bool:
    names = {node.attr if isinstance(node, ast.Attribute) else "" for node in function.nodes}
    return bool(words & (names | names_of(function.suite).loads))


def _written(function: FunctionText) -> Iterator[Edit]:
    """`p.grad.data.mul_(scale)` without `.data`: of a sparse gradient that is a copy, and the gradient stays."""
    for call in _changes_in_place(function):
        source = _source(call.func.value) if isinstance(call.func, ast.Attribute) else None
        if source is not None and not source.is_copy:
            yield from _undetached(function, source)


def _undetached(function: FunctionText, source: _Source) -> Iterator[Edit]:
    if source.node is not source.gradient:
        yield Edit(function.last(source.gradient), function.last(source.node), "")


def _changes_in_place(function: FunctionText) -> list[ast.Call]:
    """`grad.mul_(2)` and `torch._foreach_mul_(grads, 2)`."""
    calls = [node for node in function.nodes if isinstance(node, ast.Call)]
    names = [call.func.attr.lstrip("_") if isinstance(call.func, ast.Attribute) else "" for call in calls]
    return [call for call, name in zip(calls, names, strict=True) if name.endswith("_") and name[:-1]]


def _is_written(function: FunctionText, name: str) -> bool:
    """Whether the tensors of a list are changed: by `torch._foreach_mul_(grads, scale)`, or in a loop over them."""
    turns = {
        each
        for node in function.nodes
        if isinstance(node, ast.For) and name in names_of(node.iter).loads
        for each in names_of(node.target).stores
    }
    for call in _changes_in_place(function):
        changed = call.args[0] if dotted_name(call.func).startswith(f"{function.torch}.") and call.args else call.func
        if names_of(changed).loads & {name, *turns}:
            return True
    return False


def _of_function(function: FunctionText) -> Iterator[Edit]:
    parents = {child: node for node in function.nodes for child in ast.iter_child_nodes(node)}
    taken: set[ast.AST] = set()
    for node in function.nodes:
        if isinstance(node, ast.Assign) and len(node.targets) == 1 and isinstance(node.targets[0], ast.Name):
            edits, gradient = _gathered(function, node, node.targets[0].id, parents)
            if gradient is not None:
                taken.add(gradient)
                yield from edits
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


def _gathered(
    function: FunctionText, statement: ast.Assign, name: str, parents: dict[ast.AST, ast.AST]
) -> tuple[list[Edit], ast.expr | None]:
    """A line behind `grads = [p.grad for ...]` or `grad = p.grad` that takes the stored values, and the gradient.

    Where the list is changed in place its gradients stay what they are, and the values are taken where it is read.
    """
    value = statement.value
    is_list = isinstance(value, ast.ListComp)
    source = _source(value.elt if isinstance(value, ast.ListComp) else value)
    if source is None or not function.has_own_lines(statement):
        return [], None
    if is_list and not source.is_copy and _is_written(function, name):
        return [*_undetached(function, source), *_reads_of_list(function, name, parents)], source.gradient
    each = "grad" if name != "grad" else "g"
    line = f"[{STORED} for {{0}} in {name}]".format(each, each) if is_list else ""
    line = line or STORED.format(name, name)
    return [function.line_after(statement, f"{name} = {line}")], source.gradient


def _reads_of_list(function: FunctionText, name: str, parents: dict[ast.AST, ast.AST]) -> Iterator[Edit]:
    """Norms of a list, of its first, and of each of it, with the stored values."""
    for node in function.nodes:
        match node:
            case ast.ListComp(generators=[source]) | ast.GeneratorExp(generators=[source]):
                if isinstance(source.iter, ast.Name) and source.iter.id == name and isinstance(source.target, ast.Name):
                    yield from _reads_in(function, node.elt, source.target.id, parents)
            case ast.Call(func=called, args=[ast.Name(id=read) as whole, *_]) if read == name:
                if "norm" in dotted_name(called):
                    yield function.replace(whole, f"[{STORED} for {{0}} in {name}]".format("grad", "grad"))
            case ast.Call(func=called, args=[ast.Subscript(value=ast.Name(id=read)) as first, *_]) if read == name:
                if "norm" in dotted_name(called):
                    yield function.replace(first, STORED.format(function.text(first), function.text(first)))


def _reads_in(function: FunctionText, node: ast.expr, name: str, parents: dict[ast.AST, ast.AST]) -> Iterator[Edit]:
    stored = STORED.format(name, name)
    for inner in ast.walk(node):
        if isinstance(inner, ast.Name) and inner.id == name and _is_read(inner, parents):
            yield function.replace(inner, f"({stored})" if isinstance(parents[inner], ast.Attribute) else stored)


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


def without_copy(node: ast.expr) -> ast.expr:
    """`p.grad` of `p.grad.detach()`; anything else as it is."""
    source = _source(node)
    return source.gradient if source is not None else node


def _widest(gradient: ast.Attribute, parents: dict[ast.AST, ast.AST]) -> _Source:
    """The gradient with the `.detach()` and `.data` behind it."""
    node: ast.expr = gradient
    while isinstance(outer := parents.get(node), ast.Attribute) and outer.attr in _SAME_TENSOR:
        call = parents.get(outer)
        node = call if isinstance(call, ast.Call) and call.func is outer else outer
    return _Source(node, gradient)


def _stored(function: FunctionText, source: _Source) -> str:
    return STORED.format(function.text(source.node), function.text(source.gradient))
