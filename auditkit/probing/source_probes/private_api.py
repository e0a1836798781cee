"""Find uses of torch's private names, and whether something guards them against a torch that lacks them.

Private is `torch._x`, `torch.x._y`, `from torch._x import y` and `from torch.x import _y`. A guard is a
test of the version or of the name's presence (`hasattr`, `getattr` with a default), in an `if` around the
use, in one before it that leaves, or kept in a name; or a `try` that catches what its absence raises.
"""

from __future__ import annotations

import ast
import functools
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from auditkit.probing.source_code.modules import Import, Module, dotted_name
from auditkit.probing.source_code.walking import children, walk

# What may stand between the parts of `torch . _x`: white space, line ends, parentheses, comments. A comment
# reaches to the end of its line: `torch ####` could be divided in 2 ** 4 ways otherwise, and each would be tried.
_GAP = rb"(?:[\s\\()]|#[^\r\n]*[\r\n])*"

_VERSION = re.compile(
    r"torch.*version|version.*torch|TORCH_(GE|GT|GREATER|LE|LESS|LT|VERSION|AT_LEAST|\d)", re.IGNORECASE
)
_PRESENCE = frozenset(("hasattr", "getattr", "find_spec"))
_ABSENCE = frozenset((
    "ImportError", "ModuleNotFoundError", "AttributeError", "Exception", "BaseException", "RuntimeError",
    "NotImplementedError",
))  # fmt: skip
_FLOW_ENDS = ast.Return | ast.Raise | ast.Continue | ast.Break


@dataclass(frozen=True, order=True)
class PrivateUse:
    """One unguarded use: its line, the private name as a reader knows it, and the function around it."""

    line: int
    name: str
    function: str


def imports_private(imports: Iterable[Import]) -> bool:
    """Whether an import names something private of torch."""
    return any(item.module.startswith("torch") and "._" in f".{item.module}.{item.name}" for item in imports)


def may_read_private(source: bytes, imports: Iterable[Import]) -> bool:
    """Whether a file's text may hold a private attribute of torch; never no where it does."""
    fulls = {(item.local, f"{item.module}.{item.name}".rstrip(".")) for item in imports if item.local}
    of_torch = {(local, private_part(full) != "") for local, full in fulls if full.partition(".")[0] == "torch"}
    return any(_attributes_of(local, is_private).search(source) for local, is_private in of_torch)


@functools.cache
def _attributes_of(local: str, is_private: bool) -> re.Pattern[bytes]:
    """Private attributes of the torch module that is called `local`; all of them where it is private itself."""
    name = rb"\b" + re.escape(local.encode()) + rb"\b" + _GAP + rb"\."
    part = rb"[\w\x80-\xff]+" + _GAP + rb"\."
    return re.compile(name if is_private else name + rb"(?:" + _GAP + part + rb")*?" + _GAP + rb"_\w")


def unguarded_uses(module: Module, reads_attributes: bool) -> list[PrivateUse]:
    """Every use of a private name of torch that nothing guards, one for each name and line.

    Without `reads_attributes` only imports are looked at; see `may_read_private`.
    """
    reader = _PrivateUses(module, reads_attributes)
    reader.block(module.tree.body, False, "")
    return sorted(set(reader.found))


