"""Read the stored values of sparse gradients where a gradient is first read."""

from __future__ import annotations

import re

import libcst as cst

from auditkit.probing.fix.rewrites.drafts import Draft
from auditkit.probing.fix.rewrites.syntax import (
    Listing,
    Pattern,
    assigned,
    bracketed,
    code,
    flattened,
    last_name,
    statement,
)

_HANDLED = re.compile(r"\b(is_sparse|coalesce|to_dense|layout)\b")
_SAME_TENSOR = frozenset({"detach", "data", "clone"})
STORED = "{0}.coalesce().values() if {1}.is_sparse else {0}"


def stored_values(draft: Draft) -> Draft:
    """Read the stored values of sparse gradients where code lists gradients or computes their norm.

    Code that already handles sparse gradients does not change.
    """
    return draft if any(map(_HANDLED.search, draft.text)) else draft.changed(StoredValues)


def gradient_of(node: cst.CSTNode) -> cst.Attribute | None:
    """Return `p.grad` of `p.grad.detach()` and `p.grad.data`; None for anything else."""
    while True:
        if isinstance(node, cst.Call) and not node.args:
            node = node.func
        if not isinstance(node, cst.Attribute):
            return None
        if node.attr.value == "grad":
            return node
        if node.attr.value not in _SAME_TENSOR:
            return None
        node = node.value


def _stored(node: cst.BaseExpression) -> cst.BaseExpression:
    return cst.parse_expression(STORED.format(code(node), code(gradient_of(node) or node)))


class StoredValues(Pattern):
    _assigned: cst.BaseExpression | None = None

    def leave_SimpleStatementLine(
        self, _: cst.SimpleStatementLine, node: cst.SimpleStatementLine
    ) -> cst.SimpleStatementLine | cst.FlattenSentinel[cst.BaseStatement]:
        """Add a line after `grads = [p.grad for ...]` and `grad = p.grad` that takes the stored values."""
        name, value = assigned(node)
        source = value.elt if isinstance(value, cst.ListComp) else value
        if source is None or gradient_of(source) is None:
            return node
        stored = STORED.format(name, name)
        if isinstance(value, cst.ListComp):
            each = "grad" if name != "grad" else "g"
            stored = f"[{STORED.format(each, each)} for {each} in {name}]"
        return flattened([node, statement(f"{name} = {stored}\n")])

    def visit_SimpleStatementLine(self, node: cst.SimpleStatementLine) -> None:
        self._assigned = assigned(node)[1]

    def leave_ListComp(self, original_node: Listing, updated_node: Listing) -> cst.BaseExpression:
        if gradient_of(updated_node.elt) is not None and original_node is not self._assigned:
            return updated_node.with_changes(elt=_stored(updated_node.elt))
        return updated_node

    leave_SetComp = leave_GeneratorExp = leave_ListComp

    def leave_Call(self, _: cst.Call, node: cst.Call) -> cst.BaseExpression:
        is_norm = "norm" in last_name(node.func)
        if isinstance(node.func, cst.Attribute):
            gradient = gradient_of(node.func.value)
            if gradient is not None and node.func.attr.value.endswith("_"):
                is_copy = "clone" in code(node.func.value)
                owner = node.func.value if is_copy else gradient  # `.data` of a sparse gradient is a copy
                return node.with_changes(func=node.func.with_changes(value=owner))
            if gradient is not None and is_norm:
                return node.with_changes(func=node.func.with_changes(value=bracketed(_stored(node.func.value))))
        args = [
            arg.with_changes(value=_stored(arg.value)) if is_norm and gradient_of(arg.value) is not None else arg
            for arg in node.args
        ]
        return node.with_changes(args=args)
