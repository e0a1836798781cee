"""What one function does with gradients: reads, reductions, and whether statistics of them come back.

A small flow analysis on the syntax tree. Every name holds NOTHING, GRADIENTS or STATISTICS of them;
assignments, loops, comprehensions and container methods carry the mark on; a reduction of gradients
makes statistics; and a name set under a condition on statistics is one.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from auditkit.probing.source_code.modules import FunctionNode, dotted_name, is_constant

NOTHING, GRADIENTS, STATISTICS = 0, 1, 2

_REDUCTIONS = frozenset({
    "norm", "vector_norm", "matrix_norm", "get_total_norm", "sum", "nansum", "mean", "nanmean", "std",
    "var", "std_mean", "var_mean", "max", "min", "amax", "amin", "aminmax", "median", "quantile", "isnan",
    "isinf", "isfinite", "any", "all", "count_nonzero", "item", "tolist", "dot", "vdot", "histc",
    "cosine_similarity", "logsumexp", "_foreach_norm", "_foreach_max", "_get_total_norm",
})  # fmt: skip
FINITE_CHECKS = frozenset({"isnan", "isinf", "isfinite", "any", "all", "item", "tolist"})
# These read the gradients of the parameters they are given, and return their norm.
_READ_AND_REDUCE = frozenset(("clip_grad_norm_", "clip_grad_norm"))
# Sizes and places of gradients are not gradients.
_ABOUT = frozenset({
    "device", "dtype", "shape", "is_cuda", "is_sparse", "ndim", "requires_grad", "layout", "numel", "size",
    "dim", "len", "isinstance", "type", "id", "data_ptr", "is_contiguous", "element_size", "stride",
    "hasattr", "get_device", "is_floating_point",
})  # fmt: skip
_CONTAINER_METHODS = frozenset({"append", "extend", "add", "update", "insert", "appendleft", "setdefault"})
_TRAINING_METHODS = frozenset({"backward", "step", "zero_grad"})


@dataclass(frozen=True)
class ReturnFact:
    """One `return` with a value, and what it brings back."""

    node: ast.Return
    value: ast.expr
    mark: int


@dataclass
class GradientFlow:
    """What was seen in one function; lines are those of its file."""

    grad_reads: set[int] = field(default_factory=set)
    reductions: dict[str, int] = field(default_factory=dict)
    """The first line of every reduction of gradients, by its name as written."""
    helpers: dict[str, int] = field(default_factory=dict)
    """The first line of every call that yields gradients' statistics, by the called name as written."""
    reduced: set[ast.Call] = field(default_factory=set)
    """The calls that reduce gradients, and not statistics of them."""
    returns: dict[int, ReturnFact] = field(default_factory=dict)
    trains: bool = False

    @property
    def returns_statistics(self) -> bool:
        return any(fact.mark == STATISTICS for fact in self.returns.values())


HelperMark = Callable[[ast.Call, int], int | None]
"""What a call of a helper of the checkout brings back, given the mark of its arguments; None: no helper."""


def trace(node: FunctionNode, gradient_names: Iterable[str], helper_mark: HelperMark) -> GradientFlow:
    """Follow gradients through one function; `gradient_names` are parameters that hold gradients."""
    tracer = Tracer(helper_mark, dict.fromkeys(gradient_names, GRADIENTS))
    tracer.follow(node.body)
    tracer.flow.trains = trains(node)
    return tracer.flow


def trains(node: ast.AST) -> bool:
    """Whether it runs a part of training itself: a step, a backward pass, not a collector."""
    return any(
        isinstance(item, ast.Call) and isinstance(item.func, ast.Attribute) and item.func.attr in _TRAINING_METHODS
        for item in ast.walk(node)
    )


