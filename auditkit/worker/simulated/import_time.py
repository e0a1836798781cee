"""Repeat the CUDA checks of the checkout's modules from their import, while the simulated device exists.

`DEVICE = "cuda" if torch.cuda.is_available() else "cpu"` at a module's top level was evaluated before there was a
device: every copy to it would count as one to the host. Only assignments that build a device, a flag or a type from
such a check run again, in the namespace of their module.
"""

import ast
import contextlib
import functools
import os
from types import CodeType
from typing import Any, Callable, Dict, Iterator, List, Optional, Set, Tuple

from ..base.namespaces import namespaces
from ..serve.cut_out import last_word, statements_of

_QUESTIONS = frozenset(("is_available", "device_count", "current_accelerator"))
_CALLS = _QUESTIONS | {"device", "current_device", "str", "bool"}
_PLAIN = (
    ast.IfExp, ast.BoolOp, ast.And, ast.Or, ast.UnaryOp, ast.Not, ast.Compare, ast.cmpop, ast.Constant, ast.Name,
    ast.Attribute, ast.expr_context, ast.Call, ast.keyword, ast.JoinedStr, ast.FormattedValue,
)  # fmt: skip


class Modules:
    """The checkout's modules, those whose files `is_checkout`, read when the simulated device first exists."""

    def __init__(self, is_checkout: Callable[[str], bool]) -> None:
        self._is_checkout = is_checkout

    @functools.cached_property
    def namespaces(self) -> List[Dict[str, Any]]:
        """The names of each module; torch, which may be the audited code, is already simulated as a whole."""
        files = [(held, held.get("__file__") or "") for held in namespaces()]
        folders = {os.path.dirname(path) for _, path in files if path.endswith(".py")}
        own = {folder for folder in folders if self._is_checkout(os.path.join(folder, "__init__.py"))}
        inside = [(held, path) for held, path in files if os.path.dirname(path) in own]
        return [held for held, path in inside if path.endswith(".py") and self._is_checkout(path)]

    @functools.cached_property
    def questions(self) -> List[Tuple[Dict[str, Any], CodeType]]:
        """Every assignment that runs again, with the namespace of its module."""
        return [(held, code) for held in self.namespaces for code in _questions_in(held["__file__"])]

    def importers(self, name: str, value: Any) -> List[Dict[str, Any]]:
        """Return the namespaces that define or imported `name` with the same value."""
        found = [held for held in self.namespaces if type(held.get(name)) is type(value)]
        return [held for held in found if held[name] == value]


@contextlib.contextmanager
def asked_again(modules: Optional[Modules]) -> Iterator[None]:
    """Give names the values that they would have with a device, inside the context."""
    with contextlib.ExitStack() as undo:
        for own, code in modules.questions if modules is not None else ():
            bound: Dict[str, Any] = {}
            with contextlib.suppress(Exception):
                exec(code, own, bound)
            for name in bound.keys() & own.keys():  # some are missing if only a part of a file ran
                before = own[name]
                for namespace in modules.importers(name, before):  # type: ignore[union-attr]
                    undo.callback(namespace.__setitem__, name, before)
                    namespace[name] = bound[name]
        yield


def _questions_in(path: str) -> Iterator[CodeType]:
    """Yield the assignments of a file whose values depend on whether there is a CUDA device."""
    try:
        with open(path, encoding="utf-8") as file:
            source = file.read()
        statements = (
            [each.node for each in statements_of(path).all] if any(map(source.__contains__, _QUESTIONS)) else []
        )
    except (OSError, ValueError, SyntaxError):
        return
    names: Set[str] = set()
    for each in statements:
        if not isinstance(each, ast.Assign) or not all(isinstance(target, ast.Name) for target in each.targets):
            continue
        nodes = list(ast.walk(each.value))
        called = {last_word(node.func) for node in nodes if isinstance(node, ast.Call)}
        asks = any(getattr(node, "attr", None) in _QUESTIONS or getattr(node, "id", None) in names for node in nodes)
        if asks and called <= _CALLS and all(isinstance(node, _PLAIN) for node in nodes):
            names.update(target.id for target in each.targets if isinstance(target, ast.Name))
            yield compile(ast.Module(body=[each], type_ignores=[]), path, "exec")
