"""Expressions with placeholders for their operands, as they are spelled and in one spelling for all."""

from __future__ import annotations

import ast

from auditkit.probing.source.likeness.operations import (
    CASTS,
    OPERATIONS,
    FullName,
    is_square,
    is_torch,
    operation,
    origin_of,
)
from auditkit.probing.source.modules import dotted_name

_KEPT_ATTRIBUTES = frozenset({"grad", "data", "T", "mT", "shape", "dtype", "device"})
_SAME_VALUES = frozenset({"grad", "data", "detach"})
_LISTS = frozenset({"stack", "cat"})
_PLACEHOLDERS = "xyzw"


class Normaliser(ast.NodeTransformer):
    """Puts a placeholder for every operand: a local name, an attribute or an element of one."""

    def __init__(self, full_name: FullName) -> None:
        self.full_name = full_name
        self._placeholders: dict[str, str] = {}

    def visit_Name(self, node: ast.Name) -> ast.expr:
        return self._imported(node) or self._operand(node)

    def visit_Attribute(self, node: ast.Attribute) -> ast.expr:
        imported = self._imported(node)
        if imported is not None:
            return imported
        if node.attr not in _KEPT_ATTRIBUTES and _is_operand(node):
            return self._operand(node)
        node.value = self.visit(node.value)
        return node

    def visit_Subscript(self, node: ast.Subscript) -> ast.AST:
        return self._operand(node) if _is_operand(node) else self.generic_visit(node)

    def visit_Call(self, node: ast.Call) -> ast.expr:
        return self._visited(node)

    def _visited(self, node: ast.Call) -> ast.Call:
        if isinstance(node.func, ast.Attribute) and self._imported(node.func) is None:
            node.func.value = self.visit(node.func.value)
        else:
            node.func = self._imported(node.func) or node.func
        node.args = [self.visit(argument) for argument in node.args]
        node.keywords = [self.visit(keyword) for keyword in node.keywords]
        return node

    def visit_Constant(self, node: ast.Constant) -> ast.expr:
        return ast.Constant("...") if isinstance(node.value, str | bytes) else node

    def visit_JoinedStr(self, _node: ast.JoinedStr) -> ast.expr:
        return ast.Constant("...")

    def visit_NamedExpr(self, node: ast.NamedExpr) -> ast.AST:
        visited: ast.AST = self.visit(node.value)
        return visited

    def _imported(self, node: ast.expr) -> ast.expr | None:
        """An imported name: torch's in full, any other as it is written."""
        origin = origin_of(node, self.full_name)
        if not origin:
            return None
        return ast.Name(origin if is_torch(origin) else self._other_name(node, origin))

    def _other_name(self, node: ast.expr, _origin: str) -> str:
        return dotted_name(node)

    def _operand(self, node: ast.expr) -> ast.expr:
        number = len(self._placeholders)
        name = _PLACEHOLDERS[number] if number < len(_PLACEHOLDERS) else f"x{number}"
        return ast.Name(self._placeholders.setdefault(ast.unparse(node), name))


def _is_operand(node: ast.expr) -> bool:
    """Whether a name, or what is reached from one without a call: `norms`, `self.grads[0]`, `pending["norm"]`."""
    while isinstance(node, ast.Attribute | ast.Subscript):
        if isinstance(node, ast.Attribute) and node.attr in _KEPT_ATTRIBUTES:
            return False
        node = node.value
    return isinstance(node, ast.Name)


class Folder(Normaliser):
    """Brings what is computed into one spelling, whatever it is written as."""

    def visit_Attribute(self, node: ast.Attribute) -> ast.expr:
        if node.attr in _SAME_VALUES and not origin_of(node, self.full_name):
            same: ast.expr = self.visit(node.value)
            return same
        return super().visit_Attribute(node)

    def _other_name(self, _node: ast.expr, origin: str) -> str:
        """The last name: `from .norms import total` and `import train.norms` lead to one function."""
        return origin.rpartition(".")[2]

    def visit_BinOp(self, node: ast.BinOp) -> ast.AST:
        return _squared(self.visit(node.left)) if is_square(node) else self.generic_visit(node)

    def visit_Call(self, node: ast.Call) -> ast.expr:
        name = operation(node, self.full_name)
        origin = origin_of(node.func, self.full_name)
        visited = self._visited(_as_method(node, name, origin) if origin else node)
        if isinstance(visited.func, ast.Attribute) and visited.func.attr in _SAME_VALUES and not visited.args:
            return visited.func.value
        return _respelled(visited, name) if name else visited

    def _visit_comprehension(self, node: ast.ListComp | ast.SetComp | ast.GeneratorExp) -> ast.expr:
        anything = ast.Name("_")
        generator = ast.comprehension(target=anything, iter=anything, ifs=[], is_async=0)
        return ast.GeneratorExp(self.visit(node.elt), [generator])

    visit_ListComp = visit_SetComp = visit_GeneratorExp = _visit_comprehension


def _as_method(node: ast.Call, name: str, origin: str) -> ast.Call:
    """`torch.isnan(x)` as `x.isnan()`, where `x` is one tensor and not a list of them."""
    function = origin.rpartition(".")[2]
    is_method = is_torch(origin) and function in OPERATIONS and function not in _LISTS
    if not (name and is_method and node.args) or isinstance(node.args[0], ast.List | ast.Tuple | ast.Starred):
        return node
    return ast.Call(ast.Attribute(node.args[0], function), node.args[1:], node.keywords)


def _respelled(node: ast.Call, name: str) -> ast.expr:
    """A visited call by the one name of its operation."""
    if isinstance(node.func, ast.Name):
        return ast.Call(ast.Attribute(node.args[0], "item"), [], []) if node.func.id == "float" else _plain(node)
    if not isinstance(node.func, ast.Attribute):
        return node
    if name == "**":
        return _squared(node.func.value) if node.func.attr == "square" or _is_two(node.args) else node
    arguments = [] if name in CASTS.values() else node.args
    return _plain(ast.Call(ast.Attribute(node.func.value, name), arguments, node.keywords))


def _plain(node: ast.Call) -> ast.Call:
    """A norm without its order where that is 2, which is the default."""
    name = node.func.attr if isinstance(node.func, ast.Attribute) else dotted_name(node.func).rpartition(".")[2]
    if not name.endswith("norm"):
        return node
    arguments = [] if _is_two(node.args) else node.args
    keywords = [item for item in node.keywords if not (item.arg in ("p", "ord") and _is_two([item.value]))]
    return ast.Call(node.func, arguments, keywords)


def _is_two(arguments: list[ast.expr]) -> bool:
    return len(arguments) == 1 and isinstance(arguments[0], ast.Constant) and arguments[0].value == 2


def _squared(node: ast.expr) -> ast.BinOp:
    return ast.BinOp(node, ast.Pow(), ast.Constant(2))
