"""What tests say of how often their branch runs: once for each holder, every so many steps, where somebody asked."""

from __future__ import annotations

import ast
import re

from auditkit.probing.source_code.modules import dotted_name, targets_of
from auditkit.probing.source_code.walking import walk

_ASKED_FOR = re.compile(r"(^|_)(debug\w*|verbose|sanity|checks?|profil\w*|diagnos\w*|paranoid|inf)(_|$)", re.IGNORECASE)


def guard_of(test: ast.expr) -> str:
    """The text of a test that most steps or most runs fail: an interval, a flag for a check, the infinity norm."""
    for node in walk([test]):
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mod):
            return ast.unparse(test)
        name = dotted_name(node).rpartition(".")[2] if isinstance(node, ast.Name | ast.Attribute) else ""
        if _ASKED_FOR.search(name) or (isinstance(node, ast.Constant) and node.value == "inf"):
            return ast.unparse(test)
    return ""


def guards_what_follows(test: ast.expr) -> bool:
    """Whether a test leaves its block unless asked: `if step % 100: return`, `if not self.debug: return`."""
    match test:
        case ast.UnaryOp(op=ast.Not()) | ast.Compare(ops=[ast.NotEq()]) | ast.BinOp():
            return bool(guard_of(test))
    return False


def is_first_time(node: ast.If) -> bool:
    """Whether a branch fills what its test found empty: an optimizer's `if len(state) == 0: state["step"] = 0`.

    A plain name that is given a value may be empty again in the next turn.
    """
    holder = _found_empty(node.test)
    stored = {ast.unparse(place) for part in walk(node.body) if isinstance(part, ast.stmt) for place in _stores(part)}
    return bool(holder) and holder in stored


def _found_empty(test: ast.expr) -> str:
    """What a test asks for being empty: `not state`, `len(state) == 0`, `"m" not in state`, `self.m is None`."""
    match test:
        case ast.UnaryOp(op=ast.Not(), operand=holder):
            return ast.unparse(holder)
        case ast.Compare(left=ast.Call(func=ast.Name(id="len"), args=[holder]), ops=[ast.Eq()]):
            return ast.unparse(holder)
        case ast.Compare(ops=[ast.NotIn()], comparators=[holder]):
            return ast.unparse(holder)
        case ast.Compare(left=holder, ops=[ast.Is()], comparators=[ast.Constant(value=None)]):
            return ast.unparse(holder)
    return ""


def _stores(node: ast.stmt) -> list[ast.expr]:
    """The places that a statement stores into, no plain names; of `state["m"] = ...` also `state`."""
    stored = [part for target in targets_of(node) for part in (*getattr(target, "elts", ()), target)]
    held = [part.value for part in stored if isinstance(part, ast.Subscript)]
    return [*held, *(part for part in stored if isinstance(part, ast.Attribute | ast.Subscript))]
