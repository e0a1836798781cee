"""Read results from the device together, once, instead of one by one."""

from __future__ import annotations

import itertools
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import libcst as cst

from auditkit.probing.patching.local_names import Names
from auditkit.probing.patching.rewrites.drafts import Draft, Unit
from auditkit.probing.patching.rewrites.syntax import (
    Pattern,
    assigned,
    calls,
    code,
    dotted,
    flattened,
    inside,
    last_name,
    names,
    statement,
    stores,
    swapped,
    values_of,
)

_TRUTHS = frozenset({"isnan", "isinf", "isfinite"})
_TRAINS = frozenset({"backward", "step", "zero_grad", "train", "eval"})
_Lines = list[Any]


def read_once(draft: Draft) -> Draft:
    """Keep the tensors of every loop and list that reads one at each turn, and read them behind it."""
    helpers = {name for unit in draft.units for name in _read_helpers(unit, draft)}
    units = []
    for unit in draft.units:
        changed = draft.visited(unit, ReadOnce(draft, unit, helpers))
        units.append(_returning_tensor(changed, draft.torch) if unit.function.name in helpers else changed)
    return replace(draft, units=tuple(units))


def _read_helpers(unit: Unit, draft: Draft) -> list[str]:
    """Private functions that read what they return, and that this one alone calls, in a list of their results."""
    found = []
    for node in inside(unit.node):
        match node:
            case cst.ListComp(elt=cst.Call(func=cst.Name(name))) if name.startswith("_"):
                used = len(re.findall(rf"\b{name}\b", draft.module.code))
                helper = next((one for one in draft.units if one.function.name == name and one is not unit), None)
                if used == 2 and helper is not None and _returned_read(helper) is not None:  # its own name counts
                    found.append(name)
    return found


def _returned_read(helper: Unit) -> cst.Return | None:
    """`return x.item()` as the only way out of a function."""
    ways_out = [one for one in inside(helper.node) if isinstance(one, cst.Return | cst.Yield)]
    last = helper.node.body.body[-1] if isinstance(helper.node.body, cst.IndentedBlock) else None
    match last:
        case cst.SimpleStatementLine(body=[cst.Return(value=cst.Call() as call) as way_out]) if ways_out == [way_out]:
            return way_out if _tensor_of(call) is not None and helper.node.asynchronous is None else None
    return None


def _returning_tensor(helper: Unit, torch: str) -> Unit:
    way_out, node = _returned_read(helper), helper.node
    if way_out is None or not isinstance(way_out.value, cst.Call):
        return helper
    changed = node.with_deep_changes(way_out, value=_tensor_of(way_out.value))
    if node.returns is not None:
        annotation = node.returns.with_changes(annotation=cst.parse_expression(f"{torch}.Tensor"))
        changed = changed.with_changes(returns=annotation)
    return replace(helper, node=changed)


@dataclass(frozen=True)
class _Read:
    """`x.item()`: the expression, and the tensor that it reads; of a truth value both are the same."""

    node: cst.BaseExpression
    tensor: cst.BaseExpression


def _tensor_of(node: cst.CSTNode) -> cst.BaseExpression | None:
    match node:
        case cst.Call(func=cst.Attribute(value=tensor, attr=cst.Name("item")), args=[]):
            return tensor
    return None


def _reads(node: cst.CSTNode) -> list[_Read]:
    """`x.item()` and `if torch.isnan(x).any():`, in the order of the text."""
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
    """`isnan` of `torch.isnan(x).any()` and `torch.any(x.isnan())`; "" of what is no truth value of a tensor."""
    match test:
        case cst.Call(func=cst.Attribute(value=inner, attr=cst.Name("any" | "all")), args=args):
            called = args[0].value if args else inner
            name = last_name(called.func) if isinstance(called, cst.Call) else ""
            return name if name in _TRUTHS else ""
    return ""