class _PrivateUses:
    def __init__(self, module: Module, reads_attributes: bool) -> None:
        self.imports = _torch_names(module)
        self.reads_attributes = reads_attributes
        self.asks_for_types = any("TYPE_CHECKING" in line for line in module.lines)
        self.flags: set[str] = set()
        self.found: list[PrivateUse] = []

    def block(self, statements: Sequence[ast.stmt], is_guarded: bool, function: str) -> None:
        """Follow statements; a guard that leaves (`if not hasattr(...): return`) guards the rest."""
        for statement in statements:
            self.statement(statement, is_guarded, function)
            is_guarded = is_guarded or self._leaves_without(statement)

    def statement(self, node: ast.stmt, is_guarded: bool, function: str) -> None:
        match node:
            case ast.Import() | ast.ImportFrom():
                self.imported(node, is_guarded, function)
            case ast.FunctionDef() | ast.AsyncFunctionDef():
                inner = f"{function}.{node.name}" if function else node.name
                self.expressions([*node.decorator_list, *_defaults(node.args)], is_guarded, inner)
                self.block(node.body, is_guarded or self._guards_any(node.decorator_list), inner)
            case ast.ClassDef():
                inner = f"{function}.{node.name}" if function else node.name
                self.expressions([*node.decorator_list, *node.bases, *node.keywords], is_guarded, inner)
                self.block(node.body, is_guarded, inner)
            case ast.If(test=test):
                is_about = self._guards(test)
                types_only = self.asks_for_types and "TYPE_CHECKING" in ast.unparse(test)
                self.expressions([test], is_guarded or is_about, function)
                self.block(node.body, is_guarded or is_about or types_only, function)
                self.block(node.orelse, is_guarded or is_about, function)
            case ast.Try() | ast.TryStar():
                self.block(node.body, is_guarded or _catches_absence(node.handlers), function)
                for handler in node.handlers:
                    # What runs where a name is missing is the fallback for the torch that has the other.
                    self.block(handler.body, is_guarded or _catches_absence([handler]), function)
                self.block(node.orelse, is_guarded or _catches_absence(node.handlers), function)
                self.block(node.finalbody, is_guarded, function)
            case ast.Match(subject=subject, cases=cases):
                self.expressions([subject], is_guarded, function)
                for case in cases:
                    self.block(case.body, is_guarded, function)
            case ast.AnnAssign(value=value):
                self.note_flag(node, value)
                self.expressions([value] if value is not None else [], is_guarded, function)
            case _:
                self.note_flag(node, getattr(node, "value", None))
                blocks = [getattr(node, name) for name in ("body", "orelse") if hasattr(node, name)]
                self.expressions(children(node, ("body", "orelse")), is_guarded, function)
                for block in blocks:
                    self.block(block, is_guarded, function)

    # --- uses ---

    def imported(self, node: ast.Import | ast.ImportFrom, is_guarded: bool, function: str) -> None:
        names = [alias.name for alias in node.names]
        if isinstance(node, ast.ImportFrom):
            if node.level or not node.module or node.module.partition(".")[0] != "torch":
                return
            names = [f"{node.module}.{name}" for name in names]
        for name in names:
            if name.partition(".")[0] == "torch":
                self.note(name, node.lineno, is_guarded, function)

    def expressions(self, nodes: Iterable[ast.AST], is_guarded: bool, function: str) -> None:
        """Uses in expressions; `a if hasattr(torch, "_x") else b` and `hasattr(...) and ...` guard their parts."""
        if is_guarded or not self.reads_attributes:
            return
        waiting = list(nodes)
        while waiting:
            node = waiting.pop()
            if isinstance(node, ast.IfExp | ast.BoolOp):
                tests = [node.test] if isinstance(node, ast.IfExp) else node.values[:-1]
                if self._guards_any(tests):
                    continue
            elif isinstance(node, ast.Attribute) and (name := self.torch_name(node)):
                self.note(name, node.lineno, False, function)
                continue
            waiting += children(node)

    def torch_name(self, node: ast.Attribute) -> str:
        """`torch.nn.utils._x` for an attribute of torch however it was imported; "" for others."""
        head, _, rest = dotted_name(node).partition(".")
        return f"{self.imports[head]}.{rest}" if head in self.imports else ""

    def note(self, name: str, line: int, is_guarded: bool, function: str) -> None:
        private = private_part(name)
        if private and not is_guarded:
            self.found.append(PrivateUse(line, private, function))

    # --- guards ---

    def note_flag(self, node: ast.stmt, value: ast.expr | None) -> None:
        """`HAS_FOREACH = hasattr(torch, "_foreach_norm")`: a later test of the name is a guard."""
        if value is None or not self._guards(value):
            return
        targets = node.targets if isinstance(node, ast.Assign) else [getattr(node, "target", None)]
        self.flags |= {target.id for target in targets if isinstance(target, ast.Name)}

    def _guards_any(self, nodes: Iterable[ast.AST]) -> bool:
        return any(self._guards(node) for node in nodes)

    def _guards(self, test: ast.AST) -> bool:
        """Whether an expression asks for torch's version or for the presence of a name."""
        for node in walk([test]):
            if isinstance(node, ast.Call) and dotted_name(node.func).rpartition(".")[2] in _PRESENCE:
                return True
            if isinstance(node, ast.Name | ast.Attribute):
                written = dotted_name(node)
                if written in self.flags or _is_version(written):
                    return True
        return False

    def _leaves_without(self, node: ast.stmt) -> bool:
        """`if not hasattr(torch, "_x"): return fallback()`, and a `try` import whose handler leaves."""
        if isinstance(node, ast.If):
            return bool(node.body) and isinstance(node.body[-1], _FLOW_ENDS) and self._guards(node.test)
        return isinstance(node, ast.Assert) and self._guards(node.test)


@functools.lru_cache(maxsize=100_000)
def _is_version(written: str) -> bool:
    return _VERSION.search(written) is not None


def private_part(name: str) -> str:
    """`torch.nn.utils._x` up to its first private part, "" without one; `__version__` and the like are public."""
    parts = name.split(".")
    for place, part in enumerate(parts):
        if part.startswith("_") and not (part.startswith("__") and part.endswith("__")):
            return ".".join(parts[: place + 1] if place else parts)
    return ""


def _torch_names(module: Module) -> dict[str, str]:
    """Local names of torch and of its modules: `torch`, `nn`, `F`, `dist`."""
    found = {}
    for local, origin in module.origins.items():
        full = origin.replace(":", ".")
        if full == "torch" or (full.startswith("torch.") and not full.rpartition(".")[2][:1].isupper()):
            found[local] = full
    return found


def _catches_absence(handlers: Iterable[ast.ExceptHandler]) -> bool:
    """Whether a handler takes a missing name, and does more than raise again."""
    for handler in handlers:
        types = walk([handler.type]) if handler.type is not None else ()
        caught = [dotted_name(node).rpartition(".")[2] for node in types if isinstance(node, ast.expr)]
        if not _ABSENCE.isdisjoint(caught) or handler.type is None:
            return True
    return False


def _defaults(arguments: ast.arguments) -> Iterator[ast.expr]:
    yield from arguments.defaults
    yield from (item for item in arguments.kw_defaults if item is not None)
