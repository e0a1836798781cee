"""Run only those statements of a file that define a requested name, and what they depend on.

Functions are compiled with the file's own name and lines, so that frames, excerpts and `inspect` stay right.
"""

import __future__

import ast
import builtins
import functools
import importlib
import importlib.machinery
import sys
from types import CodeType, ModuleType
from typing import Any, Callable, Dict, Iterable, Iterator, List, Optional, Set

from . import placeholders

_IMPORTS = (ast.Import, ast.ImportFrom)
_DEFINES = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Lambda)
# A loop with one of these trains; functions do not depend on it.
_OF_TRAINING = frozenset(("backward", "step", "zero_grad", "train_step", "training_step"))
# Calls without side effects, by the first name: builtins, and modules without state of a run.
_MAKES_VALUES = frozenset(dir(builtins)) - {"open", "exec", "eval", "input", "exit", "quit", "print"} | {
    "OrderedDict", "Path", "TypeVar", "collections", "contextlib", "copy", "datetime", "deepcopy", "defaultdict",
    "deque", "functools", "itertools", "logging", "math", "namedtuple", "nullcontext", "operator", "os", "partial",
    "pathlib", "re", "sys", "threading", "time", "typing",
}  # fmt: skip
# The same by the last name, on any object.
_MAKE_VALUES = {
    "device", "finfo", "iinfo", "is_available", "device_count", "is_initialized", "autocast", "getLogger", "get_logger",
}  # fmt: skip


class Statement:
    """A top-level statement, with the names that it binds and reads and the names whose objects it changes."""

    def __init__(self, node: ast.stmt, path: str, flags: int) -> None:
        self.node, self._path, self._flags = node, path, flags

    @functools.cached_property
    def code(self) -> CodeType:
        tree = ast.Module(body=[self.node], type_ignores=[])
        return compile(tree, self._path, "exec", flags=self._flags, dont_inherit=True)

    @functools.cached_property
    def binds(self) -> Set[str]:
        return set(_bound(self.node))

    @functools.cached_property
    def changes(self) -> Set[str]:
        return set(_changed(self.node))

    @functools.cached_property
    def reads(self) -> Set[str]:
        """The names that it reads, also in inner functions; `co_names` has no local variables."""
        return {node.id for node in ast.walk(self.node) if isinstance(node, ast.Name)} & set(_names(self.code))


_parsed: Dict[str, "Statements"] = {}


def statements_of(path: str) -> "Statements":
    """Return the statements of a file, which is parsed once per process. Raises errors of reading and parsing."""
    if path not in _parsed:
        _parsed[path] = Statements(path)
    return _parsed[path]


class Statements:
    """The statements of a file, by the names that they bind; `path` is the file name of their code."""

    def __init__(self, path: str) -> None:
        with open(path, "rb") as file:
            body = [node for node in ast.parse(file.read(), path).body if not _is_for_scripts(node)]
        named = [node for node in body if isinstance(node, ast.ImportFrom) and node.module == "__future__"]
        features = {alias.name for node in named for alias in node.names}
        flags = sum(getattr(__future__, feature).compiler_flag for feature in features)
        self.all: List[Statement] = [Statement(node, path, flags) for node in body]
        self.stars: List[ast.ImportFrom] = [
            node for node in body if isinstance(node, ast.ImportFrom) and node.names[0].name == "*"
        ]

    @property
    def train(self) -> bool:
        """Whether running them calls `backward`, also through functions of this file."""
        functions = {each.node.name: each.node for each in self.all if isinstance(each.node, ast.FunctionDef)}
        waiting = [name for each in self.all if not isinstance(each.node, _DEFINES) for name in _called(each.node)]
        while waiting:
            name = waiting.pop()
            if name == "backward":
                return True
            if name in functions:
                inner = ast.walk(functions.pop(name))
                waiting += [last_word(each.func) for each in inner if isinstance(each, ast.Call)]
        return False

    @functools.cached_property
    def binding(self) -> Dict[str, List[int]]:
        """The statements that define each name: those that bind it, and those that change its object."""
        found: Dict[str, List[int]] = {}
        for number, statement in enumerate(self.all):
            for name in statement.binds:
                found.setdefault(name, []).append(number)
        imported = {name for each in self.all if isinstance(each.node, _IMPORTS) for name in each.binds}
        for number, statement in enumerate(self.all):
            for name in (statement.changes & found.keys()) - statement.binds - imported:
                found[name].append(number)
        return found

    def needed(self, names: Iterable[str], may_run: Callable[[Statement], bool] = lambda _: True) -> List[int]:
        """Return the statements that define `names`, with all their dependencies, in the order of the file.

        A name stays undefined if one of its statements may not run; training loops are ignored.
        """
        chosen: Set[int] = set()
        waiting = list(names)
        while waiting:
            numbers = [each for each in self.binding.get(waiting.pop(), ()) if not _trains(self.all[each].node)]
            if all(may_run(self.all[number]) for number in numbers):
                waiting += [name for number in numbers if number not in chosen for name in self.all[number].reads]
                chosen.update(numbers)
        return sorted(chosen)

    def is_defined(self, name: str, may_run: Callable[[Statement], bool]) -> bool:
        """Return whether all statements that bind a name, except training loops, may run."""
        return all(may_run(self.all[each]) or _trains(self.all[each].node) for each in self.binding.get(name, ()))

    def outside(self, numbers: Iterable[int]) -> Set[str]:
        """Return the names that these statements read and that neither the file nor Python defines."""
        read = {name for number in numbers for name in self.all[number].reads}
        return {name for name in read - self.binding.keys() if not hasattr(builtins, name)}


