"""What one function does with gradients: reads, reductions, and where statistics of them go.

A flow analysis on the syntax tree. Every name is marked NOTHING, NORM (computed by other code), GRADIENTS or
STATISTICS. Assignments, loops, comprehensions and container methods propagate the mark; a reduction of gradients makes
statistics; so does an assignment under a condition on statistics. Inner functions and lambdas are followed where they
are called or passed on.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

from auditkit.probing.find import gradient_names as names
from auditkit.probing.find import vocabulary
from auditkit.probing.source.modules import FunctionNode, dotted_name, is_constant, last_name
from auditkit.probing.source.walking import children, walk

Inner = FunctionNode | ast.Lambda
_CHANGES_ALL = frozenset(f"_foreach_{name}" for name in vocabulary.CHANGES)

NOTHING, NORM, GRADIENTS, STATISTICS = 0, 1, 2, 3
"""Marks of values; the larger one wins. A NORM is one that other code computed."""


@dataclass
class GradientFlow:
    """What a function does with gradients; each line is the first of its kind."""

    grad_reads: set[int] = field(default_factory=set)
    reductions: dict[str, int] = field(default_factory=dict)
    """Every reduction of gradients, by its name as written."""
    flags: dict[str, bool] = field(default_factory=dict)
    """Whether each reduction and helper returns flags or counts of NaN, infinity and zeros."""
    clips: dict[str, int] = field(default_factory=dict)
    """What limits gradients in place, or through a library's function."""
    reports: dict[str, int] = field(default_factory=dict)
    """Statistics that are printed, logged, or lead to an exception."""
    stores: dict[str, int] = field(default_factory=dict)
    """Where statistics stay after the call: attributes, and mappings that are arguments."""
    reduced: set[ast.Call] = field(default_factory=set)
    """The calls that reduce gradients themselves, not statistics of them."""
    limited: set[ast.AST] = field(default_factory=set)
    """The calls and assigned expressions that limit gradients themselves."""
    returns: dict[int, int] = field(default_factory=dict)
    """The mark of each `return` with a value, by its line."""
    trains: bool = False
    differentiates: bool = False
    scales: bool = False
    """Whether gradients are multiplied by statistics or by a norm."""

    @property
    def tells_flags(self) -> bool:
        """Whether every statistic is a flag or a count, not a norm."""
        return bool(self.flags) and all(self.flags.values())

    def reduce(self, written: str, line: int) -> None:
        """Note a reduction of gradients."""
        self.reductions.setdefault(written, line)
        self.flags[written] = names.is_finite_check(written.rpartition(".")[2])

    @property
    def returns_statistics(self) -> bool:
        return self.brings(STATISTICS)

    def brings(self, mark: int) -> bool:
        """Return whether a returned value has this mark."""
        return mark in self.returns.values()

    @property
    def tells(self) -> bool:
        """Whether the function returns, reports or stores statistics of gradients, or limits them."""
        return self.returns_statistics or bool(self.clips or self.reports or self.stores)


HelperMark = Callable[[ast.Call, list[int]], "HelperAnswer | None"]
"""Returns what a call of a checkout's helper does, given its arguments' marks; None if it is not a helper."""


@dataclass(frozen=True)
class HelperAnswer:
    """What a call of a checkout's function returns, and its side effects."""

    mark: int
    clips: bool = False
    tells_flags: bool = False
    differentiates: bool = False
    """Whether it computes the gradients that it returns."""


def trace(node: FunctionNode, marked: dict[str, int], helper_mark: HelperMark) -> GradientFlow:
    """Follow gradients through one function; `marked` are the marks of its parameters."""
    tracer = Tracer(helper_mark, dict(marked), {item.arg for item in arguments_of(node)}, node.name)
    tracer.follow(node.body)
    return tracer.flow


def trains(node: ast.AST) -> bool:
    """Return whether a node itself runs a part of training: a step, a backward pass."""
    return any(
        isinstance(item, ast.Call)
        and isinstance(item.func, ast.Attribute)
        and item.func.attr in vocabulary.TRAINING_METHODS
        for item in walk([node])
    )


