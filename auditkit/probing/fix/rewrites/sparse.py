"""Read the stored values of sparse gradients where a gradient is first read."""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from auditkit.probing.fix.rewrites.drafts import Draft, Unit
from auditkit.probing.fix.rewrites.syntax import (
    Listing,
    Pattern,
    assigned,
    bracketed,
    calls,
    code,
    dotted,
    flattened,
    inside,
    last_name,
    names,
    statement,
    stores,
)

_HANDLED = ("is_sparse", "coalesce", "to_dense", "layout")
_SAME_TENSOR = frozenset({"detach", "data", "clone"})
_READ_OF_ANY = frozenset({"is_sparse", "device", "dtype", "shape", "size", "numel", "requires_grad", "layout", "dim"})
STORED = "{0}.coalesce().values() if {1}.is_sparse else {0}"


def stored_values(draft: Draft) -> Draft:
    """Read the stored values of sparse gradients where code lists gradients or computes their norm.

    Code that already handles sparse gradients does not change.
    """
    return draft if draft.mentions(*_HANDLED) else draft.changed(StoredValues)


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
    def __init__(self, draft: Draft, unit: Unit) -> None:
        super().__init__(draft, unit)
        self._written = {name for name in _lists(unit) if _is_written(unit, name, self.torch)}
        self._may_name = False
        self._outer: list[bool] = []
        self._assigned: cst.BaseExpression | None = None
        self._named: tuple[str, cst.BaseExpression] | None = None

    def visit_SimpleStatementLine(self, node: cst.SimpleStatementLine) -> None:
        self._may_name = True
        self._assigned = assigned(node)[1]

    def leave_SimpleStatementLine(
        self, _: cst.SimpleStatementLine, node: cst.SimpleStatementLine
    ) -> cst.SimpleStatementLine | cst.FlattenSentinel[cst.BaseStatement]:
        """Add a line after `grads = [p.grad for ...]` and `grad = p.grad` that takes the stored values."""
        self._may_name = False
        name, value = assigned(node)
        source = value.elt if isinstance(value, cst.ListComp) else value
        gradient = gradient_of(source) if source is not None else None
        if gradient is not None and name not in self._written:
            each = "grad" if name != "grad" else "g"
            stored = STORED.format(name, name)
            if isinstance(value, cst.ListComp):
                stored = f"[{STORED.format(each, each)} for {each} in {name}]"
            return flattened([node, statement(f"{name} = {stored}\n")])
        named, self._named = self._named, None
        if named is not None:
            line = statement(f"{named[0]} = {{s}}\n", s=_stored(named[1])).with_changes(
                leading_lines=node.leading_lines
            )
            return flattened([line, node.with_changes(leading_lines=[])])
        return node

    def visit_ListComp(self, node: Listing) -> None:  # noqa: ARG002
        self._outer.append(self._may_name)
        self._may_name = False

    def leave_ListComp(self, original_node: Listing, updated_node: Listing) -> cst.BaseExpression:
        self._may_name = self._outer.pop()
        elt, listed, each = updated_node.elt, updated_node.for_in.iter, updated_node.for_in.target
        if gradient_of(elt) is not None and original_node is not self._assigned:
            return updated_node.with_changes(elt=_stored(elt))
        if dotted(listed) in self._written and isinstance(each, cst.Name):
            return updated_node.with_changes(elt=elt.visit(_Reads(each.value)))
        return updated_node

    visit_SetComp = visit_GeneratorExp = visit_ListComp
    leave_SetComp = leave_GeneratorExp = leave_ListComp

    def leave_Assign(self, _: cst.Assign, node: cst.Assign) -> cst.Assign:
        """Keep the gradients themselves in a list whose tensors are changed in place."""
        match node:
            case cst.Assign(targets=[cst.AssignTarget(target=cst.Name(name))], value=cst.ListComp(elt=elt) as value):
                gradient = gradient_of(elt)
                if name in self._written and gradient is not None:
                    return node.with_changes(value=value.with_changes(elt=gradient))
        return node

    def leave_Call(self, _: cst.Call, node: cst.Call) -> cst.BaseExpression:
        is_norm = "norm" in last_name(node.func)
        if isinstance(node.func, cst.Attribute):
            gradient = gradient_of(node.func.value)
            if gradient is not None and node.func.attr.value.endswith("_"):
                is_copy = "clone" in code(node.func.value)
                owner = node.func.value if is_copy else gradient  # `.data` of a sparse gradient is a copy
                return node.with_changes(func=node.func.with_changes(value=owner))
            if gradient is not None and is_norm:
                return node.with_changes(func=node.func.with_changes(value=self._read(node.func.value, True)))
        args = [arg.with_changes(value=self._argument(arg.value, is_norm)) for arg in node.args]
        return node.with_changes(args=args) if args else node

    def _argument(self, value: cst.BaseExpression, is_norm: bool) -> cst.BaseExpression:
        if gradient_of(value) is not None and is_norm:
            return self._read(value, False)
        name = dotted(value.value) if isinstance(value, cst.Subscript) else dotted(value)
        if not is_norm or name not in self._written:
            return value
        if isinstance(value, cst.Subscript):
            return _stored(value)
        return cst.parse_expression(f"[{STORED.format('grad', 'grad')} for grad in {name}]")

    def _read(self, value: cst.BaseExpression, is_owner: bool) -> cst.BaseExpression:
        """Return a name for the values of a gradient, set by a line before the statement; else the values."""
        if self._may_name and (self._named is None or code(self._named[1]) == code(value)):
            name = self._named[0] if self._named is not None else self.draft.fresh("grad", self.unit)
            self._named = name, value
            return cst.Name(name)
        return bracketed(_stored(value)) if is_owner else _stored(value)


class _Reads(cst.CSTTransformer):
    """Replaces a gradient that methods and functions read by its stored values."""

    def __init__(self, name: str) -> None:
        super().__init__()
        self._stored = cst.parse_expression(STORED.format(name, name))
        self._name = name

    def leave_Attribute(self, _: cst.Attribute, node: cst.Attribute) -> cst.Attribute:
        if dotted(node.value) != self._name or node.attr.value in _READ_OF_ANY:
            return node
        return node.with_changes(value=bracketed(self._stored))

    def leave_Arg(self, _: cst.Arg, node: cst.Arg) -> cst.Arg:
        return node.with_changes(value=self._stored) if dotted(node.value) == self._name else node


def _lists(unit: Unit) -> Iterator[str]:
    """Yield the names of lists of gradients that are not copies."""
    for node in inside(unit.node):
        match node:
            case cst.Assign(targets=[cst.AssignTarget(target=cst.Name(name))], value=cst.ListComp(elt=elt)):
                if gradient_of(elt) is not None and "clone" not in code(elt):
                    yield name


def _is_written(unit: Unit, name: str, torch: str) -> bool:
    """Return whether the tensors of a list are changed, by `torch._foreach_mul_(grads, scale)` or in a loop."""
    loops = [node for node in inside(unit.node) if isinstance(node, cst.For) and name in names(node.iter).loads]
    turns = {name}.union(*(stores(loop.target) for loop in loops))
    for call in calls(unit.node):
        called = last_name(call.func).lstrip("_")
        if called.endswith("_") and called != "_":
            changed = call.args[0].value if dotted(call.func).startswith(f"{torch}.") and call.args else call.func
            if names(changed).loads & turns:
                return True
    return False
