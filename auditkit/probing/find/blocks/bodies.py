"""Make a function of a run of statements: its parameters, its statements, its result."""

from __future__ import annotations

import ast
import builtins
import copy
import re
from collections.abc import Callable, Iterable, Iterator, Sequence

from auditkit.probing.find.blocks.marks import Scope, own_nodes
from auditkit.probing.find.blocks.runs import HandedOn, Run, is_calm, is_start, plain_stores
from auditkit.probing.find.gradient_flow import STATISTICS
from auditkit.probing.fix.local_names import names_of, parameters
from auditkit.probing.source.modules import (
    changed_by,
    last_name,
)
from auditkit.probing.source.statements import head_of
from auditkit.probing.source.walking import children, suites_of
from auditkit.worker.steps import roles

CLIP = "clip_grad"
"""The name of a block that limits gradients and computes no named statistic."""
_SPEAKING = re.compile(r"norm|nan|inf|finite|overflow|stat|grad|health")
_CHECKS = ("isnan", "isinf", "isfinite")
RECORDED = "recorded_"
"""Prefix of results that the file itself does not name."""


class Body:
    """The statements of a run, without those that only report, and with a return of its result."""

    def __init__(self, run: Run, scope: Scope) -> None:
        self._run, self._scope = run, scope
        inside = {node for node in own_nodes(run.statements) if isinstance(node, ast.stmt)}
        outside = [part for each in scope.places if each not in inside for part in head_of(each)]
        self._read_behind = names_of(outside).loads
        self._own = frozenset[str]().union(*(names_of(each).stores for each in inside if not suites_of(each)))
        self._recorded: dict[str, None] = {}

    def made(self) -> tuple[str, list[ast.stmt]] | None:
        """Return the block's name and its statements; None if it has no result."""
        last = self._run.statements[-1]
        if isinstance(last, ast.Return):
            return self._name_of(last), self.silent()
        outputs = self._outputs()
        is_limit = any(map(self._scope.limits, self._run.kernels))
        body = []
        for statement in self._run.statements:
            records = self._holds_kernel(statement) and not outputs and not is_limit
            body += self._with_records(statement, False) if records else self._silent(statement)
        starts = [_at(self._run.statements[0], f"{name} = []") for name in self._recorded if name.endswith("s_")]
        outputs = outputs or list(self._recorded)
        named = [each for each in outputs if _SPEAKING.search(each)]
        if is_limit and not named:
            return CLIP, body  # The result is the changed gradients, not the factor.
        if not outputs:
            return None
        name = _plain((named or outputs)[-1])
        return name if name.strip("_") else self._name_of(last), [*starts, *body, self._answer(outputs)]

    def silent(self) -> list[ast.stmt]:
        """Return all statements that do more than report."""
        return [kept for each in self._run.statements for kept in self._silent(each)]

    def _answer(self, outputs: Sequence[str]) -> ast.stmt:
        if len(outputs) == 1:
            text = outputs[0]
        else:
            text = "{" + ", ".join(f"{_plain(each)!r}: {each}" for each in outputs) + "}"
        return _at(self._run.statements[-1], f"return {text}", at_end=True)

    def _outputs(self) -> list[str]:
        """Return the statistics that the run sets and later code reads; else the last one that it sets."""
        found: dict[str, None] = {}
        for statement in self._run.statements:
            for name in self._results(statement):
                found.pop(name, None)
                found[name] = None
        return [name for name in found if name in self._read_behind] or list(found)[-1:]

    def _results(self, statement: ast.stmt) -> Iterator[str]:
        """Yield the statistics that a statement sets; of a loop, those that it accumulates or that later code reads."""
        is_loop = isinstance(statement, ast.For)
        for node in own_nodes([statement]):
            if not isinstance(node, ast.stmt) or suites_of(node):
                continue
            for name in sorted(self._stored(node)):
                if self._scope.marks.marks.get(name) != STATISTICS:
                    continue
                adds_up = not plain_stores(node) or name in names_of(node).loads
                if not is_loop or adds_up or name in self._read_behind:
                    yield name

    def _stored(self, node: ast.stmt) -> frozenset[str]:
        """Return the names that a statement sets, or whose elements it sets if the run created them."""
        roots = {_root(target) for target in changed_by(node) if isinstance(target, ast.Subscript)}
        return names_of(node).stores | (frozenset(roots) & self._own)

    def _is_foreign(self, node: ast.stmt) -> bool:
        """Return whether it changes an object that the run did not create:

        `metrics["norm"] = x`, `history.append(x)`.
        """
        targets = changed_by(node)
        if targets and all(isinstance(each, ast.Subscript) for each in targets):
            return not {_root(each) for each in targets} <= self._made
        is_call = isinstance(node, ast.Expr) and isinstance(node.value, ast.Call)
        return is_call and bool(names_of(node).stores) and not names_of(node).stores <= self._made

    @property
    def _made(self) -> frozenset[str]:
        """The names that the run itself assigns, and accumulators that are initialized before it."""
        return frozenset[str]().union(
            *(plain_stores(each) for each in self._scope.places if each in self._run.statements or is_start(each))
        )

    def _silent(self, statement: ast.stmt) -> list[ast.stmt]:
        """Return the statement; reduce a report to the statistics that it reports."""
        if self._scope.tells(statement) or self._is_foreign(statement):
            return []
        if not suites_of(statement):
            return [statement]
        kept = with_suites(statement, self._silent)
        if isinstance(kept, ast.If) and not self._scope.is_statistic(kept.test):
            return [] if all(isinstance(each, ast.Pass) for each in (*kept.body, *kept.orelse)) else [kept]
        return [kept]

    def _with_records(self, statement: ast.stmt, in_loop: bool) -> list[ast.stmt]:
        """Return the statement with its statistics recorded: by name, in a loop as lists."""
        if statement in self._run.kernels:
            return self._record(statement, in_loop)
        if not suites_of(statement):
            return self._silent(statement)
        if not self._holds_kernel(statement):
            return self._silent(statement)
        # Keep `if p.grad is not None:`, which tests the loop's items; drop `if step % 100 == 0:`, which times the log.
        if in_loop and isinstance(statement, ast.If) and not (statement.orelse or self._reads_own(statement.test)):
            return [kept for each in statement.body for kept in self._with_records(each, in_loop)]
        inside = in_loop or isinstance(statement, ast.For)
        return [with_suites(statement, lambda each: self._with_records(each, inside))]

    def _holds_kernel(self, statement: ast.stmt) -> bool:
        return any(node in self._run.kernels for node in own_nodes([statement]))

    def _reads_own(self, test: ast.expr) -> bool:
        """Return whether a condition reads a name that the run sets: a loop variable, `grad` after `grad = p.grad`."""
        return not names_of(test).loads.isdisjoint(names_of(self._run.statements).stores)

    def _record(self, kernel: ast.stmt, in_loop: bool) -> list[ast.stmt]:
        if isinstance(kernel, ast.If | ast.Assert):
            test = ast.IfExp(self._about_statistics(kernel.test), ast.Constant(True), ast.Constant(False))
            return [self._set(self._note(self._name_of(kernel), in_loop), test, kernel, in_loop)]
        stored = sorted(plain_stores(kernel))
        if stored:
            values = [(name, ast.Name(name, ast.Load())) for name in stored]
            return [kernel, *(self._set(self._note(name, in_loop), value, kernel, in_loop) for name, value in values)]
        told = [each for each in _told(kernel) if self._scope.is_statistic(each)]
        return [self._set(self._note(self._name_of(kernel, each), in_loop), each, kernel, in_loop) for each in told]

    def _about_statistics(self, test: ast.expr) -> ast.expr:
        """Drop the flag of `args.debug and isnan(norm)`; keep `p.grad is not None and isnan(p.grad).any()` whole."""
        if not isinstance(test, ast.BoolOp):
            return test
        kept = [each for each in test.values if self._scope.is_statistic(each) or self._reads_own(each)]
        return ast.BoolOp(test.op, kept) if len(kept) > 1 else next(iter(kept), test)

    def _note(self, name: str, in_loop: bool) -> str:
        noted = f"{RECORDED}{name}{'s_' if in_loop else '_'}"
        self._recorded.setdefault(noted)
        return noted

    def _set(self, name: str, value: ast.expr, kernel: ast.stmt, in_loop: bool) -> ast.stmt:
        if not in_loop:
            return _located(ast.Assign([ast.Name(name, ast.Store())], value), kernel)
        append = ast.Attribute(ast.Name(name, ast.Load()), "append", ast.Load())
        return _located(ast.Expr(ast.Call(append, [value], [])), kernel)

    def _name_of(self, statement: ast.stmt, told: ast.expr | None = None) -> str:
        """Name an unnamed statistic: by the key under which it is reported, else by its reduction."""
        for target in changed_by(statement):
            if isinstance(target, ast.Attribute):
                return target.attr
        if isinstance(statement, ast.Return) and statement.value is not None:
            marks = self._scope.marks.marks
            names = [each for each in sorted(names_of(statement.value).loads) if marks.get(each) == STATISTICS]
            if names:
                return names[0]
        calls = [node for node in ast.walk(told or statement) if node in self._scope.marks.flow.reduced]
        names = [last_name(node.func) for node in calls if isinstance(node, ast.Call)]
        return next((each for each in (*_CHECKS, *names) if each in names), "statistic").strip("_")