class Tracer:
    """Follows the marks of one body's names; `flow` collects what it sees."""

    def __init__(self, helper_mark: HelperMark, marks: dict[str, int], parameters: set[str], name: str = "") -> None:
        self.helper_mark = helper_mark
        self.marks = marks
        self.limits_by_name = names.is_named_for_clipping(name)
        self.is_about_norms = names.is_about_norms(name)
        self.flow = GradientFlow()
        self.nested: dict[str, Inner] = {}
        self.entered: list[Inner] = []
        self.replaces = self.limits_by_name or "hook" in name
        """Whether the result replaces the gradients."""
        self.borrowed = {"self", *parameters}
        """Names of objects that outlive the call: parameters, their parts, items of loops over them."""
        self.goes_back = False
        """Whether a later statement can run before an earlier one: loops, inner functions."""

    def follow(self, body: Iterable[ast.stmt]) -> None:
        """Repeat until no mark grows; loops that carry a mark backwards need a second or third pass."""
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
            case ast.Expr(value=ast.Yield(value=value)) if value is not None:
                self.flow.returns[node.lineno] = max(self.mark(value), control)
            case ast.Expr(value=value):
                self.mark(value)
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name):
                self.goes_back = True
                self.nested[name] = node

    def give_back(self, node: ast.Return, value: ast.expr, control: int) -> None:
        made = self.function(value)
        if made is not None and not isinstance(value, ast.Call):
            self.enter(made, [])  # A factory: the function that it returns does the work.
            return
        if self.replaces and self.mark(value) == GRADIENTS and (self.flow.scales or self.limits(value)):
            self.flow.clips.setdefault("what it returns", node.lineno)
        if dotted_name(value).startswith("self."):
            control = NOTHING  # A guard returns a value that was known before.
        self.flow.returns[node.lineno] = max(self.mark(value), control)

    def set(self, targets: list[ast.expr], value: ast.expr, control: int) -> None:
        """Handle an assignment: propagate the mark, note stores and replaced gradients."""
        if isinstance(value, ast.Lambda):
            self.nested |= {dotted_name(target): value for target in targets}
            return
        mark = self.mark(value)
        # A value computed from local values is more than a flag.
        names_in = (part.id for part in walk([value]) if isinstance(part, ast.Name))
        is_flag = control == STATISTICS and all(name == "torch" for name in names_in)
        for target in targets:
            if (mark == STATISTICS or is_flag) and self.outlives(target):
                self.flow.stores.setdefault(ast.unparse(target), target.lineno)
            elif mark in (GRADIENTS, STATISTICS) and isinstance(target, ast.Attribute):
                is_shift = isinstance(value, ast.BinOp) and isinstance(value.op, ast.Add | ast.Sub)
                self.scale(target, [value], "" if is_shift else "=", target.lineno)
                if isinstance(target.value, ast.Name) and target.value.id not in self.borrowed:
                    self.raise_mark(target.value.id, mark)  # a record that is filled here
        self.assign(targets, max(mark, control))
        if isinstance(value, ast.Attribute | ast.Subscript) and self.is_borrowed(value):
            self.borrowed |= {target.id for target in targets if isinstance(target, ast.Name)}

    def outlives(self, target: ast.expr) -> bool:
        """Return whether a target outlives the call: `self.norm`, `metrics["norm"]` of a parameter."""
        if isinstance(target, ast.Attribute) and names.holds_gradients(target.attr):
            return False
        base = target.value if isinstance(target, ast.Attribute | ast.Subscript) else None
        while isinstance(base, ast.Attribute | ast.Subscript):
            base = base.value
        return isinstance(base, ast.Name) and base.id in self.borrowed

    def loop(self, target: ast.expr, source: ast.expr) -> None:
        mark = self.mark(source)
        self.assign([target], mark)
        parts = [part for part in walk([target]) if isinstance(part, ast.Name)]
        for part in parts if mark == NOTHING else ():
            self.raise_mark(part.id, GRADIENTS if names.holds_gradients(part.id) else NOTHING)
        if self.is_borrowed(source):
            self.borrowed |= {part.id for part in parts}

    def is_borrowed(self, value: ast.expr) -> bool:
        """Return whether an expression is part of an object that outlives the call: `self.states[key]`."""
        while isinstance(value, ast.Attribute | ast.Subscript | ast.Call):
            if isinstance(value, ast.Call) and not isinstance(value.func, ast.Attribute):
                value = value.args[0] if value.args else value.func
            else:
                value = value.func if isinstance(value, ast.Call) else value.value
        return isinstance(value, ast.Name) and value.id in self.borrowed

    def mutate(self, call: ast.Call, control: int) -> None:
        """Propagate a mark into a container or tensor: `grads.append(p.grad)` makes `grads` hold gradients."""
        if isinstance(call.func, ast.Attribute) and call.func.attr in vocabulary.CONTAINER_METHODS:
            mark = max([control, *self.given(call)])
            base = call.func.value
            self.keep(base, mark, call.lineno)
        elif isinstance(call.func, ast.Attribute) and call.func.attr in vocabulary.FILLS:
            if STATISTICS in (control, *self.given(call)):
                self.keep(call.func.value, STATISTICS, call.lineno)
        elif last_name(call.func) in vocabulary.COLLECTIVES:
            mark = max(self.given(call), default=NOTHING)
            self.assign([*call.args, *(item.value for item in call.keywords)], mark)

    def keep(self, holder: ast.expr, mark: int, line: int) -> None:
        """Mark a container or a tensor that gets a value, and note it if it outlives the call."""
        is_gradient = self.mark(holder) == GRADIENTS
        self.raise_mark(dotted_name(holder), mark)
        if mark == STATISTICS and not is_gradient and self.outlives(ast.Attribute(holder, "")):
            self.flow.stores.setdefault(ast.unparse(holder), line)

    def scale(self, target: ast.expr, factors: list[ast.expr], written: str, line: int) -> None:
        """Note a limit on gradients: `p.grad.mul_(clip_coef)`, `p.grad = p.grad.clamp(-1, 1)`."""
        if isinstance(target, ast.Attribute) and target.attr != "data":
            is_gradient = names.holds_gradients(target.attr)
        else:
            is_gradient = self.mark(target) == GRADIENTS
        if written and is_gradient and any(map(self.limits, factors)):
            self.flow.clips.setdefault(f"{ast.unparse(target)} {written}", line)
            self.flow.limited.add(target)

    # Expressions.

    def assign(self, targets: Iterable[ast.expr], mark: int) -> None:
        for target in targets:
            match target:
                case ast.Tuple(elts=parts) | ast.List(elts=parts):
                    self.assign(parts, mark)
                case ast.Starred(value=part) | ast.Subscript(value=part) | ast.Call(func=ast.Attribute(value=part)):
                    self.assign([part], mark)
                case _:
                    self.raise_mark(dotted_name(target), mark)

    def raise_mark(self, name: str, mark: int) -> None:
        if name and mark > self.marks.get(name, NOTHING):
            self.marks[name] = mark

    def mark(self, node: ast.expr) -> int:
        match node:
            case ast.Name(id=name):
                return self.marks.get(name, NOTHING)
            case ast.Constant() | ast.Lambda():
                return NOTHING
            case ast.Attribute():
                return self.attribute(node)
            case ast.Call():
                return self.call(node)
            case ast.Compare(comparators=[ast.Constant(value=None)], ops=[ast.Is() | ast.IsNot()]):
                return NOTHING  # `p.grad is not None` tests presence, not a value
            case ast.Compare(ops=ops, comparators=others) if all(isinstance(op, ast.In | ast.NotIn) for op in ops):
                return max(map(self.mark, others))
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
            case ast.BinOp(left=left, op=ast.Mult() | ast.Div(), right=right):
                marks = {self.mark(left), self.mark(right)}
                if GRADIENTS in marks and marks & {STATISTICS, NORM}:
                    self.flow.scales = True
                    return GRADIENTS  # `grad * clip_coef` is a gradient
                return max(marks)
            case _:
                return max((self.mark(part) for part in children(node) if isinstance(part, ast.expr)), default=NOTHING)

    def attribute(self, node: ast.Attribute) -> int:
        if names.holds_gradients(node.attr) and isinstance(node.ctx, ast.Load):
            self.flow.grad_reads.add(node.lineno)
            return GRADIENTS
        if node.attr in vocabulary.ABOUT:
            return NOTHING
        if names.holds_norms_of_gradients(node.attr) and isinstance(node.ctx, ast.Load):
            self.flow.reduce(f".{node.attr}", node.lineno)
            return STATISTICS
        known = max(self.marks.get(dotted_name(node), NOTHING), self.mark(node.value))
        return max(known, NORM) if names.holds_norm(node.attr) else known

    def given(self, node: ast.Call) -> list[int]:
        return [*map(self.mark, node.args), *(self.mark(item.value) for item in node.keywords)]

    def call(self, node: ast.Call) -> int:
        name = last_name(node.func)
        if name in vocabulary.ABOUT:
            return NOTHING
        if name == "getattr" and len(node.args) > 1 and "grad" in ast.unparse(node.args[1]).lower():
            self.flow.grad_reads.add(node.lineno)
            return GRADIENTS
        if name == "grad":
            # torch.autograd.grad(...) computes new gradients.
            self.flow.differentiates = True
            return NOTHING
        base = self.mark(node.func.value) if isinstance(node.func, ast.Attribute) else NOTHING
        self.flow.trains |= name in vocabulary.TRAINING_METHODS and isinstance(node.func, ast.Attribute)
        given = self.given(node)
        if isinstance(node.func, ast.Name) and (inner := self.nested.get(name)) is not None:
            return self.enter(inner, given)
        mark = max([base, *given])
        helper = self.helper_mark(node, given)
        found = self.of_helper(node, helper, mark) if helper is not None else self.of_library(node, name, mark, given)
        return max(found, self.by_functions(node, name, max(mark, found)))

    def by_functions(self, node: ast.Call, name: str, mark: int) -> int:
        """Follow functions that are arguments: `map(lambda g: g.norm(), grads)`, hooks."""
        is_hook = name.startswith("register") and "hook" in name
        found = NOTHING
        for item in node.args:
            inner = self.function(item)
            if inner is not None:
                found = max(found, self.enter(inner, [GRADIENTS if is_hook else mark] * len(arguments_of(inner))))
                if is_hook and isinstance(inner, ast.Lambda) and self.limits(inner.body):
                    self.flow.clips.setdefault(name, node.lineno)
        return found if found == STATISTICS else NOTHING

    def of_library(self, node: ast.Call, name: str, mark: int, given: list[int]) -> int:
        """Handle a call of a function that is not the checkout's, or that cannot be resolved."""
        written = written_name(node.func)
        if names.clips(name):
            self.flow.clips.setdefault(written, node.lineno)
            return STATISTICS if "norm" in name or "func" in name else mark
        if name in vocabulary.CLAMPS or name in vocabulary.SCALES:
            self.change(node, name)
        if "multi_tensor" in name:
            return self.fused(node, name, given)
        if name in vocabulary.WITHOUT_RESULT:
            self.flow.reduce(written, node.lineno)
            self.flow.stores.setdefault(f"an argument of {name}", node.lineno)
            self.assign([item for item in node.args if self.mark(item) != GRADIENTS], STATISTICS)
            return STATISTICS
        if mark in (GRADIENTS, STATISTICS) and self.reduces(node, name) and not _combines(node, name, mark):
            if mark == GRADIENTS:
                self.flow.reduce(written, node.lineno)
                self.flow.reduced.add(node)
            return STATISTICS
        if names.gets_gradients(name):
            self.flow.grad_reads.add(node.lineno)
            return max(mark, GRADIENTS)
        if names.gets_norm(name) and isinstance(node.func, ast.Attribute):
            return STATISTICS
        return mark

    def reduces(self, node: ast.Call, name: str) -> bool:
        # `self.k_norm(x)` is a layer.
        is_layer = (
            name.endswith("norm")
            and dotted_name(node.func).count(".") == 1
            and written_name(node.func).startswith("self.")
        )
        return not is_layer and (names.reduces(name) or (self.is_about_norms and name in vocabulary.POWERS))

    def of_helper(self, node: ast.Call, helper: HelperAnswer, mark: int) -> int:
        """Handle a call of the checkout's own function."""
        written = written_name(node.func)
        if helper.clips and (self.limits_by_name or names.speaks_of_gradients(last_name(node.func))):
            self.flow.clips.setdefault(written, node.lineno)
        if helper.mark == STATISTICS:
            self.flow.flags[written] = helper.tells_flags or names.is_finite_check(last_name(node.func))
        self.flow.differentiates |= helper.differentiates
        return max(helper.mark, mark)

    def fused(self, node: ast.Call, name: str, given: list[int]) -> int:
        """Handle a kernel over many tensors:

        `multi_tensor_applier(amp_C.multi_tensor_l2norm, flag, [grads], False)`.
        """
        kernel = dotted_name(node.args[0]) if name == "multi_tensor_applier" and node.args else name
        if "norm" in kernel and GRADIENTS in given:
            self.flow.reduce(written_name(node.func), node.lineno)
            self.flow.reduced.add(node)
            return STATISTICS
        if "scale" in kernel and GRADIENTS in given and {STATISTICS, NORM} & set(given):
            self.flow.clips.setdefault(written_name(node.func), node.lineno)
        return NOTHING

    def change(self, node: ast.Call, name: str) -> None:
        """Handle a method that changes gradients in place: clamps them, or multiplies them by a norm."""
        is_method = isinstance(node.func, ast.Attribute) and not name.startswith("_foreach")
        operands = [node.func.value, *node.args] if is_method and isinstance(node.func, ast.Attribute) else node.args
        if not operands or self.mark(operands[0]) != GRADIENTS:
            return
        factors = [*operands[1:], *(item.value for item in node.keywords)]
        if name in vocabulary.CLAMPS or any(map(self.limits, factors)):
            self.flow.clips.setdefault(written_name(node.func), node.lineno)
            self.flow.limited.add(node)

    # Functions as values.

    def function(self, node: ast.expr) -> Inner | None:
        """Return the function that an expression is: a lambda, an inner function, or a `partial` of one."""
        if isinstance(node, ast.Call) and last_name(node.func) in ("partial", "jit", "wraps") and node.args:
            node = node.args[0]
        if isinstance(node, ast.Lambda):
            return node
        return self.nested.get(node.id) if isinstance(node, ast.Name) else None

    def enter(self, made: Inner, given: list[int]) -> int:
        """Follow an inner function called with arguments of these marks, and return its result's mark."""
        if made in self.entered:
            return NOTHING
        self.entered.append(made)
        for place, item in enumerate(arguments_of(made)):
            by_name = GRADIENTS if names.holds_gradients(item.arg) else NOTHING
            self.raise_mark(item.arg, max(by_name, given[place] if place < len(given) else NOTHING))
        if isinstance(made, ast.Lambda):
            found = self.mark(made.body)
        else:
            outer, self.flow.returns = self.flow.returns, {}
            self.block(made.body, NOTHING)
            found = max(self.flow.returns.values(), default=NOTHING)
            self.flow.returns = outer
        self.entered.pop()
        return found

    def comprehension(self, node: ast.ListComp | ast.SetComp | ast.GeneratorExp | ast.DictComp) -> int:
        control = NOTHING
        for part in node.generators:
            self.loop(part.target, part.iter)
            for condition in part.ifs:
                if self.mark(condition) == STATISTICS:
                    control = STATISTICS
        items = (node.key, node.value) if isinstance(node, ast.DictComp) else (node.elt,)
        return max(control, *map(self.mark, items))

    def limits(self, factor: ast.expr) -> bool:
        """Return whether an expression contains statistics, a norm or a clamp."""
        for part in walk([factor]):
            if isinstance(part, ast.Name | ast.Attribute) and self.mark(part) in (STATISTICS, NORM):
                return True
            if isinstance(part, ast.Call):
                name = last_name(part.func)
                operands = [part.func.value, *part.args] if isinstance(part.func, ast.Attribute) else part.args
                if name in vocabulary.BOUNDS and GRADIENTS in map(self.mark, operands):
                    return True
        return False