def is_definition(statement: Statement) -> bool:
    """Return whether a statement imports, defines, or binds a constant, rather than creating objects of a run."""
    return _defines(statement.node)


def _defines(node: ast.stmt) -> bool:
    if isinstance(node, (*_DEFINES, *_IMPORTS)):
        return True
    if isinstance(node, (ast.Assign, ast.AnnAssign, ast.AugAssign)):
        return node.value is not None and _makes_a_value(node.value)
    if isinstance(node, ast.Expr):
        return _makes_a_value(node.value)
    if isinstance(node, (ast.If, ast.For, ast.Try)):
        tests = [part for part in ast.iter_child_nodes(node) if isinstance(part, ast.expr)]
        parts = [part for part in ast.iter_child_nodes(node) if isinstance(part, ast.stmt)]
        parts += [part for handler in getattr(node, "handlers", ()) for part in handler.body]
        return all(map(_makes_a_value, tests)) and all(map(_defines, parts))
    return isinstance(node, (ast.Pass, ast.Raise, ast.Assert))


def _makes_a_value(expression: ast.expr) -> bool:
    calls = (node for node in ast.walk(expression) if isinstance(node, ast.Call))
    return all(_root(call.func) in _MAKES_VALUES or last_word(call.func) in _MAKE_VALUES for call in calls)


def _trains(node: ast.stmt) -> bool:
    if isinstance(node, (*_DEFINES, ast.Assign)):
        return False
    return isinstance(node, ast.While) or bool(_called(node) & _OF_TRAINING)


def _called(node: ast.stmt) -> Set[str]:
    return {last_word(each.func) for each in _run_now(node) if isinstance(each, ast.Call)}


def _is_for_scripts(node: ast.stmt) -> bool:
    """Return whether a statement is `if __name__ == "__main__":`, which no import runs."""
    return isinstance(node, ast.If) and any(getattr(each, "id", "") == "__name__" for each in ast.walk(node.test))


def _names(code: CodeType) -> Iterator[str]:
    """Yield the global names and the attributes that code uses, including those of inner functions."""
    yield from code.co_names
    for inner in code.co_consts:
        if isinstance(inner, CodeType):
            yield from _names(inner)


def _bound(statement: ast.stmt) -> Iterator[str]:
    """Yield the names that a statement binds when it runs."""
    for node in _run_now(statement):
        if isinstance(node, _IMPORTS):
            for alias in node.names:
                yield (alias.asname or alias.name).partition(".")[0]
        elif isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            yield node.name
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            yield node.id


def _changed(statement: ast.stmt) -> Iterator[str]:
    """Yield the names whose objects a statement changes:

    `parser.add_argument(...)`, `table["a"] = 1`, `f.cache = {}`.
    """
    for node in _run_now(statement):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Call):
            yield from filter(None, [_root(node.value.func) if isinstance(node.value.func, ast.Attribute) else ""])
        elif isinstance(node, (ast.Attribute, ast.Subscript)) and isinstance(node.ctx, ast.Store):
            yield from filter(None, [_root(node)])


def _run_now(node: ast.AST) -> Iterator[ast.AST]:
    """Yield a statement's nodes, without the bodies of functions and classes."""
    yield node
    if not isinstance(node, _DEFINES):
        for child in ast.iter_child_nodes(node):
            yield from _run_now(child)


