"""Run again what the checkout's modules asked about CUDA when they were imported, while the simulated device exists.

`DEVICE = "cuda" if torch.cuda.is_available() else "cpu"` at a module's top level, or as a default of an argument, was
evaluated before there was a device: every copy to it would count as one to the host. Only statements that build a
device, a flag or a type from such a question run again, in the namespace of their module.
"""

import ast
import contextlib
import functools
import inspect
import itertools
import os
from types import CodeType, FunctionType
from typing import Any, Callable, Dict, Iterator, List, NamedTuple, Optional, Sequence, Set

from ..base.namespaces import namespaces
from ..serve.cut_out import statements_of

_QUESTIONS = ("is_available", "device_count", "current_accelerator")
_CALLS = (*_QUESTIONS, "device", "current_device", "str", "bool")
_PLAIN = (
    ast.IfExp, ast.BoolOp, ast.And, ast.Or, ast.UnaryOp, ast.Not, ast.Compare, ast.cmpop, ast.Constant, ast.Name,
    ast.Attribute, ast.expr_context, ast.Call, ast.keyword, ast.JoinedStr, ast.FormattedValue,
)  # fmt: skip
_DEFAULTS = "defaults"


class Answer(NamedTuple):
    """A statement to run again in a module's `namespace`; for defaults of an argument, their `function`."""

    namespace: Dict[str, Any]
    code: CodeType
    function: Optional[FunctionType] = None


class Modules:
    """The checkout's modules, those whose files `is_checkout`, read when the simulated device first exists."""

    def __init__(self, is_checkout: Callable[[str], bool]) -> None:
        self._is_checkout = is_checkout

    @functools.cached_property
    def namespaces(self) -> List[Dict[str, Any]]:
        """What each module holds; torch, which may be the audited code, is simulated as a whole already."""
        files = [(held, held.get("__file__") or "") for held in namespaces()]
        folders = {os.path.dirname(path) for _, path in files if path.endswith(".py")}
        own = {folder for folder in folders if self._is_checkout(os.path.join(folder, "__init__.py"))}
        inside = [(held, path) for held, path in files if os.path.dirname(path) in own]
        return [held for held, path in inside if path.endswith(".py") and self._is_checkout(path)]

    @functools.cached_property
    def answers(self) -> List[Answer]:
        """Every statement that runs again."""
        return [answer for namespace in self.namespaces for answer in _answers_of(namespace)]

    def importers(self, name: str, value: Any) -> List[Dict[str, Any]]:
        """Return the namespaces that define or imported `name`: the same value under it."""
        found = [held for held in self.namespaces if type(held.get(name)) is type(value)]
        return [held for held in found if held[name] == value]


@contextlib.contextmanager
def asked_again(modules: Optional[Modules]) -> Iterator[None]:
    """Meanwhile names and defaults have the values that they would have with a device."""
    with contextlib.ExitStack() as undo:
        for answer in modules.answers if modules is not None else ():
            bound: Dict[str, Any] = {}
            with contextlib.suppress(Exception):
                exec(answer.code, answer.namespace, bound)
            if answer.function is not None and bound:
                undo.callback(setattr, answer.function, "__defaults__", answer.function.__defaults__)
                setattr(answer.function, "__defaults__", bound[_DEFAULTS])  # noqa: B010 - mypy takes it for a method
                continue
            for name in bound.keys() & answer.namespace.keys():  # some are missing if only a part of a file ran
                value, before = bound[name], answer.namespace[name]
                for namespace in modules.importers(name, before):  # type: ignore[union-attr]
                    undo.callback(namespace.__setitem__, name, before)
                    namespace[name] = value
        yield


def _answers_of(namespace: Dict[str, Any]) -> List[Answer]:
    """Return the statements and defaults of a module that depend on whether there is a CUDA device."""
    path = namespace["__file__"]
    try:
        with open(path, encoding="utf-8") as file:
            source = file.read()
        if not any(question in source for question in _QUESTIONS):
            return []
        statements = [each.node for each in statements_of(path).all]
    except (OSError, ValueError, SyntaxError):
        return []
    names: Set[str] = set()
    found = []
    for statement in statements:
        function = inspect.unwrap(namespace.get(getattr(statement, "name", ""), len))
        expressions = _bound_expressions(statement)
        if expressions and _asks(expressions[:1], names) and all(map(_is_plain, expressions)):
            stored = (each for each in ast.walk(statement) if isinstance(each, ast.Name))
            names.update(each.id for each in stored if isinstance(each.ctx, ast.Store))
            found.append(Answer(namespace, _compiled(statement, path)))
        elif isinstance(statement, ast.FunctionDef) and isinstance(function, FunctionType) and function.__defaults__:
            defaults = statement.args.defaults
            if _asks(defaults, names) and all(map(_is_plain, defaults)):
                target, values = ast.Name(id=_DEFAULTS, ctx=ast.Store()), ast.Tuple(elts=defaults, ctx=ast.Load())
                found.append(Answer(namespace, _compiled(ast.Assign([target], values), path), function))
    return found


def _bound_expressions(statement: ast.stmt) -> Optional[List[ast.expr]]:
    """Return the expressions of a statement that only binds names, an `if`'s test first; None for any other."""
    if isinstance(statement, ast.If):
        inner = [_bound_expressions(each) for each in [*statement.body, *statement.orelse]]
        return None if None in inner else [statement.test, *itertools.chain(*filter(None, inner))]
    if not isinstance(statement, (ast.Assign, ast.AnnAssign)) or statement.value is None:
        return None
    targets = statement.targets if isinstance(statement, ast.Assign) else [statement.target]
    return [statement.value] if all(isinstance(target, ast.Name) for target in targets) else None


def _asks(expressions: Sequence[ast.expr], names: Set[str]) -> bool:
    """Whether expressions ask about CUDA, or use a name that was bound to the answer."""
    nodes = [node for expression in expressions for node in ast.walk(expression)]
    return any(
        (isinstance(node, ast.Name) and node.id in names)
        or (isinstance(node, ast.Attribute) and node.attr in _QUESTIONS)
        for node in nodes
    )


def _is_plain(expression: ast.expr) -> bool:
    """Whether evaluating an expression again does nothing but build a device, a flag or a type."""
    calls = [node.func for node in ast.walk(expression) if isinstance(node, ast.Call)]
    called = [call.attr if isinstance(call, ast.Attribute) else getattr(call, "id", "") for call in calls]
    return all(isinstance(node, _PLAIN) for node in ast.walk(expression)) and set(called) <= set(_CALLS)


def _compiled(statement: ast.stmt, path: str) -> CodeType:
    return compile(ast.fix_missing_locations(ast.Module(body=[statement], type_ignores=[])), path, "exec")
