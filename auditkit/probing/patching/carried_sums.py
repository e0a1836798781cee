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
    whole = _assigned(flat)
    expression = _value(definition, name)
    if whole is None or expression is None or not _adds_up(expression, whole):
        return None
    for loop in (node for statement in fix for node in ast.walk(statement) if isinstance(node, ast.For)):
        piece = _piece(flat, loop)
        if piece is not None:
            part = ast.unparse(_replaced(expression, whole, piece))
            note = (
                f"{name}, which the function still needs and the fix forgets, is summed in its loop over "
                f"{ast.unparse(loop.iter)}: {whole}, which it takes away, is all of {ast.unparse(piece)} in one"
            )
            return Carried(_statement(f"{name} = 0"), _statement(f"{name} = {name} + {part}"), loop, note)
    return None


def _assigned(statement: ast.stmt) -> str | None:
    if isinstance(statement, ast.Assign) and len(statement.targets) == 1 and isinstance(statement.targets[0], ast.Name):
        return statement.targets[0].id
    return None


def _value(statement: ast.stmt, name: str) -> ast.expr | None:
    return statement.value if isinstance(statement, ast.Assign) and _assigned(statement) == name else None


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


def _piece(flat: ast.stmt, loop: ast.For) -> ast.expr | None:
    """What one turn of `loop` has of the whole: the name that it gives it, or the expression; None if nothing."""
    call = flat.value if isinstance(flat, ast.Assign) else None
    if not isinstance(call, ast.Call) or dotted_name(call.func) not in _FLAT or len(call.args) != 1:
        return None
    made = call.args[0]
    if not isinstance(made, ast.ListComp) or len(made.generators) != 1 or made.generators[0].ifs:
        return None
    generator = made.generators[0]
    if not isinstance(generator.target, ast.Name) or not isinstance(loop.target, ast.Name):
        return None
    if ast.dump(generator.iter) != ast.dump(loop.iter):
        return None
    wanted = _replaced(made.elt, generator.target.id, ast.Name(loop.target.id, ast.Load()))
    for statement in loop.body:
        named = _assigned(statement)
        if named and isinstance(statement, ast.Assign) and ast.dump(statement.value) == ast.dump(wanted):
            return ast.Name(named, ast.Load())
    return wanted


def _replaced(expression: ast.expr, name: str, by: ast.expr) -> ast.expr:
    class Put(ast.NodeTransformer):
        def visit_Name(self, node: ast.Name) -> ast.expr:
            return by if node.id == name else node

    changed: ast.expr = Put().visit(copy.deepcopy(expression))
    return changed


def _statement(text: str) -> ast.stmt:
    return ast.parse(text).body[0]