def handed_on_body(found: HandedOn, scope: Scope) -> list[ast.stmt]:
    """Return the statements from a norm's computation to its use; up to a check, with the check's result."""
    there, answer = found.run.statements[-1], ast.unparse(found.answer)
    is_check = isinstance(found.answer, ast.Call | ast.BoolOp)
    body = Body(Run(found.run.suite, found.run.first, found.run.last - is_check), scope).silent()
    if is_check:
        name = f"{RECORDED}{found.name}_"
        body, answer = [*body, _at(there, f"{name} = {answer}")], name
    return [*body, _at(there, f"return {answer}", at_end=True)]


def _plain(name: str) -> str:
    """Return a recorded name without its prefix and suffix."""
    return re.sub(r"s?_$", "", name.removeprefix(RECORDED)) if name.startswith(RECORDED) else name


def _root(node: ast.expr) -> str:
    while isinstance(node, ast.Subscript | ast.Attribute):
        node = node.value
    return node.id if isinstance(node, ast.Name) else ""


def _told(statement: ast.stmt) -> list[ast.expr]:
    """Return the arguments of a statement's call, or the value that it assigns; split f-strings and dicts."""
    value = getattr(statement, "value", None)
    if isinstance(statement, ast.Expr) and isinstance(value, ast.Call):
        return [part for each in (*value.args, *(item.value for item in value.keywords)) for part in _parts(each)]
    return _parts(value) if isinstance(value, ast.expr) else []


