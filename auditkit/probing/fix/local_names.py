"""The local names that a statement reads and sets: enough to find out what depends on what in a function."""

from __future__ import annotations

import ast
from collections.abc import Iterable
from dataclasses import dataclass

from auditkit.probing.source.walking import children

_MUTATORS = frozenset({"add", "append", "extend", "insert", "setdefault", "update"})
_SCOPES = frozenset((
    ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda, ast.ClassDef, ast.ListComp, ast.SetComp, ast.DictComp,
    ast.GeneratorExp,
))  # fmt: skip


@dataclass(frozen=True)
class Names:
    """The plain names that a piece of code `loads` and `stores`; those of comprehensions stay inside them."""

    loads: frozenset[str]
    stores: frozenset[str]


def names_of(nodes: ast.AST | Iterable[ast.AST]) -> Names:
    """Return the names that `nodes` read and set, without annotations. `x += 1` and `x.append(1)` do both."""
    loads: set[str] = set()
    stores: set[str] = set()
    waiting = [nodes] if isinstance(nodes, ast.AST) else list(nodes)
    while waiting:
        node = waiting.pop()
        if isinstance(node, ast.Name):
            (loads if type(node.ctx) is ast.Load else stores).add(node.id)
            continue
        match node:
            case ast.AugAssign(target=ast.Name(id=name)):
                loads.add(name)
            case ast.Expr(value=ast.Call(func=ast.Attribute(value=ast.Name(id=name), attr=attr))) if attr in _MUTATORS:
                stores.add(name)
            case ast.Import(names=aliases) | ast.ImportFrom(names=aliases):
                stores |= {alias.asname or alias.name.partition(".")[0] for alias in aliases}
                continue
            case ast.ExceptHandler(name=str(name)):
                stores.add(name)
        if type(node) in _SCOPES:
            waiting += _scope(node, loads, stores)
        elif type(node) is not ast.Constant:
            waiting += children(node, ("annotation", "returns"))
    return Names(frozenset(loads), frozenset(stores))


def _scope(node: ast.AST, loads: set[str], stores: set[str]) -> list[ast.AST]:
    """Add what a function, a class or a comprehension reads of outer names; return the nodes that are left to visit."""
    match node:
        case ast.ClassDef():
            stores.add(node.name)
            outside: list[ast.AST] = []
            inside: list[ast.AST] = [*node.decorator_list, *node.bases, *node.keywords, *node.body]
            bound = names_of(inside).stores
        case ast.FunctionDef() | ast.AsyncFunctionDef():
            stores.add(node.name)
            outside, inside = [*node.decorator_list, node.args], [*node.body]
            bound = names_of(inside).stores | parameters(node.args)
        case ast.Lambda(args=args, body=body):
            outside, inside, bound = [args], [body], parameters(args)
        case _:
            generators: list[ast.comprehension] = node.generators  # type: ignore[attr-defined]
            outside, inside = [], [part for part in children(node) if not isinstance(part, ast.comprehension)]
            inside += [part for each in generators for part in (each.iter, *each.ifs)]
            bound = names_of(each.target for each in generators).stores
            stores |= names_of(inside).stores  # `(n := f(x))` sets a name of the function
    loads |= names_of(inside).loads - bound
    return outside


def parameters(arguments: ast.arguments) -> frozenset[str]:
    """Return the names of all parameters, including `*args` and `**kwargs`."""
    listed = [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs, arguments.vararg, arguments.kwarg]
    return frozenset(item.arg for item in listed if item is not None)
