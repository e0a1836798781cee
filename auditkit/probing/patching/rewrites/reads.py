"""Results that are read from the device one by one, read together once."""

from __future__ import annotations

import ast
import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from auditkit.probing.patching.local_names import names_of
from auditkit.probing.patching.rewrites.edits import Edit, Rewrite, edited, rewrite_of
from auditkit.probing.patching.rewrites.function_text import FunctionText

_SYNCS = frozenset({
    "syncs_grow_with_tensors", "sync_in_loop", "graph_breaks_under_compile", "async_collect_synchronizes",
    "step_waits_for_the_device",
})  # fmt: skip
_TRUTHS = {"isnan": "has_nan", "isinf": "has_inf", "isfinite": "is_finite"}
"""What a tensor is asked for, and what the answer is called."""
_TRAINS = frozenset({"backward", "step", "zero_grad", "train", "eval"})


@dataclass(frozen=True)
class _Read:
    """`x.item()`: the call and the tensor that it reads; of a truth value both are the same."""

    call: ast.Call
    tensor: ast.expr


def read_once(functions: Sequence[FunctionText]) -> Iterator[Rewrite]:
    """Every loop and list that reads a tensor at each turn, with the tensors kept and read behind it."""
    edits: list[Edit] = []
    lines: list[int] = []
    for function in functions:
        for statement in (one for suite in function.suites for one in suite if function.has_own_lines(one)):
            found = _of_list(function, statement) or _of_helper(function, statement, functions)
            found = found or _of_appends(function, statement) or _of_loop(function, statement)
            if found:
                edits += found
                lines.append(statement.lineno)
    return rewrite_of("read_once", _SYNCS, edits, "the tensors are kept, and read once behind the loop", lines)


def _reads(node: ast.AST) -> list[_Read]:
    """`x.item()` and `if torch.isnan(x).any():`, in the order of the text."""
    found = []
    for inner in ast.walk(node):
        match inner:
            case ast.Call(func=ast.Attribute(value=tensor, attr="item"), args=[], keywords=[]):
                found.append(_Read(inner, tensor))
            case ast.If(test=ast.UnaryOp(op=ast.Not(), operand=ast.Call() as test)) | ast.If(test=ast.Call() as test):
                found += [_Read(test, test)] if _asked_of(test) else []
    return sorted(found, key=lambda read: (read.call.lineno, read.call.col_offset))


def _asked_of(test: ast.Call) -> str:
    """`isnan` of `torch.isnan(x).any()` and `torch.any(x.isnan())`; "" of what is no truth value of a tensor."""
    match test:
        case ast.Call(func=ast.Attribute(value=inner, attr="any" | "all"), args=arguments):
            asked = arguments[0] if arguments else inner
            if isinstance(asked, ast.Call) and isinstance(asked.func, ast.Attribute):
                return asked.func.attr if asked.func.attr in _TRUTHS else ""
    return ""


def _of_list(function: FunctionText, statement: ast.stmt) -> list[Edit]:
    """`norms = [g.norm().item() for g in grads]`: the tensors, and a line that reads them."""
    match statement:
        case ast.Assign(targets=[ast.Name(id=name)], value=ast.ListComp(elt=ast.Call() as elt)):
            reads = _reads(elt)
            if len(reads) == 1 and reads[0].call is elt:
                kept = Edit(function.last(reads[0].tensor), function.last(elt), "")
                return [kept, function.line_after(statement, "\n".join(_read(function, name)))]
    return []


def _of_helper(function: FunctionText, statement: ast.stmt, functions: Sequence[FunctionText]) -> list[Edit]:
    """`norms = [norm_of(g) for g in grads]`, where `norm_of` reads what it returns, and nothing else calls it."""
    match statement:
        case ast.Assign(
            targets=[ast.Name(id=name)], value=ast.ListComp(elt=ast.Call(func=ast.Name(id=called)), generators=[_])
        ):
            helper = next((one for one in functions if one.function.name == called and one is not function), None)
            uses = [node for node in ast.walk(function.function.module.tree) if isinstance(node, ast.Name)]
            is_private = called.startswith("_") and sum(node.id == called for node in uses) == 1
            if helper is not None and is_private:
                returned = _without_read(helper)
                return [*returned, function.line_after(statement, "\n".join(_read(function, name)))] if returned else []
    return []


def _without_read(helper: FunctionText) -> list[Edit]:
    """A function whose last statement returns `x.item()`, its only way out, with the tensor returned; else nothing."""
    node = helper.function.node
    ways_out = [inner for inner in helper.nodes if isinstance(inner, ast.Return | ast.Yield)]
    match helper.suite[-1]:
        case ast.Return(value=ast.Call(func=ast.Attribute(value=tensor, attr="item"), args=[]) as call) as last:
            if ways_out != [last] or isinstance(node, ast.AsyncFunctionDef):
                return []
            edits = [Edit(helper.last(tensor), helper.last(call), "")]
            return edits + ([helper.replace(node.returns, f"{helper.torch}.Tensor")] if node.returns else [])
    return []


