"""Find the smallest run of statements from gradients to a statistic, a limit or a check of them."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from auditkit.probing.find import gradient_names as names
from auditkit.probing.find import vocabulary
from auditkit.probing.find.blocks.marks import Scope, names_of_one, own_nodes, own_statements
from auditkit.probing.find.gradient_flow import trains, updates_parameters
from auditkit.probing.fix.local_names import names_of
from auditkit.probing.source.modules import changed_by, dotted_name, last_name, targets_of
from auditkit.probing.source.walking import Suite, suites_of

_LEAVING = (ast.Return, ast.Yield, ast.YieldFrom, ast.Await, ast.AsyncFor, ast.AsyncWith)


@dataclass
class Run:
    """Statements `first` to `last` of one suite; `kernels` are those that reduce or limit gradients."""

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
    def maybe_unset(self) -> frozenset[str]:
        """The names set only under a condition or in a loop: `bad` of `if isnan(...): bad = True`."""
        return self.results - _always_set(self.statements)

    @property
    def results(self) -> frozenset[str]:
        """The names that it sets, without loop variables."""
        loops = (node for node in own_nodes(self.statements) if isinstance(node, ast.For))
        return names_of(self.statements).stores - names_of(loop.target for loop in loops).stores


def find_runs(scope: Scope) -> list[Run]:
    """Return the runs of a scope in the order of the file; they do not overlap."""
    units: dict[ast.stmt, list[ast.stmt]] = {}
    for statement in scope.places:
        if scope.reductions(statement) or scope.limits(statement):
            top = _with_loops(scope, statement)
            if top is not None:
                units.setdefault(top, []).append(statement)
    found: list[Run] = []
    taken: set[ast.stmt] = set()
    for top in sorted(units, key=lambda one: (one.lineno, one.col_offset)):
        if top not in taken and not taken.intersection(scope.around(top)):
            found.append(_grown(scope, top, units, taken))
            taken.update(found[-1].statements)
    return found


def _with_loops(scope: Scope, kernel: ast.stmt) -> ast.stmt | None:
    """Return `kernel` with the loops around it that yield its gradients; None if it cannot be a block."""
    top = kernel
    for outer in scope.around(kernel):
        if isinstance(outer, ast.While | ast.AsyncFor | ast.AsyncWith) or trains(outer):
            break
        is_loop = isinstance(outer, ast.For) and bool(names_of(outer.target).stores & _needed(kernel, outer))
        # Include `if clip_coef < 1:` around a limit, if nothing else is in it.
        is_test = (
            isinstance(outer, ast.If) and outer.body == [top] and not outer.orelse and scope.marks.limits(outer.test)
        )
        if is_loop or (is_test and any(map(scope.limits, own_statements(top)))):
            top = outer
    if (
        updates_parameters(list(own_nodes([top])))
        or any(map(scope.rewrites, own_statements(top)))
        or not _may_stand_alone(top, kernel)
    ):
        return None
    return top


def _grown(scope: Scope, top: ast.stmt, units: dict[ast.stmt, list[ast.stmt]], taken: set[ast.stmt]) -> Run:
    place = scope.places[top]
    run = Run(place.suite, place.index, place.index, list(units[top]))
    _grow_back(scope, run, taken)
    if isinstance(top, ast.Return) or _is_check(scope, top):
        return run
    others = names_of(taken).stores - run.loads
    waiting: list[ast.stmt] = []
    for statement in place.suite[place.index + 1 :]:
        is_unit = statement in units
        if scope.tells(statement) and not is_unit:
            waiting.append(statement)
            continue
        made = run.results | names_of(waiting).stores
        waiting.append(statement)
        is_of_another = not (others - run.results).isdisjoint(names_of(statement).loads)
        if is_of_another or (is_unit and _is_check(scope, statement)):
            break
        if not (made & names_of(statement).loads and (is_unit or _computes(scope, statement))):
            break
        # The first names of called functions (`torch`, `float`) are not inputs.
        calls = (node for node in ast.walk(statement) if isinstance(node, ast.Call))
        called = frozenset(dotted_name(call.func).partition(".")[0] for call in calls)
        if is_unit or not names_of(statement).loads - run.loads - run.results - called:
            run.kernels += units.get(statement, [])
            run.last += len(waiting)
            waiting = []
    return run


def _is_check(scope: Scope, statement: ast.stmt) -> bool:
    """Return whether the statement is `if any(isnan(...)):` or `assert isfinite(...)`, which ends its block."""
    is_check = isinstance(statement, ast.If | ast.Assert)
    return is_check and not any(map(scope.limits, own_statements(statement)))


def _grow_back(scope: Scope, run: Run, taken: set[ast.stmt]) -> None:
    """Extend the run back to its initial statements: an accumulator's start, a list of parameters or gradients."""
    for place in range(run.first - 1, -1, -1):
        before = run.suite[place]
        if scope.tells(before) and before not in taken:
            continue
        if before in taken or not _sets_up(scope, before, run):
            return
        run.first = place


