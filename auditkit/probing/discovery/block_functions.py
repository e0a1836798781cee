"""A run of statements as the function that it would be: its parameters, its statements, its answer."""

from __future__ import annotations

import ast
import builtins
import copy
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

from auditkit.probing.discovery.block_marks import ScopeMarks, own_nodes, suites_of
from auditkit.probing.discovery.block_runs import Run, is_telling
from auditkit.probing.discovery.gradient_flow import STATISTICS
from auditkit.probing.patching.local_names import names_of, parameters
from auditkit.probing.source_code.modules import FunctionNode, Module, dotted_name, targets_of, text_in
from auditkit.probing.source_code.statements import head_of

CLIP = "clip_grad"
"""The name of a block that limits gradients and computes no statistic that has one."""
_SPEAKING = re.compile(r"norm|nan|inf|finite|overflow|stat|grad|health")
_CHECKS = ("isnan", "isinf", "isfinite")


@dataclass(frozen=True)
class BlockFunction:
    """The function of a block; `names` are those that its module has to define."""

    node: ast.FunctionDef
    names: tuple[str, ...]


def block_function(
    run: Run, scope: ScopeMarks, module: Module, functions: Sequence[FunctionNode]
) -> BlockFunction | None:
    """The function of a run, `functions` being those around it, the innermost last; None where it has no answer."""
    made = _Body(run, scope).made()
    if made is None:
        return None
    name, body = made
    known = _Known(run, scope, module, functions)
    prelude, inputs, names = known.sorted_out(reads_of(body))
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
    return BlockFunction(ast.fix_missing_locations(node), names)


def reads_of(body: Sequence[ast.stmt]) -> list[str]:
    """The names that some statements read before they set them, in their order."""
    found: dict[str, None] = {}
    _reads(body, set(), found)
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