def _read(function: FunctionText, name: str) -> list[str]:
    """All tensors of a list as numbers, in one copy from the first one's device; an empty list stays one."""
    return [f"if {name}:", f"{function.step}{name} = {_numbers(function, name)}"]


def _numbers(function: FunctionText, name: str) -> str:
    each = function.fresh("value")
    return f"{function.torch}.stack([{each}.to({name}[0].device) for {each} in {name}]).tolist()"


def _of_appends(function: FunctionText, loop: ast.stmt) -> list[Edit]:
    """A loop that reads only for `norms.append(norm.item())`: the tensors are appended, and read behind it."""
    if not isinstance(loop, ast.For) or loop.orelse or any(isinstance(node, ast.Return) for node in ast.walk(loop)):
        return []
    calls = [node for node in ast.walk(loop) if isinstance(node, ast.Call)]
    found = [pair for pair in map(_appended, calls) if pair is not None]
    names = [name for name, _ in found if _is_filled(function, loop, name)]
    if not found or not len(names) == len(found) == len(_reads(loop)):
        return []
    alone = ".detach()" if any(map(_trains, ast.walk(loop))) else ""  # else the graph of every batch stays
    kept = [Edit(function.last(read.tensor), function.last(read.call), alone) for _, read in found]
    return [*kept, function.line_after(loop, "\n".join(line for name in names for line in _read(function, name)))]


def _appended(call: ast.Call) -> tuple[str, _Read] | None:
    """The list and the read of `norms.append(norm.item())`."""
    match call:
        case ast.Call(func=ast.Attribute(value=ast.Name(id=name), attr="append"), args=[ast.Call() as value]):
            reads = _reads(value)
            return (name, reads[0]) if len(reads) == 1 and reads[0].call is value else None
    return None


def _is_filled(function: FunctionText, loop: ast.For, name: str) -> bool:
    """Whether a list is set once, empty, and is named once in the loop: where it is appended to."""
    stores = [node for node in function.nodes if isinstance(node, ast.stmt) and name in names_of(node).stores]
    set_to = [node.value for node in stores if isinstance(node, ast.Assign)]
    named = [node for node in ast.walk(loop) if isinstance(node, ast.Name) and node.id == name]
    match set_to:
        case [ast.List(elts=[])]:
            return len(named) == 1
    return False


def _of_loop(function: FunctionText, loop: ast.stmt) -> list[Edit]:
    """A loop whose last statements use numbers that are read there, parted in two.

    The first keeps the tensors, and what else the second needs of each turn. Statements under a condition of their
    own are parted apart.
    """
    if not isinstance(loop, ast.For) or loop.orelse:
        return []
    parts = _parts(loop.body)
    moved = [statement for part in parts for statement in part]
    if not parts or not all(map(function.has_own_lines, moved)) or not _can_wait(function, loop, parts):
        return []
    parted = [_Parted(function, loop, part, number) for number, part in enumerate(parts)]
    opened = function.line_before(loop, "\n".join(part.opened for part in parted))
    end = function.last(loop)[0], len(function.lines[function.last(loop)[0] - 1])
    behind = f"\n{function.indentation(loop)}".join(["", *(line for part in parted for line in part.behind())])
    return [opened, *(edit for part in parted for edit in part.kept()), Edit(end, end, behind)]


def _parts(suite: Sequence[ast.stmt]) -> list[Sequence[ast.stmt]]:
    """The statements from the first that reads on, without what does not read; those inside others by themselves."""
    place = next((place for place, statement in enumerate(suite) if _reads(statement)), len(suite))
    parts: list[list[ast.stmt]] = [[]]
    inner: list[Sequence[ast.stmt]] = []
    for statement in suite[place:]:
        match statement:
            case ast.If(test=test, body=body, orelse=[]) if not _reads_in_test(statement) and _reads(statement):
                inner += [] if _reads(test) else _parts(body)
                parts.append([])
            case ast.With(body=body) if _reads(statement):
                inner += _parts(body)
                parts.append([])
            case _:
                parts[-1].append(statement)
    own = [part for part in parts if any(map(_reads, part))]
    return [*own, *inner]


def _reads_in_test(statement: ast.stmt) -> bool:
    inside = set(ast.walk(statement.test)) if isinstance(statement, ast.If) else set()
    return any(read.call in inside for read in _reads(statement))