def _sets_up(scope: Scope, statement: ast.stmt, run: Run) -> bool:
    value, stored = getattr(statement, "value", None), plain_stores(statement)
    if not isinstance(value, ast.expr) or not is_calm(scope, value):
        return False
    if not stored & run.loads:
        return bool(stored & run.maybe_unset)
    words = vocabulary.SETS_UP.search(ast.unparse(statement)) is not None
    return bool(stored & run.maybe_unset) or is_start(statement) or bool(scope.marks.mark(value)) or words


def _computes(scope: Scope, statement: ast.stmt) -> bool:
    """Return whether a statement only computes with a statistic, on one rank or on all."""
    match statement:
        case ast.Return(value=value) if value is not None:
            return scope.is_statistic(value) and is_calm(scope, value)
        case ast.Assign(value=value) | ast.AugAssign(value=value):
            return bool(plain_stores(statement)) and scope.is_statistic(value) and is_calm(scope, value)
        case ast.If(test=test, body=body, orelse=orelse):
            return is_calm(scope, test) and all(_computes(scope, each) for each in (*body, *orelse))
        case ast.Expr(value=ast.Call(func=function)):
            return scope.module.full_name(dotted_name(function)).startswith("torch.distributed.")
    return False


def is_calm(scope: Scope, value: ast.expr) -> bool:
    """Return whether evaluating an expression has no side effect."""
    for node in ast.walk(value):
        if isinstance(node, ast.Await | ast.Yield | ast.YieldFrom):
            return False
        if isinstance(node, ast.Call):
            last = last_name(node.func)
            if scope.module.full_name(dotted_name(node.func)).partition(".")[0] in vocabulary.PLAIN_MODULES:
                is_plain = last not in ("load", "compile")
            else:
                is_method = isinstance(node.func, ast.Attribute)
                is_plain = last in vocabulary.PLAIN_CALLS or (is_method and bool(scope.marks.mark(node)))
            if not is_plain:
                return False
    return True


def _always_set(suite: Sequence[ast.stmt]) -> frozenset[str]:
    """Return the names that statements set on every path."""
    found = frozenset[str]()
    for statement in suite:
        suites = suites_of(statement)
        if not suites or isinstance(statement, ast.With):
            found |= names_of_one(statement).union(*map(_always_set, suites))
        elif isinstance(statement, ast.If) and statement.orelse:
            found |= _always_set(statement.body) & _always_set(statement.orelse)
    return found


def _needed(kernel: ast.stmt, outer: ast.For) -> set[str]:
    """Return the names that the statement depends on through assignments and loops inside `outer`."""
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


def _may_stand_alone(top: ast.stmt, kernel: ast.stmt) -> bool:
    """Return whether control stays inside the statement, or the statement is itself the return."""
    if isinstance(top, ast.Return):
        return True
    if top is kernel:
        head = [node for node in ast.walk(top) if isinstance(node, ast.Yield | ast.YieldFrom | ast.Await)]
        return not head
    return not any(isinstance(node, _LEAVING) for node in own_nodes([top]))


def plain_stores(statement: ast.stmt) -> frozenset[str]:
    """Return the names that an assignment sets, if it sets only names."""
    targets = changed_by(statement)
    is_plain = all(
        isinstance(node, ast.Name | ast.Tuple | ast.expr_context) for each in targets for node in ast.walk(each)
    )
    return names_of(targets).stores if targets and is_plain else frozenset()


def is_start(statement: ast.stmt) -> bool:
    """Return whether it sets a name to a constant or an empty container, as accumulators start."""
    value = getattr(statement, "value", None) if isinstance(statement, ast.Assign | ast.AnnAssign) else None
    if isinstance(value, ast.Call):
        name = dotted_name(value.func)
        is_empty = name in ("list", "dict", "set") and not value.args
        return (
            is_empty
            or (name == "float" and all(isinstance(each, ast.Constant) for each in value.args))
            or name.endswith("defaultdict")
        )
    if isinstance(value, ast.List | ast.Tuple | ast.Set):
        return all(isinstance(each, ast.Constant) for each in value.elts)
    if isinstance(value, ast.Dict):
        return not value.keys
    if isinstance(value, ast.UnaryOp):
        value = value.operand
    return isinstance(value, ast.Constant)


@dataclass(frozen=True)
class HandedOn:
    """A run from the call that returns a norm to the clip or check; `answer` is its result, called `name`."""

    run: Run
    name: str
    answer: ast.expr


def handed_on(scope: Scope, taken: set[ast.stmt]) -> Iterator[HandedOn]:
    """Yield such runs of one scope, in the order of the file, without statements of `taken`."""
    for statement, place in scope.places.items():
        norm = _given_norm(statement)
        found = _of_norm(place.suite, place.index, norm) if norm is not None else _of_flag(place.suite, place.index)
        if found is not None:
            inside = {each for top in found.run.statements for each in own_statements(top)}
            if taken.isdisjoint(inside):
                taken |= inside
                yield found


