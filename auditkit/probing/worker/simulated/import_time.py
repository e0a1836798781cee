"""What the checkout's modules asked of CUDA when they were imported, asked again while the pretended device is there.

`DEVICE = "cuda" if torch.cuda.is_available() else "cpu"` at a module's top level, or as a default of an argument, was
answered before there was a device: every copy to it would count as one to the host. Only statements that build a
device, a flag or a type from such a question are run again, in the namespace of their module.
"""

import ast
import contextlib
import functools
import inspect
import os
from types import CodeType, FunctionType
from typing import Any, Callable, Dict, Iterator, List, NamedTuple, Optional, Sequence, Set

from ..base.namespaces import namespaces
from ..process.cut_out import statements_of

_QUESTIONS = ("is_available", "device_count", "current_accelerator")
_CALLS = (*_QUESTIONS, "device", "current_device", "str", "bool")
_PLAIN = (
    ast.IfExp, ast.BoolOp, ast.And, ast.Or, ast.UnaryOp, ast.Not, ast.Compare, ast.cmpop, ast.Constant, ast.Name,
    ast.Attribute, ast.expr_context, ast.Call, ast.keyword, ast.JoinedStr, ast.FormattedValue,
)  # fmt: skip
_DEFAULTS = "defaults"


class Answer(NamedTuple):
    """A statement to be run again in a module's `namespace`; `function` is where it binds defaults, not names."""

    namespace: Dict[str, Any]
    code: CodeType
    function: Optional[FunctionType] = None


class Modules:
    """The checkout's modules, read when the pretended device is first there: those whose files `is_checkout`."""

    def __init__(self, is_checkout: Callable[[str], bool]) -> None:
        self._is_checkout = is_checkout

    @functools.cached_property
    def namespaces(self) -> List[Dict[str, Any]]:
        """What each module holds; torch, which may be what is audited, is pretended as a whole already."""
        files = [(held, held.get("__file__") or "") for held in namespaces()]
        folders = {os.path.dirname(path) for _, path in files if path.endswith(".py")}
        own = {folder for folder in folders if self._is_checkout(os.path.join(folder, "__init__.py"))}
        inside = [(held, path) for held, path in files if os.path.dirname(path) in own]
        return [held for held, path in inside if path.endswith(".py") and self._is_checkout(path)]

    @functools.cached_property
    def answers(self) -> List[Answer]:
        """Every statement that is run again."""
        return [answer for namespace in self.namespaces for answer in answers_of(namespace)]

    def importers(self, name: str, value: Any) -> List[Dict[str, Any]]:
        """What the modules hold that define or imported `name`: the same value under it."""
        found = [held for held in self.namespaces if type(held.get(name)) is type(value)]
        return [held for held in found if held[name] == value]


@contextlib.contextmanager
def asked_again(modules: Optional[Modules]) -> Iterator[None]:
    """Inside, names and defaults are what they would be with a device; afterwards they are as before."""
    if modules is None:
        yield
        return
    with contextlib.ExitStack() as undo:
        for answer in modules.answers:
            bound: Dict[str, Any] = {}
            with contextlib.suppress(Exception):
                exec(answer.code, answer.namespace, bound)
            if answer.function is not None and bound:
                undo.callback(setattr, answer.function, "__defaults__", answer.function.__defaults__)
                setattr(answer.function, "__defaults__", bound[_DEFAULTS])  # noqa: B010 - mypy takes it for a method
                continue
            for name in bound.keys() & answer.namespace.keys():  # not all is there where only a part of a file ran
                value, before = bound[name], answer.namespace[name]
                for namespace in modules.importers(name, before):
                    undo.callback(namespace.__setitem__, name, before)
                    namespace[name] = value
        yield


def answers_of(namespace: Dict[str, Any]) -> List[Answer]:
    """The statements and defaults of a module that depend on whether there is a CUDA device."""
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
        if isinstance(statement, (ast.Assign, ast.AnnAssign, ast.If)) and _is_answer(statement, names):
            stored = (each for each in ast.walk(statement) if isinstance(each, ast.Name))
            names.update(each.id for each in stored if isinstance(each.ctx, ast.Store))
            found.append(Answer(namespace, _compiled([statement], path)))
        elif isinstance(statement, ast.FunctionDef):
            function = inspect.unwrap(namespace.get(statement.name, len))
            if isinstance(function, FunctionType) and function.__defaults__ and _asks(statement.args.defaults, names):
                found.append(Answer(namespace, _compiled([_defaults(statement)], path), function))
    return found


def _is_answer(statement: ast.stmt, names: Set[str]) -> bool:
    """Whether a statement only binds names to what it builds from a question, or from names so bound."""
    if isinstance(statement, ast.If):
        return _asks([statement.test], names) and all(_binds(each) for each in [*statement.body, *statement.orelse])
    return _binds(statement) and _asks([statement.value], names)  # type: ignore[attr-defined]


def _binds(statement: ast.stmt) -> bool:
    if isinstance(statement, ast.If):
        return _is_plain(statement.test) and all(_binds(each) for each in [*statement.body, *statement.orelse])
    if not isinstance(statement, (ast.Assign, ast.AnnAssign)) or statement.value is None:
        return False
    targets = statement.targets if isinstance(statement, ast.Assign) else [statement.target]
    return all(isinstance(target, ast.Name) for target in targets) and _is_plain(statement.value)


def _asks(expressions: Sequence[ast.expr], names: Set[str]) -> bool:
    """Whether expressions are plain and one of them depends on a question, or on a name bound by one."""
    nodes = (node for expression in expressions for node in ast.walk(expression))
    return any(_is_question(node, names) for node in nodes) and all(map(_is_plain, expressions))


def _is_question(node: ast.AST, names: Set[str]) -> bool:
    if isinstance(node, ast.Name):
        return node.id in names
    return isinstance(node, ast.Attribute) and node.attr in _QUESTIONS


def _is_plain(expression: ast.expr) -> bool:
    return all(
        isinstance(node, _PLAIN) and (not isinstance(node, ast.Call) or _called(node) in _CALLS)
        for node in ast.walk(expression)
    )


def _called(call: ast.Call) -> str:
    function = call.func
    return function.attr if isinstance(function, ast.Attribute) else getattr(function, "id", "")


def _defaults(function: ast.FunctionDef) -> ast.stmt:
    values = ast.Tuple(elts=list(function.args.defaults), ctx=ast.Load())
    return ast.Assign(targets=[ast.Name(id=_DEFAULTS, ctx=ast.Store())], value=values)


def _compiled(statements: List[ast.stmt], path: str) -> CodeType:
    return compile(ast.fix_missing_locations(ast.Module(body=statements, type_ignores=[])), path, "exec")
