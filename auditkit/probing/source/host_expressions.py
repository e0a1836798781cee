"""The kind of an expression, and the reads in it that wait for the device."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from contextlib import contextmanager

from auditkit.probing.discovery.source_index import Function, dotted_name
from auditkit.probing.source import torch_names
from auditkit.probing.source.evidence import Narrowed, element_in, narrowed
from auditkit.probing.source.host_calls import kind_of_call
from auditkit.probing.source.kinds import (
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
from auditkit.probing.source.reads import Helpers, HostRead, Loop, Summary

_LONGEST_TEXT = 60


class Expressions:
    """Follows the expressions of one function; `known` says what its names hold at this point."""

    def __init__(self, helpers: Helpers, function: Function, known: dict[str, Kind], depth: int) -> None:
        self.helpers = helpers
        self.function = function
        self.known = known
        self.depth = depth
        self.loops: list[Loop] = []
        self.reads: dict[tuple[int, int, str], HostRead] = {}

    # --- reads ---

    def read(self, node: ast.expr, what: str, value: ast.expr) -> None:
        """Note that `value` is read back at `node`, if that happens in a loop over tensors."""
        self._note(node, what, text_of(value), "")

    def read_in_helper(self, node: ast.Call, name: str, summary: Summary) -> None:
        """Note the reads of a helper that is called in a loop over tensors, at the line of the call."""
        for read in summary.reads[:1]:
            inner = read.helper or f"{name}(), line {read.line}"
            self._note(node, read.what, read.value, inner)

    def _note(self, node: ast.expr, what: str, value: str, helper: str) -> None:
        over = [loop for loop in self.loops if loop.is_over_tensors]
        if over:
            found = HostRead(node.lineno, node.col_offset, what, value, over[-1].line, over[-1].over, helper)
            self.reads.setdefault((node.lineno, node.col_offset, what), found)

    def test(self, node: ast.expr, what: str) -> None:
        """Note what asking for the truth of `node` reads."""
        match node:
            case ast.BoolOp(values=values):
                for value in values:
                    self.test(value, what)
            case ast.UnaryOp(op=ast.Not(), operand=operand):
                self.test(operand, what)
            case _:
                if self.kind(node) == TENSOR:
                    self.read(node, what, node)

    @contextmanager
    def loop(self, line: int, over: ast.expr, kind: Kind, names: frozenset[str] = frozenset()) -> Iterator[None]:
        """What is followed inside the block happens once for each element of `over`."""
        self.loops.append(Loop(line, text_of(over), holds_tensors(kind), names))
        try:
            yield
        finally:
            self.loops.pop()

    # --- kinds ---

    def kind(self, node: ast.expr) -> Kind:
        match node:
            case ast.Constant(value=value):
                return NONE if value is None else HOST
            case ast.Name(id=name):
                return self.known.get(name)
            case ast.Attribute(value=value, attr=name):
                known = self.known.get(dotted_name(node))
                return known if known is not None else torch_names.of_attribute(self.kind(value), name)
            case ast.Call():
                return self.call(node)
            case ast.Subscript():
                return self.subscript(node)
            case ast.BinOp(left=left, right=right):
                return result_of([self.kind(left), self.kind(right)])
            case ast.UnaryOp(op=ast.Not(), operand=operand):
                self.test(operand, "not")
                return HOST
            case ast.UnaryOp(operand=operand):
                return self.kind(operand)
            case ast.BoolOp(op=op, values=values):
                for value in values[:-1]:
                    self.test(value, "and" if isinstance(op, ast.And) else "or")
                return join_all([self.kind(value) for value in values])
            case ast.Compare():
                return self.compare(node)
            case ast.IfExp():
                return self.choice(node)
            case ast.Tuple(elts=parts):
                return row(map(self.kind, parts))
            case ast.List(elts=parts) | ast.Set(elts=parts):
                return items(join_all([self.kind(part) for part in parts]))
            case ast.Dict(values=values):
                return table(join_all([self.kind(value) for value in values]))
            case ast.ListComp() | ast.SetComp() | ast.GeneratorExp() | ast.DictComp():
                return self.comprehension(node)
            case ast.NamedExpr(target=target, value=value):
                kind = self.kind(value)
                self.assign(target, kind)
                return kind
            case ast.JoinedStr(values=parts):
                for part in parts:
                    if isinstance(part, ast.FormattedValue) and self.kind(part.value) == TENSOR:
                        self.read(part.value, "formatting", part.value)
                return HOST
            case ast.Await(value=value) | ast.YieldFrom(value=value) | ast.Starred(value=value):
                return self.kind(value)
            case ast.Yield(value=given):
                return None if given is None else self.kind(given)
        return None

    def compare(self, node: ast.Compare) -> Kind:
        kinds = [self.kind(node.left), *map(self.kind, node.comparators)]
        if any(isinstance(op, ast.Is | ast.IsNot | ast.In | ast.NotIn) for op in node.ops):
            return HOST
        if any(isinstance(item, ast.Constant) and isinstance(item.value, str) for item in node.comparators):
            return HOST  # what is compared with a text is one
        if len(node.ops) > 1 and TENSOR in kinds:
            self.read(node, "a < b < c", node)
        return result_of(kinds)

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
        match shape(base):
            case "table":
                return base[1]
            case "row" if isinstance(node.slice, ast.Constant) and isinstance(node.slice.value, int):
                place = node.slice.value
                return base[1][place] if -len(base[1]) <= place < len(base[1]) else None
        return element(base)

    def note_index(self, index: ast.expr, base: Kind) -> None:
        """A loop whose counter picks tensors is one over tensors: `for i in range(n): norms[i]`."""
        used = {item.id for item in ast.walk(index) if isinstance(item, ast.Name)}
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
            self.loops.append(Loop(node.lineno, text_of(part.iter), over, names_in(part.target)))
            for condition in part.ifs:
                self.test(condition, "if")
                self.known.update(self.narrowed(condition)[0])
        yield
        del self.loops[outer:]
        self.known = before

    def ask_each_of(self, node: ast.GeneratorExp | ast.ListComp | ast.SetComp, what: str) -> None:
        """`any(test for ...)`: the element is asked for its truth, once for each turn."""
        with self.inside(node):
            if self.kind(node.elt) == TENSOR:
                # Tests that are tensors were made of tensors, whatever the loop says of itself.
                self.loops.append(Loop(node.lineno, text_of(node.generators[-1].iter), True))
                self.read(node.elt, what, node.elt)
            else:
                self.test(node.elt, what)

    # --- calls ---

    def call(self, node: ast.Call) -> Kind:
        return kind_of_call(self, node)

    # --- names ---

    def narrowed(self, test: ast.expr) -> Narrowed:
        """What names hold where `test` is true, and where it is false."""
        return narrowed(test, self.known, self.loops, self.helpers)

    def assign(self, target: ast.expr, kind: Kind) -> None:
        """Let the names of `target` hold `kind`, taken apart as the target is."""
        match target:
            case ast.Name() | ast.Attribute():
                name = dotted_name(target)
                if name:
                    self.known[name] = HOST if lies_on_host(name) else kind
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


def names_in(target: ast.expr) -> frozenset[str]:
    return frozenset(item.id for item in ast.walk(target) if isinstance(item, ast.Name))


def text_of(node: ast.expr) -> str:
    text = " ".join(ast.unparse(node).split())
    return text if len(text) <= _LONGEST_TEXT else text[: _LONGEST_TEXT - 3] + "..."
