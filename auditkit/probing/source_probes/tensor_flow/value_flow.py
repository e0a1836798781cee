"""Follow the statements of one function: what its names hold, and what is read back in its loops."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterable
from typing import Any

from auditkit.probing.source_code.modules import Function, FunctionNode, dotted_name, targets_of
from auditkit.probing.source_code.walking import walk
from auditkit.probing.source_probes.tensor_flow.calls import kind_of_call
from auditkit.probing.source_probes.tensor_flow.expressions import Expressions, names_in
from auditkit.probing.source_probes.tensor_flow.guards import guard_after, guard_of, is_first_time
from auditkit.probing.source_probes.tensor_flow.kinds import (
    NONE,
    TENSOR,
    Kind,
    element,
    holds_tensors,
    items,
    join,
    of_parameter,
    result_of,
    shape,
)
from auditkit.probing.source_probes.tensor_flow.masks import is_mask
from auditkit.probing.source_probes.tensor_flow.narrowing import draws_batches, element_in
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
        kept, guard = self.loops, self.guard
        # What stands in a block that leaves the loop runs once, however long the loop is.
        if isinstance(last, ast.Return):
            self.loops = kept[: self.outer_loops]
        elif isinstance(last, ast.Raise):
            self.loops = []
        elif isinstance(last, ast.Break):
            self.loops = kept[: max(len(kept) - 1, self.outer_loops)]
        for statement in listed:
            self.statement(statement)
        self.loops, self.guard = kept, guard
        return isinstance(last, ast.Return | ast.Raise | ast.Break | ast.Continue)

    def statement(self, node: ast.stmt) -> None:
        follow = _FOLLOWERS.get(type(node))
        if follow is not None:
            follow(self, node)

    def follow_assignment(self, node: ast.Assign) -> None:
        kind = self.kind(node.value)
        holds_mask = is_mask(self, node.value)
        for target in node.targets:
            self.assign(target, kind)
            if isinstance(target, ast.Name):
                (self.masks.add if holds_mask else self.masks.discard)(target.id)

    def follow_annotated(self, node: ast.AnnAssign) -> None:
        if node.value is not None:
            self.assign(node.target, self.kind(node.value))

    def follow_while(self, node: ast.While) -> None:
        """As often as tensors are left: `while grads`, `while i < len(grads)`; else what the turns take says so."""
        loop = Loop(node.lineno, node.test, False, is_while=True, body=node)
        changed = {name for part in walk(node.body) for target in changed_by(part) for name in names_in(target)}
        loop.names = frozenset(filter(loop.asks_for, changed))
        self.loops.append(loop)
        left = self.kind(node.test)
        counted = any(self.is_count_of_tensors(part) for part in walk([node.test]))
        loop.is_over_tensors |= counted or (shape(left) == "items" and holds_tensors(left))
        for _ in range(2):
            self.test(node.test, "while")
            self.block(node.body)
        self.loops.pop()
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
        subject, before = self.kind(node.subject), dict(self.known)
        after = dict(before)
        for case in node.cases:
            self.known = dict(before)
            self.bind(case.pattern, subject, node.subject)
            if case.guard is not None:
                self.test(case.guard, "case")
            if not self.block(case.body):
                after = joined(after, self.known)
        self.known = after

    def bind(self, pattern: ast.pattern, kind: Kind, subject: ast.expr) -> None:
        """Let the names of a pattern hold their parts of `kind`; a tensor is compared with a number there."""
        match pattern:
            case ast.MatchValue(value=value) if kind == TENSOR:
                self.read(value, "case", subject)
            case ast.MatchAs(pattern=inner, name=name):
                if inner is not None:
                    self.bind(inner, kind, subject)
                if name is not None:
                    self.known[name] = kind
            case ast.MatchOr(patterns=parts):
                for part in parts:
                    self.bind(part, kind, subject)
            case ast.MatchSequence(patterns=parts):
                several = kind[1] if shape(kind) == "row" and len(kind[1]) == len(parts) else None
                for place, part in enumerate(parts):
                    self.bind(part, several[place] if several else element(kind), subject)

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
        given = element(source) if draws_batches(node.iter) else element_in(node.target, source, node)
        over = holds_tensors(source) or holds_tensors(given) or self.counts_tensors(node.iter)
        self.loops.append(Loop(node.lineno, node.iter, over, names_in(node.target), body=node))
        for _ in range(2):
            self.assign(node.target, given)
            self.block(node.body)
        self.loops.pop()
        self.block(node.orelse)

    def counts_tensors(self, source: ast.expr) -> bool:
        """`range(len(grads))` is a loop over tensors."""
        match source:
            case ast.Call(func=ast.Name(id="range"), args=[*_, last]):
                return self.is_count_of_tensors(last)
        return False

    def is_count_of_tensors(self, node: ast.AST) -> bool:
        match node:
            case ast.Call(func=ast.Name(id="len"), args=[counted]):
                return holds_tensors(self.kind(counted))
        return False

    def follow_branches(self, node: ast.If) -> None:
        self.test(node.test, "if")
        when_true, when_false = self.narrowed(node.test)
        before, guard, loops = dict(self.known), self.guard, self.loops
        self.known.update(when_true)
        self.guard = guard or guard_of(node.test)
        self.loops = [] if is_first_time(node) else loops
        body_ends = self.block(node.body)
        after_body, self.loops, self.guard = self.known, loops, guard
        self.known = {**before, **when_false}
        orelse_ends = self.block(node.orelse)
        if body_ends:
            self.guard = guard or guard_after(node.test)
        if body_ends or orelse_ends:
            self.known = self.known if body_ends else after_body
            return
        self.known = joined(after_body, self.known)

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


def joined(first: dict[str, Kind], second: dict[str, Kind]) -> dict[str, Kind]:
    """What names hold after one of two branches."""
    return {name: join(first.get(name, NONE), second.get(name, NONE)) for name in first.keys() | second.keys()}


def changed_by(node: ast.AST) -> list[ast.expr]:
    return [node.target] if isinstance(node, ast.AugAssign) else targets_of(node)


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
