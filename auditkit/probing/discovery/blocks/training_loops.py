"""Training steps in the middle of a script or a long function: from a batch to the optimizer's step, as blocks."""

from __future__ import annotations

import ast
import copy
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from auditkit.model.runs.target import TRAINING_STEP
from auditkit.probing.discovery.blocks.bodies import BlockFunction, loop_function, reads_of, with_suites
from auditkit.probing.discovery.blocks.marks import ScopeMarks, own_nodes, suites_of
from auditkit.probing.discovery.blocks.runs import Run
from auditkit.probing.discovery.blocks.training_calls import TrainingCalls
from auditkit.probing.patching.local_names import names_of
from auditkit.probing.source_code.modules import Class, FunctionNode, dotted_name
from auditkit.probing.source_code.statements import head_of
from auditkit.probing.source_code.walking import walk
from auditkit.probing.worker.feeding import guesses
from auditkit.probing.worker.steps import roles

MAY_TRAIN = re.compile(r"\.backward\(")
_LEAVING = (ast.Yield, ast.YieldFrom, ast.Await, ast.AsyncFor, ast.AsyncWith)
_LOADERS = re.compile(r"\w*(loader|iter|iterator|dataset|dl)s?")
_FURTHEST = 30
"""Statements before the backward pass in which what it needs is looked for."""


@dataclass(frozen=True)
class _Trains:
    """What calls of one scope do for a training step."""

    calls: TrainingCalls
    owner: Class | None

    def is_backward(self, call: ast.Call) -> bool:
        return self.calls.is_backward(call, self.owner)

    def is_step(self, call: ast.Call) -> bool:
        return self.calls.is_step(call, self.owner)

    def is_any(self, call: ast.Call) -> bool:
        return self.is_backward(call) or self.is_step(call)


def training_loops(
    scope: ScopeMarks, calls: TrainingCalls, owner: Class | None, functions: Sequence[FunctionNode]
) -> Iterator[tuple[Run, BlockFunction]]:
    """Each run of statements of a scope that goes backward and steps, as a function; `functions` are around it."""
    trains, module = _Trains(calls, owner), calls.module
    for run in _runs(scope, trains):
        statements = [_sliced(each, run) for each in run.statements]
        if not any(isinstance(node, _LEAVING) for node in own_nodes(statements)):
            body = [kept for each in statements for kept in _kept(each, scope, trains)]
            yield run, loop_function(run, scope, module, functions, TRAINING_STEP, body)


def _runs(scope: ScopeMarks, trains: _Trains) -> list[Run]:
    """The smallest runs that hold a backward pass and the step after it; none lies in another."""
    backward = [each for each in scope.places if _calls(each, trains.is_backward)]
    found: list[Run] = []
    for step in scope.places:
        if not _calls(step, trains.is_step):
            continue
        joined = [run for each in backward if (run := _joining(scope, each, step)) is not None]
        if joined:
            deepest = max(joined, key=lambda run: _depth(scope, run.statements[0]))
            found.append(_widened(scope, deepest, trains))
    return [run for run in _merged(found) if not any(_holds(other, run) for other in found if other is not run)]


def _merged(runs: Sequence[Run]) -> list[Run]:
    """Those of one list of statements that overlap are one."""
    merged: list[Run] = []
    for run in runs:
        before = next((each for each in merged if each.suite is run.suite and each.last >= run.first), None)
        if before is None:
            merged.append(run)
        else:
            before.first, before.last = min(before.first, run.first), max(before.last, run.last)
    return merged


def _holds(outer: Run, inner: Run) -> bool:
    inside = {node for node in own_nodes(outer.statements) if isinstance(node, ast.stmt)}
    return inner.suite is not outer.suite and inner.statements[0] in inside


def _joining(scope: ScopeMarks, backward: ast.stmt, step: ast.stmt) -> Run | None:
    """The shortest run in which both are."""
    tops = {id(scope.places[each].suite): each for each in (backward, *scope.around(backward))}
    for each in (step, *scope.around(step)):
        other = tops.get(id(scope.places[each].suite))
        if other is not None:
            place, index = scope.places[each], scope.places[other].index
            return Run(place.suite, index, place.index) if index <= place.index else None
    return None


def _depth(scope: ScopeMarks, statement: ast.stmt) -> int:
    return sum(1 for _ in scope.around(statement))


