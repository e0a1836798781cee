"""Which nodes of a syntax tree are tensor operations, by one name for every spelling."""

from __future__ import annotations

import ast
from collections.abc import Callable

from auditkit.probing.source.modules import dotted_name

OPERATIONS = frozenset({
    "abs", "all", "amax", "amin", "any", "argmax", "argmin", "bfloat16", "cat", "clamp", "clone", "contiguous",
    "count_nonzero", "cpu", "cuda", "cumsum", "diff", "dist", "div", "dot", "double", "einsum", "exp", "flatten",
    "float", "half", "histc", "isfinite", "isinf", "isnan", "item", "kthvalue", "log", "logsumexp", "max", "mean",
    "median", "min", "mul", "nansum", "nonzero", "norm", "numpy", "pow", "prod", "quantile", "reshape", "softmax",
    "sqrt", "square", "stack", "std", "sub", "sum", "svd", "to", "tolist", "topk", "unique", "var", "vector_norm",
    "view", "where",
})  # fmt: skip
"""Methods that compute or read a tensor; whatever is called on torch itself counts as well."""

CASTS = {"torch.float32": "float", "torch.float": "float", "torch.float64": "double", "torch.double": "double"}
"""What `.to(dtype)` is also called."""

_RENAMED = {"vector_norm": "norm", "square": "**", "pow": "**"}

FullName = Callable[[str], str]
"""What an imported name stands for, as `Module.full_name` says it; "" for what is not imported."""


def operation(node: ast.AST, full_name: FullName) -> str:
    """The tensor operation that `node` itself is, by one name for every spelling; "" where it is none."""
    if isinstance(node, ast.BinOp):
        return "**" if is_square(node) else ""
    if not isinstance(node, ast.Call):
        return ""
    if isinstance(node.func, ast.Name) and node.func.id == "float":
        return "item" if len(node.args) == 1 and _reads_tensor(node.args[0], full_name) else ""
    origin, _, name = origin_of(node.func, full_name).rpartition(".")
    if isinstance(node.func, ast.Attribute) and not origin:
        name = node.func.attr
    is_method = isinstance(node.func, ast.Attribute) and not origin and name in OPERATIONS
    if not (is_method or is_torch(origin)):
        return ""
    if name == "to":
        return _cast(node, full_name) or name
    return _RENAMED.get(name, name)


def is_torch(origin: str) -> bool:
    return origin == "torch" or origin.startswith("torch.")


def _reads_tensor(node: ast.expr, full_name: FullName) -> bool:
    """Whether `float()` of it is a read: it computes a tensor, and has not read it yet."""
    last = operation(node, full_name)
    return bool(last) and last != "item"


def is_square(node: ast.BinOp) -> bool:
    if isinstance(node.op, ast.Mult):
        return ast.dump(node.left) == ast.dump(node.right) and not isinstance(node.left, ast.Constant)
    return isinstance(node.op, ast.Pow) and isinstance(node.right, ast.Constant) and node.right.value == 2


def _cast(node: ast.Call, full_name: FullName) -> str:
    values = [*node.args, *(keyword.value for keyword in node.keywords)]
    return CASTS.get(origin_of(values[0], full_name), "") if len(values) == 1 else ""


def origin_of(node: ast.expr, full_name: FullName) -> str:
    """`torch.nn.functional.normalize` for whatever name the module calls it by; "" for what is not imported."""
    return full_name(dotted_name(node))
