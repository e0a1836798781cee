"""Blocks: statements that compute a statistic of gradients, limit or check them, where no function can be called.

Most trainers compute their norm or clip in the middle of a loop. auditkit treats a block as a function: the names that
it reads become parameters, and the names that later code reads become its result.
"""

from __future__ import annotations

import ast
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

from auditkit.errors import nearest_names
from auditkit.model.runs.target import TRAINING_STEP, split_call
from auditkit.probing.find.blocks.bodies import Body, function_of, handed_on_body, is_handed_over
from auditkit.probing.find.blocks.marks import Scope, own_statements
from auditkit.probing.find.blocks.runs import Run, find_runs, handed_on
from auditkit.probing.find.blocks.training_calls import TrainingCalls
from auditkit.probing.find.blocks.training_loops import MAY_TRAIN, training_loops
from auditkit.probing.fix.local_names import names_of
from auditkit.probing.source.modules import Class, Function, FunctionNode, Module
from auditkit.probing.source.python_files import PythonFiles
from auditkit.probing.source.walking import Suite, suites_of

_MOST_NAMED = 3
_MODULE_NAMES = frozenset({"__file__", "__name__", "__doc__", "__package__"})
_SETS_NAMES = re.compile(r"\b(exec|globals|setattr)\(")
_OF_ALL_GRADIENTS = re.compile(r"norm|nan|inf|finite|overflow|clip")
_MAY_HOLD_BLOCKS = re.compile(r"grad(?<!no_grad)(?<!requires_grad)(?<!enable_grad)(?<!zero_grad)(_norm)?\b")


@dataclass(eq=False)
class Block(Function):
    """A run of statements as a function: `node` is that function, with the line numbers of the file.

    `qualified_name` is `function#statement`, without a function at module level. `holder` is the function around it, or
    None. `statements` are those of the file, without the constants and imports that `node` begins with. `names` must be
    defined by the file's module; `around` are all functions around it.
    """

    holder: Function | None = None
    around: tuple[FunctionNode, ...] = ()
    statements: tuple[ast.stmt, ...] = ()
    names: tuple[str, ...] = ()

    @property
    def call(self) -> str:
        return f"{self.module.file}:{self.qualified_name}"

    @property
    def lines(self) -> tuple[int, int]:
        """The first and the last line of its statements."""
        return self.node.lineno, self.node.end_lineno or self.node.lineno

    @property
    def ends_its_function(self) -> bool:
        """Whether its last statement is a `return` of the function around it."""
        return isinstance(self.statements[-1], ast.Return)

    @property
    def outputs(self) -> tuple[str, ...]:
        """The names that are its result; empty if it ends its function, or only limits gradients."""
        answer = self.node.body[-1]
        value = answer.value if isinstance(answer, ast.Return) and not self.ends_its_function else None
        parts = value.values if isinstance(value, ast.Dict) else [value]
        return tuple(ast.unparse(part) for part in parts if isinstance(part, ast.Name | ast.Attribute))

    @property
    def trains(self) -> bool:
        """Whether it is a training step rather than a statistic of gradients."""
        return self.qualified_name.partition("#")[2].partition(".")[0] == TRAINING_STEP

    @property
    def has_epochs(self) -> bool:
        """Whether a loop is around its loop over batches."""
        first, last = self.lines
        within = self.holder.node if self.holder is not None else self.module.tree
        loops = [node for node in ast.walk(within) if isinstance(node, ast.For | ast.While)]
        around = [node for node in loops if node.lineno <= first and (node.end_lineno or 0) >= last]
        return len(around) > 1

    @property
    def context(self) -> str:
        """The lines before it that show the model among what it reads: `SGD(net.parameters())`."""
        first = self.holder.node.lineno if self.holder is not None else 1
        names = "|".join(re.escape(item.arg) for item in self.parameters)
        shows = re.compile(rf"\b({names})\.(named_)?parameters\(\)")
        return "\n".join(filter(shows.search, self.module.lines[first - 1 : self.lines[0] - 1])) if names else ""

    @property
    def place(self) -> str:
        """The qualified name of the function around it, or "" at module level."""
        return self.qualified_name.partition("#")[0]


def blocks_of(module: Module) -> list[Block]:
    """Return the blocks of a file in order; the second one of a name in a function is `name.2`."""
    return sorted([*blocks_of_gradients(module), *blocks_that_train(module)], key=lambda block: block.node.lineno)


def blocks_of_gradients(module: Module) -> list[Block]:
    """Return the blocks of a file that compute a statistic of gradients, limit or check them."""
    if "blocks" not in module.known:
        scopes = _scopes(module) if _MAY_HOLD_BLOCKS.search("\n".join(module.lines)) else ()
        found = (block for scope in scopes for block in _blocks_in(scope))
        module.known["blocks"] = sorted(found, key=lambda one: one.node.lineno)
    blocks: list[Block] = module.known["blocks"]
    return blocks