def _parts(value: ast.AST) -> list[ast.expr]:
    """Return the values inside an f-string, a formatted text or a container."""
    holders = ast.JoinedStr | ast.FormattedValue | ast.Dict | ast.Tuple | ast.List
    is_format = isinstance(value, ast.Call) and isinstance(getattr(value.func, "value", None), ast.Constant)
    if is_format or isinstance(value, holders) or (isinstance(value, ast.BinOp) and isinstance(value.op, ast.Mod)):
        return [part for each in children(value) for part in _parts(each)]
    return [value] if isinstance(value, ast.expr) else []


def with_suites(statement: ast.stmt, change: Callable[[ast.stmt], list[ast.stmt]]) -> ast.stmt:
    """Copy a compound statement with the statements in it changed; expressions are shared."""

    def changed(holder: ast.AST) -> ast.AST:
        made = copy.copy(holder)
        for name in ("body", "orelse", "finalbody"):
            suite = getattr(holder, name, None)
            if isinstance(suite, list) and suite:
                setattr(made, name, [kept for each in suite for kept in change(each)] or [_at(suite[0], "pass")])
        for name in ("handlers", "cases"):
            if getattr(holder, name, None):
                setattr(made, name, [changed(each) for each in getattr(holder, name)])
        return made

    made = changed(statement)
    assert isinstance(made, ast.stmt)
    return made


def _located(made: ast.stmt, there: ast.stmt) -> ast.stmt:
    return ast.fix_missing_locations(ast.copy_location(made, there))


def _at(there: ast.stmt, text: str, at_end: bool = False) -> ast.stmt:
    """Parse a new statement and place it on the line of an existing one."""
    made = ast.parse(text).body[0]
    line = (there.end_lineno or there.lineno) if at_end else there.lineno
    for node in ast.walk(made):
        if isinstance(node, ast.stmt | ast.expr):
            node.lineno = node.end_lineno = line
            node.col_offset = node.end_col_offset = 0
    return made


