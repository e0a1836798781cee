"""Accumulate norms and sums of squares in float64, and return them with the original dtype."""

from __future__ import annotations

import ast
import re
from collections.abc import Collection
from dataclasses import replace
from typing import Any

import libcst as cst

from auditkit.probing.fix.local_names import names_of
from auditkit.probing.fix.rewrites.drafts import Draft, Unit
from auditkit.probing.fix.rewrites.sparse import stored_values
from auditkit.probing.fix.rewrites.syntax import (
    Pattern,
    bracketed,
    code,
    dotted,
    expression,
    inside,
    is_same,
    last_name,
    names,
    parsed,
    stores,
)
from auditkit.probing.source.modules import dotted_name, targets_of

_ORDER = re.compile(r"p|ord|.*norm_type.*|.*norm_order.*|norm_degree|inf")
_NORM_CALLS = frozenset({"norm", "linalg.vector_norm", "linalg.norm", "_foreach_norm"})
_WORDS = frozenset({"p", "ord", "dim", "keepdim", "dtype"})
_READS = frozenset({"item", "tolist", "float", "int", "bool"})
_GIVEN = frozenset({"grads", "gradients"})


def in_float64(draft: Draft) -> Draft:
    """Accumulate every norm, and every sum of squares, in float64 inside the reduction, without a copy.

    Norms that accept sparse gradients do not accept them with a dtype, so read their stored values.
    """
    found, took_sparse = _widened(draft)
    return _widened(stored_values(draft))[0] if took_sparse else found


def _widened(draft: Draft) -> tuple[Draft, bool]:
    units, has_norms, took_sparse = [], False, False
    for unit in draft.units:
        visitor = Float64(draft, unit, has_norms)
        units.append(draft.visited(unit, visitor))
        has_norms |= bool(visitor.count)
        took_sparse |= visitor.took_sparse
    return replace(draft, units=tuple(units)), took_sparse


class Float64(Pattern):
    """Visits the statements in order, and tracks which names are float64.

    `has_norms` means that an earlier function computes the norms, so that values read by a key are float64.
    """

    def __init__(self, draft: Draft, unit: Unit, has_norms: bool) -> None:
        super().__init__(draft, unit)
        self.count = 0
        self.took_sparse = False
        self._has_norms = has_norms
        self._wide: set[str] = set()
        self._before: list[int] = []
        self._returns = False

    def leave_Assign(self, original_node: Any, updated_node: Any) -> Any:  # noqa: ARG002
        value = updated_node.value
        if "float64" in code(value) or names(value).loads & self._wide:
            targets = [one.target for one in getattr(updated_node, "targets", (updated_node,))]
            self._wide = self._wide.union(*map(stores, targets))
        return updated_node

    leave_AugAssign = leave_Assign

    def visit_Return(self, _: cst.Return) -> None:
        self._returns = True

    def leave_Return(self, _: cst.Return, node: cst.Return) -> cst.Return:
        self._returns = False
        return node

    def visit_Call(self, _: cst.Call) -> None:
        self._before.append(self.count)

    def leave_Call(self, _: cst.Call, node: cst.Call) -> cst.BaseExpression:
        """Change the innermost reduction first: a norm of float64 norms is float64."""
        is_changed = self.count > self._before.pop()
        found = self._wider(node)
        if found is None and (is_changed or (not self._returns and self._is_wide(node))):
            return _without_narrowing(node)
        if found is None:
            found = self._norm(node) or self._squares(node)
        self.count += found is not None
        return node if found is None else found

    def _is_wide(self, node: cst.BaseExpression) -> bool:
        if self._has_norms and isinstance(node, cst.Subscript) and re.search(r"\[['\"]", code(node)):
            return True
        return "float64" in code(node) or bool(names(node).loads & self._wide)

    def _norm(self, call: cst.Call) -> cst.BaseExpression | None:
        """Add the dtype argument to `g.norm(2)` and torch's own norms."""
        operand = operand_of_norm(call, self.torch)
        has_dtype = any(arg.star or (arg.keyword and arg.keyword.value == "dtype") for arg in call.args)
        if operand is None or has_dtype or self._is_wide(operand):
            return None
        self.took_sparse |= last_name(call.func) == "norm" and "linalg" not in dotted(call.func)
        args, dtype = list(call.args), _dtype(f"{self.torch}.float64")
        if args:
            end = {"comma": args[-1].comma, "whitespace_after_arg": args[-1].whitespace_after_arg}
            args[-1] = args[-1].with_changes(comma=dtype.comma, whitespace_after_arg=dtype.whitespace_after_arg)
            dtype = dtype.with_changes(**end)
        return call.with_changes(args=[*args, dtype])

    def _wider(self, call: cst.Call) -> cst.BaseExpression | None:
        """Replace `dtype=torch.float` of a norm by float64."""
        if operand_of_norm(call, self.torch) is None:
            return None
        for arg in call.args:
            is_narrow = dotted(arg.value) in (f"{self.torch}.float", f"{self.torch}.float32")
            if arg.keyword is not None and arg.keyword.value == "dtype" and is_narrow:
                wide = arg.with_changes(value=cst.parse_expression(f"{self.torch}.float64"))
                return call.with_changes(args=[wide if one is arg else one for one in call.args])
        return None

    def _squares(self, call: cst.Call) -> cst.BaseExpression | None:
        """Replace `x.pow(2).sum()` and its other spellings by the square of a norm."""
        match call:
            case cst.Call(func=cst.Attribute(value=summed, attr=cst.Name("sum")), args=[]):
                squared = _squared(summed, self.torch)
            case _:
                return None
        match squared:
            case cst.Call(func=cst.Attribute(value=inner, attr=cst.Name("float" | "double")), args=[]):
                squared = inner  # The reduction casts without a copy.
        if squared is None or self._is_wide(squared):
            return None
        self.took_sparse = True
        plain = squared.with_changes(lpar=[], rpar=[])
        return expression(f"{self.torch}.linalg.vector_norm({{x}}, dtype={self.torch}.float64).square()", x=plain)


