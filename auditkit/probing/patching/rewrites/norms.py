"""Norms and sums of squares that are formed in the gradients' own type, formed in float64 instead."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Sequence

from auditkit.probing.patching.local_names import names_of
from auditkit.probing.patching.rewrites.edits import Edit, Rewrite, is_inside, rewrite_of
from auditkit.probing.patching.rewrites.function_text import FunctionText
from auditkit.probing.patching.rewrites.returned_types import returned_as_before
from auditkit.probing.patching.rewrites.sparse import sparse_edits
from auditkit.probing.source_code.modules import dotted_name, targets_of

_PRECISION = frozenset({
    "norm_overflows_on_finite_grads", "norm_underflows_to_zero", "norm_depends_on_grouping", "norm_loses_accuracy",
    "clip_destroys_gradients", "fails_on_mixed_dtypes",
})  # fmt: skip
_ORDER = re.compile(r"p|ord|.*norm_type.*|.*norm_order.*|norm_degree")
_NORM_CALLS = frozenset({"norm", "linalg.vector_norm", "linalg.norm", "_foreach_norm"})
_WORDS = frozenset({"p", "ord", "dim", "keepdim", "dtype"})
_CASTS = frozenset({"float", "double"})


def in_float64(functions: Sequence[FunctionText]) -> Iterator[Rewrite]:
    """Every norm, and every sum of squares, of gradients as they are, with float64 inside the reduction.

    Norms that take sparse gradients take none with a dtype, so that their stored values are read there.
    """
    edits, probes = float64_edits(functions)
    told = "the norm is formed in float64, inside the reduction"
    if "fails_on_sparse_grads" in probes:
        told += ", of a sparse gradient over its stored values"
    lines = {edit.first[0] for edit in edits}
    for ended, kept in returned_as_before(functions, edits, probes):
        yield from rewrite_of("norms_in_float64", ended, kept, told, lines)


def float64_edits(functions: Sequence[FunctionText]) -> tuple[list[Edit], frozenset[str]]:
    """The edits that form norms in float64, whatever is returned then, and the probes whose findings they may end."""
    edits: list[Edit] = []
    lines: list[int] = []
    took_sparse = False
    for function in functions:
        precise = _Precise(function, has_norms=bool(edits))
        edits += precise.edits()
        lines += precise.lines
        took_sparse |= precise.took_sparse
    if not edits:
        return [], frozenset()
    read = [edit for edit in sparse_edits(functions) if not any(is_inside(edit, other) for other in edits)]
    # Lists of gradients and what hands them on are wherever they are; a read is of a norm only where that stands.
    callers = [one for one in functions if not any(_is_in(line, one) for line in lines)]
    sparse = [
        edit
        for edit in read
        if edit.text.startswith("\n")
        or not edit.text
        or edit.first[0] in lines
        or any(_is_in(edit.first[0], one) for one in callers)
    ]
    if took_sparse and sparse:
        return [*edits, *sparse], _PRECISION | {"fails_on_sparse_grads"}
    return edits, _PRECISION


class _Precise:
    """Walks a function's statements in order, and knows which names are float64 already.

    `has_norms` says that a function before it forms the norms, so that what it is handed by a key is float64.
    """

    def __init__(self, function: FunctionText, has_norms: bool) -> None:
        self.lines: list[int] = []
        self.took_sparse = False
        self._function = function
        self._has_norms = has_norms
        self._float64: set[str] = set()
        self._edits: list[Edit] = []

    def edits(self) -> list[Edit]:
        for node in self._function.nodes:
            if isinstance(node, ast.Assign | ast.AnnAssign | ast.AugAssign) and node.value is not None:
                before = len(self._edits)
                self._visit(node.value)
                read = names_of(node.value).loads
                if len(self._edits) > before or read & self._float64:
                    self._float64 |= names_of(targets_of(node)).stores
            elif isinstance(node, ast.For) and names_of(node.iter).loads & self._float64:
                self._float64 |= names_of(node.target).stores
            elif isinstance(node, ast.Return | ast.Expr) and node.value is not None:
                self._visit(node.value)
        return self._edits

    def _visit(self, node: ast.AST) -> None:
        """The innermost reductions first: a norm of norms is float64 where those are."""
        before = len(self._edits)
        root = self._squares(node) if isinstance(node, ast.Call) and rooted(node) else None
        for child in ast.iter_child_nodes(node) if root is None else ():
            self._visit(child)
        if not isinstance(node, ast.Call):
            return
        found: list[Edit] | None = self._wider(node)
        if len(self._edits) == before:
            found = found or root or self._norm(node) or self._squares(node)
        if len(self._edits) > before:
            found = found or narrowing(self._function, node)
        if found:
            self._edits += found
            self.lines += range(node.lineno, (node.end_lineno or node.lineno) + 1)

    def _is_float64(self, node: ast.expr) -> bool:
        if self._has_norms and isinstance(node, ast.Subscript) and isinstance(node.slice, ast.Constant):
            return True
        return bool(names_of(node).loads & self._float64)

    def _norm(self, call: ast.Call) -> list[Edit] | None:
        """`g.norm(2)` and torch's own norms, with the dtype as one more argument."""
        operand = operand_of_norm(call, self._function.torch)
        if operand is None or self._is_float64(operand) or any(item.arg in ("dtype", None) for item in call.keywords):
            return None
        self.took_sparse |= not dotted_name(call.func).endswith(("vector_norm", "_foreach_norm", "linalg.norm"))
        given = [*call.args, *(item.value for item in call.keywords)]
        dtype = f"dtype={self._function.torch}.float64"
        if given:
            return [self._function.insert_after(given[-1], f", {dtype}")]
        first, last = self._function.last(call.func), self._function.last(call)
        return [Edit(first, last, f"({dtype})")]

    def _wider(self, call: ast.Call) -> list[Edit]:
        """`dtype=torch.float` of a norm as float64."""
        torch = self._function.torch
        if operand_of_norm(call, torch) is None:
            return []
        given = [item.value for item in call.keywords if item.arg == "dtype"]
        narrow = [value for value in given if dotted_name(value) in (f"{torch}.float", f"{torch}.float32")]
        return [self._function.replace(value, f"{torch}.float64") for value in narrow]

    def _squares(self, call: ast.Call) -> list[Edit] | None:
        """`x.pow(2).sum()` and its other spellings as the square of a norm; the root of it as the norm."""
        inner = rooted(call)
        squared = summed_squares(inner or call, self._function.torch)
        if squared is None:
            return None
        operand = _without_cast(squared)
        if self._is_float64(operand):
            return None
        self.took_sparse = True
        torch, function = self._function.torch, self._function
        opened = Edit(function.first(call), function.first(operand), f"{torch}.linalg.vector_norm(")
        closed = f", dtype={torch}.float64)" + ("" if inner else ".square()")
        return [opened, Edit(function.last(operand), function.last(call), closed)]