def _root(expression: ast.expr) -> str:
    while isinstance(expression, (ast.Attribute, ast.Subscript, ast.Call)):
        expression = expression.func if isinstance(expression, ast.Call) else expression.value
    return expression.id if isinstance(expression, ast.Name) else ""


def last_word(called: ast.expr) -> str:
    """Return the last name of a called expression: `c` of `a.b.c`."""
    return called.attr if isinstance(called, ast.Attribute) else getattr(called, "id", "")


class CutOut(ModuleType):
    """A module that runs a statement of its file when one of its names is read."""

    def __getattr__(self, name: str) -> Any:
        loader = self.__spec__.loader if self.__spec__ is not None else None
        assert isinstance(loader, CutOutLoader)
        loader.define(self, [name])
        if name in vars(self):
            return vars(self)[name]
        raise AttributeError("module '{}' has no attribute '{}'".format(self.__name__, name))

    def define_classes_with(self, method: str) -> None:
        """Run the classes of a file of which one defines a method of this name: others may derive from it."""
        loader = self.__spec__.loader if self.__spec__ is not None else None
        assert isinstance(loader, CutOutLoader)
        classes = [each.node for each in loader.statements.all if isinstance(each.node, ast.ClassDef)]
        if any(getattr(each, "name", "") == method for node in classes for each in node.body):
            loader.define(self, [node.name for node in classes])


class CutOutLoader(importlib.machinery.SourceFileLoader):
    """Loads a file as a `CutOut`; a name whose statement raises is a stub."""

    def __init__(self, name: str, path: str) -> None:
        super().__init__(name, path)
        self._begun: Set[int] = set()

    def exec_module(self, module: ModuleType) -> None:
        self.statements = statements_of(self.path)
        module.__class__ = CutOut

    def define(
        self, module: ModuleType, names: Iterable[str], may_run: Callable[[Statement], bool] = lambda _: True
    ) -> None:
        """Run the statements that `names` need and that have not run, in the file's order."""
        if len(self._begun) == len(self.statements.all) and not self.statements.stars:
            return
        names = list(names)
        numbers = self.statements.needed(names, may_run)
        if self.statements.stars:
            for name in {*names, *self.statements.outside(numbers)} - self.statements.binding.keys():
                self._take_from_star(module, name)
        for number in numbers:
            self._run(module, number)

    def _run(self, module: ModuleType, number: int) -> None:
        if number in self._begun:
            return
        self._begun.add(number)
        statement = self.statements.all[number]
        try:
            with placeholders.loading():
                exec(statement.code, vars(module))
        except (Exception, SystemExit) as error:
            for name in statement.binds - vars(module).keys():
                vars(module)[name] = _stub(module.__name__, statement.node, name, error)

    def _take_from_star(self, module: ModuleType, name: str) -> None:
        """Bind a name that one of the file's `from other import *` provides."""
        for star in self.statements.stars if not name.startswith("_") else ():
            other = importlib.import_module("." * star.level + (star.module or ""), module.__package__)
            if name not in vars(module) and hasattr(other, name):
                vars(module)[name] = getattr(other, name)


def _stub(module: str, node: ast.stmt, name: str, error: BaseException) -> Any:
    """Return a stub for a name that a statement did not bind: its module is not installed, or the statement failed."""
    missing = (error.name or "") if isinstance(error, ModuleNotFoundError) else ""
    is_absent = missing == "torch._six" or missing.split(".")[0] not in sys.modules
    for alias in node.names if isinstance(node, _IMPORTS) else ():
        bound = (alias.asname or alias.name).partition(".")[0]
        source = node.module or "" if isinstance(node, ast.ImportFrom) else alias.name if alias.asname else bound
        if bound == name and missing and is_absent and (source + ".").startswith(missing + "."):
            return placeholders.in_place_of(source, alias.name if isinstance(node, ast.ImportFrom) else "")
    said = "{}: {}".format(type(error).__name__, " ".join(str(error).split())[:200])
    return placeholders.failed("{}.{}".format(module, name), "{}.{} could not be made: {}".format(module, name, said))


class CutOutFinder:
    """Finds the modules of files that `is_own` as `CutOut`s."""

    def __init__(self, is_own: Callable[[str], bool]) -> None:
        self._is_own = is_own

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> Optional[importlib.machinery.ModuleSpec]:
        found = importlib.machinery.PathFinder.find_spec(name, path, target)
        if found is None or not isinstance(found.loader, importlib.machinery.SourceFileLoader):
            return None
        if not self._is_own(found.loader.path):
            return None
        found.loader = CutOutLoader(name, found.loader.path)
        return found

    def install(self) -> None:
        sys.meta_path.insert(0, self)