def _without_narrowing(call: cst.Call) -> cst.BaseExpression:
    """Remove `.to(grad.dtype)` from a norm in float64, and the root from its square."""
    match call:
        case cst.Call(func=cst.Attribute(value=wide, attr=cst.Name("to")), args=[cst.Arg(value=dtype)]):
            return wide if isinstance(dtype, cst.Attribute) and dtype.attr.value == "dtype" else call
        case cst.Call(func=cst.Attribute(value=squared, attr=cst.Name("sqrt")), args=[]):
            match squared:
                case cst.Call(func=cst.Attribute(value=norm, attr=cst.Name("square")), args=[]):
                    return norm
    return call


def _dtype(value: str) -> cst.Arg:
    tight = cst.AssignEqual(cst.SimpleWhitespace(""), cst.SimpleWhitespace(""))
    return cst.Arg(cst.parse_expression(value), cst.Name("dtype"), tight)


def operand_of_norm(call: cst.Call, torch: str) -> cst.BaseExpression | None:
    """Return the operand of a call that computes a norm; None for any other call."""
    name = dotted(call.func)
    if name.startswith(f"{torch}.") and name.removeprefix(f"{torch}.") in _NORM_CALLS:
        return call.args[0].value if call.args else None
    if not isinstance(call.func, cst.Attribute) or call.func.attr.value != "norm":
        return None
    positional = [arg for arg in call.args if arg.keyword is None]
    is_order = all(map(_is_order, positional)) and all(one.keyword.value in _WORDS for one in call.args if one.keyword)
    # `self.norm(x)` and `torch.linalg.norm(x)` are not methods of a gradient.
    return call.func.value if is_order and dotted(call.func.value) not in ("self", "cls") else None


def _is_order(arg: cst.Arg) -> bool:
    if isinstance(arg.value, cst.Integer | cst.Float | cst.SimpleString):
        return not arg.star
    name = last_name(arg.value) if isinstance(arg.value, cst.Name | cst.Attribute) else ""
    return bool(name) and name != "None" and _ORDER.fullmatch(name) is not None


def _squared(node: cst.BaseExpression, torch: str) -> cst.BaseExpression | None:
    """Return `x` of `x.pow(2)`, `x**2` and `x * x`."""
    match node:
        case cst.BinaryOperation(left=base, operator=cst.Power(), right=power) if _is_two(power):
            return base
        case cst.BinaryOperation(left=base, operator=cst.Multiply(), right=other) if is_same(base, other):
            return base
        case cst.Call(func=cst.Attribute(value=base, attr=cst.Name("pow" | "square")), args=args) if (
            dotted(base) != torch
        ):
            return base if all(_is_two(arg.value) for arg in args) else None
    return None


def _is_two(node: cst.BaseExpression) -> bool:
    return isinstance(node, cst.Integer | cst.Float) and node.evaluated_value == 2


def without_double_copies(draft: Draft) -> Draft:
    """Compute norms with dtype float64, if the code makes float64 copies only for norms."""
    found = draft.changed(_WithoutCopies)
    return in_float64(found) if found.text != draft.text else draft