def _can_wait(function: FunctionText, loop: ast.For, parts: Sequence[Sequence[ast.stmt]]) -> bool:
    """Whether these statements may run behind the loop, part by part: nothing of what they do is seen in it."""
    later = [statement for part in parts for statement in part]
    if not all(map(_is_simple, later)):
        return False
    inside = [node for statement in loop.body for node in ast.walk(statement)]
    if any(isinstance(node, ast.Break | ast.Return | ast.Yield | ast.Await) or _trains(node) for node in inside):
        return False
    if any(_changes_its_tensor(node) for part in later for node in ast.walk(part)):
        return False  # `grad.mul_(...)` changes what another turn may read
    moved = {node for part in later for node in ast.walk(part)}
    stays = [node for node in inside if node not in moved and isinstance(node, ast.Name)]
    tensors = [read.tensor for part in later for read in _reads(part)]
    read_before = names_of([*stays, loop.iter]).loads | names_of(tensors).loads
    of_turn = names_of([loop.target, *stays]).stores
    own = [_local_names(function, part) - of_turn for part in parts]
    is_apart = all(one.isdisjoint(other) for one, other in itertools.combinations(own, 2))
    return is_apart and not names_of(later).stores & read_before


def _is_simple(statement: ast.stmt) -> bool:
    if isinstance(statement, ast.If):  # what reads under a question is rarely asked, and stays so
        inner = [*statement.body, *statement.orelse]
        return _reads_in_test(statement) and not any(map(_reads, inner)) and all(map(_is_simple, inner))
    return isinstance(statement, ast.Assign | ast.AugAssign | ast.Expr)


def _local_names(function: FunctionText, part: Sequence[ast.stmt]) -> frozenset[str]:
    """The function's own names in some statements, which one may change and another read."""
    names = names_of(part)
    return (names.loads | names.stores) & names_of(function.suite).stores


def _trains(node: ast.AST) -> bool:
    """Whether it is a step of training: what such a loop keeps would hold the graph of every batch."""
    return isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in _TRAINS


def _changes_its_tensor(node: ast.AST) -> bool:
    return isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr.endswith("_")


class _Parted:
    """The last statements of a loop as two: what is kept of each turn, and the lines behind it.

    `number` counts the parts of one loop.
    """

    def __init__(self, function: FunctionText, loop: ast.For, later: Sequence[ast.stmt], number: int) -> None:
        self._function = function
        self._loop = loop
        self._later = later
        self._reads = [read for statement in later for read in _reads(statement)]
        self._numbers = self._value_names()
        self._carried = self._carried_names()
        nth = f"_{number + 1}" if number else ""
        self._is_one = len(self._reads) == 1
        self._tensors = function.fresh((_several(self._numbers[0]) if self._is_one else "rows") + nth)
        self._others = function.fresh((_several(self._carried[0]) if len(self._carried) == 1 else "kept") + nth)

    @property
    def opened(self) -> str:
        """The empty lists before the loop."""
        return f"{self._tensors} = []" + (f"\n{self._others} = []" if self._carried else "")

    def behind(self) -> list[str]:
        """The lines behind the loop: the read, and a loop over what was read."""
        function, numbers = self._function, _tuple(self._numbers)
        read, rows = _read(function, self._tensors), self._tensors
        if not self._is_one:
            # Each column by itself: no tensor is cast at its turn, which would be one launch more.
            column, columns = function.fresh("column"), function.fresh("columns")
            rows = f"zip(*{columns})"
            read = [f"{columns} = [{_numbers(function, column)} for {column} in zip(*{self._tensors})]"]
        if not self._carried:
            return [*read, f"for {numbers} in {rows}:", *self._moved()]
        return [*read, f"for {_tuple(self._carried)}, {numbers} in zip({self._others}, {rows}):", *self._moved()]

    def kept(self) -> list[Edit]:
        """The last statements as one that keeps their tensors, which stay in their place for other changes of them."""
        function, brackets = self._function, ("", "") if self._is_one else ("(", ")")
        inner = function.indentation(self._later[0])
        opening = f"{self._others}.append({_tuple(self._carried)})\n{inner}" if self._carried else ""
        opening += f"{self._tensors}.append({brackets[0]}"
        place = function.first(self._later[0])
        edits = []
        for read in self._reads:
            edits.append(Edit(place, function.first(read.tensor), opening))
            opening, place = ", ", function.last(read.tensor)
        line = function.last(self._later[-1])[0]
        end = line, len(function.lines[line - 1])  # with the comment beside it, which goes with the statement
        return [*edits, Edit(place, end, f"{brackets[1]})")]

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
            truth = _TRUTHS.get(_asked_of(read.call))
            if isinstance(read.tensor, ast.Name):
                found.append(read.tensor.id)
            elif truth is not None:
                found.append(self._function.fresh(truth))
            else:
                found.append(self._function.fresh(given.get(read.call) or "value"))
        if len(set(found)) == len(found):
            return found
        return [self._function.fresh(f"value_{number}") for number in range(len(found))]


def _several(name: str) -> str:
    return f"all_{name}" if name.endswith("s") else f"{name}s"


def _tuple(names: Sequence[str]) -> str:
    return names[0] if len(names) == 1 else f"({', '.join(names)})"
