"""What one function does with gradients: reads, reductions, and where statistics of them go.

A small flow analysis on the syntax tree. Every name holds NOTHING, a NORM that somebody computed, GRADIENTS or
STATISTICS of them; assignments, loops, comprehensions and container methods carry the mark on; a reduction of
gradients makes statistics; and a name set under a condition on statistics is one. Nested functions and lambdas
are followed where they are called or handed on.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable

from auditkit.probing.discovery import gradient_names as names
from auditkit.probing.discovery.gradient_facts import (
    GRADIENTS,
    NOTHING,
    STATISTICS,
    GradientFlow,
    HelperMark,
    ReturnFact,
)
from auditkit.probing.discovery.gradient_marks import TRAINING_METHODS, Expressions, arguments_of, written_name
from auditkit.probing.source_code.modules import FunctionNode, dotted_name, is_constant, text_in
from auditkit.probing.source_code.walking import walk

_CONTAINER_METHODS = frozenset(("append", "extend", "add", "update", "insert", "appendleft", "setdefault"))
_FILLS = frozenset((
    "fill_", "logical_or_", "copy_", "add_", "bitwise_or_", "set_", "scatter_add_", "index_add_",
))  # fmt: skip
_COLLECTIVES = frozenset(("gather", "all_gather", "all_gather_into_tensor", "reduce_scatter", "all_gather_object"))


def trace(node: FunctionNode, marked: dict[str, int], helper_mark: HelperMark) -> GradientFlow:
    """Follow gradients through one function; `marked` are the parameters that hold something."""
    tracer = Tracer(helper_mark, dict(marked), {item.arg for item in arguments_of(node)}, node.name)
    tracer.follow(node.body)
    return tracer.flow


def trains(node: ast.AST) -> bool:
    """Whether it runs a part of training itself: a step, a backward pass, not a collector."""
    return any(
        isinstance(item, ast.Call) and isinstance(item.func, ast.Attribute) and item.func.attr in TRAINING_METHODS
        for item in walk([node])
    )


class Tracer(Expressions):
    """The marks of one body's names, and what was seen on the way."""

    def __init__(self, helper_mark: HelperMark, marks: dict[str, int], parameters: set[str], name: str = "") -> None:
        super().__init__(helper_mark, marks, name)
        self.replaces = self.limits_by_name or "hook" in name
        """Whether what comes back takes the place of the gradients."""
        self.borrowed = {"self", *parameters}
        """Names of what lives on after the call: the parameters, what they hold, what loops over them yield."""
        self.goes_back = False
        """Whether something that was followed can run after what stands behind it: loops, functions in the function."""

    def follow(self, body: Iterable[ast.stmt]) -> None:
        """Marks only grow, so this ends; loops that carry a mark backwards need a second or third pass."""
        while True:
            before = dict(self.marks)
            self.block(body, NOTHING)
            if self.marks == before or not self.goes_back:
                return

    # Statements. `control` is STATISTICS inside a condition on statistics.

    def block(self, statements: Iterable[ast.stmt], control: int) -> None:
        for statement in statements:
            self.statement(statement, control)

    def statement(self, node: ast.stmt, control: int) -> None:
        match node:
            case ast.Assign(targets=targets, value=value):
                self.set(targets, value, control)
            case ast.AnnAssign(target=target, value=value) if value is not None:
                self.set([target], value, control)
            case ast.AugAssign(target=target, value=value):
                self.scale(target, [value], "*=" if isinstance(node.op, ast.Mult | ast.Div) else "", node.lineno)
                self.set([target], value, control)
            case ast.For(target=target, iter=source) | ast.AsyncFor(target=target, iter=source):
                self.goes_back = True
                self.loop(target, source)
                self.block(node.body, control)
                self.block(node.orelse, control)
            case ast.If(test=test) | ast.While(test=test):
                self.goes_back |= isinstance(node, ast.While)
                inside = STATISTICS if self.mark(test) == STATISTICS else control
                self.block(node.body, inside)
                self.block(node.orelse, inside)
            case ast.With(items=items) | ast.AsyncWith(items=items):
                for item in items:
                    mark = self.mark(item.context_expr)
                    if item.optional_vars is not None:
                        self.assign([item.optional_vars], mark)
                self.block(node.body, control)
            case ast.Try() | ast.TryStar():
                for part in (node.body, *(handler.body for handler in node.handlers)):
                    self.block(part, control)
                self.block(node.orelse, control)
                self.block(node.finalbody, control)
            case ast.Match(cases=cases):
                for case in cases:
                    self.block(case.body, control)
            case ast.Return(value=value) if value is not None and not is_constant(value, None):
                self.give_back(node, value, control)
            case ast.Raise() if control == STATISTICS:
                self.flow.reports.setdefault("raise", node.lineno)
            case ast.Assert(test=test) if self.mark(test) == STATISTICS:
                self.flow.reports.setdefault("assert", node.lineno)
            case ast.Expr(value=ast.Call() as call):
                mark = self.mark(call)
                self.mutate(call, control)
                if names.logs(call.func) and STATISTICS in (mark, control, *self.given(call)):
                    self.flow.reports.setdefault(written_name(call.func), node.lineno)
            case ast.Expr(value=ast.Yield(value=value) as given) if value is not None:
                self.flow.returns[node.lineno] = ReturnFact(given, value, max(self.mark(value), control))
            case ast.Expr(value=value):
                self.mark(value)
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name):
                self.goes_back = True
                self.nested[name] = node

    def give_back(self, node: ast.Return, value: ast.expr, control: int) -> None:
        made = self.function(value)
        if made is not None and not isinstance(value, ast.Call):
            self.enter(made, [])  # a factory: what it returns does the work
            return
        if self.replaces and self.mark(value) == GRADIENTS and (self.flow.scales or self.limits(value)):
            self.flow.clips.setdefault("what it returns", node.lineno)
        if dotted_name(value).startswith("self."):
            control = NOTHING  # a guard: what was known before comes back
        self.flow.returns[node.lineno] = ReturnFact(node, value, max(self.mark(value), control))

    def set(self, targets: list[ast.expr], value: ast.expr, control: int) -> None:
        """An assignment: what it marks, what it keeps after the call, and whether it replaces gradients."""
        if isinstance(value, ast.Lambda):
            self.nested |= {dotted_name(target): value for target in targets}
            return
        mark = self.mark(value)
        is_flag = control == STATISTICS and not self.is_local(value)
        for target in targets:
            if (mark == STATISTICS or is_flag) and self.outlives(target):
                self.flow.stores.setdefault(ast.unparse(target), target.lineno)
            elif mark in (GRADIENTS, STATISTICS) and isinstance(target, ast.Attribute):
                self.scale(target, [value], "=", target.lineno)
                if isinstance(target.value, ast.Name) and target.value.id not in self.borrowed:
                    self.raise_mark(target.value.id, mark)  # a record that is filled here
        self.note_attribute_name(targets, value)
        self.assign(targets, max(mark, control))
        if isinstance(value, ast.Attribute | ast.Subscript) and self.is_borrowed(value):
            self.borrowed |= {target.id for target in targets if isinstance(target, ast.Name)}

    def outlives(self, target: ast.expr) -> bool:
        """Whether what is set there is seen after the call: `self.norm`, `metrics["norm"]` of a parameter."""
        if isinstance(target, ast.Attribute) and names.holds_gradients(target.attr):
            return False
        base = target.value if isinstance(target, ast.Attribute | ast.Subscript) else None
        while isinstance(base, ast.Attribute | ast.Subscript):
            base = base.value
        return isinstance(base, ast.Name) and base.id in self.borrowed

    def is_local(self, value: ast.expr) -> bool:
        """Whether a value was made from what the function holds, and is no mere flag."""
        return any(isinstance(part, ast.Name) and part.id != "torch" for part in walk([value]))

    def loop(self, target: ast.expr, source: ast.expr) -> None:
        mark = self.mark(source)
        self.assign([target], mark)
        parts = [part for part in walk([target]) if isinstance(part, ast.Name)]
        for part in parts if mark == NOTHING else ():
            self.raise_mark(part.id, GRADIENTS if names.holds_gradients(part.id) else NOTHING)
        if self.is_borrowed(source):
            self.borrowed |= {part.id for part in parts}
        self.note_attribute_name([target], source)

    def is_borrowed(self, value: ast.expr) -> bool:
        """Whether an expression is a part of what lives on: `self.states[key]`, `enumerate(self.layers)`."""
        while isinstance(value, ast.Attribute | ast.Subscript | ast.Call):
            if isinstance(value, ast.Call) and not isinstance(value.func, ast.Attribute):
                value = value.args[0] if value.args else value.func
            else:
                value = value.func if isinstance(value, ast.Call) else value.value
        return isinstance(value, ast.Name) and value.id in self.borrowed

    def note_attribute_name(self, targets: Iterable[ast.expr], value: ast.expr) -> None:
        if not isinstance(value, ast.Constant | ast.IfExp | ast.Tuple | ast.List):
            return
        if any(names.holds_gradients(text_in(part)) for part in walk([value])):
            self.attribute_names |= {target.id for target in targets if isinstance(target, ast.Name)}

    def mutate(self, call: ast.Call, control: int) -> None:
        """`grads.append(p.grad)` makes `grads` hold gradients."""
        if isinstance(call.func, ast.Attribute) and call.func.attr in _CONTAINER_METHODS:
            mark = max([control, *self.given(call)])
            base = call.func.value
            self.keep(base, mark, call.lineno)
        elif isinstance(call.func, ast.Attribute) and call.func.attr in _FILLS:
            if STATISTICS in (control, *self.given(call)):
                self.keep(call.func.value, STATISTICS, call.lineno)
        elif names.last_name(call.func) in _COLLECTIVES:
            mark = max(self.given(call), default=NOTHING)
            self.assign([*call.args, *(item.value for item in call.keywords)], mark)

    def keep(self, holder: ast.expr, mark: int, line: int) -> None:
        """Something is put into a container or a tensor; it may live on."""
        is_gradient = self.mark(holder) == GRADIENTS
        self.raise_mark(dotted_name(holder), mark)
        if mark == STATISTICS and not is_gradient and self.outlives(ast.Attribute(holder, "")):
            self.flow.stores.setdefault(ast.unparse(holder), line)

    def scale(self, target: ast.expr, factors: list[ast.expr], written: str, line: int) -> None:
        """`p.grad.mul_(clip_coef)`, `p.grad = p.grad.clamp(-1, 1)`: gradients that a norm or a bound limits."""
        if isinstance(target, ast.Attribute) and target.attr != "data":
            is_gradient = names.holds_gradients(target.attr)
        else:
            is_gradient = self.mark(target) == GRADIENTS
        if written and is_gradient and any(map(self.limits, factors)):
            self.flow.clips.setdefault(f"{ast.unparse(target)} {written}", line)
