"""Which local names a statement reads and sets: enough to see what of a function still needs what."""

from __future__ import annotations

import ast
from collections.abc import Iterable
from dataclasses import dataclass

_MUTATORS = frozenset({"add", "append", "extend", "insert", "setdefault", "update"})
_Scope = ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda
_Comprehension = ast.ListComp | ast.SetComp | ast.DictComp | ast.GeneratorExp


@dataclass(frozen=True)
class Names:
    """The plain names that a piece of code `loads` and `stores`; those of comprehensions stay inside them."""

    loads: frozenset[str]
    stores: frozenset[str]


def names_of(nodes: ast.AST | Iterable[ast.AST], annotations: bool = False) -> Names:
    """What `nodes` read and set. `x += 1` and `x.append(1)` do both; annotations count only where asked for."""
    visitor = _Visitor(annotations)
    for node in (nodes,) if isinstance(nodes, ast.AST) else nodes:
        visitor.visit(node)
    return Names(frozenset(visitor.loads), frozenset(visitor.stores))


class _Visitor(ast.NodeVisitor):
    def __init__(self, annotations: bool) -> None:
        self.loads: set[str] = set()
        self.stores: set[str] = set()
        self._annotations = annotations

    def visit_Name(self, node: ast.Name) -> None:
        (self.loads if isinstance(node.ctx, ast.Load) else self.stores).add(node.id)

    def visit_AugAssign(self, node: ast.AugAssign) -> None:
        if isinstance(node.target, ast.Name):
            self.loads.add(node.target.id)
        self.generic_visit(node)

    def visit_AnnAssign(self, node: ast.AnnAssign) -> None:
        for part in (node.target, node.value, node.annotation if self._annotations else None):
            if part is not None:
                self.visit(part)

    def visit_arg(self, node: ast.arg) -> None:
        if self._annotations and node.annotation is not None:
            self.visit(node.annotation)

    def visit_Expr(self, node: ast.Expr) -> None:
        called = node.value.func if isinstance(node.value, ast.Call) else None
        if isinstance(called, ast.Attribute) and called.attr in _MUTATORS and isinstance(called.value, ast.Name):
            self.stores.add(called.value.id)
        self.generic_visit(node)

    def visit_ExceptHandler(self, node: ast.ExceptHandler) -> None:
        if node.name:
            self.stores.add(node.name)
        self.generic_visit(node)

    def visit_Import(self, node: ast.Import | ast.ImportFrom) -> None:
        self.stores |= {alias.asname or alias.name.partition(".")[0] for alias in node.names}

    visit_ImportFrom = visit_Import

    def visit_ClassDef(self, node: ast.ClassDef) -> None:
        self.stores.add(node.name)
        inside = names_of([*node.decorator_list, *node.bases, *node.keywords, *node.body], self._annotations)
        self.loads |= inside.loads - inside.stores

    def visit_FunctionDef(self, node: ast.FunctionDef | ast.AsyncFunctionDef) -> None:
        self.stores.add(node.name)
        for part in (*node.decorator_list, node.returns if self._annotations else None):
            if part is not None:
                self.visit(part)
        self._inner(node, node.body)

    visit_AsyncFunctionDef = visit_FunctionDef

    def visit_Lambda(self, node: ast.Lambda) -> None:
        self._inner(node, [node.body])

    def _inner(self, node: _Scope, body: Iterable[ast.AST]) -> None:
        self.visit(node.args)
        inside = names_of(body, self._annotations)
        self.loads |= inside.loads - inside.stores - parameters(node.args)

    def _comprehension(self, node: _Comprehension) -> None:
        bound = names_of(generator.target for generator in node.generators).stores
        parts = [part for part in ast.iter_child_nodes(node) if not isinstance(part, ast.comprehension)]
        for generator in node.generators:
            parts += [generator.iter, *generator.ifs]
        inside = names_of(parts, self._annotations)
        self.loads |= inside.loads - bound
        self.stores |= inside.stores  # `(n := f(x))` in a comprehension sets a name of the function

    visit_ListComp = visit_SetComp = visit_DictComp = visit_GeneratorExp = _comprehension


def parameters(arguments: ast.arguments) -> frozenset[str]:
    """The names of all parameters, `*args` and `**kwargs` among them."""
    listed = [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs, arguments.vararg, arguments.kwarg]
    return frozenset(item.arg for item in listed if item is not None)


def required_parameters(arguments: ast.arguments) -> frozenset[str]:
    """The names of the parameters without a default."""
    positional = [*arguments.posonlyargs, *arguments.args]
    plain = positional[: len(positional) - len(arguments.defaults)]
    keyword = (item for item, value in zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True) if value is None)
    return frozenset(item.arg for item in (*plain, *keyword))


def leaves(statement: ast.stmt) -> bool:
    """Whether control never runs on behind it: it returns or raises on every way through."""
    if isinstance(statement, ast.Return | ast.Raise):
        return True
    if isinstance(statement, ast.If):
        return bool(statement.orelse) and all(leaves(block[-1]) for block in (statement.body, statement.orelse))
    return isinstance(statement, ast.With | ast.AsyncWith) and leaves(statement.body[-1])


def is_only_assignment(statement: ast.stmt) -> bool:
    """Whether all that it does is to set local names, so that it may go where nobody reads them."""
    nodes = list(ast.walk(statement))
    if any(isinstance(node, ast.Return | ast.Raise | ast.Yield | ast.YieldFrom | ast.Await) for node in nodes):
        return False
    if any(isinstance(node, ast.Attribute | ast.Subscript) and not isinstance(node.ctx, ast.Load) for node in nodes):
        return False
    names = names_of(statement)
    expressions = [node for node in nodes if isinstance(node, ast.Expr)]
    return bool(names.stores) and all(names_of(node).stores for node in expressions)