class ReadOnce(Pattern):
    def __init__(self, draft: Draft, unit: Unit, helpers: set[str]) -> None:
        super().__init__(draft, unit)
        self._helpers = helpers

    def leave_SimpleStatementLine(
        self, _: cst.SimpleStatementLine, node: cst.SimpleStatementLine
    ) -> cst.SimpleStatementLine | cst.FlattenSentinel[cst.BaseStatement]:
        """`norms = [g.norm().item() for g in grads]`: the list of the tensors, and a line that reads it."""
        name, value = assigned(node)
        if not isinstance(value, cst.ListComp) or not isinstance(value.elt, cst.Call):
            return node
        tensor = _tensor_of(value.elt)
        if tensor is not None and len(_reads(value.elt)) == 1:
            kept = node.with_deep_changes(value, elt=tensor)
            return flattened([kept], self._read(name))
        return flattened([node], self._read(name)) if dotted(value.elt.func) in self._helpers else node

    def leave_For(self, original: cst.For, node: cst.For) -> cst.BaseStatement | cst.FlattenSentinel[cst.BaseStatement]:
        if original.orelse is not None or not isinstance(node.body, cst.IndentedBlock) or not _reads(node):
            return node
        return self._of_appends(node) or self._parted(node) or node

    def _of_appends(self, loop: cst.For) -> cst.FlattenSentinel[cst.BaseStatement] | None:
        """A loop that reads only for `norms.append(norm.item())`: the tensors are appended, and read behind it."""
        found = []
        for call in calls(loop):
            match call:
                case cst.Call(func=cst.Attribute(value=cst.Name(name), attr=cst.Name("append")), args=[given]):
                    if (tensor := _tensor_of(given.value)) is not None and self._is_filled(loop, name):
                        found.append((name, given, tensor))
        if len(found) != len(_reads(loop)) or any(isinstance(one, cst.Return) for one in inside(loop)):
            return None
        changed = swapped(loop, {given.value: _detached(loop, tensor) for _, given, tensor in found})
        return flattened([changed], *(self._read(name) for name, _, _ in found))

    def _is_filled(self, loop: cst.For, name: str) -> bool:
        """Whether a list is set once, empty, and is named once in the loop: where it is appended to."""
        named = [one for one in inside(loop) if isinstance(one, cst.Name) and one.value == name]
        return [code(value) for value in values_of(self.unit, name)] == ["[]"] and len(named) == 1

    def _read(self, name: str) -> _Lines:
        """Read all tensors of a list in one copy from the first one's device; an empty list stays one."""
        return [statement(f"if {name}:\n{self.draft.indent}{name} = {self._numbers(name)}\n")]

    def _numbers(self, name: str) -> str:
        each = self.draft.fresh("value", self.unit)
        return f"{self.torch}.stack([{each}.to({name}[0].device) for {each} in {name}]).tolist()"

    def _parted(self, loop: cst.For) -> cst.FlattenSentinel[cst.BaseStatement] | None:
        """A loop whose last statements use numbers that are read there, parted in two.

        The first keeps the tensors, and what else the second needs of each turn. Statements under a condition of their
        own are parted apart.
        """
        parts = _parts(loop.body)
        if not parts or not self._can_wait(loop, parts):
            return None
        parted = [_Parted(self, loop, part, number) for number, part in enumerate(parts)]
        new = {part[0]: cst.FlattenSentinel(one.kept) for part, one in zip(parts, parted, strict=True)}
        gone = {line: cst.RemoveFromParent() for part in parts for line in part[1:]}
        opened = [line for one in parted for line in one.opened]
        opened[0] = opened[0].with_changes(leading_lines=loop.leading_lines)
        first = swapped(loop, {**new, **gone}).with_changes(leading_lines=[])
        return flattened(opened, [first], *(one.behind for one in parted))

    def _can_wait(self, loop: cst.For, parts: Sequence[_Lines]) -> bool:
        """Whether these statements may run behind the loop, part by part: nothing of what they do is seen in it."""
        later = [line for part in parts for line in part]
        moved = {id(node) for line in later for node in inside(line)}
        for node in inside(loop.body):
            is_simple = _trains(node) or isinstance(node, cst.Break | cst.Return | cst.Yield | cst.Await)
            # `grad.mul_(...)` changes what another turn may read.
            changes = (
                isinstance(node, cst.Call) and isinstance(node.func, cst.Attribute) and node.func.attr.value[-1] == "_"
            )
            if is_simple or (changes and id(node) in moved):
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


def _detached(loop: cst.For, tensor: cst.BaseExpression) -> cst.BaseExpression:
    """The tensor without its graph in a loop that trains, which would keep the graph of every batch."""
    if not any(map(_trains, inside(loop))):
        return tensor
    return cst.Call(cst.Attribute(tensor, cst.Name("detach")))


