"""Which local names a statement reads and sets: enough to see what of a function still needs what."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from auditkit.probing.source.walking import children

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
    reader = _Reader(annotations)
    waiting = [nodes] if isinstance(nodes, ast.AST) else list(nodes)
    while waiting:
        node = waiting.pop()
        kind = type(node)
        if kind is ast.Name:
            assert isinstance(node, ast.Name)
            (reader.loads if type(node.ctx) is ast.Load else reader.stores).add(node.id)
        elif kind in _READ_BY:
            waiting += _READ_BY[kind](reader, node)
        elif kind is not ast.Constant:
            waiting += children(node)
    return Names(frozenset(reader.loads), frozenset(reader.stores))


class _Reader:
    """What was read and set so far; each method takes in one kind of node and returns what is left of it to look at."""

    def __init__(self, annotations: bool) -> None:
        self.loads: set[str] = set()
        self.stores: set[str] = set()
        self._annotations = annotations

    def aug_assign(self, node: ast.AugAssign) -> list[ast.AST]:
        if isinstance(node.target, ast.Name):
            self.loads.add(node.target.id)
        return [node.target, node.value]

    def ann_assign(self, node: ast.AnnAssign) -> list[ast.AST]:
        parts = (node.target, node.value, node.annotation if self._annotations else None)
        return [part for part in parts if part is not None]

    def argument(self, node: ast.arg) -> list[ast.AST]:
        return [node.annotation] if self._annotations and node.annotation is not None else []

    def expression(self, node: ast.Expr) -> list[ast.AST]:
        called = node.value.func if isinstance(node.value, ast.Call) else None
        if isinstance(called, ast.Attribute) and called.attr in _MUTATORS and isinstance(called.value, ast.Name):
            self.stores.add(called.value.id)
        return [node.value]

    def handler(self, node: ast.ExceptHandler) -> list[ast.AST]:
        if node.name:
            self.stores.add(node.name)
        return children(node)

    def imported(self, node: ast.Import | ast.ImportFrom) -> list[ast.AST]:
        self.stores |= {alias.asname or alias.name.partition(".")[0] for alias in node.names}
        return []

    def definition(self, node: ast.ClassDef) -> list[ast.AST]:
        self.stores.add(node.name)
        inside = names_of([*node.decorator_list, *node.bases, *node.keywords, *node.body], self._annotations)
        self.loads |= inside.loads - inside.stores
        return []

    def function(self, node: ast.FunctionDef | ast.AsyncFunctionDef) -> list[ast.AST]:
        self.stores.add(node.name)
        parts = (*node.decorator_list, node.returns if self._annotations else None)
        return [*(part for part in parts if part is not None), *self._inner(node, node.body)]

    def function_of_one_line(self, node: ast.Lambda) -> list[ast.AST]:
        return self._inner(node, [node.body])

    def _inner(self, node: _Scope, body: Iterable[ast.AST]) -> list[ast.AST]:
        inside = names_of(body, self._annotations)
        self.loads |= inside.loads - inside.stores - parameters(node.args)
        return [node.args]

    def comprehension(self, node: _Comprehension) -> list[ast.AST]:
        bound = names_of(generator.target for generator in node.generators).stores
        parts = [part for part in children(node) if not isinstance(part, ast.comprehension)]
        for generator in node.generators:
            parts += [generator.iter, *generator.ifs]
        inside = names_of(parts, self._annotations)
        self.loads |= inside.loads - bound
        self.stores |= inside.stores  # `(n := f(x))` in a comprehension sets a name of the function
        return []


_READ_BY: dict[type, Callable[[_Reader, Any], list[ast.AST]]] = {
    ast.AugAssign: _Reader.aug_assign,
    ast.AnnAssign: _Reader.ann_assign,
    ast.arg: _Reader.argument,
    ast.Expr: _Reader.expression,
    ast.ExceptHandler: _Reader.handler,
    ast.Import: _Reader.imported,
    ast.ImportFrom: _Reader.imported,
    ast.ClassDef: _Reader.definition,
    ast.FunctionDef: _Reader.function,
    ast.AsyncFunctionDef: _Reader.function,
    ast.Lambda: _Reader.function_of_one_line,
    **dict.fromkeys((ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp), _Reader.comprehension),
}


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
