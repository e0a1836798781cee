"""Follow the statements of one function: what its names hold, and what is read back in its loops."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterable
from typing import Any

from auditkit.probing.source_code.modules import Function, FunctionNode, dotted_name
from auditkit.probing.source_probes.tensor_flow.calls import kind_of_call
from auditkit.probing.source_probes.tensor_flow.expressions import Expressions, names_in
from auditkit.probing.source_probes.tensor_flow.kinds import (
    NONE,
    Kind,
    element,
    holds_tensors,
    items,
    join,
    of_parameter,
    result_of,
    shape,
)
from auditkit.probing.source_probes.tensor_flow.narrowing import element_in
from auditkit.probing.source_probes.tensor_flow.reads import Helpers, Loop


class ValueFlow(Expressions):
    """Follows a function's body once, in the order in which it runs; the body of a loop twice."""

    def __init__(
        self, helpers: Helpers, function: Function, known: dict[str, Kind], depth: int, as_helper: bool
    ) -> None:
        super().__init__(helpers, function, known, depth)
        self.returned: Kind = NONE
        if as_helper:
            self.loops.append(Loop(0, None, True))
        self.outer_loops = len(self.loops)

    def call(self, node: ast.Call) -> Kind:
        return kind_of_call(self, node)

    def block(self, statements: Iterable[ast.stmt]) -> bool:
        """Follow statements; whether the end of the block is never reached."""
        listed = list(statements)
        last = listed[-1] if listed else None
        kept = self.loops
        # What stands in a block that leaves the loop runs once, however long the loop is.
        if isinstance(last, ast.Return):
            self.loops = kept[: self.outer_loops]
        elif isinstance(last, ast.Raise):
            self.loops = []
        elif isinstance(last, ast.Break):
            self.loops = kept[: max(len(kept) - 1, self.outer_loops)]
        for statement in listed:
            self.statement(statement)
        self.loops = kept
        return isinstance(last, ast.Return | ast.Raise | ast.Break | ast.Continue)

    def statement(self, node: ast.stmt) -> None:
        follow = _FOLLOWERS.get(type(node))
        if follow is not None:
            follow(self, node)

    def follow_assignment(self, node: ast.Assign) -> None:
        kind = self.kind(node.value)
        for target in node.targets:
            self.assign(target, kind)

    def follow_annotated(self, node: ast.AnnAssign) -> None:
        if node.value is not None:
            self.assign(node.target, self.kind(node.value))

    def follow_while(self, node: ast.While) -> None:
        self.test(node.test, "while")
        self.block(node.body)
        self.block(node.orelse)

    def follow_with(self, node: ast.With | ast.AsyncWith) -> None:
        for manager in node.items:
            kind = self.kind(manager.context_expr)
            if manager.optional_vars is not None:
                self.assign(manager.optional_vars, kind)
        self.block(node.body)

    def follow_try(self, node: ast.Try | ast.TryStar) -> None:
        for part in (node.body, *(handler.body for handler in node.handlers), node.orelse, node.finalbody):
            self.block(part)

    def follow_match(self, node: ast.Match) -> None:
        self.kind(node.subject)
        for case in node.cases:
            self.block(case.body)

    def follow_return(self, node: ast.Return) -> None:
        if node.value is not None:
            self.returned = join(self.returned, self.kind(node.value))

    def add_to(self, target: ast.expr, kind: Kind) -> None:
        """`total += norm` and `grads += [grad]`."""
        before: Kind = self.known.get(dotted_name(target))
        if shape(before) == "items":
            self.assign(target, items(join(before[1], element(kind))))
        else:
            self.assign(target, None if before is None else result_of([before, kind]))

    def follow_loop(self, node: ast.For | ast.AsyncFor) -> None:
        """Twice: what a turn leaves behind is what the next one finds."""
        source = self.kind(node.iter)
        given = element_in(node.target, source, node)
        over = holds_tensors(source) or holds_tensors(given) or self.counts_tensors(node.iter)
        self.loops.append(Loop(node.lineno, node.iter, over, names_in(node.target)))
        for _ in range(2):
            self.assign(node.target, given)
            self.block(node.body)
        self.loops.pop()
        self.block(node.orelse)

    def counts_tensors(self, source: ast.expr) -> bool:
        """`range(len(grads))` is a loop over tensors."""
        match source:
            case ast.Call(func=ast.Name(id="range"), args=[*_, ast.Call(func=ast.Name(id="len"), args=[counted])]):
                return holds_tensors(self.kind(counted))
        return False

    def follow_branches(self, node: ast.If) -> None:
        self.test(node.test, "if")
        when_true, when_false = self.narrowed(node.test)
        before = dict(self.known)
        self.known.update(when_true)
        body_ends = self.block(node.body)
        after_body = self.known
        self.known = {**before, **when_false}
        orelse_ends = self.block(node.orelse)
        if body_ends or orelse_ends:
            self.known = self.known if body_ends else after_body
            return
        names = after_body.keys() | self.known.keys()
        self.known = {name: join(after_body.get(name, NONE), self.known.get(name, NONE)) for name in names}

    def follow_inner(self, node: FunctionNode) -> None:
        """A function inside this one sees its names; nobody knows where it is called."""
        known, loops, returned = self.known, self.loops, self.returned
        self.known = dict(known)
        for item in [*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs]:
            self.known[item.arg] = of_parameter(item.arg, item.annotation)
        self.loops, outer = [], self.outer_loops
        self.outer_loops = 0
        self.block(node.body)
        self.known, self.loops, self.returned, self.outer_loops = known, loops, returned, outer


_FOLLOWERS: dict[type[ast.stmt], Callable[[ValueFlow, Any], object]] = {
    ast.Assign: ValueFlow.follow_assignment,
    ast.AnnAssign: ValueFlow.follow_annotated,
    ast.AugAssign: lambda flow, node: flow.add_to(node.target, flow.kind(node.value)),
    **dict.fromkeys((ast.For, ast.AsyncFor), ValueFlow.follow_loop),
    ast.While: ValueFlow.follow_while,
    ast.If: ValueFlow.follow_branches,
    **dict.fromkeys((ast.With, ast.AsyncWith), ValueFlow.follow_with),
    **dict.fromkeys((ast.Try, ast.TryStar), ValueFlow.follow_try),
    ast.Match: ValueFlow.follow_match,
    ast.Return: ValueFlow.follow_return,
    ast.Assert: lambda flow, node: flow.test(node.test, "assert"),
    ast.Expr: lambda flow, node: flow.kind(node.value),
    **dict.fromkeys((ast.FunctionDef, ast.AsyncFunctionDef), ValueFlow.follow_inner),
}
