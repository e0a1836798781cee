"""Inputs that a function takes for granted: a list that can be gone through twice, gradients that are there."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence

from auditkit.probing.discovery.blocks.blocks import Block
from auditkit.probing.patching.rewrites.edits import Edit, Rewrite
from auditkit.probing.patching.rewrites.function_text import FunctionText


def listed_first(functions: Sequence[FunctionText]) -> Iterator[Rewrite]:
    """A parameter that is gone through twice, of which a generator has nothing left the second time."""
    edits = [edit for function in functions for edit in _listed(function)]
    if edits:
        change = f"line {edits[0].first[0]}: a generator is made a list before it is gone through twice"
        yield Rewrite("listed_first", frozenset({"fails_on_generator_input"}), change, tuple(edits))


def _listed(function: FunctionText) -> Iterator[Edit]:
    if isinstance(function.function, Block):
        return
    body = function.function.node.body
    has_text = ast.get_docstring(function.function.node, clean=False) is not None and len(body) > 1
    first = body[1 if has_text else 0]
    for parameter in function.function.parameters:
        name = parameter.arg
        if len(_turns(function, name)) > 1 and not _is_set(function, name) and function.has_own_lines(first):
            yield function.line_before(first, f"{name} = list({name})")


def _turns(function: FunctionText, name: str) -> list[ast.expr]:
    """Where a name is gone through."""
    iterated = [node.iter for node in function.nodes if isinstance(node, ast.For | ast.comprehension)]
    calls = [node for node in function.nodes if isinstance(node, ast.Call) and isinstance(node.func, ast.Name)]
    handed = [part for call in calls if ast.unparse(call.func) in ("list", "tuple", "sum") for part in call.args]
    return [node for node in (*iterated, *handed) if isinstance(node, ast.Name) and node.id == name]


def _is_set(function: FunctionText, name: str) -> bool:
    names = [node for node in function.nodes if isinstance(node, ast.Name) and node.id == name]
    return any(isinstance(node.ctx, ast.Store) for node in names)


def present_gradients(functions: Sequence[FunctionText]) -> Iterator[Rewrite]:
    """`[p.grad for p in parameters]` with the question whether there is one."""
    edits = []
    for function in functions:
        for node in function.nodes:
            match node:
                case ast.ListComp(generators=[ast.comprehension(target=ast.Name(id=name), ifs=[]) as source]):
                    inside = [
                        one for one in ast.walk(node.elt) if isinstance(one, ast.Attribute) and one.attr == "grad"
                    ]
                    if any(isinstance(one.value, ast.Name) and one.value.id == name for one in inside):
                        edits.append(function.insert_after(source.iter, f" if {name}.grad is not None"))
    if edits:
        change = f"line {edits[0].first[0]}: parameters without a gradient are left out"
        yield Rewrite("present_gradients", frozenset({"fails_on_missing_grads"}), change, tuple(edits))
