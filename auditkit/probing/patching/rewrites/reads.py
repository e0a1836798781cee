"""Results that are read from the device one by one, read together once."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from auditkit.probing.patching.local_names import names_of
from auditkit.probing.patching.rewrites.edits import Edit, Rewrite, edited
from auditkit.probing.patching.rewrites.function_text import FunctionText
from auditkit.probing.patching.rewrites.operators import exact_count

_SYNCS = frozenset({
    "syncs_grow_with_tensors", "sync_in_loop", "graph_breaks_under_compile", "async_collect_synchronizes",
})  # fmt: skip
_TRAINS = frozenset({"backward", "step", "zero_grad", "train", "eval"})


@dataclass(frozen=True)
class _Read:
    """`x.item()`: the call and the tensor that it reads."""

    call: ast.Call
    tensor: ast.expr


def read_once(functions: Sequence[FunctionText]) -> Iterator[Rewrite]:
    """Every loop and list that reads a tensor at each turn, with the tensors kept and read behind it."""
    edits: list[Edit] = []
    lines: list[int] = []
    for function in functions:
        for statement in (one for suite in function.suites for one in suite if function.has_own_lines(one)):
            found = _of_list(function, statement) or _of_loop(function, statement)
            if found:
                edits += found
                lines.append(statement.lineno)
    if edits:
        places = ", ".join(str(line) for line in lines)
        change = f"line{'s' if len(lines) > 1 else ''} {places}: the tensors are kept, and read once behind the loop"
        yield Rewrite("read_once", _SYNCS, change, tuple(edits))


def _reads(node: ast.AST) -> list[_Read]:
    """`x.item()`, in the order of the text."""
    found = []
    for inner in ast.walk(node):
        match inner:
            case ast.Call(func=ast.Attribute(value=tensor, attr="item"), args=[], keywords=[]):
                found.append(_Read(inner, tensor))
    return sorted(found, key=lambda read: (read.call.lineno, read.call.col_offset))


def _of_list(function: FunctionText, statement: ast.stmt) -> list[Edit]:
    """`norms = [g.norm().item() for g in grads]`: the tensors, and a line that reads them."""
    match statement:
        case ast.Assign(targets=[ast.Name(id=name)], value=ast.ListComp(elt=ast.Call() as elt)):
            reads = _reads(elt)
            if len(reads) == 1 and reads[0].call is elt:
                kept = Edit(function.last(reads[0].tensor), function.last(elt), "")
                return [kept, function.line_after(statement, _read(function, name))]
    return []


def _read(function: FunctionText, name: str) -> str:
    """All tensors of a list as numbers, in one copy from the first one's device; an empty list stays one."""
    each = function.fresh("value")
    stacked = f"{function.torch}.stack([{each}.to({name}[0].device) for {each} in {name}])"
    return f"if {name}:\n{function.step}{name} = {stacked}.tolist()"


def _of_loop(function: FunctionText, loop: ast.stmt) -> list[Edit]:
    """A loop whose last statements use numbers that are read there, parted in two.

    The first keeps the tensors, and what else the second needs of each turn.
    """
    if not isinstance(loop, ast.For) or loop.orelse:
        return []
    later = _from_first_read(loop.body)
    reads = [read for statement in later for read in _reads(statement)]
    if not reads or not all(map(function.has_own_lines, later)) or not _can_wait(loop, later, reads):
        return []
    return _Parted(function, loop, later, reads).edits()


def _from_first_read(suite: Sequence[ast.stmt]) -> Sequence[ast.stmt]:
    """The statements from the first that reads on; of an `if` around the last ones those inside it."""
    place = next((place for place, statement in enumerate(suite) if _reads(statement)), len(suite))
    match suite[place:]:
        case [ast.If(test=test, body=body, orelse=[])] if not _reads(test):
            return _from_first_read(body)
    return suite[place:]


def _can_wait(loop: ast.For, later: Sequence[ast.stmt], reads: Sequence[_Read]) -> bool:
    """Whether the last statements may run behind the loop: nothing of what they do is seen in it."""
    if any(not isinstance(statement, ast.Assign | ast.AugAssign | ast.Expr) for statement in later):
        return False
    inside = [node for statement in loop.body for node in ast.walk(statement)]
    if any(isinstance(node, ast.Break | ast.Return | ast.Yield | ast.Await) or _trains(node) for node in inside):
        return False
    if any(_changes_its_tensor(node) for part in later for node in ast.walk(part)):
        return False  # `grad.mul_(...)` changes what another turn may read
    moved = {node for part in later for node in ast.walk(part)}
    stays = [node for node in inside if node not in moved and isinstance(node, ast.Name)]
    read_before = names_of([*stays, loop.iter]).loads | names_of([read.tensor for read in reads]).loads
    return not names_of(later).stores & read_before