def _is_in(line: int, function: FunctionText) -> bool:
    return any(node.lineno <= line <= (node.end_lineno or node.lineno) for node in function.suite)


def narrowing(function: FunctionText, call: ast.AST) -> list[Edit]:
    """`.to(grad.dtype)` of a norm in float64 taken away: above 65,504 it is inf in float16."""
    match call:
        case (
            ast.Call(func=ast.Attribute(value=wide, attr="to"), args=[ast.Attribute(attr="dtype")], keywords=[])
            | ast.Call(
                func=ast.Attribute(value=wide, attr="to"),
                args=[],
                keywords=[ast.keyword(arg="dtype", value=ast.Attribute(attr="dtype"))],
            )
        ):
            return [Edit(function.last(wide), function.last(call), "")]
    return []


def operand_of_norm(call: ast.Call, torch: str) -> ast.expr | None:
    """What a call takes the norm of; None for any other call."""
    name = dotted_name(call.func)
    if name.startswith(f"{torch}.") and name.removeprefix(f"{torch}.") in _NORM_CALLS:
        return call.args[0] if call.args else None
    if not isinstance(call.func, ast.Attribute) or call.func.attr != "norm":
        return None
    is_order = all(_is_order(item) for item in call.args) and all(item.arg in _WORDS for item in call.keywords)
    owner = dotted_name(call.func.value)
    # `self.norm(x)` and `torch.linalg.norm(x)` are no methods of a gradient.
    return call.func.value if is_order and owner not in ("self", "cls") and len(call.args) <= 1 else None


def _is_order(node: ast.expr) -> bool:
    if isinstance(node, ast.Constant):
        return isinstance(node.value, int | float | str)
    name = dotted_name(node).rpartition(".")[2]
    return bool(name) and (_ORDER.fullmatch(name) is not None or name == "inf")


def rooted(call: ast.Call) -> ast.Call | None:
    """What `.sqrt()` is called on."""
    match call:
        case ast.Call(func=ast.Attribute(value=ast.Call() as inner, attr="sqrt"), args=[], keywords=[]):
            return inner
    return None


def summed_squares(call: ast.Call, torch: str) -> ast.expr | None:
    """`x` of `x.pow(2).sum()`, `(x**2).sum()`, `(x * x).sum()`, `torch.sum(x.square())`."""
    if call.keywords:
        return None
    if dotted_name(call.func) == f"{torch}.sum":
        return _squared(call.args[0], torch) if len(call.args) == 1 else None
    if isinstance(call.func, ast.Attribute) and call.func.attr == "sum" and not call.args:
        return _squared(call.func.value, torch)
    return None


def _squared(node: ast.expr, torch: str) -> ast.expr | None:
    match node:
        case ast.BinOp(left=base, op=ast.Pow(), right=ast.Constant(value=2 | 2.0)):
            return base
        case ast.BinOp(left=base, op=ast.Mult(), right=other) if ast.dump(base) == ast.dump(other):
            return base
        case ast.Call(func=ast.Attribute(value=base, attr="pow"), args=[ast.Constant(value=2 | 2.0)]):
            return base if dotted_name(base) != torch else None
        case ast.Call(func=ast.Attribute(value=base, attr="square"), args=[]):
            return base
        case ast.Call(func=ast.Attribute(), args=[base, *rest]):
            is_pow = dotted_name(node.func) == f"{torch}.pow" and [_value(item) for item in rest] == [2]
            return base if is_pow or dotted_name(node.func) == f"{torch}.square" else None
    return None


def _value(node: ast.expr) -> object:
    return node.value if isinstance(node, ast.Constant) else None


def _without_cast(node: ast.expr) -> ast.expr:
    """The tensor behind `.float()` or `.double()`: the reduction casts as it goes, without the copy."""
    match node:
        case ast.Call(func=ast.Attribute(value=inner, attr=name), args=[], keywords=[]) if name in _CASTS:
            return inner
    return node
