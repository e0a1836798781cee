"""Who calls a statement of a checkout: the calls that lead to it, under which conditions, up to scripts and tests.

Only source is read, and only the files that name a function are parsed. A method is identified by its name: an object's
class is not followed, so a call of another class's method of that name counts as well.
"""

from __future__ import annotations

import ast
import functools
import re
import threading
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from auditkit.model.text import shortened
from auditkit.probing.checkout.checkout import import_roots
from auditkit.probing.source.files import is_test_file
from auditkit.probing.source.modules import (
    FunctionNode,
    Module,
    dotted_name,
    last_name,
)
from auditkit.probing.source.python_files import PythonFiles
from auditkit.probing.source.statements import nodes_around
from auditkit.probing.source.walking import children, walk

INTERVAL, FLAG, EXCEPT, CONSTANT, FALLBACK, HOST, EXPORTED, NO_CALLER = (
    "at an interval", "under a flag for debugging", "after an exception", "under a flag that is never set",
    "as a fallback that warns", "for tensors on the host", "by users of the package alone",
    "by no code of the checkout",
)  # fmt: skip
"""Conditions under which a statement rarely runs, as words after "called"."""
_RANK = (EXPORTED, FALLBACK, HOST, INTERVAL, FLAG, EXCEPT, CONSTANT, NO_CALLER)
_MOST_STEPS = 5
_MOST_USES = 12
_TRAINS = re.compile(rb"\.backward\(|\boptim\w*\.step\(")
_DEBUGGING = re.compile(r"debug|verbose|sanity|profil|diagnos|paranoid", re.IGNORECASE)
_ACCUMULATES = re.compile(r"acc|micro|update_freq|subdivision", re.IGNORECASE)
_ON_CUDA = re.compile(r"is_cuda\b|cuda['\"]|cuda\.is_available|\buse_cuda")
_AVAILABLE = re.compile(r"available|installed|\bhas_|\bhave_|supports_", re.IGNORECASE)
_WARNS = re.compile(r"(^|_)warn(ing)?(_once|s)?$|WARNING")
_MISSING_PACKAGE = re.compile("Import|ModuleNotFound|Attribute")
_EVERYDAY = re.compile("StopIteration|KeyError|IndexError|Empty|TypeError")
_TESTS_GRAD = re.compile(r"\bgrad\b[^\n]{0,12}?(is\s+(not\s+)?|!=\s*)None")
_FLAT = re.compile("(^|_)flat(tened)?(_|$)")
_LISTS = re.compile(r"(?i)^(typing\.)?(list|sequence|tuple)\b|\b(List|Sequence)\[")


@dataclass(frozen=True)
class Condition:
    """A test around a statement: its text, and its kind if the statement rarely runs because of it."""

    text: str
    kind: str = ""


@dataclass(frozen=True, eq=False)
class Use:
    """A place that calls or names a function; `function` is the definition around it, None at module level."""

    module: Module
    node: ast.AST
    function: FunctionNode | None
    conditions: tuple[Condition, ...] = ()

    @property
    def is_test(self) -> bool:
        return self.module.is_test

    @property
    def place(self) -> str:
        return f"{self.module.file}:{getattr(self.node, 'lineno', 1)}"

    @property
    def worst(self) -> str:
        """The condition under which it runs least often, or ""."""
        kinds = {condition.kind for condition in self.conditions}
        return next((kind for kind in reversed(_RANK) if kind in kinds), "")


@functools.cache
def callers_of(root: Path) -> Callers:
    """Return the callers in a checkout, cached, since a checkout does not change during a run."""
    return Callers(root)