def arguments_of(node: Inner) -> list[ast.arg]:
    """Return the parameters of a function, without `*args` and `**kwargs`."""
    return [*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs]


def _combines(node: ast.Call, name: str, mark: int) -> bool:
    """Return whether a reduction only joins gradients: `sum(grads)`, `torch.stack(grads).mean(dim=0)`."""
    if mark != GRADIENTS or name not in ("sum", "mean", "nansum", "nanmean", "max", "min", "median", "any", "all"):
        return False
    if isinstance(node.func, ast.Name):
        return True
    if "sum" in name and any(map(_is_squared, (*node.args, getattr(node.func, "value", None)))):
        return False  # the squared norm of each row
    along_one_axis = any(item.arg in ("dim", "axis") for item in node.keywords)
    first = node.args[0] if node.args else None
    return along_one_axis or (isinstance(first, ast.Constant) and isinstance(first.value, int))


def _is_squared(value: ast.expr | None) -> bool:
    """Return whether a value is `x**2`, `x.pow(2)` or `torch.square(x)`."""
    if isinstance(value, ast.BinOp):
        return isinstance(value.op, ast.Pow)
    return isinstance(value, ast.Call) and last_name(value.func) in ("pow", "square")


def written_name(node: ast.expr) -> str:
    """Return a called name for a reader: `torch._foreach_norm`, or `.norm` of an expression."""
    name = dotted_name(node)
    head = name.partition(".")[0]
    if name and (name == head or head in ("torch", "nn", "F", "np", "self")):
        return name
    return f".{node.attr}" if isinstance(node, ast.Attribute) else ast.unparse(node)