def _of_norm(suite: Suite, index: int, norm: ast.expr) -> HandedOn | None:
    """Return the run from the statement that sets a norm to the later one that clips by it or checks it."""
    for last in range(index + 1, len(suite)):
        statement = suite[last]
        check = _check(statement, norm)
        if check is not None:
            name = last_name(check.func)
            return HandedOn(Run(suite, index, last), name.strip("_"), _with_guard(statement, check, norm))
        if _leaves(statement):
            return None
        if _clips_by(statement, norm):
            # If the optimizer steps between two clips, only the norm can be checked.
            steps = _steps(statement)
            first = _first(suite, index)
            joins = any(names.holds_norm(name.rpartition(".")[2]) for name in names_of(suite[index]).loads)
            is_more = first < index or joins or (isinstance(statement, ast.For) and not steps)
            run = Run(suite, first, index if steps else last)
            # One norm for one clip is two functions, which are checked separately.
            return HandedOn(run, _word(norm), norm) if is_more else None
        if _steps(statement):
            return None
    return None


def _of_flag(suite: Suite, index: int) -> HandedOn | None:
    """Return the run of `self.overflow_counter += region.has_inf_or_nan`: one flag of many, accumulated in a hook."""
    match suite[index]:
        case ast.AugAssign(target=ast.Attribute() as target, op=ast.Add(), value=ast.Attribute(attr=flag)):
            if names.is_finite_check(flag) and names.is_finite_check(target.attr):
                return HandedOn(Run(suite, index, index), target.attr, _as_read(target))
    return None


def _given_norm(statement: ast.stmt) -> ast.expr | None:
    """Return the name that a statement sets to a norm of gradients, by the called function's name and its own."""
    value = getattr(statement, "value", None)
    if not isinstance(statement, ast.Assign) or not isinstance(value, ast.Call):
        return None
    called = last_name(value.func)
    if called in vocabulary.LIBRARY or "norm" not in called:
        return None
    targets = [
        part for each in targets_of(statement) for part in (each.elts if isinstance(each, ast.Tuple) else [each])
    ]
    norms = [each for each in targets if isinstance(each, ast.Name | ast.Attribute) and names.holds_norm(_word(each))]
    return _as_read(norms[0]) if norms else None


def _clips_by(statement: ast.stmt, norm: ast.expr) -> bool:
    calls = (node for node in own_nodes([statement]) if isinstance(node, ast.Call))
    return any("clip" in last_name(call.func) and _is_handed(call, norm) for call in calls)


def _check(statement: ast.stmt, norm: ast.expr) -> ast.Call | None:
    """Return the call in an `if` that tests whether the norm is finite: `if check_overflow(grad_norm):`."""
    asked = ast.walk(statement.test) if isinstance(statement, ast.If) else ()
    calls = (node for node in asked if isinstance(node, ast.Call) and _is_handed(node, norm))
    return next((call for call in calls if names.is_finite_check(last_name(call.func))), None)


def _with_guard(statement: ast.stmt, check: ast.Call, norm: ast.expr) -> ast.expr:
    """Return `norm is not None and check_overflow(norm)` whole, but drop flags that only decide when to check."""
    match statement:
        case ast.If(test=ast.BoolOp(op=op, values=values)):
            about = [each for each in values if ast.unparse(norm) in names_of(each).loads]
            return ast.BoolOp(op, about) if len(about) > 1 else check
    return check


def _is_handed(call: ast.Call, norm: ast.expr) -> bool:
    handed = (*call.args, *(item.value for item in call.keywords))
    return ast.unparse(norm) in map(dotted_name, handed)


def _first(suite: Suite, index: int) -> int:
    """Return the index of the first statement that computes a part of this norm."""
    while index > 0 and _makes_norms(suite[index - 1], names_of(suite[index]).loads):
        index -= 1
    return index


def _makes_norms(statement: ast.stmt, wanted: frozenset[str]) -> bool:
    calls = [last_name(node.func) for node in own_nodes([statement]) if isinstance(node, ast.Call)]
    is_plain = isinstance(statement, ast.Assign | ast.If)
    return is_plain and bool(names_of(statement).stores & wanted) and any("norm" in name for name in calls)


def _leaves(statement: ast.stmt) -> bool:
    """Return whether control may leave the sequence of statements."""
    is_loop = isinstance(statement, ast.For | ast.While)
    leaving = _LEAVING if is_loop else (*_LEAVING, ast.Continue, ast.Break)
    return any(isinstance(node, leaving) for node in own_nodes([statement]))


def _steps(statement: ast.stmt) -> bool:
    calls = (node for node in own_nodes([statement]) if isinstance(node, ast.Call))
    return any("step" in last_name(call.func).split("_") for call in calls)


def _word(node: ast.expr) -> str:
    return last_name(node).strip("_")


def _as_read(target: ast.expr) -> ast.expr:
    return ast.parse(ast.unparse(target), mode="eval").body