_CHOSEN = frozenset((roles.ACCUMULATION, roles.LIMIT, roles.GIVES_BATCH, roles.GIVES_RATE))
_DEFINITIONS = (ast.Import, ast.ImportFrom, ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
_LISTS = re.compile(r"parameters\(|param_groups|\.grad\b")


def is_handed_over(name: str) -> bool:
    """Return whether a name (model, optimizer, batch...) is a training step's argument even if the script sets it."""
    guess = roles.known(name)
    return roles.is_part(name) or (guess is not None and guess.value in _CHOSEN)


def function_of(
    run: Run, scope: Scope, name: str, body: list[ast.stmt], is_given: Callable[[str], bool] = lambda _: False
) -> tuple[ast.FunctionDef, tuple[str, ...]]:
    """Return the function `name` made of the statements, and the names that its module must define.

    `is_given` marks names that become parameters even if the script sets them.
    """
    known = _Known(run, scope, is_given)
    starts = [
        each for each in sorted(run.maybe_unset & names_of(body).loads) if not is_given(each) and known.start(each)
    ]
    prelude, inputs, names = known.sorted_out(list(dict.fromkeys([*reads_of(body), *starts])))
    text = "\n".join(map(ast.unparse, body))
    gives = r"\b{0}(\.\w+)*\.((named_)?parameters|param_groups)\b|\bin {0}\b"
    inputs.sort(key=lambda each: re.search(gives.format(each), text) is None)
    first, last = run.statements[0], run.statements[-1]
    node = ast.FunctionDef(
        name=name,
        args=ast.arguments([], [ast.arg(each) for each in inputs], None, [], [], None, []),
        body=[*prelude, *body],
        decorator_list=[],
        returns=None,
        lineno=first.lineno,
        col_offset=first.col_offset,
        end_lineno=last.end_lineno,
        end_col_offset=last.end_col_offset,
    )
    return ast.fix_missing_locations(node), names


def reads_of(body: Sequence[ast.stmt], known: set[str] | None = None) -> list[str]:
    """Return the names that statements read before they set them, in order; add those that they set to `known`."""
    found: dict[str, None] = {}
    _reads(body, set() if known is None else known, found)
    return list(found)


def _reads(body: Iterable[ast.stmt], known: set[str], found: dict[str, None]) -> None:
    for statement in body:
        heads = head_of(statement) if suites_of(statement) else (statement,)
        targets = [statement.target] if isinstance(statement, ast.For) else []
        for part in heads:
            if part not in targets:
                found.update(dict.fromkeys(sorted(names_of(part).loads - known)))
        known |= names_of([*targets, *heads]).stores
        for suite in suites_of(statement):
            _reads(suite, known, found)


class _Known:
    """Sort the names that a block reads: constants beside it, names of its module, or parameters."""

    def __init__(self, run: Run, scope: Scope, is_given: Callable[[str], bool]) -> None:
        self._is_given = is_given
        self._inside, self._scope = set(own_nodes(run.statements)), scope
        self._top = (scope.top or scope).setters
        self._given = frozenset[str]().union(*(parameters(each.args) for each in scope.functions))
        self._locals = self._given.union(*(names_of(each.body).stores for each in scope.functions))

    def sorted_out(self, names: Sequence[str]) -> tuple[list[ast.stmt], list[str], tuple[str, ...]]:
        """Return the statements to put before the block, its parameters, and the names that its module defines."""
        prelude: list[ast.stmt] = []
        inputs, others = [], []
        waiting = list(names)
        for name in waiting:
            setters = self._top.get(name, ())
            is_imported = any(isinstance(each, ast.Import | ast.ImportFrom) for each in setters)
            beside = [each for each in self._beside(name) if not isinstance(each, _DEFINITIONS)]
            if self._is_given(name) and not is_imported and not hasattr(builtins, name):
                inputs.append(name)
            elif name in self._locals or (not self._scope.functions and beside):
                start = self.start(name)
                if start is None:
                    inputs.append(name)
                elif start not in prelude:
                    prelude.append(start)
                    waiting += [each for each in reads_of([start]) if each not in waiting]
            elif not all(isinstance(each, _DEFINITIONS) or is_start(each) for each in setters):
                inputs.append(name)  # A model, an optimizer: the module creates it while it runs.
            elif not hasattr(builtins, name):
                others.append(name)
        return sorted(prelude, key=lambda each: each.lineno), inputs, tuple(others)

    def _beside(self, name: str) -> list[ast.stmt]:
        """Return the statements beside the block that set a name."""
        return [each for each in self._scope.setters.get(name, ()) if each not in self._inside]

    def start(self, name: str) -> ast.stmt | None:
        """Return the only statement beside the block that sets a name to a constant or parameters, or imports it."""
        if name in self._given or name == "device":
            return None
        setting = self._beside(name)
        plain = [each for each in setting if self._is_plain(each)]
        is_one = len({ast.dump(each) for each in plain}) == 1 and len(plain) == len(setting)
        return plain[0] if is_one else None

    def _is_plain(self, statement: ast.stmt) -> bool:
        if isinstance(statement, ast.Assign) and _LISTS.search(ast.unparse(statement.value)):
            return is_calm(self._scope, statement.value)
        return is_start(statement) or isinstance(statement, ast.Import | ast.ImportFrom)
