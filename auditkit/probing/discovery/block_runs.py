"""The smallest run of statements that goes from gradients to a statistic, a limit or a check of them."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass, field

from auditkit.probing.discovery.block_marks import ScopeMarks, own_nodes, own_statements
from auditkit.probing.discovery.gradient_flow import trains
from auditkit.probing.patching.local_names import names_of
from auditkit.probing.source_code.modules import Module, dotted_name, targets_of

_PLAIN_CALLS = frozenset({
    "list", "tuple", "dict", "set", "filter", "map", "zip", "enumerate", "sorted", "float", "int", "bool", "len",
    "max", "min", "sum", "abs", "range", "any", "all", "isinstance", "hasattr", "getattr", "next", "iter",
    "parameters", "named_parameters", "children", "named_children", "modules", "named_modules", "values", "items",
    "keys", "get", "defaultdict", "detach", "item", "float", "double", "sqrt", "pow", "append",
})  # fmt: skip
_PLAIN_MODULES = frozenset(("torch", "math", "itertools", "functools", "collections", "numpy", "operator"))
_LEAVING = (ast.Return, ast.Yield, ast.YieldFrom, ast.Await, ast.AsyncFor, ast.AsyncWith)


@dataclass
class Run:
    """Statements `first` to `last` of one suite; `kernels` are those in it that reduce or limit gradients."""

    suite: list[ast.stmt]
    first: int
    last: int
    kernels: list[ast.stmt] = field(default_factory=list)

    @property
    def statements(self) -> list[ast.stmt]:
        return self.suite[self.first : self.last + 1]

    @property
    def loads(self) -> frozenset[str]:
        return names_of(self.statements).loads

    @property
    def results(self) -> frozenset[str]:
        """What it sets, without the names that its loops go through."""
        loops = (node for node in own_nodes(self.statements) if isinstance(node, ast.For))
        return names_of(self.statements).stores - names_of(loop.target for loop in loops).stores


class Runs:
    """Finds the runs of one scope."""

    def __init__(self, scope: ScopeMarks, module: Module) -> None:
        self._scope, self._module = scope, module

    def find(self) -> list[Run]:
        """In the order of the file; none shares a statement with another."""
        units: dict[ast.stmt, list[ast.stmt]] = {}
        for statement in self._scope.places:
            if self._scope.reductions(statement) or self._scope.limits(statement):
                top = self._climbed(statement)
                if top is not None:
                    units.setdefault(top, []).append(statement)
        found: list[Run] = []
        taken: set[ast.stmt] = set()
        for top in sorted(units, key=lambda one: (one.lineno, one.col_offset)):
            if top not in taken and not taken.intersection(self._scope.around(top)):
                found.append(self._grown(top, units, taken))
                taken.update(found[-1].statements)
        return found

    def _climbed(self, kernel: ast.stmt) -> ast.stmt | None:
        """The statement with the loops around `kernel` that hand it its gradients; None where that is no block."""
        top = kernel
        for outer in self._scope.around(kernel):
            if isinstance(outer, ast.While | ast.AsyncFor | ast.AsyncWith) or trains(outer):
                break
            if isinstance(outer, ast.For) and names_of(outer.target).stores & _needed(kernel, outer):
                top = outer
            elif isinstance(outer, ast.If) and outer in self._decisions(top):
                top = outer
        is_update = _updates_parameters(top) or any(map(self._scope.rewrites, own_statements(top)))
        if is_update or not _may_stand_alone(top, kernel):
            return None
        return top

    def _decisions(self, top: ast.stmt) -> Iterator[ast.stmt]:
        """`if clip_coef < 1:` around a limit: part of it, where nothing else is in it."""
        outer = self._scope.places[top].around
        if isinstance(outer, ast.If) and outer.body == [top] and not outer.orelse and _is_limited_by(self._scope, top):
            if self._scope.is_statistic(outer.test):
                yield outer

    def _grown(self, top: ast.stmt, units: dict[ast.stmt, list[ast.stmt]], taken: set[ast.stmt]) -> Run:
        place = self._scope.places[top]
        run = Run(place.suite, place.index, place.index, list(units[top]))
        self._grow_back(run, taken)
        if isinstance(top, ast.Return):
            return run
        waiting: list[ast.stmt] = []
        for statement in place.suite[place.index + 1 :]:
            waiting.append(statement)
            is_unit = statement in units
            if is_telling(statement) and not is_unit:
                continue
            if not (run.results & names_of(statement).loads and (is_unit or self._computes(statement))):
                break
            adds_inputs = names_of(statement).loads - run.loads - run.results - _called(statement)
            if is_unit or not adds_inputs:
                run.kernels += units.get(statement, [])
                run.last += len(waiting)
                waiting = []
        return run

    def _grow_back(self, run: Run, taken: set[ast.stmt]) -> None:
        """Take in what sets up the run: an accumulator's start, a list of parameters or gradients."""
        for place in range(run.first - 1, -1, -1):
            before = run.suite[place]
            if is_telling(before) and before not in taken:
                continue
            value = getattr(before, "value", None)
            sets_up = _plain_stores(before) & run.loads and value is not None and self._is_calm(value)
            if before in taken or not sets_up:
                return
            run.first = place

    def _computes(self, statement: ast.stmt) -> bool:
        """Whether a statement only goes on computing with a statistic, on one rank or on all."""
        match statement:
            case ast.Return(value=value) if value is not None:
                return self._scope.is_statistic(value) and self._is_calm(value)
            case ast.Assign(value=value) | ast.AugAssign(value=value):
                return bool(_plain_stores(statement)) and self._scope.is_statistic(value) and self._is_calm(value)
            case ast.Expr(value=ast.Call(func=function)):
                return self._module.full_name(dotted_name(function)).startswith("torch.distributed.")
        return False

    def _is_calm(self, value: ast.expr) -> bool:
        """Whether evaluating it does nothing but compute."""
        return all(self._is_plain(node) for node in ast.walk(value) if isinstance(node, ast.Call)) and not any(
            isinstance(node, ast.Await | ast.Yield | ast.YieldFrom) for node in ast.walk(value)
        )

    def _is_plain(self, call: ast.Call) -> bool:
        name = dotted_name(call.func)
        last = call.func.attr if isinstance(call.func, ast.Attribute) else name
        full = self._module.full_name(name) if name else ""
        if full.partition(".")[0] in _PLAIN_MODULES:
            return last not in ("load", "compile")
        return last in _PLAIN_CALLS or (isinstance(call.func, ast.Attribute) and bool(self._scope.marks.mark(call)))