class _Body:
    """The statements of a run without what only tells people, and with what gives its answer."""

    def __init__(self, run: Run, scope: ScopeMarks) -> None:
        self._run, self._scope = run, scope
        inside = {node for node in own_nodes(run.statements) if isinstance(node, ast.stmt)}
        outside = [part for each in scope.places if each not in inside for part in head_of(each)]
        self._read_behind = names_of(outside).loads
        self._own = frozenset[str]().union(*(names_of(each).stores for each in inside if not suites_of(each)))
        self._recorded: dict[str, None] = {}

    def made(self) -> tuple[str, list[ast.stmt]] | None:
        """The block's name and its statements; None where nothing comes of it."""
        last = self._run.statements[-1]
        if isinstance(last, ast.Return):
            body = [kept for each in self._run.statements for kept in self._silent(each)]
            return self._name_of(last), body
        outputs = self._outputs()
        is_limit = any(map(self._scope.limits, self._run.kernels))
        body = []
        for statement in self._run.statements:
            records = self._holds_kernel(statement) and not outputs and not is_limit
            body += self._with_records(statement, False) if records else self._silent(statement)
        starts = [_at(self._run.statements[0], f"{name} = []") for name in self._recorded if self._is_listed(name)]
        outputs = outputs or list(self._recorded)
        named = [each for each in outputs if _SPEAKING.search(each)]
        if is_limit and not named:
            return CLIP, body  # its answer is what it leaves in the gradients, not the factor
        return (_plain((named or outputs)[-1]), [*starts, *body, self._answer(outputs)]) if outputs else None

    def _is_listed(self, name: str) -> bool:
        return name.startswith(_RECORDED) and name.endswith("s_")

    def _answer(self, outputs: Sequence[str]) -> ast.stmt:
        if len(outputs) == 1:
            text = outputs[0]
        else:
            text = "{" + ", ".join(f"{_plain(each)!r}: {each}" for each in outputs) + "}"
        return _at(self._run.statements[-1], f"return {text}", at_end=True)

    def _outputs(self) -> list[str]:
        """The statistics that the run sets and somebody reads behind it; else the last one that it sets."""
        found: dict[str, None] = {}
        for statement in self._run.statements:
            for name in self._results(statement):
                found.pop(name, None)
                found[name] = None
        return [name for name in found if name in self._read_behind] or list(found)[-1:]

    def _results(self, statement: ast.stmt) -> Iterator[str]:
        """The statistics that a statement leaves: of a loop those that it adds up, or that are read behind it."""
        is_loop = isinstance(statement, ast.For)
        for node in own_nodes([statement]):
            if not isinstance(node, ast.stmt) or suites_of(node):
                continue
            for name in sorted(self._stored(node)):
                if self._scope.marks.marks.get(name) != STATISTICS:
                    continue
                adds_up = not _plain_stores(node) or name in names_of(node).loads
                if not is_loop or adds_up or name in self._read_behind:
                    yield name

    def _stored(self, node: ast.stmt) -> frozenset[str]:
        """The names that a statement sets, or puts something into where the run has made them."""
        roots = {_root(target) for target in _targets(node) if isinstance(target, ast.Subscript)}
        return names_of(node).stores | (frozenset(roots) & self._own)

    def _is_foreign(self, node: ast.stmt) -> bool:
        """Whether it puts something into what the run has not made: `metrics["norm"] = x`, `history.append(x)`."""
        targets = _targets(node)
        if targets and all(isinstance(each, ast.Subscript) for each in targets):
            return not {_root(each) for each in targets} <= self._made
        is_call = isinstance(node, ast.Expr) and isinstance(node.value, ast.Call)
        return is_call and bool(names_of(node).stores) and not names_of(node).stores <= self._made

    @property
    def _made(self) -> frozenset[str]:
        """What the run itself assigns, or what an accumulator was set to before."""
        return frozenset[str]().union(
            *(
                _plain_stores(each)
                for each in self._scope.places
                if each in self._run.statements or is_start(each)
            )
        )

    # --- statements as they are kept ---

    def _silent(self, statement: ast.stmt) -> list[ast.stmt]:
        """The statement; of what tells people something only the statistics that it is told."""
        if is_telling(statement) or self._is_foreign(statement):
            told = [each for each in _told(statement) if self._scope.is_statistic(each)]
            return [ast.copy_location(ast.Expr(each), each) for each in told]
        if not suites_of(statement):
            return [statement]
        kept = _with_suites(statement, self._silent)
        is_idle = isinstance(kept, ast.If) and all(isinstance(each, ast.Pass) for each in (*kept.body, *kept.orelse))
        return [] if is_idle and not self._scope.is_statistic(kept.test) else [kept]

    def _with_records(self, statement: ast.stmt, in_loop: bool) -> list[ast.stmt]:
        """The statement with its statistics recorded: by their names, in a loop as lists."""
        if statement in self._run.kernels:
            return self._record(statement, in_loop)
        if not suites_of(statement):
            return self._silent(statement)
        if not self._holds_kernel(statement):
            return self._silent(statement)
        if isinstance(statement, ast.If) and in_loop and not self._asks_of_an_item(statement):
            return [kept for each in statement.body for kept in self._with_records(each, in_loop)]
        inside = in_loop or isinstance(statement, ast.For)
        needed = set(names_of([each for each in own_nodes([statement]) if each in self._run.kernels]).loads)

        def kept(each: ast.stmt) -> list[ast.stmt]:
            return self._with_records(each, inside)

        return [_with_suites(statement, kept, lambda suite: self._needed_of(suite, needed))]

    def _holds_kernel(self, statement: ast.stmt) -> bool:
        return any(node in self._run.kernels for node in own_nodes([statement]))

    def _asks_of_an_item(self, choice: ast.If) -> bool:
        """`if p.grad is not None:` is about what a loop goes through; `if step % 100 == 0:` is about when to tell."""
        loops = [node for node in own_nodes(self._run.statements) if isinstance(node, ast.For)]
        return bool(choice.orelse) or bool(names_of(choice.test).loads & names_of(node.target for node in loops).stores)

    def _needed_of(self, suite: Sequence[ast.stmt], needed: set[str]) -> list[ast.stmt]:
        """The statements of a loop that its records need, or that skip one of its turns."""
        kept: list[ast.stmt] = []
        for statement in reversed(suite):
            skips = any(isinstance(node, ast.Continue | ast.Break) for node in own_nodes([statement]))
            if self._holds_kernel(statement) or skips or names_of(statement).stores & needed:
                kept.append(statement)
                needed |= names_of(statement).loads
        return kept[::-1]

    def _record(self, kernel: ast.stmt, in_loop: bool) -> list[ast.stmt]:
        if isinstance(kernel, ast.If | ast.Assert):
            name = self._note(self._name_of(kernel), in_loop)
            test = ast.IfExp(kernel.test, ast.Constant(True), ast.Constant(False))
            kept = [self._set(name, test, kernel, in_loop)]
            raises = [each for each in getattr(kernel, "body", ()) if isinstance(each, ast.Raise)]
            last = ast.parse(f"{name}[-1]" if in_loop else name, mode="eval").body
            if isinstance(kernel, ast.Assert):
                kept.append(_located(ast.Assert(last, kernel.msg), kernel))
            elif raises:
                kept.append(_located(ast.If(last, list(raises), []), kernel))
            return kept
        if _plain_stores(kernel):
            stored = sorted(_plain_stores(kernel))
            return [
                kernel,
                *(self._set(self._note(name, in_loop), ast.Name(name, ast.Load()), kernel, in_loop) for name in stored),
            ]
        told = [each for each in _told(kernel) if self._scope.is_statistic(each)]
        return [self._set(self._note(self._name_of(kernel, each), in_loop), each, kernel, in_loop) for each in told]

    def _note(self, name: str, in_loop: bool) -> str:
        noted = f"{_RECORDED}{name}{'s_' if in_loop else '_'}"
        self._recorded.setdefault(noted)
        return noted

    def _set(self, name: str, value: ast.expr, kernel: ast.stmt, in_loop: bool) -> ast.stmt:
        if not in_loop:
            return _located(ast.Assign([ast.Name(name, ast.Store())], value), kernel)
        append = ast.Attribute(ast.Name(name, ast.Load()), "append", ast.Load())
        return _located(ast.Expr(ast.Call(append, [value], [])), kernel)

    def _name_of(self, statement: ast.stmt, told: ast.expr | None = None) -> str:
        """What a statement without a name computes: the word it is told under, else the reduction."""
        for target in _targets(statement):
            if isinstance(target, ast.Attribute):
                return target.attr
            key = re.sub(r"\W+", "_", text_in(target.slice)) if isinstance(target, ast.Subscript) else ""
            if key.isidentifier():
                return key
        if isinstance(statement, ast.Return) and statement.value is not None:
            names = [each for each in sorted(names_of(statement.value).loads) if self._is_named_statistic(each)]
            if names:
                return names[0]
        if isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Call):
            named = [each.arg for each in statement.value.keywords if each.value is told and each.arg]
            if named:
                return named[0]
        calls = [node for node in ast.walk(told or statement) if node in self._scope.marks.flow.reduced]
        names = [_last_name(node) for node in calls if isinstance(node, ast.Call)]
        return next((each for each in (*_CHECKS, *names) if each in names), "statistic").strip("_")

    def _is_named_statistic(self, name: str) -> bool:
        return self._scope.marks.marks.get(name) == STATISTICS


