"""The kind of an expression, and the reads in it that wait for the device."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

from auditkit.probing.source_code.modules import Function, dotted_name
from auditkit.probing.source_code.walking import walk
from auditkit.probing.source_probes.tensor_flow import torch_names
from auditkit.probing.source_probes.tensor_flow.guards import guard_of
from auditkit.probing.source_probes.tensor_flow.kinds import (
    GROUP,
    HOST,
    NONE,
    PARAMETERS,
    TENSOR,
    Kind,
    element,
    holds_tensors,
    items,
    join,
    join_all,
    lies_on_host,
    result_of,
    row,
    shape,
    table,
)
from auditkit.probing.source_probes.tensor_flow.masks import is_mask
from auditkit.probing.source_probes.tensor_flow.narrowing import Narrowed, element_in, narrowed
from auditkit.probing.source_probes.tensor_flow.reads import Helpers, HostRead, Loop, Summary

_LONGEST_TEXT = 60


class Expressions:
    """Follows the expressions of one function; `known` says what its names hold at this point."""

    def __init__(self, helpers: Helpers, function: Function, known: dict[str, Kind], depth: int) -> None:
        self.helpers = helpers
        self.function = function
        self.known = known
        self.depth = depth
        self.loops: list[Loop] = []
        self.guard = ""
        """The test of an interval or a flag under which alone the present line runs."""
        self.masks: set[str] = set()
        """The names that hold which elements are meant."""
        self.lists: set[str] = set()
        """The names of lists that something was appended to."""
        self.reads: dict[tuple[int, int, str], HostRead] = {}

    # --- reads ---

    def read(self, node: ast.expr, what: str, value: ast.expr) -> None:
        """Note that `value` is read back at `node`, if that happens in a loop over tensors."""
        self._note(node, what, value)

    def read_in_helper(self, node: ast.Call, name: str, summary: Summary) -> None:
        """Note the reads of a helper that is called in a loop over tensors, at the line of the call."""
        for read in summary.reads[:1]:
            self._note(node, read.what, node, replace(read, helper=read.helper or f"{name}(), line {read.line}"))

    def _note(self, node: ast.expr, what: str, value: ast.expr, inner: HostRead | None = None) -> None:
        key = (node.lineno, node.col_offset, what)
        loop = next((loop for loop in reversed(self.loops) if loop.is_over_tensors), None)
        if loop is not None and key not in self.reads:
            over = "" if loop.over is None else text_of(loop.over)
            text, helper, guard = (inner.value, inner.helper, inner.guard) if inner else (text_of(value), "", "")
            of_gradients = loop.is_over_gradients(value, self.function)
            self.reads[key] = HostRead(*key, text, loop.line, over, helper, self.guard or guard, of_gradients)

    def test(self, node: ast.expr, what: str) -> None:
        """Note what asking for the truth of `node` reads."""
        match node:
            case ast.BoolOp():
                for value in self.in_turn(node):
                    self.test(value, what)
            case ast.UnaryOp(op=ast.Not(), operand=operand):
                self.test(operand, what)
            case _:
                if self.kind(node) == TENSOR:
                    self.read(node, what, node)

    @contextmanager
    def loop(self, line: int, over: ast.expr, kind: Kind, names: frozenset[str] = frozenset()) -> Iterator[None]:
        """What is followed inside the block happens once for each element of `over`."""
        self.loops.append(Loop(line, over, holds_tensors(kind), names))
        try:
            yield
        finally:
            self.loops.pop()

    # --- kinds ---

    def kind(self, node: ast.expr) -> Kind:
        """What an expression is; a table of its types, where a match of 26 cases took three times as long."""
        read = _READERS.get(type(node))
        return read(self, node) if read is not None else None

    def call(self, node: ast.Call) -> Kind:
        """What a call gives back: the matter of whoever follows helpers, too."""
        raise NotImplementedError

    def constant(self, node: ast.Constant) -> Kind:
        return NONE if node.value is None else HOST

    def name(self, node: ast.Name) -> Kind:
        return self.known.get(node.id) or (HOST if lies_on_host(node.id) else None)

    def attribute(self, node: ast.Attribute) -> Kind:
        known = self.known.get(dotted_name(node))
        if node.attr == "grad" and isinstance(node.value, ast.Subscript):
            self.note_index(node.value.slice, TENSOR)
        if known is None and lies_on_host(node.attr):
            return HOST
        return known if known is not None else torch_names.of_attribute(self.kind(node.value), node.attr)

    def binary(self, node: ast.BinOp) -> Kind:
        return result_of([self.kind(node.left), self.kind(node.right)])

    def unary(self, node: ast.UnaryOp) -> Kind:
        if not isinstance(node.op, ast.Not):
            return self.kind(node.operand)
        self.test(node.operand, "not")
        return HOST

    def either(self, node: ast.BoolOp) -> Kind:
        kinds = []
        for value in self.in_turn(node):
            if value is not node.values[-1]:
                self.test(value, "and" if isinstance(node.op, ast.And) else "or")
            kinds.append(self.kind(value))
        return join_all(kinds)

    def in_turn(self, node: ast.BoolOp) -> Iterator[ast.expr]:
        """The values of `and` or `or`, each under what those before it say of their names."""
        before, guard = dict(self.known), self.guard
        for value in node.values:
            yield value
            when_true, when_false = self.narrowed(value)
            self.known.update(when_true if isinstance(node.op, ast.And) else when_false)
            self.guard = self.guard or guard_of(value)
        self.known, self.guard = before, guard

    def several(self, node: ast.List | ast.Set) -> Kind:
        return items(join_all([self.kind(part) for part in node.elts]))

    def note_taken(self, holder: ast.expr, kind: Kind) -> None:
        """A `while` loop that runs until no tensor is left is one over tensors: `stack.pop()`, `next(grads)`."""
        loop = self.loops[-1] if self.loops else None
        if loop is not None and loop.asks_for(dotted_name(holder)) and shape(kind) == "items" and holds_tensors(kind):
            loop.is_over_tensors = True

    def named(self, node: ast.NamedExpr) -> Kind:
        kind = self.kind(node.value)
        self.assign(node.target, kind)
        return kind

    def formatted(self, node: ast.JoinedStr) -> Kind:
        for part in node.values:
            if isinstance(part, ast.FormattedValue) and self.kind(part.value) == TENSOR:
                self.read(part.value, "formatting", part.value)
        return HOST

    def inner(self, node: ast.Await | ast.YieldFrom | ast.Starred | ast.Yield) -> Kind:
        return None if node.value is None else self.kind(node.value)

    def compare(self, node: ast.Compare) -> Kind:
        kinds = [self.kind(node.left), *map(self.kind, node.comparators)]
        for op, holder, kind in zip(node.ops, node.comparators, kinds[1:], strict=True):
            if isinstance(op, ast.In | ast.NotIn) and (
                kind == TENSOR or (kinds[0] == TENSOR and self._is_list_of_tensors(holder, kind))
            ):
                self.read(node, "in", holder)
        if any(isinstance(op, ast.Is | ast.IsNot | ast.In | ast.NotIn) for op in node.ops):
            return HOST
        if any(isinstance(item, ast.Constant) and isinstance(item.value, str) for item in node.comparators):
            return HOST  # what is compared with a text is one
        if len(node.ops) > 1 and TENSOR in kinds:
            self.read(node, "a < b < c", node)
        return result_of(kinds)

    def _is_list_of_tensors(self, holder: ast.expr, kind: Kind) -> bool:
        """Whether `in` compares each element: a set looks a tensor up by its identity and compares nothing."""
        return kind == items(TENSOR) and (isinstance(holder, ast.List) or dotted_name(holder) in self.lists)

    def choice(self, node: ast.IfExp) -> Kind:
        """`a if test else b`, each side under what the test says of its names."""
        self.test(node.test, "if")
        before = dict(self.known)
        when_true, when_false = self.narrowed(node.test)
        self.known.update(when_true)
        body = self.kind(node.body)
        self.known = {**before, **when_false}
        orelse = self.kind(node.orelse)
        self.known = before
        return join(body, orelse)

    def subscript(self, node: ast.Subscript) -> Kind:
        base = self.kind(node.value)
        self.kind(node.slice)
        if isinstance(node.slice, ast.Constant) and text_of(node) in self.known:
            return self.known[text_of(node)]
        if lies_on_host(text_of(node.slice).strip("'\"")) or lies_on_host(dotted_name(node.value)):
            return HOST
        if isinstance(node.slice, ast.Slice):
            return base
        if base == GROUP:
            return PARAMETERS if text_of(node.slice) == "'params'" else HOST
        if base == TENSOR or shape(base) == "items":
            self.note_index(node.slice, base)
        if base == TENSOR and is_mask(self, node.slice):
            self.read(node, "[mask]", node.value)
        match shape(base):
            case "table":
                return base[1]
            case "row" if isinstance(node.slice, ast.Constant) and isinstance(node.slice.value, int):
                place = node.slice.value
                return base[1][place] if -len(base[1]) <= place < len(base[1]) else None
        return element(base)

    def note_index(self, index: ast.expr, base: Kind) -> None:
        """A loop whose counter picks tensors is one over tensors: `for i in range(n): norms[i]`, `while i < n`."""
        used = {item.id for item in walk([index]) if isinstance(item, ast.Name)}
        for loop in self.loops:
            if used & loop.names and holds_tensors(base):
                loop.is_over_tensors = True

    def comprehension(self, node: ast.ListComp | ast.SetComp | ast.GeneratorExp | ast.DictComp) -> Kind:
        with self.inside(node):
            made = self.kind(node.value if isinstance(node, ast.DictComp) else node.elt)
        return table(made) if isinstance(node, ast.DictComp) else items(made)

    @contextmanager
    def inside(self, node: ast.ListComp | ast.SetComp | ast.GeneratorExp | ast.DictComp) -> Iterator[None]:
        """The loops of a comprehension, with their names, while the block runs."""
        before, outer = dict(self.known), len(self.loops)
        for part in node.generators:
            source = self.kind(part.iter)
            given = element_in(part.target, source, node)
            self.assign(part.target, given)
            over = holds_tensors(source) or holds_tensors(given)
            self.loops.append(Loop(node.lineno, part.iter, over, names_in(part.target), body=node))
            for condition in part.ifs:
                self.test(condition, "if")
                self.known.update(self.narrowed(condition)[0])
        yield
        del self.loops[outer:]
        self.known = before

    def ask_each_of(self, node: ast.GeneratorExp | ast.ListComp | ast.SetComp, what: str) -> None:
        """`any(test for ...)`: the element is asked for its truth, once for each turn."""
        with self.inside(node):
            if isinstance(node.elt, ast.UnaryOp) and isinstance(node.elt.op, ast.Not):
                self.test(node.elt, what)  # `not` has read it: what is asked for its truth is on the host
            elif self.kind(node.elt) == TENSOR:
                # Tests that are tensors were made of tensors, whatever the loop says of itself.
                self.loops.append(Loop(node.lineno, node.generators[-1].iter, True))
                self.read(node.elt, what, node.elt)
            else:
                self.test(node.elt, what)

    # --- names ---

    def narrowed(self, test: ast.expr) -> Narrowed:
        """What names hold where `test` is true, and where it is false."""
        return narrowed(test, self.known, self.helpers)

    def assign(self, target: ast.expr, kind: Kind) -> None:
        """Let the names of `target` hold `kind`, taken apart as the target is."""
        match target:
            case ast.Name() | ast.Attribute():
                name = dotted_name(target)
                if name:
                    self.known[name] = kind
            case ast.Tuple(elts=parts) | ast.List(elts=parts):
                several = kind[1] if shape(kind) == "row" and len(kind[1]) == len(parts) else None
                for place, part in enumerate(parts):
                    self.assign(part, several[place] if several else element(kind))
            case ast.Starred(value=part):
                self.assign(part, items(kind))
            case ast.Subscript(value=value, slice=key):
                self.put_into(value, kind)
                if isinstance(key, ast.Constant):
                    self.known[text_of(target)] = kind

    def put_into(self, holder: ast.expr, kind: Kind) -> None:
        """`holder[...] = value` and `holder.append(value)`: a container holds what is put into it."""
        name = dotted_name(holder)
        before: Kind = self.known.get(name)
        if name and shape(before) in ("items", "table"):
            self.known[name] = (before[0], join(before[1], kind))


_READERS: dict[type[ast.expr], Callable[[Expressions, Any], Kind]] = {
    ast.Constant: Expressions.constant,
    ast.Name: Expressions.name,
    ast.Attribute: Expressions.attribute,
    ast.Call: lambda flow, node: flow.call(node),
    ast.Subscript: Expressions.subscript,
    ast.BinOp: Expressions.binary,
    ast.UnaryOp: Expressions.unary,
    ast.BoolOp: Expressions.either,
    ast.Compare: Expressions.compare,
    ast.IfExp: Expressions.choice,
    ast.Tuple: lambda flow, node: row(map(flow.kind, node.elts)),
    **dict.fromkeys((ast.List, ast.Set), Expressions.several),
    ast.Dict: lambda flow, node: table(join_all([flow.kind(value) for value in node.values])),
    **dict.fromkeys((ast.ListComp, ast.SetComp, ast.GeneratorExp, ast.DictComp), Expressions.comprehension),
    ast.NamedExpr: Expressions.named,
    ast.JoinedStr: Expressions.formatted,
    **dict.fromkeys((ast.Await, ast.YieldFrom, ast.Starred, ast.Yield), Expressions.inner),
}


def names_in(target: ast.expr) -> frozenset[str]:
    return frozenset(item.id for item in walk([target]) if isinstance(item, ast.Name))


def text_of(node: ast.expr) -> str:
    written = dotted_name(node) or ast.unparse(node)
    text = " ".join(written.split())
    return text if len(text) <= _LONGEST_TEXT else text[: _LONGEST_TEXT - 3] + "..."
