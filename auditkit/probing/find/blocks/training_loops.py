"""Training steps in a script or a long function, as blocks: from a batch to the optimizer's step."""

from __future__ import annotations

import ast
import copy
import re
from collections.abc import Callable, Iterator, Sequence

from auditkit.probing.find.blocks.bodies import reads_of, with_suites
from auditkit.probing.find.blocks.marks import Scope, own_nodes
from auditkit.probing.find.blocks.runs import Run
from auditkit.probing.find.blocks.training_calls import TrainingCalls
from auditkit.probing.fix.local_names import names_of
from auditkit.probing.source.modules import FunctionNode, dotted_name
from auditkit.probing.source.statements import head_of
from auditkit.probing.source.walking import suites_of, walk
from auditkit.worker.feed import guesses
from auditkit.worker.steps import roles

MAY_TRAIN = re.compile(r"\.backward\(")
_LOADERS = re.compile(r"\w*(loader|iter|iterator|dataset|dl)s?")
_LEAVING = (ast.Yield, ast.YieldFrom, ast.Await, ast.AsyncFor, ast.AsyncWith)
_FURTHEST = 30
"""How many statements before the backward pass are searched for what it needs."""


def training_loops(scope: Scope, calls: TrainingCalls) -> Iterator[tuple[Run, list[ast.stmt]]]:
    """Yield each run of statements with a backward pass and a step, and the body of its function."""
    for run in _runs(scope, calls):
        statements = [_sliced(each, run) for each in run.statements]
        if not any(isinstance(node, _LEAVING) for node in own_nodes(statements)):
            yield run, [kept for each in statements for kept in _kept(each, scope, calls)]


def _runs(scope: Scope, calls: TrainingCalls) -> list[Run]:
    """Return the smallest runs that contain a backward pass and the step after it; none is inside another."""

    def making(wanted: Callable[[ast.Call], bool]) -> list[ast.stmt]:
        """Return the statements that make such a call themselves."""
        heads = ((each, walk(head_of(each))) for each in scope.places)
        return [each for each, head in heads if any(isinstance(node, ast.Call) and wanted(node) for node in head)]

    backward = making(calls.is_backward)
    found: list[Run] = []
    for step in making(calls.is_step) if backward else ():
        joined = [run for each in backward if (run := _joining(scope, each, step)) is not None]
        if joined:
            deepest = max(joined, key=lambda run: sum(1 for _ in scope.around(run.statements[0])))
            found.append(_widened(scope, deepest, calls))
    merged = _merged(found)
    inside = [(run, set(own_nodes(run.statements))) for run in found]
    return [
        run
        for run in merged
        if not any(run.suite is not other.suite and run.statements[0] in nodes for other, nodes in inside)
    ]


def _merged(runs: Sequence[Run]) -> list[Run]:
    """Merge overlapping runs of one list of statements."""
    merged: list[Run] = []
    for run in runs:
        before = next((each for each in merged if each.suite is run.suite and each.last >= run.first), None)
        if before is None:
            merged.append(run)
        else:
            before.first, before.last = min(before.first, run.first), max(before.last, run.last)
    return merged


def _joining(scope: Scope, backward: ast.stmt, step: ast.stmt) -> Run | None:
    """Return the shortest run that contains both statements."""
    tops = {id(scope.places[each].suite): each for each in (backward, *scope.around(backward))}
    for each in (step, *scope.around(step)):
        other = tops.get(id(scope.places[each].suite))
        if other is not None:
            place, index = scope.places[each], scope.places[other].index
            return Run(place.suite, index, place.index) if index <= place.index else None
    return None


def _widened(scope: Scope, run: Run, calls: TrainingCalls) -> Run:
    """Extend a run to what makes the batch and the loss, and to what clears gradients; include a loop over batches."""
    _take_after(run, calls)
    _take_before(run, calls)
    around = scope.places[run.statements[0]].around
    if isinstance(around, ast.With | ast.If | ast.Try) and not any(_any_call(each, _clears) for each in run.statements):
        place = scope.places[around]
        if any(_any_call(each, _clears) for each in place.suite):
            return _widened(scope, Run(place.suite, place.index, place.index), calls)
    if isinstance(around, ast.For) and _goes_through_batches(around):
        place = scope.places[around]
        return Run(place.suite, place.index, place.index, run.statements)
    return run


def _sliced(statement: ast.stmt, run: Run) -> ast.stmt:
    """Return a loop over batches without logging, evaluation and saving before and after the step."""
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


def _take_after(run: Run, calls: TrainingCalls) -> None:
    """Extend the run to the last `zero_grad` or `update` before the next backward pass."""
    for index in range(run.last + 1, len(run.suite)):
        statement = run.suite[index]
        if _any_call(statement, calls.is_backward):
            return
        if _any_call(statement, _clears) or _any_call(statement, _updates_scale):
            run.last = index


def _clears(call: ast.Call) -> bool:
    return isinstance(call.func, ast.Attribute) and call.func.attr == "zero_grad"


def _updates_scale(call: ast.Call) -> bool:
    head, _, name = dotted_name(call.func).partition(".")
    return head.endswith("scaler") and name.rpartition(".")[2] == "update"


def _take_before(run: Run, calls: TrainingCalls) -> None:
    """Extend the run back to the first statement that sets what it reads, except objects made once for all steps."""
    read = set(reads_of(run.statements))
    for index in range(run.first - 1, max(-1, run.first - _FURTHEST), -1):
        statement = run.suite[index]
        if isinstance(statement, FunctionNode | ast.ClassDef | ast.Import | ast.ImportFrom):
            continue
        stored = names_of(statement).stores
        if any(roles.is_part(name) or _LOADERS.fullmatch(name) for name in stored):
            return
        if _any_call(statement, calls.is_step):
            return
        clears = _any_call(statement, _clears)
        if clears or stored & read:
            known = set[str]()
            before = reads_of(run.suite[index : run.first], known)
            read = {*before, *(read - known)}
            run.first = index


def _goes_through_batches(loop: ast.For) -> bool:
    """Return whether a loop is like `for batch in loader:` or `for i, (x, y) in enumerate(tqdm(loader)):`."""
    names = [node.id for node in ast.walk(loop.iter) if isinstance(node, ast.Name)]
    names += [node.attr for node in ast.walk(loop.iter) if isinstance(node, ast.Attribute)]
    is_counted = isinstance(loop.iter, ast.Call) and dotted_name(loop.iter.func) == "range"
    return not is_counted and any(roles.known(name) == guesses.Guess(roles.BATCHES) for name in names)


def _kept(statement: ast.stmt, scope: Scope, calls: TrainingCalls, is_in_loop: bool = False) -> list[ast.stmt]:
    """Return the statement without reports; a statement that leaves the loop around the run becomes a return."""
    if isinstance(statement, ast.Return) or (isinstance(statement, ast.Break | ast.Continue) and not is_in_loop):
        return [ast.copy_location(ast.Return(None), statement)]
    if scope.tells(statement) and not (_any_call(statement, calls.is_backward) or _any_call(statement, calls.is_step)):
        return []
    if not suites_of(statement) or isinstance(statement, FunctionNode | ast.ClassDef):
        return [statement]
    inside = is_in_loop or isinstance(statement, ast.For | ast.While)
    return [with_suites(statement, lambda each: _kept(each, scope, calls, inside))]


def _any_call(statement: ast.stmt, wanted: Callable[[ast.Call], bool]) -> bool:
    """Return whether a statement, or one inside it, makes such a call."""
    return any(isinstance(node, ast.Call) and wanted(node) for node in own_nodes([statement]))