class Callers:
    """The uses of a checkout's functions; its files are read at the first search."""

    def __init__(self, root: Path) -> None:
        self._read = PythonFiles(root, import_roots(root, ()), with_tests=True)
        self.reading = threading.RLock()
        """Held during every search: what one thread has half found is no result for another."""
        self._parents: dict[str, dict[int, ast.AST]] = {}
        self._uses: dict[tuple[str, int], list[Use]] = {}

    @functools.cached_property
    def files(self) -> dict[str, bytes]:
        """The bytes of each file, by its name relative to the checkout."""
        return {self._read.name_of(path): self._read.source(path) for path in self._read.names}

    @functools.cached_property
    def trains(self) -> bool:
        """Whether a file outside the tests calls `backward` or the step of an optimizer."""
        return any(_TRAINS.search(data) for file, data in self.files.items() if not is_test_file(file))

    def is_written(self, pattern: re.Pattern[bytes]) -> bool:
        """Return whether a Python file of the checkout or of its tests matches."""
        return any(map(pattern.search, self.files.values()))

    def _module(self, file: str) -> Module | None:
        parsed = self._read.module_of(file)
        return parsed if isinstance(parsed, Module) else None

    def _parent(self, module: Module) -> dict[int, ast.AST]:
        if module.file not in self._parents:
            found: dict[int, ast.AST] = {}
            waiting: list[ast.AST] = [module.tree]
            while waiting:
                node = waiting.pop()
                inner = children(node)
                found.update((id(child), node) for child in inner)
                waiting += inner
            self._parents[module.file] = found
        return self._parents[module.file]

    def at(self, file: str, line: int) -> Use | None:
        """Return the statement at a line with the conditions inside its function; None if it cannot be read."""
        module = self._module(file)
        around = nodes_around(module.tree, line) if module is not None else []
        return self._use(module, around[-1]) if module is not None and around else None

    def of_target(self, call: str) -> Use | None:
        """Return the definition that a target's call names; of a block, the first statement of its function."""
        called, _, block = call.partition("#")
        function = self._read.function(called)
        if function is None:
            return None
        return Use(function.module, function.node.body[0] if block else function.node, function.node)

    def _use(self, module: Module, node: ast.AST) -> Use:
        parents, inner = self._parent(module), node
        around: list[tuple[ast.If | ast.ExceptHandler, ast.AST]] = []
        function = node if isinstance(node, FunctionNode) else None
        while function is None and (outer := parents.get(id(inner))) is not None:
            function = outer if isinstance(outer, FunctionNode) else None
            if isinstance(outer, ast.If | ast.ExceptHandler):
                around.append((outer, inner))
            inner = outer
        found = [self._condition(module, function, test, child) for test, child in reversed(around)]
        return Use(module, node, function, tuple(each for each in found if each.text))

    def _owner(self, module: Module, node: ast.AST) -> ast.ClassDef | None:
        """Return the class around a node, also outside nested functions."""
        parents = self._parent(module)
        while (outer := parents.get(id(node))) is not None:
            if isinstance(outer, ast.ClassDef):
                return outer
            node = outer
        return None

    def _condition(self, module: Module, function: ast.AST | None, outer: ast.AST, child: ast.AST) -> Condition:
        if isinstance(outer, ast.ExceptHandler):
            caught = ast.unparse(outer.type) if outer.type is not None else "Exception"
            if _MISSING_PACKAGE.search(caught):
                return Condition(f"except {caught}", FALLBACK if _warns(outer.body) else "")
            return Condition(f"except {caught}", "" if _EVERYDAY.search(caught) else EXCEPT)
        assert isinstance(outer, ast.If)
        if child is outer.test:
            return Condition("")
        is_body = any(child is each for each in outer.body)
        negated: ast.expr = ast.UnaryOp(ast.Not(), outer.test)
        if isinstance(outer.test, ast.UnaryOp) and isinstance(outer.test.op, ast.Not):
            negated = outer.test.operand
        text = f"if {shortened(ast.unparse(outer.test if is_body else negated), 60)}"
        if isinstance(outer.test, ast.Constant):
            return Condition(text, CONSTANT) if bool(outer.test.value) != is_body else Condition("")
        said = ast.unparse(self._with_names(function, outer.test))
        block = outer.body if is_body else outer.orelse
        if _ON_CUDA.search(said):
            on_host = is_body == bool(re.search(r"\bnot\b|!=", said))
            return Condition(text, HOST if on_host else "")
        if _DEBUGGING.search(said) and is_body:
            return Condition(text, FLAG)
        if is_body and self._is_interval(module, outer.test, said) and not _steps(block):
            return Condition(text, INTERVAL)
        return Condition(text, FALLBACK if not is_body and _AVAILABLE.search(said) and _warns(block) else "")

    def _is_interval(self, module: Module, test: ast.expr, said: str) -> bool:
        """Return whether a test is true once per N steps, here or in the method of this module that it calls."""
        names = [last_name(node.func) for node in walk([test]) if isinstance(node, ast.Call)]
        named = (each for each in module.defined() if each.name in names)
        called = [each.node for each in named if re.match("_?(should|is)_", each.name)]
        tested = [ast.unparse(node) for node in walk([test, *called]) if is_every(node)]
        return bool(tested) and not any(map(_ACCUMULATES.search, (said, *tested)))

    def _with_names(self, function: ast.AST | None, test: ast.expr) -> ast.expr:
        """Return a test, or a tuple of it and the last values of its local names."""
        names = {node.id for node in walk([test]) if isinstance(node, ast.Name)}
        assigned = (node for node in walk([function]) if isinstance(node, ast.Assign)) if function is not None else ()
        values = [node.value for node in assigned if {dotted_name(target) for target in node.targets} & names]
        return ast.Tuple([test, *values]) if values else test

    def uses(self, of: Use) -> list[Use]:
        """Return the places that call or name the function of `of`, except in its own body."""
        function = of.function
        if function is None:
            return []
        key = (of.module.file, function.lineno)
        if key not in self._uses:
            self._uses[key] = []  # stops recursion
            self._uses[key] = list(self._found(of.module, function))
        return self._uses[key]

    def _found(self, module: Module, function: FunctionNode) -> Iterator[Use]:
        parent = self._parent(module).get(id(function))
        owner = parent if isinstance(parent, ast.ClassDef) else None
        is_nested = owner is None and self._use(module, parent or module.tree).function is not None
        name = owner.name if owner is not None and function.name.startswith("__") else function.name
        method_of = owner if owner is not None and name == function.name else None
        word = re.compile(rb"\b%s\b" % re.escape(name).encode())
        for file, data in self.files.items():
            if (is_nested and file != module.file) or not word.search(data) or (other := self._module(file)) is None:
                continue
            own = {id(node) for node in walk([function])} if file == module.file else frozenset()
            names = {name: ()} if file == module.file else self._imported(other, module, name)
            for node in walk([other.tree]):
                if id(node) in own:
                    continue
                if isinstance(node, ast.Name) and method_of is None and node.id in names and not _is_stored(node):
                    use = self._use(other, node)
                    yield replace(use, conditions=(*names[node.id], *use.conditions))
                elif (
                    isinstance(node, ast.Attribute)
                    and node.attr == name
                    and self._means(other, node, module, method_of)
                ):
                    yield self._use(other, node)

    def _imported(self, module: Module, origin: Module, name: str) -> dict[str, tuple[Condition, ...]]:
        """Return the names under which a module imports `name` of `origin`, with the conditions of fallback imports."""
        ours, last = origin.name, origin.name.rpartition(".")[2]
        found: dict[str, tuple[Condition, ...]] = {}
        for item in module.imports:
            is_ours = item.module.rpartition(".")[2] == last or f"{ours}.".startswith(f"{item.module}.")
            if is_ours and item.name in (name, "*"):
                imported = self.at(module.file, item.line)
                conditions = imported.conditions if imported is not None and imported.worst == FALLBACK else ()
                found[item.local if item.name == name else name] = conditions
        return found

    def _means(self, module: Module, node: ast.Attribute, origin: Module, owner: ast.ClassDef | None) -> bool:
        """Return whether `x.name` may be the function of `origin`, or the method of its class `owner`."""
        head = dotted_name(node.value)
        imported = module.full_name(head) or module.origins.get(head, "").replace(":", ".")
        if owner is None:
            return bool(imported) and imported.rpartition(".")[2] == origin.name.rpartition(".")[2]
        if head in ("self", "cls") and (around := self._owner(module, node)) is not None and around is not owner:
            is_base = around.name in map(last_name, owner.bases)
            return is_base or node.attr not in {each.name for each in around.body if isinstance(each, FunctionNode)}
        return not imported or imported.rpartition(".")[2] == owner.name

    def seldom(self, use: Use, steps: int = _MOST_STEPS, seen: frozenset[int] = frozenset()) -> str:
        """Return the condition of the most frequent path of callers to a statement, or ""."""
        own, function = use.worst, use.function
        if function is None or use.is_test or steps == 0 or own in (EXCEPT, CONSTANT):
            return own
        uses = self.uses(use)
        if len(uses) > _MOST_USES:
            return own
        if not uses:
            return max(own, self._unless_called(use), key=_rank)
        known = seen | {id(function)}
        paths = (
            self.seldom(each, steps - 1, known) for each in uses if not each.is_test and id(each.function) not in seen
        )
        above = min(paths, key=_rank, default="")
        return max(own, above, key=_rank)

    def _unless_called(self, use: Use) -> str:
        """Return who calls what the checkout does not: "" if it trains nothing, or a base class or a decorator may.

        A function that trains is where the calls begin: a launcher, a notebook or a user starts it.
        """
        function, owner = use.function, self._owner(use.module, use.function or use.node)
        assert function is not None
        if not self.trains or function.decorator_list or (owner is not None and owner.bases):
            return ""
        name = owner.name if owner is not None else function.name
        word = re.compile(rb"\b%s\b" % re.escape(name).encode())
        exported = re.compile(rb"__all__[^\]]*[\"']%s[\"']" % re.escape(name).encode())
        is_exported = any(
            (word.search(data) if file.endswith("__init__.py") else exported.search(data)) is not None
            for file, data in self.files.items()
        )
        trains = _TRAINS.search(ast.unparse(function).encode())
        return EXPORTED if is_exported else "" if trains else NO_CALLER

    def entry_points(self, use: Use, steps: int = 2) -> list[str]:
        """Return where the calls begin within two steps: functions, and files of scripts and tests."""
        if use.function is None or use.is_test:
            return [use.module.file]
        uses = self.uses(use)
        if steps == 0 or not uses or len(uses) > _MOST_USES:
            return [use.function.name]
        return list(dict.fromkeys(name for each in uses for name in self.entry_points(each, steps - 1)))

    def filters_gradients(self, use: Use, steps: int = 3) -> str:
        """Return what every path of callers tests before the call: `grad`, `requires_grad`, or ""."""
        found = []
        for each in self.uses(use):
            if each.is_test or each.function is None:
                continue
            text = "\n".join(each.module.lines[each.function.lineno - 1 : each.function.end_lineno])
            told = "grad" if _TESTS_GRAD.search(text) else "requires_grad" if "requires_grad" in text else ""
            found.append(told or (self.filters_gradients(each, steps - 1) if steps > 1 else ""))
        return min(found, key=("", "requires_grad", "grad").index, default="")

    def clear_gradients(self, use: Use) -> bool:
        """Return whether a function that calls a step, or the function around a block, calls `zero_grad`."""
        around = [each.function for each in self.uses(use) if not each.is_test]
        around += [use.function] if use.node is not use.function else []
        return any(
            isinstance(node, ast.Attribute) and node.attr == "zero_grad"
            for node in walk([each for each in around if each is not None])
        )

    def passes_lists(self, use: Use) -> bool:
        """Return whether every call outside of the tests passes a list as the first argument."""
        calls = self._first_arguments(use)
        return bool(calls) and all(_is_list(function, given) for function, given in calls)

    def may_pass_nothing(self, use: Use) -> bool:
        """Return whether a call outside of the tests passes a filtered list."""
        calls = self._first_arguments(use)
        return any(_is_filtered(value) for function, given in calls for value in _values(function, given))

    def _first_arguments(self, use: Use) -> Sequence[tuple[ast.AST | None, ast.expr]]:
        """Return the first argument of each call outside of the tests, and the calling function."""
        calls = []
        for each in self.uses(use):
            call = self._parent(each.module).get(id(each.node))
            if not each.is_test and isinstance(call, ast.Call) and call.func is each.node:
                given = [*call.args, *(key.value for key in call.keywords)][:1]
                calls += [(each.function, argument) for argument in given]
        return calls

    def is_optimizers_step(self, use: Use, steps: int = 3) -> bool:
        """Return whether a statement is in the `step` of an `Optimizer`'s subclass, or only such steps call it."""
        owner, function = self._owner(use.module, use.node), use.function
        if function is not None and function.name == "step" and owner is not None:
            return any(map(self._is_optimizer, map(last_name, owner.bases)))
        callers = [each for each in self.uses(use) if not each.is_test] if steps else []
        return bool(callers) and all(self.is_optimizers_step(each, steps - 1) for each in callers)

    def _is_optimizer(self, name: str, steps: int = 3) -> bool:
        """Return whether a class of this name is `Optimizer`, or derives from it in the checkout."""
        if name == "Optimizer" or not name or not steps:
            return name == "Optimizer"
        defined = re.compile(rb"^class %s\(([^)]*)\)" % re.escape(name).encode(), re.MULTILINE)
        found = (match for data in self.files.values() if (match := defined.search(data)) is not None)
        bases = (base for match in found for base in re.findall(r"\w+", match[1].decode(errors="replace")))
        return any(self._is_optimizer(base, steps - 1) for base in bases if base != name)

    def is_called_everywhere(self, use: Use) -> bool:
        """Return whether so many places call a method's name that most mean those of other classes."""
        return self._owner(use.module, use.node) is not None and len(self.uses(use)) > _MOST_USES

    def is_named_flat(self, function: FunctionNode) -> bool:
        """Return whether a function's name or one of its parameters says that it gets flat buffers."""
        names = (node.arg for node in walk([function.args]) if isinstance(node, ast.arg))
        return any(map(_FLAT.search, (function.name, *names)))

    def gets_flat_gradients(self, use: Use) -> bool:
        """Return whether gradients are in flat buffers, by the function, its class, or each of its callers."""
        function = use.function
        if function is None:
            return False
        owner = self._owner(use.module, function)
        inside = walk([owner] if owner is not None else [])
        attributes = (node.attr for node in inside if isinstance(node, ast.Attribute) and _is_stored(node))
        if self.is_named_flat(function) or any(map(_FLAT.search, attributes)):
            return True
        above = [each for each in self.uses(use) if not each.is_test and each.function is not None]
        return (
            owner is None
            and bool(above)
            and all(self._owner(each.module, each.node) is not None for each in above)
            and all(self.gets_flat_gradients(each) for each in above)
        )