def blocks_that_train(module: Module) -> list[Block]:
    """Return the training steps of a file that are not functions."""
    if "steps" not in module.known:
        calls, found = TrainingCalls(module), list[Block]()
        for scope in _scopes(module) if MAY_TRAIN.search("\n".join(module.lines)) else ():
            loops = training_loops(scope, calls.inside(scope.owner))
            found += _named(scope, ((run, TRAINING_STEP, body) for run, body in loops), is_handed_over)
        module.known["steps"] = sorted(found, key=lambda one: one.node.lineno)
    steps: list[Block] = module.known["steps"]
    return steps


def blocks_at(files: PythonFiles, path: str) -> list[Block]:
    """Return the blocks of a file, given its path below the checkout; none if it is missing or does not parse."""
    module = files.module_of(path)
    return blocks_of(module) if isinstance(module, Module) and module.file == path else []


def function_or_block(files: PythonFiles, call: str) -> Function | None:
    """Return the function of a module or the block of a file that `call` names, or None."""
    file, _, statement = split_call(call)
    if not statement:
        return PythonFiles.function(files, call)
    return next((block for block in blocks_at(files, file) if block.call == call), None)


def nearest_blocks(module: Module, call: str) -> list[str]:
    """Return the blocks of a file, with the names nearest to `call` first."""
    calls = [block.call for block in blocks_of(module)]
    return list(dict.fromkeys((*nearest_names(call, calls), *calls)))[:_MOST_NAMED]


def undefined_names(block: Block) -> list[str]:
    """Return the names that a block reads and that neither its function nor its file sets."""
    tree = block.module.tree
    if any(item.name == "*" for item in block.module.imports) or _SETS_NAMES.search("\n".join(block.module.lines)):
        return []
    known = names_of(tree.body).stores | _MODULE_NAMES
    declared = {name for node in ast.walk(tree) if isinstance(node, ast.Global) for name in node.names}
    return [name for name in block.names if name not in known | declared]


def _scopes(module: Module) -> Iterator[Scope]:
    top = Scope(module, module.tree.body)
    yield top
    yield from _scopes_inside(top, top, module.tree.body, "", None)


def _scopes_inside(top: Scope, outer: Scope, body: Suite, prefix: str, owner: Class | None) -> Iterator[Scope]:
    for node in body:
        if isinstance(node, FunctionNode):
            scope = Scope(top.module, node.body, prefix + node.name, node, owner, top, (*outer.functions, node))
            yield scope
            yield from _scopes_inside(top, scope, node.body, f"{scope.qualified_name}.", None)
        elif isinstance(node, ast.ClassDef):
            inside = top.module.classes.get(prefix + node.name)
            yield from _scopes_inside(top, outer, node.body, f"{prefix}{node.name}.", inside)
        else:
            for suite in suites_of(node):
                yield from _scopes_inside(top, outer, suite, prefix, owner)


def _blocks_in(scope: Scope) -> Iterator[Block]:
    """Yield the blocks of one scope: first those that handle gradients, then those that use their norms."""
    if scope.function is not None and not _MAY_HOLD_BLOCKS.search(scope.function.text):
        return
    found: list[tuple[Run, str, list[ast.stmt]]] = []
    taken = set[ast.stmt]()
    for run in find_runs(scope):
        taken.update(each for top in run.statements for each in own_statements(top))
        made = Body(run, scope).made()
        found += [(run, *made)] if made is not None else []
    found += [(each.run, each.name, handed_on_body(each, scope)) for each in handed_on(scope, taken)]
    # In an optimizer's `step`, other names are statistics of one tensor, for its update.
    is_step = scope.node is not None and scope.node.name == "step"
    yield from _named(scope, (each for each in found if not is_step or _OF_ALL_GRADIENTS.search(each[1])))


def _named(
    scope: Scope, found: Iterable[tuple[Run, str, list[ast.stmt]]], is_given: Callable[[str], bool] = lambda _: False
) -> Iterator[Block]:
    """Yield the runs of one scope as blocks; the second one of a name is `name.2`."""
    counts = Counter[str]()
    for run, name, body in found:
        counts[name] += 1
        yield _block(scope, run, f"{name}.{counts[name]}" if counts[name] > 1 else name, body, is_given)


def _block(
    scope: Scope, run: Run, statement: str, body: list[ast.stmt], is_given: Callable[[str], bool] = lambda _: False
) -> Block:
    node, names = function_of(run, scope, statement.partition(".")[0], body, is_given)
    return Block(
        scope.module,
        f"{scope.qualified_name}#{statement}",
        node,
        holder=scope.function,
        around=scope.functions,
        statements=tuple(run.statements),
        names=names,
    )