_RECORDED = "recorded_"


def _plain(name: str) -> str:
    """The name that was recorded."""
    return re.sub(r"s?_$", "", name.removeprefix(_RECORDED)) if name.startswith(_RECORDED) else name


class _Known:
    """What the names that a block reads are: constants beside it, its module's, or what has to be given."""

    def __init__(self, run: Run, scope: ScopeMarks, module: Module, functions: Sequence[FunctionNode]) -> None:
        inside = set(own_nodes(run.statements))
        self._beside = [each for each in scope.places if each not in inside]
        self._module = module
        self._is_script = not functions
        self._locals = frozenset[str]().union(*(parameters(each.args) | names_of(each.body).stores for each in functions))
        self._given = frozenset[str]().union(*(parameters(each.args) for each in functions))

    def sorted_out(self, names: Sequence[str]) -> tuple[list[ast.stmt], list[str], tuple[str, ...]]:
        """The statements that go before the block, its parameters, and the names that its module defines."""
        prelude: list[ast.stmt] = []
        inputs, others = [], []
        for name in names:
            if name in self._locals or (self._is_script and self._is_set_beside(name)):
                start = self._start(name)
                if start is not None:
                    prelude += [] if start in prelude else [start]
                else:
                    inputs.append(name)
            elif self._is_runtime(name):
                inputs.append(name)
            elif not hasattr(builtins, name):
                others.append(name)
        return sorted(prelude, key=lambda each: each.lineno), inputs, tuple(others)

    def _is_set_beside(self, name: str) -> bool:
        definitions = (ast.Import, ast.ImportFrom, ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
        setting = [each for each in self._beside if name in names_of_one(each)]
        return bool(setting) and not all(isinstance(each, definitions) for each in setting)

    def _start(self, name: str) -> ast.stmt | None:
        """The one statement beside the block that gives a name its constant, or imports it."""
        if name in self._given or name == "device":
            return None
        setting = [each for each in self._beside if name in names_of_one(each)]
        plain = [each for each in setting if is_start(each) or isinstance(each, ast.Import | ast.ImportFrom)]
        is_one = len({ast.dump(each) for each in plain}) == 1 and len(plain) == len(setting)
        return plain[0] if is_one else None

    def _is_runtime(self, name: str) -> bool:
        """Whether the module makes it while it runs: a model, an optimizer; not a constant, a function or an import."""
        setting = [each for each in own_nodes(self._module.tree.body) if isinstance(each, ast.stmt)]
        values = [each for each in setting if name in names_of_one(each) and not isinstance(each, ast.Import | ast.ImportFrom | FunctionNode | ast.ClassDef)]
        return bool(values) and not all(is_start(each) or _is_made_of_constants(each) for each in values)


def names_of_one(statement: ast.stmt) -> frozenset[str]:
    """The names that a statement itself sets, without those that the statements inside it set."""
    if isinstance(statement, FunctionNode | ast.ClassDef):
        return frozenset((statement.name,))
    return names_of(head_of(statement) if suites_of(statement) else statement).stores


def is_start(statement: ast.stmt) -> bool:
    """Whether it sets a name to a constant or an empty container: where an accumulator begins."""
    value = getattr(statement, "value", None) if isinstance(statement, ast.Assign | ast.AnnAssign) else None
    if isinstance(value, ast.Call):
        name = dotted_name(value.func)
        is_empty = name in ("list", "dict", "set") and not value.args
        return is_empty or (name == "float" and all(isinstance(each, ast.Constant) for each in value.args)) or name.endswith("defaultdict")
    if isinstance(value, ast.List | ast.Tuple | ast.Set):
        return all(isinstance(each, ast.Constant) for each in value.elts)
    if isinstance(value, ast.Dict):
        return not value.keys
    if isinstance(value, ast.UnaryOp):
        value = value.operand
    return isinstance(value, ast.Constant)


def _is_made_of_constants(statement: ast.stmt) -> bool:
    """`EPS = 1e-6 * 2`, `logger = logging.getLogger(__name__)`, `DTYPE = torch.float32`."""
    value = getattr(statement, "value", None) if isinstance(statement, ast.Assign | ast.AnnAssign) else None
    if not isinstance(value, ast.expr):
        return False
    calls = [_last_name(node) for node in ast.walk(value) if isinstance(node, ast.Call)]
    return all(name in ("getLogger", "get_logger", "float", "int", "dtype", "TypeVar", "compile") for name in calls)


def _targets(node: ast.stmt) -> list[ast.expr]:
    return [node.target] if isinstance(node, ast.AugAssign) else targets_of(node)


def _plain_stores(node: ast.stmt) -> frozenset[str]:
    targets = _targets(node)
    return names_of(targets).stores if all(isinstance(each, ast.Name | ast.Tuple) for each in targets) else frozenset()


def _root(node: ast.expr) -> str:
    while isinstance(node, ast.Subscript | ast.Attribute):
        node = node.value
    return node.id if isinstance(node, ast.Name) else ""


def _told(statement: ast.stmt) -> list[ast.expr]:
    """What a statement hands to a call, or assigns."""
    value = getattr(statement, "value", None)
    if isinstance(statement, ast.Expr) and isinstance(value, ast.Call):
        return [*value.args, *(each.value for each in value.keywords)]
    return [value] if isinstance(value, ast.expr) else []


def _last_name(call: ast.Call) -> str:
    return call.func.attr if isinstance(call.func, ast.Attribute) else dotted_name(call.func)


def _with_suites(
    statement: ast.stmt,
    change: Callable[[ast.stmt], list[ast.stmt]],
    chosen: Callable[[Sequence[ast.stmt]], Sequence[ast.stmt]] = lambda suite: suite,
) -> ast.stmt:
    """A copy of a compound statement with the `chosen` statements in it changed; expressions are shared."""

    def changed(holder: ast.AST) -> ast.AST:
        made = copy.copy(holder)
        for name in ("body", "orelse", "finalbody"):
            suite = getattr(holder, name, None)
            if isinstance(suite, list) and suite:
                setattr(made, name, [kept for each in chosen(suite) for kept in change(each)] or [_at(suite[0], "pass")])
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
    """A statement of our own on the line of one of the file's."""
    made = ast.parse(text).body[0]
    line = (there.end_lineno or there.lineno) if at_end else there.lineno
    for node in ast.walk(made):
        if isinstance(node, ast.stmt | ast.expr):
            node.lineno = node.end_lineno = line
            node.col_offset = node.end_col_offset = 0
    return made
