"""Norms that functions of a checkout computed, where a step clips by them or checks them: `norm = get_grad_norm()`.

The function that computes one is asked by itself; here it is asked with what is done about its answer.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass

from auditkit.probing.discovery import gradient_names as names
from auditkit.probing.discovery.blocks.marks import LIBRARY, ScopeMarks, Suite, own_nodes, own_statements
from auditkit.probing.discovery.blocks.runs import Run
from auditkit.probing.patching.local_names import names_of
from auditkit.probing.source_code.modules import dotted_name, targets_of

_LEAVING = (ast.Return, ast.Yield, ast.YieldFrom, ast.Await)


@dataclass(frozen=True)
class HandedOn:
    """A run from the call that gives a norm to what is done about it; `answer` is what it tells, called `name`."""

    run: Run
    name: str
    answer: ast.expr


def handed_on(scope: ScopeMarks, taken: set[ast.stmt]) -> Iterator[HandedOn]:
    """The runs of one scope, in the order of the file; none has a statement of `taken`."""
    for statement, place in scope.places.items():
        norm = _given_norm(statement)
        found = _of_norm(place.suite, place.index, norm) if norm is not None else _of_flag(place.suite, place.index)
        if found is not None:
            inside = {each for top in found.run.statements for each in own_statements(top)}
            if taken.isdisjoint(inside):
                taken |= inside
                yield found


def _of_norm(suite: Suite, index: int, norm: ast.expr) -> HandedOn | None:
    """From the statement that sets a norm to the one behind it that clips by it, or checks it."""
    for last in range(index + 1, len(suite)):
        statement = suite[last]
        check = _check(statement, norm)
        if check is not None:
            name = names.last_name(check.func)
            return HandedOn(Run(suite, index, last), name.strip("_"), _with_guard(statement, check, norm))
        if _leaves(statement):
            return None
        if _clips_by(statement, norm):
            # Where the optimizer steps between two clips, the norm alone can be asked.
            steps = _steps(statement)
            first = _first(suite, index)
            is_more = first < index or _joins(suite[index]) or (isinstance(statement, ast.For) and not steps)
            run = Run(suite, first, index if steps else last)
            # One norm for one clip are two functions, which are asked by themselves.
            return HandedOn(run, _word(norm), norm) if is_more else None
        if _steps(statement):
            return None
    return None


def _of_flag(suite: Suite, index: int) -> HandedOn | None:
    """`self.overflow_counter += region.has_inf_or_nan`: one of many flags, added up in a hook."""
    match suite[index]:
        case ast.AugAssign(target=ast.Attribute() as target, op=ast.Add(), value=ast.Attribute(attr=flag)):
            if names.is_finite_check(flag) and names.is_finite_check(target.attr):
                return HandedOn(Run(suite, index, index), target.attr, _as_read(target))
    return None


def _given_norm(statement: ast.stmt) -> ast.expr | None:
    """What a statement sets to the norm of gradients that a call gives, by both their names."""
    value = getattr(statement, "value", None)
    if not isinstance(statement, ast.Assign) or not isinstance(value, ast.Call):
        return None
    called = names.last_name(value.func)
    if called in LIBRARY or "norm" not in called:
        return None
    targets = [
        part for each in targets_of(statement) for part in (each.elts if isinstance(each, ast.Tuple) else [each])
    ]
    norms = [each for each in targets if isinstance(each, ast.Name | ast.Attribute) and names.holds_norm(_word(each))]
    return _as_read(norms[0]) if norms else None


def _joins(statement: ast.stmt) -> bool:
    """Whether norms go into it: `get_global_norm(norm_list=norm_groups)`."""
    return any(names.holds_norm(name.rpartition(".")[2]) for name in names_of(statement).loads)


def _clips_by(statement: ast.stmt, norm: ast.expr) -> bool:
    calls = (node for node in own_nodes([statement]) if isinstance(node, ast.Call))
    return any("clip" in names.last_name(call.func) and _is_handed(call, norm) for call in calls)


def _check(statement: ast.stmt, norm: ast.expr) -> ast.Call | None:
    """The call in an `if` that asks whether the norm is finite: `if check_overflow(grad_norm):`."""
    asked = ast.walk(statement.test) if isinstance(statement, ast.If) else ()
    calls = (node for node in asked if isinstance(node, ast.Call) and _is_handed(node, norm))
    return next((call for call in calls if names.is_finite_check(names.last_name(call.func))), None)


def _with_guard(statement: ast.stmt, check: ast.Call, norm: ast.expr) -> ast.expr:
    """Return `norm is not None and check_overflow(norm)` whole, but drop flags: they say when to check."""
    match statement:
        case ast.If(test=ast.BoolOp(op=op, values=values)):
            about = [each for each in values if ast.unparse(norm) in names_of(each).loads]
            return ast.BoolOp(op, about) if len(about) > 1 else check
    return check


def _is_handed(call: ast.Call, norm: ast.expr) -> bool:
    handed = (*call.args, *(item.value for item in call.keywords))
    return ast.unparse(norm) in map(dotted_name, handed)


def _first(suite: Suite, index: int) -> int:
    """Where the norms begin of which this one is made."""
    while index > 0 and _makes_norms(suite[index - 1], names_of(suite[index]).loads):
        index -= 1
    return index


def _makes_norms(statement: ast.stmt, wanted: frozenset[str]) -> bool:
    calls = [names.last_name(node.func) for node in own_nodes([statement]) if isinstance(node, ast.Call)]
    is_plain = isinstance(statement, ast.Assign | ast.If)
    return is_plain and bool(names_of(statement).stores & wanted) and any("norm" in name for name in calls)


def _leaves(statement: ast.stmt) -> bool:
    """Whether control may go elsewhere than to the next statement."""
    is_loop = isinstance(statement, ast.For | ast.While)
    leaving = _LEAVING if is_loop else (*_LEAVING, ast.Continue, ast.Break)
    return any(isinstance(node, leaving) for node in own_nodes([statement]))


def _steps(statement: ast.stmt) -> bool:
    calls = (node for node in own_nodes([statement]) if isinstance(node, ast.Call))
    return any("step" in names.last_name(call.func).split("_") for call in calls)


def _word(node: ast.expr) -> str:
    return names.last_name(node).strip("_")


def _as_read(target: ast.expr) -> ast.expr:
    return ast.parse(ast.unparse(target), mode="eval").body