def is_telling(statement: ast.stmt) -> bool:
    """A call whose answer nobody keeps and that changes no local container: `print(...)`, `writer.add_scalar(...)`."""
    return (
        isinstance(statement, ast.Expr)
        and isinstance(statement.value, ast.Call)
        and not names_of(statement).stores
        and not _is_collective(statement.value)
    )


def _is_collective(call: ast.Call) -> bool:
    name = call.func.attr if isinstance(call.func, ast.Attribute) else dotted_name(call.func)
    return name.startswith("all_") or name.endswith("_") or name in ("reduce", "broadcast", "barrier")


def _needed(kernel: ast.stmt, outer: ast.For) -> set[str]:
    """The names that the statement depends on, by way of assignments and loops inside `outer`."""
    needed = set(names_of(kernel).loads)
    inside = [node for node in own_nodes(outer.body) if isinstance(node, ast.Assign | ast.AugAssign | ast.For)]
    before = -1
    while len(needed) > before:
        before = len(needed)
        for node in inside:
            stored = names_of(node.target).stores if isinstance(node, ast.For) else names_of(node).stores
            if stored & needed:
                needed |= names_of(node.iter if isinstance(node, ast.For) else node).loads
    return needed


def _is_limited_by(scope: ScopeMarks, top: ast.stmt) -> bool:
    return any(map(scope.limits, own_statements(top)))


def _may_stand_alone(top: ast.stmt, kernel: ast.stmt) -> bool:
    """Whether control stays inside: what leaves the scope stands outside of the statement, or is the whole of it."""
    if isinstance(top, ast.Return):
        return True
    if top is kernel:
        head = [node for node in ast.walk(top) if isinstance(node, ast.Yield | ast.YieldFrom | ast.Await)]
        return not head
    return not any(isinstance(node, _LEAVING) for node in own_nodes([top]))


def _updates_parameters(top: ast.stmt) -> bool:
    """Whether it changes what it goes through, not only its gradients: the update rule of an optimizer."""
    gone_through = {name for node in own_nodes([top]) if isinstance(node, ast.For) for name in names_of(node.target).stores}
    for node in own_nodes([top]):
        changed: list[ast.expr] = []
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            is_in_place = node.func.attr.endswith("_") and not node.func.attr.endswith("__")
            changed = [node.func.value] if is_in_place and node.func.attr != "requires_grad_" else []
        elif isinstance(node, ast.Assign | ast.AugAssign):
            changed = [each for each in targets_of(node) or [getattr(node, "target", None)] if isinstance(each, ast.Attribute)]
        for each in changed:
            parts = dotted_name(each).split(".")
            if parts[0] in gone_through and parts[-1] in (parts[0], "data") and not any("grad" in one for one in parts):
                return True
    return False


def _plain_stores(statement: ast.stmt) -> frozenset[str]:
    """The names that an assignment sets, where it sets nothing else."""
    targets = [statement.target] if isinstance(statement, ast.AugAssign) else targets_of(statement)
    is_plain = all(isinstance(node, ast.Name | ast.Tuple | ast.expr_context) for each in targets for node in ast.walk(each))
    return names_of(targets).stores if targets and is_plain else frozenset()


def _called(statement: ast.stmt) -> frozenset[str]:
    """The first names of what it calls: `torch` of `torch.sqrt(x)`, `float`."""
    calls = (node for node in ast.walk(statement) if isinstance(node, ast.Call))
    return frozenset(dotted_name(call.func).partition(".")[0] for call in calls)