def _trains(node: ast.AST) -> bool:
    """Whether it is a step of training: what such a loop keeps would hold the graph of every batch."""
    return isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in _TRAINS


def _changes_its_tensor(node: ast.AST) -> bool:
    return isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr.endswith("_")


class _Parted:
    """A loop in two: what is kept of each turn, and the lines behind it."""

    def __init__(
        self, function: FunctionText, loop: ast.For, later: Sequence[ast.stmt], reads: Sequence[_Read]
    ) -> None:
        self._function = function
        self._loop = loop
        self._later = later
        self._reads = reads
        self._numbers = self._value_names()
        self._carried = self._carried_names()
        is_one = len(reads) == 1
        self._tensors = function.fresh(_several(self._numbers[0]) if is_one else "rows")
        self._others = function.fresh(_several(self._carried[0]) if len(self._carried) == 1 else "kept")

    def edits(self) -> list[Edit]:
        function, blanks = self._function, self._function.indentation(self._loop)
        opened = f"{self._tensors} = []" + (f"\n{self._others} = []" if self._carried else "")
        line = function.last(self._later[-1])[0]
        end = line, len(function.lines[line - 1])  # with the comment beside it, which goes with the statement
        lines = [*_read(function, self._tensors).split("\n"), self._head(), *self._moved()]
        behind = Edit(end, end, "".join(f"\n{blanks}{line}" for line in lines))
        return [function.line_before(self._loop, opened), *self._kept(behind)]

    def _head(self) -> str:
        numbers = _tuple(self._numbers)
        if not self._carried:
            return f"for {numbers} in {self._tensors}:"
        return f"for {_tuple(self._carried)}, {numbers} in zip({self._others}, {self._tensors}):"

    def _kept(self, behind: Edit) -> list[Edit]:
        """The last statements as one that keeps their tensors, which stay in their place for other changes of them."""
        function, is_one = self._function, len(self._reads) == 1
        exact = [] if is_one else [
            edit for read in self._reads for node in ast.walk(read.tensor) for edit in exact_count(function, node)
        ]  # fmt: skip
        inner = function.indentation(self._later[0])
        opening = f"{self._others}.append({_tuple(self._carried)})\n{inner}" if self._carried else ""
        opening += f"{self._tensors}.append(" + ("" if is_one else f"{function.torch}.stack([")
        place = function.first(self._later[0])
        edits = []
        for number, read in enumerate(self._reads):
            edits.append(Edit(place, function.first(read.tensor), opening))
            # float64 holds every count and every narrower number: the others are promoted to it.
            opening = ".double(), " if not number else ", "
            place = function.last(read.tensor)
        return [*exact, *edits, Edit(place, behind.last, (")" if is_one else "]))") + behind.text)]

    def _moved(self) -> list[str]:
        """The last statements with the numbers in place of the reads, one step further in than the loop."""
        function = self._function
        inner = function.indentation(self._later[0])
        above = self._later[0].lineno - 1
        lines = function.lines[above : function.last(self._later[-1])[0]]
        edits = [
            function.replace(read.call, name).moved(-above)
            for read, name in zip(self._reads, self._numbers, strict=True)
        ]
        return [function.step + line.removeprefix(inner) if line.strip() else "" for line in edited(lines, edits)]

    def _carried_names(self) -> list[str]:
        """What the last statements need of each turn beside the numbers."""
        moved = {node for statement in self._later for node in ast.walk(statement)}
        first = [node for part in self._loop.body for node in ast.walk(part) if node not in moved]
        set_first = names_of([self._loop.target, *(node for node in first if isinstance(node, ast.Name))]).stores
        read = {node for one in self._reads for node in ast.walk(one.call)}
        needed = [node.id for node in moved - read if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load)]
        return sorted(set(needed) & set_first)

    def _value_names(self) -> list[str]:
        """What the numbers are called: as the tensor, or the keyword that they are given to."""
        keywords = [node for part in self._later for node in ast.walk(part) if isinstance(node, ast.keyword)]
        given = {node: word.arg for word in keywords if word.arg for node in ast.walk(word.value)}
        found = []
        for read in self._reads:
            if isinstance(read.tensor, ast.Name):
                found.append(read.tensor.id)
            else:
                found.append(self._function.fresh(given.get(read.call) or "value"))
        if len(set(found)) == len(found):
            return found
        return [self._function.fresh(f"value_{number}") for number in range(len(found))]


def _several(name: str) -> str:
    return f"all_{name}" if name.endswith("s") else f"{name}s"


def _tuple(names: Sequence[str]) -> str:
    return names[0] if len(names) == 1 else f"({', '.join(names)})"