class Tracer:
    """The marks of one body's names, and what was seen on the way."""

    def __init__(self, helper_mark: HelperMark, marks: dict[str, int]) -> None:
        self.helper_mark = helper_mark
        self.marks = marks
        self.flow = GradientFlow()

    def follow(self, body: Iterable[ast.stmt]) -> None:
        """Marks only grow, so this ends; loops that carry a mark backwards need a second or third pass."""
        while True:
            before = dict(self.marks)
            self.block(body, NOTHING)
            if self.marks == before:
                return

    # Statements. `control` is STATISTICS inside a condition on statistics.

    def block(self, statements: Iterable[ast.stmt], control: int) -> None:
        for statement in statements:
            self.statement(statement, control)

    def statement(self, node: ast.stmt, control: int) -> None:
        match node:
            case ast.Assign(targets=targets, value=value):
                self.assign(targets, max(self.mark(value), control))
            case ast.AnnAssign(target=target, value=value) if value is not None:
                self.assign([target], max(self.mark(value), control))
            case ast.AugAssign(target=target, value=value):
                self.assign([target], max(self.mark(value), control))
            case ast.For(target=target, iter=source) | ast.AsyncFor(target=target, iter=source):
                self.assign([target], self.mark(source))
                self.block(node.body, control)
                self.block(node.orelse, control)
            case ast.If(test=test) | ast.While(test=test):
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
                self.flow.returns[node.lineno] = ReturnFact(node, value, max(self.mark(value), control))
            case ast.Expr(value=ast.Call() as call):
                self.mark(call)
                self.mutate(call, control)
            case ast.Expr(value=value) | ast.Assert(test=value):
                self.mark(value)

    def assign(self, targets: Iterable[ast.expr], mark: int) -> None:
        for target in targets:
            match target:
                case ast.Tuple(elts=parts) | ast.List(elts=parts):
                    self.assign(parts, mark)
                case ast.Starred(value=part) | ast.Subscript(value=part):
                    self.assign([part], mark)
                case _:
                    self.raise_mark(dotted_name(target), mark)

    def raise_mark(self, name: str, mark: int) -> None:
        if name and mark > self.marks.get(name, NOTHING):
            self.marks[name] = mark

    def mutate(self, call: ast.Call, control: int) -> None:
        """`grads.append(p.grad)` makes `grads` hold gradients."""
        if isinstance(call.func, ast.Attribute) and call.func.attr in _CONTAINER_METHODS:
            mark = max([control, *map(self.mark, call.args), *(self.mark(item.value) for item in call.keywords)])
            self.raise_mark(dotted_name(call.func.value), mark)

    # Expressions.

    def mark(self, node: ast.expr) -> int:
        match node:
            case ast.Name(id=name):
                return self.marks.get(name, NOTHING)
            case ast.Attribute():
                return self.attribute(node)
            case ast.Call():
                return self.call(node)
            case ast.Compare(ops=ops) if all(isinstance(op, ast.Is | ast.IsNot) for op in ops):
                return NOTHING  # `p.grad is not None` asks for presence, not for a value
            case ast.ListComp() | ast.SetComp() | ast.GeneratorExp() | ast.DictComp():
                return self.comprehension(node)
            case ast.NamedExpr(target=target, value=value):
                mark = self.mark(value)
                self.assign([target], mark)
                return mark
            case ast.Subscript(value=value):
                return self.mark(value)
            case ast.IfExp(test=test, body=body, orelse=orelse):
                chosen = max(self.mark(body), self.mark(orelse))
                return STATISTICS if self.mark(test) == STATISTICS else chosen
            case ast.Lambda() | ast.Constant():
                return NOTHING
            case _:
                parts = (child for child in ast.iter_child_nodes(node) if isinstance(child, ast.expr))
                return max(map(self.mark, parts), default=NOTHING)

    def attribute(self, node: ast.Attribute) -> int:
        if node.attr == "grad" and isinstance(node.ctx, ast.Load):
            self.flow.grad_reads.add(node.lineno)
            return GRADIENTS
        if node.attr in _ABOUT:
            return NOTHING
        return max(self.marks.get(dotted_name(node), NOTHING), self.mark(node.value))

    def call(self, node: ast.Call) -> int:
        name = node.func.attr if isinstance(node.func, ast.Attribute) else dotted_name(node.func)
        if name in _ABOUT:
            return NOTHING
        if name == "getattr" and any(is_constant(item, "grad") for item in node.args):
            self.flow.grad_reads.add(node.lineno)
            return GRADIENTS
        given = [self.mark(item) for item in node.args] + [self.mark(item.value) for item in node.keywords]
        # torch.autograd.grad(...) computes gradients of its own; it reads none.
        if isinstance(node.func, ast.Attribute) and name != "grad":
            given.append(self.mark(node.func.value))
        mark = max(given, default=NOTHING)
        if name in _READ_AND_REDUCE or (name in _REDUCTIONS and mark and not _combines(node, name, mark)):
            if mark != STATISTICS:
                self.flow.reductions.setdefault(_written(node.func), node.lineno)
                self.flow.reduced.add(node)
            return STATISTICS
        helper = self.helper_mark(node, mark)
        if helper == STATISTICS:
            self.flow.helpers.setdefault(_written(node.func), node.lineno)
        return mark if helper is None else max(helper, mark)

    def comprehension(self, node: ast.ListComp | ast.SetComp | ast.GeneratorExp | ast.DictComp) -> int:
        control = NOTHING
        for part in node.generators:
            self.assign([part.target], self.mark(part.iter))
            for condition in part.ifs:
                if self.mark(condition) == STATISTICS:
                    control = STATISTICS
        items = (node.key, node.value) if isinstance(node, ast.DictComp) else (node.elt,)
        return max(control, *map(self.mark, items))


def _combines(node: ast.Call, name: str, mark: int) -> bool:
    """Whether a reduction only joins gradients into one: `sum(grads)`, `torch.stack(grads).mean(dim=0)`."""
    if mark != GRADIENTS or name not in ("sum", "mean", "nansum", "nanmean", "max", "min", "median"):
        return False
    along_one_axis = any(item.arg in ("dim", "axis") for item in node.keywords)
    first = node.args[0] if node.args else None
    if isinstance(node.func, ast.Name):
        return True
    return along_one_axis or (isinstance(first, ast.Constant) and isinstance(first.value, int))


def _written(node: ast.expr) -> str:
    """A called name as a reader knows it: `torch._foreach_norm`, or `.norm` of an expression."""
    name = dotted_name(node)
    head = name.partition(".")[0]
    if name and (name == head or head in ("torch", "nn", "F", "np", "self")):
        return name
    return f".{node.attr}" if isinstance(node, ast.Attribute) else ast.unparse(node)