def updates_parameters(nodes: Sequence[ast.AST]) -> bool:
    """Return whether statements change parameters in place, as an optimizer does.

    A parameter is an object whose `.grad` they read, or that is named for one: `p`, `params[i]`, `weight.data`.
    """
    holders = {dotted_name(node.value) for node in nodes if isinstance(node, ast.Attribute) and node.attr == "grad"}
    holders.discard("")

    def is_parameter(node: ast.expr) -> bool:
        while isinstance(node, ast.Subscript | ast.Call) or (isinstance(node, ast.Attribute) and node.attr == "data"):
            if not isinstance(node, ast.Call):
                node = node.value
            elif isinstance(node.func, ast.Attribute) and node.func.attr.endswith("_"):
                node = node.func.value  # `p.mul_(decay).add_(update)`
            else:
                return False
        return dotted_name(node) in holders or vocabulary.PARAMETER.fullmatch(last_name(node)) is not None

    def is_gradient(node: ast.AST) -> bool:
        return isinstance(node, ast.expr) and names.holds_gradients(last_name(node))

    for node in nodes:
        match node:
            case ast.Call(func=ast.Attribute(value=value, attr=name), args=args) if name in vocabulary.CHANGES:
                # `exp_avg.mul_(beta).add_(grad, alpha=1 - beta)` adds gradients to another tensor.
                adds = any(map(is_gradient, args)) and not any(map(is_gradient, ast.walk(value)))
                if is_parameter(value) or adds:
                    return True
            case ast.Call(func=ast.Attribute(attr=name), args=[first, *_]) if name in _CHANGES_ALL:
                if is_parameter(first):
                    return True
            case ast.AugAssign(target=target) if dotted_name(target).removesuffix(".data") in holders:
                return True
            case ast.Assign(targets=targets):
                data = (each for each in targets if isinstance(each, ast.Attribute) and each.attr == "data")
                if any(map(is_parameter, data)):
                    return True
    return False