def _rank(kind: str) -> int:
    return _RANK.index(kind) if kind else -1


def _is_stored(node: ast.Name | ast.Attribute) -> bool:
    return isinstance(node.ctx, ast.Store)


def is_every(node: ast.AST) -> bool:
    """Return whether a test is true once per N: `step % n == 0`, `not step % n`."""
    match node:
        case ast.Compare(left=ast.BinOp(op=ast.Mod()), ops=[ast.Eq()]):
            return True
        case ast.UnaryOp(op=ast.Not(), operand=ast.BinOp(op=ast.Mod())):
            return True
    return False


def _warns(block: Iterable[ast.AST]) -> bool:
    calls = (node for node in walk(block) if isinstance(node, ast.Call))
    return any(_WARNS.search(last_name(call.func)) for call in calls)


def _steps(block: Iterable[ast.AST]) -> bool:
    """Return whether a block contains the optimizer's step and so runs once per step."""
    return any(isinstance(node, ast.Call) and last_name(node.func) in ("step", "zero_grad") for node in walk(block))


def _values(function: ast.AST | None, given: ast.expr) -> list[ast.expr]:
    """Return an argument, or the values that the calling function assigns to its name."""
    if not isinstance(given, ast.Name) or function is None:
        return [given]
    assigned = (node for node in walk([function]) if isinstance(node, ast.Assign))
    return [node.value for node in assigned if given.id in map(dotted_name, node.targets)]


def _is_filtered(given: ast.expr) -> bool:
    """Return whether an argument is a filtered list."""
    match given:
        case ast.ListComp(generators=loops) | ast.GeneratorExp(generators=loops):
            return any(loop.ifs for loop in loops)
        case ast.Call(func=called, args=[*_, inner]):
            name = last_name(called)
            return name == "filter" or (name in ("list", "tuple") and _is_filtered(inner))
    return False


def _is_list(function: ast.AST | None, given: ast.expr) -> bool:
    """Return whether an argument is a list: as it is written or assigned, or by its annotation."""
    arguments = (node for node in walk([function] if function is not None else []) if isinstance(node, ast.arg))
    declared = [each.annotation for each in arguments if isinstance(given, ast.Name) and each.arg == given.id]
    if any(each is not None and _LISTS.search(ast.unparse(each)) for each in declared):
        return True
    values = _values(function, given)
    kinds = ast.List | ast.ListComp | ast.Tuple
    return bool(values) and all(
        isinstance(value, kinds)
        or (isinstance(value, ast.Call) and last_name(value.func) in ("list", "sorted", "tuple"))
        for value in values
    )
