"""A run of statements as the function that it would be: its parameters, its statements, its answer."""

from __future__ import annotations

import ast
import builtins
import functools
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from auditkit.probing.discovery.blocks.bodies import Body, returning
from auditkit.probing.discovery.blocks.handed_on import HandedOn
from auditkit.probing.discovery.blocks.marks import ScopeMarks, own_nodes, suites_of
from auditkit.probing.discovery.blocks.runs import Run, Runs, is_start
from auditkit.probing.patching.local_names import names_of, parameters
from auditkit.probing.source_code.modules import FunctionNode, Module, dotted_name
from auditkit.probing.source_code.statements import head_of
from auditkit.probing.worker.steps import roles

_CHOSEN = frozenset((roles.ACCUMULATION, roles.LIMIT, roles.GIVES_BATCH, roles.GIVES_RATE))
_DEFINITIONS = (ast.Import, ast.ImportFrom, ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
_LISTS = re.compile(r"parameters\(|param_groups|\.grad\b")


@dataclass(frozen=True)
class BlockFunction:
    """The function of a block; `names` are those that its module has to define."""

    node: ast.FunctionDef
    names: tuple[str, ...]


def block_function(
    run: Run, scope: ScopeMarks, module: Module, functions: Sequence[FunctionNode]
) -> BlockFunction | None:
    """The function of a run, `functions` being those around it, the innermost last; None where it has no answer."""
    made = Body(run, scope).made()
    return None if made is None else _function(run, scope, module, functions, *made)


def named_function(
    run: Run, scope: ScopeMarks, module: Module, functions: Sequence[FunctionNode], answer: tuple[str, Sequence[str]]
) -> BlockFunction:
    """The same for a run of which it is known what it is called and what its answers are."""
    return _function(run, scope, module, functions, answer[0], Body(run, scope).answering(answer[1]))


def answering_function(
    found: HandedOn, scope: ScopeMarks, module: Module, functions: Sequence[FunctionNode]
) -> BlockFunction:
    """The same for a norm that is handed on: up to a check its statements, then what the check says."""
    is_check = isinstance(found.answer, ast.Call | ast.BoolOp)
    run = Run(found.run.suite, found.run.first, found.run.last - is_check)
    body = [
        *Body(run, scope).answering(()),
        *returning(found.answer, found.name if is_check else "", found.run.statements[-1]),
    ]
    return _function(found.run, scope, module, functions, found.name, body)


def loop_function(
    run: Run, scope: ScopeMarks, module: Module, functions: Sequence[FunctionNode], name: str, body: list[ast.stmt]
) -> BlockFunction:
    """The same for a loop that trains: its settings, and functions that give batches, are handed over as well."""
    return _function(run, scope, module, functions, name, body, is_handed_over)


def is_handed_over(name: str) -> bool:
    """Whether a training step is handed it, whatever the script sets it to: its parts, and what probes choose."""
    guess = roles.known(name)
    return roles.is_part(name) or (guess is not None and guess.value in _CHOSEN)


def _function(
    run: Run,
    scope: ScopeMarks,
    module: Module,
    functions: Sequence[FunctionNode],
    name: str,
    body: list[ast.stmt],
    is_given: Callable[[str], bool] = lambda _: False,
) -> BlockFunction:
    known = _Known(run, scope, module, functions, is_given)
    prelude, inputs, names = known.sorted_out(
        list(dict.fromkeys([*reads_of(body), *known.starts_of(run.maybe_unset & names_of(body).loads)]))
    )
    inputs.sort(key=lambda each: not _gives_gradients(each, body))
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


def _gives_gradients(name: str, body: Sequence[ast.stmt]) -> bool:
    """Whether parameters are taken out of what a name holds."""
    text = "\n".join(map(ast.unparse, body))
    return bool(re.search(rf"\b{name}(\.\w+)*\.((named_)?parameters|param_groups)\b|\bin {name}\b", text))


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


class _Known:
    """What the names that a block reads are: constants beside it, its module's, or what has to be given."""

    def __init__(
        self,
        run: Run,
        scope: ScopeMarks,
        module: Module,
        functions: Sequence[FunctionNode],
        is_given: Callable[[str], bool],
    ) -> None:
        self._is_given = is_given
        self._inside, self._scope = set(own_nodes(run.statements)), scope
        self._top = _top_of(module)
        self._runs = Runs(scope, module)
        self._is_script = not functions
        self._locals = frozenset[str]().union(
            *(parameters(each.args) | names_of(each.body).stores for each in functions)
        )
        self._given = frozenset[str]().union(*(parameters(each.args) for each in functions))

    def sorted_out(self, names: Sequence[str]) -> tuple[list[ast.stmt], list[str], tuple[str, ...]]:
        """The statements that go before the block, its parameters, and the names that its module defines."""
        prelude: list[ast.stmt] = []
        inputs, others = [], []
        waiting = list(names)
        for name in waiting:
            if self._is_given(name) and not self._is_imported(name):
                inputs.append(name)
            elif name in self._locals or (self._is_script and self._is_set_beside(name)):
                start = self._start(name)
                if start is not None and start not in prelude:
                    prelude.append(start)
                    waiting += [each for each in reads_of([start]) if each not in waiting]
                elif start is not None:
                    continue
                else:
                    inputs.append(name)
            elif self._is_runtime(name):
                inputs.append(name)
            elif not hasattr(builtins, name):
                others.append(name)
        return sorted(prelude, key=lambda each: each.lineno), inputs, tuple(others)

    def starts_of(self, names: frozenset[str]) -> list[str]:
        """The names that begin as a constant somewhere beside the block: `bad = False` before the backward."""
        return [name for name in sorted(names) if not self._is_given(name) and self._start(name) is not None]

    def _is_imported(self, name: str) -> bool:
        setting = self._top.setters.get(name, ())
        return hasattr(builtins, name) or any(isinstance(each, ast.Import | ast.ImportFrom) for each in setting)

    def _beside(self, name: str) -> list[ast.stmt]:
        """The statements beside the block that set a name."""
        return [each for each in self._scope.setters.get(name, ()) if each not in self._inside]

    def _is_set_beside(self, name: str) -> bool:
        setting = self._beside(name)
        return bool(setting) and not all(isinstance(each, _DEFINITIONS) for each in setting)

    def _start(self, name: str) -> ast.stmt | None:
        """The one statement beside the block that gives a name its constant, its parameters, or imports it."""
        if name in self._given or name == "device":
            return None
        setting = self._beside(name)
        plain = [each for each in setting if self._is_plain(each)]
        is_one = len({ast.dump(each) for each in plain}) == 1 and len(plain) == len(setting)
        return plain[0] if is_one else None

    def _is_plain(self, statement: ast.stmt) -> bool:
        if isinstance(statement, ast.Assign) and _LISTS.search(ast.unparse(statement.value)):
            return self._runs.is_calm(statement.value)
        return is_start(statement) or isinstance(statement, ast.Import | ast.ImportFrom)

    def _is_runtime(self, name: str) -> bool:
        """Whether the module makes it while it runs: a model, an optimizer; not a constant, a function or an import."""
        values = [each for each in self._top.setters.get(name, ()) if not isinstance(each, _DEFINITIONS)]
        return bool(values) and not all(is_start(each) or _is_made_of_constants(each) for each in values)


@functools.lru_cache(maxsize=1)
def _top_of(module: Module) -> ScopeMarks:
    """The statements at module level; the blocks of one file come one after the other."""
    return ScopeMarks(module.tree.body)


def _is_made_of_constants(statement: ast.stmt) -> bool:
    """`EPS = 1e-6 * 2`, `logger = logging.getLogger(__name__)`, `DTYPE = torch.float32`."""
    value = getattr(statement, "value", None) if isinstance(statement, ast.Assign | ast.AnnAssign) else None
    if not isinstance(value, ast.expr):
        return False
    calls = [_last_name(node) for node in ast.walk(value) if isinstance(node, ast.Call)]
    return all(name in ("getLogger", "get_logger", "float", "int", "dtype", "TypeVar", "compile") for name in calls)


def _last_name(call: ast.Call) -> str:
    return call.func.attr if isinstance(call.func, ast.Attribute) else dotted_name(call.func)
