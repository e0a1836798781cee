"""Which indices are masks: `t[mask]` waits for the device, to learn how many elements are meant."""

from __future__ import annotations

import ast
from typing import Protocol

from auditkit.probing.source_probes.tensor_flow.kinds import TENSOR, Kind

_OF_EACH_ELEMENT = frozenset((
    "isnan", "isinf", "isfinite", "isposinf", "isneginf", "isreal", "isclose", "isin", "signbit", "eq", "ne", "lt",
    "le", "gt", "ge", "not_equal", "less", "less_equal", "greater", "greater_equal", "logical_and", "logical_or",
    "logical_not", "logical_xor", "bool",
))  # fmt: skip
"""Functions and methods that say yes or no of each element."""


class Kinds(Protocol):
    """Whoever follows expressions; `masks` are the names that hold one."""

    masks: set[str]

    def kind(self, node: ast.expr) -> Kind:
        """What an expression is."""


def is_mask(flow: Kinds, node: ast.expr) -> bool:
    """Whether a value says of each element if it is meant; a name that says so is believed."""
    match node:
        case ast.Compare():
            return bool(flow.kind(node) == TENSOR)
        case ast.UnaryOp(op=ast.Invert(), operand=operand):
            return is_mask(flow, operand)
        case ast.BinOp(left=left, op=ast.BitAnd() | ast.BitOr() | ast.BitXor(), right=right):
            return is_mask(flow, left) or is_mask(flow, right)
        case ast.Tuple(elts=parts):
            return any(is_mask(flow, part) for part in parts)
        case ast.Call(func=ast.Attribute(attr=name)):
            return name in _OF_EACH_ELEMENT and flow.kind(node) == TENSOR
        case ast.Name(id=name):
            says_so = name == "mask" or name.endswith("_mask")
            return name in flow.masks or (says_so and flow.kind(node) in (None, TENSOR))
    return False
