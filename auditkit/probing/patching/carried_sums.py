"""Values that a fix forgot: sums over a flat copy that it takes away, computed piece by piece in its own loop."""

from __future__ import annotations

import ast
import copy
from collections.abc import Sequence
from dataclasses import dataclass

from auditkit.probing.patching.local_names import names_of
from auditkit.probing.source_code.modules import dotted_name

_FLAT = frozenset({"torch.cat", "torch.concat", "torch.concatenate", "torch.hstack"})
_ELEMENTWISE = frozenset({"isnan", "isinf", "isfinite", "abs", "square", "sign", "float", "double", "logical_not"})


@dataclass(frozen=True)
class Carried:
    """What goes before the loop, what goes to its end, and what is said of it."""

    before: ast.stmt
    inside: ast.stmt
    loop: ast.For
    note: str


def carry(name: str, definition: ast.stmt, flat: ast.stmt, fix: Sequence[ast.stmt]) -> Carried | None:
    """`name = f(whole).sum()` as a sum over the pieces that a loop of the fix goes through.

    `flat` builds the whole, as `whole = torch.cat([piece(g) for g in gradients])`. Only where that is the same
    by algebra: the loop is over the same gradients and f works element by element. None where it is not.
    """
    whole, made = _assigned(flat)
    named, expression = _assigned(definition)
    if made is None or expression is None or named != name or not _adds_up(expression, whole):
        return None
    for loop in (node for statement in fix for node in ast.walk(statement) if isinstance(node, ast.For)):
        piece = _piece(made, loop)
        if piece is not None:
            part = ast.unparse(_replaced(expression, whole, piece))
            note = (
                f"{name}, which the function still needs and the fix forgets, is summed in its loop over "
                f"{ast.unparse(loop.iter)}: {whole}, which it takes away, is all of {ast.unparse(piece)} in one"
            )
            return Carried(_statement(f"{name} = 0"), _statement(f"{name} = {name} + {part}"), loop, note)
    return None


def _assigned(statement: ast.stmt) -> tuple[str, ast.expr | None]:
    """The name and the value of `name = value`; no value for any other statement."""
    match statement:
        case ast.Assign(targets=[ast.Name(id=name)], value=value):
            return name, value
    return "", None


def _adds_up(expression: ast.expr, whole: str) -> bool:
    """Whether the value for a whole is the sum of the values for its pieces: `f(whole).sum()`, `whole.numel()`."""
    if not isinstance(expression, ast.Call) or not isinstance(expression.func, ast.Attribute):
        return False
    if expression.args or expression.keywords:
        return False
    inner = expression.func.value
    if expression.func.attr == "numel":
        return isinstance(inner, ast.Name) and inner.id == whole
    return expression.func.attr == "sum" and whole in names_of(inner).loads and _is_elementwise(inner, whole)


def _is_elementwise(node: ast.expr, whole: str) -> bool:
    if isinstance(node, ast.Name):
        return node.id == whole
    if isinstance(node, ast.Constant):
        return True
    if isinstance(node, ast.Compare):
        return all(_is_elementwise(part, whole) for part in (node.left, *node.comparators))
    if isinstance(node, ast.BinOp):
        return _is_elementwise(node.left, whole) and _is_elementwise(node.right, whole)
    if isinstance(node, ast.UnaryOp):
        return _is_elementwise(node.operand, whole)
    if not isinstance(node, ast.Call) or node.keywords or not isinstance(node.func, ast.Attribute):
        return False
    owner = [] if dotted_name(node.func.value) == "torch" else [node.func.value]
    return node.func.attr in _ELEMENTWISE and all(_is_elementwise(part, whole) for part in (*owner, *node.args))


def _piece(whole: ast.expr, loop: ast.For) -> ast.expr | None:
    """What one turn of `loop` has of the whole: the name that it gives it, or the expression; None if nothing."""
    match whole:
        case ast.Call(func=function, args=[ast.ListComp(elt=piece, generators=[made])]):
            is_flat = dotted_name(function) in _FLAT and not made.ifs
        case _:
            return None
    if not is_flat or not isinstance(made.target, ast.Name) or not isinstance(loop.target, ast.Name):
        return None
    if ast.dump(made.iter) != ast.dump(loop.iter):
        return None
    wanted = _replaced(piece, made.target.id, ast.Name(loop.target.id, ast.Load()))
    values = map(_assigned, loop.body)
    named = next((name for name, value in values if value and ast.dump(value) == ast.dump(wanted)), None)
    return ast.Name(named, ast.Load()) if named else wanted


def _replaced(expression: ast.expr, name: str, by: ast.expr) -> ast.expr:
    class Put(ast.NodeTransformer):
        def visit_Name(self, node: ast.Name) -> ast.expr:
            return by if node.id == name else node

    changed: ast.expr = Put().visit(copy.deepcopy(expression))
    return changed


def _statement(text: str) -> ast.stmt:
    return ast.parse(text).body[0]