class _WithoutCopies(Pattern):
    def leave_Assign(self, _: cst.Assign, node: cst.Assign) -> cst.Assign:
        match node:
            case cst.Assign(
                targets=[cst.AssignTarget(target=cst.Name(name))],
                value=cst.ListComp(elt=cst.Call(func=cst.Attribute(value=inner, attr=cast), args=args)) as listed,
            ):
                wide = {f"{self.torch}.{dtype}" for dtype in ("float64", "double", "float32")}
                is_cast = cast.value in ("double", "float") and not args
                is_cast |= cast.value == "to" and [dotted(arg.value) in wide for arg in args] == [True]
                if is_cast and self._is_only_normed(name):
                    return node.with_changes(value=listed.with_changes(elt=inner))
        return node

    def _is_only_normed(self, name: str) -> bool:
        """Return whether a list is only used for norms."""
        found = list(inside(self.unit.node))
        called = [one for one in found if isinstance(one, cst.Call) and one.args and "norm" in dotted(one.func)]
        normed = [one for one in called if name in names(one.args[0].value).loads]
        named = [one for one in found if isinstance(one, cst.Name) and one.value == name]
        return len(normed) == len(named) - 1


def returned_as(draft: Draft, original: Draft, is_narrow: bool) -> Draft:
    """Cast returned float64 tensors to the dtype of the gradients, or to float32 at least.

    Nothing is cast if no name refers to the gradients, or no float64 value is returned.
    """
    unit = draft.units[0]
    grads = _gradients(unit)
    if not grads:
        return draft
    dtype = f"{grads}[0].dtype"
    wide = dtype if is_narrow else f"{draft.torch}.promote_types({dtype}, {draft.torch}.float32)"
    helpers = {
        new.function.name
        for new, old in zip(draft.units[1:], original.units[1:], strict=True)
        if new.text.count("float64") > old.text.count("float64")
    }
    return replace(draft, units=(draft.visited(unit, _Cast(draft, unit, wide, helpers)), *draft.units[1:]))


class _Cast(Pattern):
    def __init__(self, draft: Draft, unit: Unit, dtype: str, helpers: Collection[str]) -> None:
        super().__init__(draft, unit)
        self._dtype = dtype
        self._helpers = helpers
        self._numbers: set[str] = set()
        self._wide: set[str] = set()
        for node in ast.walk(parsed(unit.node)[0]):
            if isinstance(node, ast.Assign | ast.AnnAssign | ast.AugAssign) and node.value is not None:
                stored = names_of(targets_of(node)).stores
                if _is_number(node.value, self._numbers):
                    self._numbers |= stored
                    self._wide -= stored
                elif self._is_wide(node.value):
                    self._wide |= stored - self._numbers

    def _is_wide(self, node: ast.expr) -> bool:
        called = {dotted_name(inner.func) for inner in ast.walk(node) if isinstance(inner, ast.Call)}
        is_widened = "float64" in ast.unparse(node)
        return is_widened or bool(names_of(node).loads & self._wide) or bool(called & {*self._helpers})

    def leave_Return(self, _: cst.Return, node: cst.Return) -> cst.Return:
        return node.with_changes(value=self._cast(node.value)) if node.value is not None else node

    def _cast(self, value: cst.BaseExpression) -> cst.BaseExpression:
        """Cast the values of a mapping, a tuple, or a constructor call; keep any other value."""
        match value:
            case cst.Dict(elements=elements) | cst.Tuple(elements=elements) | cst.List(elements=elements):
                return value.with_changes(elements=[one.with_changes(value=self._cast(one.value)) for one in elements])
            case cst.Call(func=cst.Name(name), args=args) if name[:1].isupper():
                return value.with_changes(args=[one.with_changes(value=self._cast(one.value)) for one in args])
        (as_statement,) = parsed(value)
        assert isinstance(as_statement, ast.Expr)
        if not self._is_wide(as_statement.value) or _is_number(as_statement.value, self._numbers):
            return value
        is_one = isinstance(value, cst.Name | cst.Call | cst.Attribute | cst.Subscript)
        return expression(f"{{x}}.to({self._dtype})", x=value if is_one else bracketed(value))


def _is_number(node: ast.expr, numbers: Collection[str]) -> bool:
    """Return whether a value is read from the device, or computed from such numbers."""
    match node:
        case ast.Call(func=ast.Attribute(attr=name)) | ast.Call(func=ast.Name(id=name)) if name in _READS:
            return True
        case ast.BinOp(left=left, right=right):
            return all(isinstance(side, ast.Constant) or _is_number(side, numbers) for side in (left, right))
        case ast.ListComp(elt=elt):
            return _is_number(elt, numbers)
        case ast.Name(id=name):
            return name in numbers
    return dotted_name(node.func).startswith("math.") if isinstance(node, ast.Call) else False


def _gradients(unit: Unit) -> str:
    """Return the name of a list of gradients, or ""."""
    for node in inside(unit.node):
        match node:
            case cst.Assign(targets=[cst.AssignTarget(target=cst.Name(name))], value=cst.ListComp(elt=elt)):
                if any(isinstance(one, cst.Attribute) and one.attr.value == "grad" for one in inside(elt)):
                    return name
    return next((one.arg for one in unit.function.parameters if one.arg in _GIVEN), "")
