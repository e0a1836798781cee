"""Read results from the device together, once, instead of one by one."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import libcst as cst

from auditkit.probing.fix.local_names import Names
from auditkit.probing.fix.rewrites.syntax import (
    Pattern,
    assigned,
    code,
    dotted,
    flattened,
    inside,
    last_name,
    names,
    statement,
    stores,
    swapped,
)

_TRUTHS = frozenset({"isnan", "isinf", "isfinite"})
_TRAINS = frozenset({"backward", "step", "zero_grad", "train", "eval"})
_Lines = list[Any]


@dataclass(frozen=True)
class _Read:
    """`x.item()`: the expression, and the tensor that it reads; for a truth value both are the same."""

    node: cst.BaseExpression
    tensor: cst.BaseExpression


def _tensor_of(node: cst.CSTNode) -> cst.BaseExpression | None:
    match node:
        case cst.Call(func=cst.Attribute(value=tensor, attr=cst.Name("item")), args=[]):
            return tensor
    return None


def _reads(node: cst.CSTNode) -> list[_Read]:
    """Return `x.item()` and `if torch.isnan(x).any():`, in text order."""
    found = []
    for one in inside(node):
        if (tensor := _tensor_of(one)) is not None:
            assert isinstance(one, cst.Call)
            found.append(_Read(one, tensor))
        elif isinstance(one, cst.If):
            test = one.test.expression if isinstance(one.test, cst.UnaryOperation) else one.test
            found += [_Read(test, test)] if _predicate(test) else []
    return found


def _predicate(test: cst.BaseExpression) -> str:
    """Return `isnan` of `torch.isnan(x).any()` and `torch.any(x.isnan())`; "" for other conditions."""
    match test:
        case cst.Call(func=cst.Attribute(value=inner, attr=cst.Name("any" | "all")), args=args):
            called = args[0].value if args else inner
            name = last_name(called.func) if isinstance(called, cst.Call) else ""
            return name if name in _TRUTHS else ""
    return ""


class ReadOnce(Pattern):
    """Keep the tensors of every loop and list that reads one per iteration, and read them after the loop."""

    def leave_SimpleStatementLine(
        self, _: cst.SimpleStatementLine, node: cst.SimpleStatementLine
    ) -> cst.SimpleStatementLine | cst.FlattenSentinel[cst.BaseStatement]:
        """Split `norms = [g.norm().item() for g in grads]` into the list of tensors and a line that reads it."""
        name, value = assigned(node)
        if not isinstance(value, cst.ListComp) or not isinstance(value.elt, cst.Call):
            return node
        tensor = _tensor_of(value.elt)
        if tensor is None or len(_reads(value.elt)) > 1:
            return node
        return flattened([node.with_deep_changes(value, elt=tensor)], self._read(name))

    def leave_For(self, original: cst.For, node: cst.For) -> cst.BaseStatement | cst.FlattenSentinel[cst.BaseStatement]:
        """Split a loop whose last statements use numbers read there.

        The first loop keeps the tensors, and other values that the second needs of each iteration. Statements under a
        condition get a separate second loop.
        """
        parts = _parts(node.body) if original.orelse is None and original.asynchronous is None else []
        if not parts or not self._can_wait(node, parts):
            return node
        parted = [_Parted(self, node, part, number) for number, part in enumerate(parts)]
        new = {part[0]: cst.FlattenSentinel(one.kept) for part, one in zip(parts, parted, strict=True)}
        gone = {line: cst.RemoveFromParent() for part in parts for line in part[1:]}
        opened = [line for one in parted for line in one.opened]
        opened[0] = opened[0].with_changes(leading_lines=node.leading_lines)
        first = swapped(node, {**new, **gone}).with_changes(leading_lines=[])
        return flattened(opened, [first], *(one.behind for one in parted))

    def _read(self, name: str) -> _Lines:
        """Read all tensors of a list in one copy from the first one's device; keep an empty list."""
        return [statement(f"if {name}:\n{self.draft.indent}{name} = {self._numbers(name)}\n")]

    def _numbers(self, name: str) -> str:
        each = self.draft.fresh("value", self.unit)
        return f"{self.torch}.stack([{each}.to({name}[0].device) for {each} in {name}]).tolist()"

    def _can_wait(self, loop: cst.For, parts: Sequence[_Lines]) -> bool:
        """Return whether these statements may run after the loop, part by part, without a visible effect inside it."""
        later = [line for part in parts for line in part]
        moved = {id(node) for line in later for node in inside(line)}
        for node in inside(loop.body):
            is_seen = _trains(node) or isinstance(node, cst.Break | cst.Return | cst.Yield | cst.Await)
            # `grad.mul_(...)` changes values that another iteration may read.
            changes = (
                isinstance(node, cst.Call) and isinstance(node.func, cst.Attribute) and node.func.attr.value[-1] == "_"
            )
            if is_seen or (changes and id(node) in moved):
                return False
        if not all(map(_is_simple, later)):
            return False
        stays = _without(loop, later)
        tensors = [read.tensor for line in later for read in _reads(line)]
        read_before = stays.loads | names(loop.iter, *tensors).loads
        of_turn = stores(loop.target) | stays.stores
        whole = names(*self.unit.node.body.body).stores
        own = [((found := names(*part)).loads | found.stores) & whole - of_turn for part in parts]
        is_apart = all(one.isdisjoint(other) for one, other in itertools.combinations(own, 2))
        return is_apart and not names(*later).stores & read_before


