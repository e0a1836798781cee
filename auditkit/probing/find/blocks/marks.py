"""Scopes (functions, scripts), and which of their statements reduce, limit or report gradients."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property

from auditkit.probing.find import vocabulary
from auditkit.probing.find.gradient_flow import GRADIENTS, NOTHING, STATISTICS, Tracer
from auditkit.probing.find.gradient_names import gets_gradients
from auditkit.probing.fix.local_names import names_of
from auditkit.probing.source.modules import (
    Class,
    Function,
    FunctionNode,
    Module,
    changed_by,
    dotted_name,
    last_name,
)
from auditkit.probing.source.statements import head_of
from auditkit.probing.source.walking import Suite, children, suites_of, walk

_DEFINITIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda, ast.ClassDef)


@dataclass(frozen=True)
class Place:
    """The position of a statement: its list of statements, its index, and the statement around (None: the scope)."""

    suite: Suite
    index: int
    around: ast.stmt | None


@dataclass(eq=False)
class Scope:
    """The body of a function, or of a module if `node` is None, and what its statements do with gradients.

    `top` is the module's scope; `functions` are those around the statements, the scope's own last.
    """

    module: Module
    body: Suite
    qualified_name: str = ""
    node: FunctionNode | None = None
    owner: Class | None = None
    top: Scope | None = None
    functions: tuple[FunctionNode, ...] = ()

    @cached_property
    def function(self) -> Function | None:
        """The function of the scope, also if it is inside another."""
        return Function(self.module, self.qualified_name, self.node, self.owner) if self.node is not None else None

    @cached_property
    def places(self) -> dict[ast.stmt, Place]:
        """The position of each statement, in the order of the file."""
        return dict(_places(self.body, None))

    @cached_property
    def setters(self) -> dict[str, list[ast.stmt]]:
        """The statements that set each name, in the order of the file."""
        found: dict[str, list[ast.stmt]] = {}
        for statement in self.places:
            for name in names_of_one(statement):
                found.setdefault(name, []).append(statement)
        return found

    @cached_property
    def marks(self) -> Tracer:
        """Marks of the gradients that the scope itself reads."""
        marks = _ParameterGradients(self.body)
        marks.follow(self.body)
        return marks

    def around(self, statement: ast.stmt) -> Iterator[ast.stmt]:
        """Yield the statements around one, innermost first."""
        outer = self.places[statement].around
        while outer is not None:
            yield outer
            outer = self.places[outer].around

    def is_statistic(self, expression: ast.expr) -> bool:
        return self.marks.mark(expression) == STATISTICS

    def reductions(self, statement: ast.stmt) -> list[ast.Call]:
        """Return the calls that reduce gradients in the statement itself, not in statements inside it."""
        reduced = self.marks.flow.reduced
        return [node for node in walk(head_of(statement)) if node in reduced] if reduced else []

    def limits(self, statement: ast.stmt) -> bool:
        """Return whether the statement itself changes gradients in place, as clipping does."""
        limited = self.marks.flow.limited
        return bool(limited) and any(node in limited for node in walk(head_of(statement)))

    def tells(self, statement: ast.stmt) -> bool:
        """Return whether a statement only reports: `print(...)`, `writer.add_scalar(name, norm)`."""
        if not isinstance(statement, ast.Expr) or not isinstance(statement.value, ast.Call):
            return False
        call, name = statement.value, last_name(statement.value.func)
        is_collective = name.startswith("all_") or name.endswith("_") or name in ("reduce", "broadcast", "barrier")
        if names_of(statement).stores or is_collective or "clip" in name:
            return False
        told = (*call.args, *(each.value for each in call.keywords))
        return bool(vocabulary.TELLS.search(ast.unparse(call.func).lower())) or any(map(self.is_statistic, told))

    def rewrites(self, statement: ast.stmt) -> bool:
        """Return whether the statement itself replaces gradients without limiting them."""
        return any(map(_writes_gradient, changed_by(statement))) and not self.limits(statement)


def own_nodes(nodes: Iterable[ast.AST]) -> Iterator[ast.AST]:
    """Yield all nodes of statements in order, except those of functions and classes defined in them."""
    waiting = [*nodes]
    waiting.reverse()
    while waiting:
        node = waiting.pop()
        if isinstance(node, ast.AST):  # None for a missing key, a string in `global x`
            yield node
            if not isinstance(node, _DEFINITIONS):
                waiting += children(node)[::-1]


def own_statements(statement: ast.stmt) -> Iterator[ast.stmt]:
    """Yield a statement and those inside it."""
    return (node for node in own_nodes([statement]) if isinstance(node, ast.stmt))


def names_of_one(statement: ast.stmt) -> frozenset[str]:
    """Return the names that a statement itself sets, without those set by statements inside it."""
    if isinstance(statement, FunctionNode | ast.ClassDef):
        return frozenset((statement.name,))
    return names_of(head_of(statement) if suites_of(statement) else statement).stores


def _places(suite: Suite, around: ast.stmt | None) -> Iterator[tuple[ast.stmt, Place]]:
    for index, statement in enumerate(suite):
        yield statement, Place(suite, index, around)
        if not isinstance(statement, FunctionNode | ast.ClassDef):
            for inner in suites_of(statement):
                yield from _places(inner, statement)


def _writes_gradient(target: ast.expr) -> bool:
    """Return whether the target is `p.grad` or `p.grad.data`."""
    inner = target.value if isinstance(target, ast.Attribute) and target.attr == "data" else target
    return isinstance(inner, ast.Attribute) and inner.attr.endswith("grad")


class _ParameterGradients(Tracer):
    """Marks only the gradients of parameters in a loop: `x.grad` elsewhere is of an input, or of a test."""

    def __init__(self, body: Suite) -> None:
        super().__init__(lambda _call, _given: None, {}, set())
        self._parameters: set[str] = set()
        """Names of loop variables over parameters."""
        for loop in own_nodes(body):
            if isinstance(loop, ast.For | ast.comprehension):
                over_parameters = vocabulary.OF_PARAMETERS.search(ast.unparse(loop.iter))
                names = (node.id for node in ast.walk(loop.target) if isinstance(node, ast.Name))
                self._parameters.update(
                    name for name in names if over_parameters or vocabulary.LOOP_PARAMETER.fullmatch(name)
                )

    def loop(self, target: ast.expr, source: ast.expr) -> None:
        """Mark a loop variable by what the loop iterates over, not by its name:

        `for grad in received` may be anything.
        """
        self.assign([target], self.mark(source))

    def attribute(self, node: ast.Attribute) -> int:
        mark = super().attribute(node)
        is_source = mark == GRADIENTS and not self.marks.get(dotted_name(node)) and not self.mark(node.value)
        return NOTHING if is_source and not self._is_one_of_many(node.value) else mark

    def call(self, node: ast.Call) -> int:
        before = len(self.flow.reduced)
        mark = super().call(node)
        name = last_name(node.func)
        if mark == GRADIENTS and gets_gradients(name) and node.args:
            return NOTHING  # `predictor.get_gradients(instances)` returns gradients of inputs.
        if len(self.flow.reduced) > before and (
            name in vocabulary.LIBRARY or any(map(self._compares_gradients, ast.walk(node)))
        ):
            self.flow.reduced.discard(node)
        return mark

    def limits(self, factor: ast.expr) -> bool:
        """Return whether an expression depends on a statistic or is named for a limit."""
        words = (ast.unparse(node) for node in ast.walk(factor) if isinstance(node, ast.Name | ast.Attribute))
        return super().limits(factor) or any(vocabulary.LIMIT_WORDS.search(word.lower()) for word in words)

    def _is_one_of_many(self, owner: ast.expr) -> bool:
        while isinstance(owner, ast.Attribute | ast.Subscript):
            owner = owner.value
        if isinstance(owner, ast.Call):
            return dotted_name(owner.func) == "next"
        return isinstance(owner, ast.Name) and owner.id in self._parameters

    def _compares_gradients(self, node: ast.AST) -> bool:
        """Return whether a node compares tensors in a test:

        `p.grad - q.grad`, `p.grad == expected`, but not with a number.
        """
        match node:
            case ast.BinOp(left=left, op=ast.Sub(), right=right):
                parts = [left, right]
                if GRADIENTS not in map(self.mark, parts):
                    return False
            case ast.Compare(left=left, ops=[ast.Eq(), *_], comparators=others):
                parts = [left, *others]
            case _:
                return False
        return not any(isinstance(part, ast.Constant) for part in parts)