def _widened(scope: ScopeMarks, run: Run, trains: _Trains) -> Run:
    """With what makes the batch and the loss, and with what clears gradients; a loop over batches as a whole."""
    _take_after(run, trains)
    _take_before(run, trains)
    around = scope.places[run.statements[0]].around
    if isinstance(around, ast.For) and _goes_through_batches(around):
        place = scope.places[around]
        return Run(place.suite, place.index, place.index, run.statements)
    return run


def _sliced(statement: ast.stmt, run: Run) -> ast.stmt:
    """A loop over batches without what it does before and behind the step: it logs, evaluates and saves there."""
    if not isinstance(statement, ast.For) or not run.kernels:
        return statement
    read = set(reads_of(run.kernels))
    last = statement.body.index(run.kernels[-1])
    carried = [
        each
        for each in statement.body[last + 1 :]
        if isinstance(each, ast.Assign | ast.AugAssign) and names_of(each).stores & read
    ]
    made = copy.copy(statement)
    made.body = [*run.kernels, *carried]
    return made


def _take_after(run: Run, trains: _Trains) -> None:
    """Up to the last `zero_grad` or `update` before anything goes backward again."""
    for index in range(run.last + 1, len(run.suite)):
        statement = run.suite[index]
        if _any_call(statement, trains.is_backward):
            return
        if _any_call(statement, lambda call: _method(call) == "zero_grad" or _is_update(call)):
            run.last = index


def _is_update(call: ast.Call) -> bool:
    return _method(call) == "update" and dotted_name(call.func).partition(".")[0].endswith("scaler")


def _take_before(run: Run, trains: _Trains) -> None:
    """Back to the first statement that sets what the run reads, but for what is made once for all steps."""
    read = set(reads_of(run.statements))
    for index in range(run.first - 1, max(-1, run.first - _FURTHEST), -1):
        statement = run.suite[index]
        if isinstance(statement, FunctionNode | ast.ClassDef | ast.Import | ast.ImportFrom):
            continue
        stored = names_of(statement).stores
        if any(roles.is_part(name) or _LOADERS.fullmatch(name) for name in stored):
            return
        if _any_call(statement, trains.is_step):
            return
        clears = _any_call(statement, lambda call: _method(call) == "zero_grad")
        if clears or stored & read:
            run.first = index
            read = set(reads_of(run.statements))


def _goes_through_batches(loop: ast.For) -> bool:
    """`for batch in loader:`, `for i, (x, y) in enumerate(tqdm(loader)):`."""
    names = [node.id for node in ast.walk(loop.iter) if isinstance(node, ast.Name)]
    names += [node.attr for node in ast.walk(loop.iter) if isinstance(node, ast.Attribute)]
    is_counted = isinstance(loop.iter, ast.Call) and dotted_name(loop.iter.func) == "range"
    return not is_counted and any(roles.known(name) == guesses.Guess(roles.BATCHES) for name in names)


def _kept(statement: ast.stmt, scope: ScopeMarks, trains: _Trains, is_in_loop: bool = False) -> list[ast.stmt]:
    """The statement without what only tells people; what leaves the loop around the run ends the run."""
    if isinstance(statement, ast.Return) or (isinstance(statement, ast.Break | ast.Continue) and not is_in_loop):
        return [ast.copy_location(ast.Return(None), statement)]
    if scope.tells(statement) and not _any_call(statement, trains.is_any):
        return []
    if not suites_of(statement) or isinstance(statement, FunctionNode | ast.ClassDef):
        return [statement]
    inside = is_in_loop or isinstance(statement, ast.For | ast.While)
    return [with_suites(statement, lambda each: _kept(each, scope, trains, inside))]


def _calls(statement: ast.stmt, wanted: Callable[[ast.Call], bool]) -> bool:
    """Whether the statement itself makes such a call, and not one inside it."""
    return any(isinstance(node, ast.Call) and wanted(node) for node in walk(head_of(statement)))


def _any_call(statement: ast.stmt, wanted: Callable[[ast.Call], bool]) -> bool:
    """Whether it makes such a call, or one of the statements in it does."""
    return any(isinstance(node, ast.Call) and wanted(node) for node in own_nodes([statement]))


def _method(call: ast.Call) -> str:
    return call.func.attr if isinstance(call.func, ast.Attribute) else ""