def _trains(node: cst.CSTNode) -> bool:
    return isinstance(node, cst.Call) and isinstance(node.func, cst.Attribute) and node.func.attr.value in _TRAINS


def _without(loop: cst.For, lines: _Lines) -> Names:
    """The names of the loop's body without those of some of its statements."""
    return names(*swapped(loop, {line: cst.parse_statement("pass") for line in lines}).body.body)


def _parts(suite: cst.BaseSuite) -> list[_Lines]:
    """The statements from the first that reads on, without what does not read; those inside others by themselves."""
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
    if isinstance(line, cst.If):  # what reads under a condition is rarely reached, and stays so
        inner = [*line.body.body, *(line.orelse.body.body if isinstance(line.orelse, cst.Else) else ())]
        is_alone = not isinstance(line.orelse, cst.If)
        return is_alone and _reads_in_test(line) and not any(map(_reads, inner)) and all(map(_is_simple, inner))
    is_line = isinstance(line, cst.SimpleStatementLine)
    return is_line and all(isinstance(one, cst.Assign | cst.AugAssign | cst.Expr) for one in line.body)


class _Parted:
    """The last statements of a loop as two: what is kept of each turn, and the lines behind it."""

    def __init__(self, pattern: ReadOnce, loop: cst.For, later: _Lines, number: int) -> None:
        draft, unit = pattern.draft, pattern.unit
        reads = [read for line in later for read in _reads(line)]
        numbers = _value_names(reads, draft, unit)
        carried = _carried_names(loop, later, reads)
        nth = f"_{number + 1}" if number else ""
        rows = draft.fresh((_several(numbers[0]) if len(reads) == 1 else "rows") + nth, unit)
        others = draft.fresh((_several(carried[0]) if len(carried) == 1 else "kept") + nth, unit)
        tensors = _tuple([code(read.tensor) for read in reads])
        self.kept: _Lines = []
        self.opened: _Lines = [statement(f"{rows} = []\n")]
        if carried:
            self.kept.append(statement(f"{others}.append({_tuple(carried)})\n"))
            self.opened.append(statement(f"{others} = []\n"))
        self.kept.append(statement(f"{rows}.append({tensors})\n"))
        self.kept[0] = self.kept[0].with_changes(leading_lines=later[0].leading_lines)
        self.behind: _Lines = pattern._read(rows)
        read = rows
        if len(reads) > 1:
            # Each column by itself: no tensor is cast at its turn, which would be one launch more.
            column, columns = draft.fresh("column", unit), draft.fresh("columns", unit)
            read = f"zip(*{columns})"
            self.behind = [statement(f"{columns} = [{pattern._numbers(column)} for {column} in zip(*{rows})]\n")]
        turn = f"for {_tuple(numbers)} in {read}:"
        if carried:
            turn = f"for {_tuple(carried)}, {_tuple(numbers)} in zip({others}, {read}):"
        second = cst.parse_statement(f"{turn}\n{draft.indent}pass\n")
        assert isinstance(second, cst.For)
        values = {read.node: cst.Name(number) for read, number in zip(reads, numbers, strict=True)}
        body = [swapped(line, values) for line in later]
        body[0] = body[0].with_changes(leading_lines=[])
        self.behind.append(second.with_changes(body=second.body.with_changes(body=body)))


def _carried_names(loop: cst.For, later: _Lines, reads: Sequence[_Read]) -> list[str]:
    """What the last statements need of each turn beside the numbers."""
    set_first = stores(loop.target) | _without(loop, later).stores
    needed = names(*(swapped(line, {read.node: cst.Name("_") for read in reads}) for line in later)).loads
    return sorted(needed & set_first)


def _value_names(reads: Sequence[_Read], draft: Draft, unit: Unit) -> list[str]:
    """What the numbers are called: as the tensor where that has a name."""
    value = draft.fresh("value", unit)
    found = [dotted(read.tensor) if isinstance(read.tensor, cst.Name) else value for read in reads]
    return found if len(set(found)) == len(found) else [f"{value}_{number}" for number in range(len(found))]


def _several(name: str) -> str:
    return f"all_{name}" if name.endswith("s") else f"{name}s"


def _tuple(listed: Sequence[str]) -> str:
    return listed[0] if len(listed) == 1 else f"({', '.join(listed)})"