def _trains(node: cst.CSTNode) -> bool:
    return isinstance(node, cst.Call) and isinstance(node.func, cst.Attribute) and node.func.attr.value in _TRAINS


def _without(loop: cst.For, lines: _Lines) -> Names:
    """Return the names of the loop's body without those of some of its statements."""
    return names(*swapped(loop, {line: cst.parse_statement("pass") for line in lines}).body.body)


def _parts(suite: cst.BaseSuite) -> list[_Lines]:
    """Return the statements from the first that reads on, those inside conditions separately."""
    lines = list(suite.body) if isinstance(suite, cst.IndentedBlock) else []
    place = next((place for place, line in enumerate(lines) if _reads(line)), len(lines))
    parts: list[_Lines] = [[]]
    inner: list[_Lines] = []
    for line in lines[place:]:
        match line:
            case cst.If(test=test, body=body, orelse=None) if not _reads_in_test(line) and _reads(line):
                inner += [] if _reads(test) else _parts(body)
                parts.append([])
            case cst.With(body=body) if _reads(line):
                inner += _parts(body)
                parts.append([])
            case _:
                parts[-1].append(line)
    return [*(part for part in parts if any(map(_reads, part))), *inner]


def _reads_in_test(line: cst.CSTNode) -> bool:
    tests = {id(node) for node in inside(line.test)} if isinstance(line, cst.If) else set()
    return any(id(read.node) in tests for read in _reads(line))


def _is_simple(line: Any) -> bool:
    if isinstance(line, cst.If):  # A read under a condition is rarely reached: keep it.
        inner = [*line.body.body, *(line.orelse.body.body if isinstance(line.orelse, cst.Else) else ())]
        is_alone = not isinstance(line.orelse, cst.If)
        return is_alone and _reads_in_test(line) and not any(map(_reads, inner)) and all(map(_is_simple, inner))
    is_line = isinstance(line, cst.SimpleStatementLine)
    return is_line and all(isinstance(one, cst.Assign | cst.AugAssign | cst.Expr) for one in line.body)


class _Parted:
    """The last statements of a loop, split into what is kept of each iteration and the lines after the loop."""

    def __init__(self, pattern: ReadOnce, loop: cst.For, later: _Lines, number: int) -> None:
        draft, unit = pattern.draft, pattern.unit
        reads = [read for line in later for read in _reads(line)]
        carried = _carried_names(loop, later, reads)
        turn = dotted(reads[0].tensor) or draft.fresh("value", unit)
        listed, nth = f"all_{turn}" if turn.endswith("s") else f"{turn}s", f"_{number + 1}" if number else ""
        tensors, values = code(reads[0].tensor), [turn]
        if len(reads) > 1:
            turn, listed = draft.fresh("row", unit), "rows"
            tensors = "(\n" + "".join(f"{draft.indent}{code(read.tensor)},\n" for read in reads) + ")"
            values = [f"{turn}[{place}]" for place in range(len(reads))]
        rows, kept = draft.fresh(listed + nth, unit), draft.fresh("kept" + nth, unit)
        self.opened: _Lines = [statement(f"{rows} = []\n")]
        self.kept: _Lines = [cst.parse_statement(f"{rows}.append({tensors})\n")]
        self.behind: _Lines = pattern._read(rows)
        read = rows
        if len(reads) > 1:
            # Stack each column separately, so that no tensor is cast per iteration, which costs a launch.
            column, columns = draft.fresh("column", unit), draft.fresh("columns", unit)
            read = f"zip(*{columns})"
            self.behind = [statement(f"{columns} = [{pattern._numbers(column)} for {column} in zip(*{rows})]\n")]
        if carried:
            others = carried[0] if len(carried) == 1 else f"({', '.join(carried)})"
            self.opened.append(statement(f"{kept} = []\n"))
            self.kept.insert(0, statement(f"{kept}.append({others})\n"))
            turn, read = f"{others}, {turn}", f"zip({kept}, {read})"
        self.kept[0] = self.kept[0].with_changes(leading_lines=later[0].leading_lines)
        second = cst.ensure_type(cst.parse_statement(f"for {turn} in {read}:\n{draft.indent}pass\n"), cst.For)
        numbers = {one.node: cst.parse_expression(value) for one, value in zip(reads, values, strict=True)}
        body = [swapped(line, numbers) for line in later]
        body[0] = body[0].with_changes(leading_lines=[])
        self.behind.append(second.with_changes(body=second.body.with_changes(body=body)))


def _carried_names(loop: cst.For, later: _Lines, reads: Sequence[_Read]) -> list[str]:
    """Return the values of each iteration that the last statements need besides the numbers."""
    set_first = stores(loop.target) | _without(loop, later).stores
    needed = names(*(swapped(line, {read.node: cst.Name("_") for read in reads}) for line in later)).loads
    return sorted(needed & set_first)
