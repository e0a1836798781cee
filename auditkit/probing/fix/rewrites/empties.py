"""Parameters without a gradient, gradients without elements, and lists without gradients."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import libcst as cst

from auditkit.probing.fix.rewrites.drafts import Draft, Unit
from auditkit.probing.fix.rewrites.syntax import (
    Listing,
    Pattern,
    bracketed,
    code,
    dotted,
    expression,
    inside,
    last_name,
    names,
    statement,
    stores,
)

_NEEDS_ELEMENTS = frozenset({"max", "min", "amax", "amin", "mean", "std", "var", "aminmax"})


class PresentGradients(Pattern):
    """Skip parameters without a gradient in comprehensions and loops that read `p.grad`."""

    def leave_ListComp(self, original_node: Listing, updated_node: Listing) -> cst.BaseExpression:  # noqa: ARG002
        node = updated_node
        source = node.for_in
        read = _read_gradient(source.target, node.elt)
        if not read or source.inner_for_in or any(_is_asked(read, test) for test in source.ifs):
            return node
        condition = f"{read} is not None{_otherwise(node.elt, read)}"
        if not source.ifs:
            asked = cst.CompIf(cst.parse_expression(condition))
            return node.with_changes(for_in=source.with_changes(ifs=[asked]))
        own = source.ifs[0]
        is_or = isinstance(own.test, cst.BooleanOperation) and isinstance(own.test.operator, cst.Or)
        test = bracketed(own.test) if is_or or isinstance(own.test, cst.IfExp) else own.test
        template = "({c}) and {own}" if " or " in condition else "{c} and {own}"
        new = own.with_changes(test=expression(template, c=condition, own=test))
        return node.with_changes(for_in=source.with_changes(ifs=[new, *source.ifs[1:]]))

    leave_SetComp = leave_GeneratorExp = leave_ListComp

    def leave_For(self, original: cst.For, node: cst.For) -> cst.BaseStatement:
        read = _read_gradient(node.target, original.body)
        if not read or _is_asked(read, original.body):
            return node
        skip = statement(f"if {read} is None:\n{self.draft.indent}continue\n")
        return node.with_changes(body=_skipping(node.body, node.target, skip))


def _skipping(suite: cst.BaseSuite, target: cst.BaseExpression, skip: cst.BaseStatement) -> cst.BaseSuite:
    """Return the suite with `skip` before the first statement that reads a gradient, or in the branch that does."""
    for place, node in enumerate(suite.body):
        if not _read_gradient(target, node):
            continue
        if isinstance(node, cst.If) and not _read_gradient(target, node.test):
            orelse = node.orelse
            if isinstance(orelse, cst.Else):
                orelse = orelse.with_changes(body=_skipping(orelse.body, target, skip))
            new: list[Any] = [node.with_changes(body=_skipping(node.body, target, skip), orelse=orelse)]
        else:
            new = [skip, node]
        return suite.with_changes(body=[*suite.body[:place], *new, *suite.body[place + 1 :]])
    return suite


def _otherwise(elt: cst.BaseExpression, read: str) -> str:
    """Return ` or buffers is not None` for `p.grad.device if buffers is None else ...`, else ""."""
    match elt:
        case cst.IfExp(test=cst.Comparison(left=left, comparisons=[asked]), body=body, orelse=orelse):
            if isinstance(asked.operator, cst.Is | cst.IsNot) and read in code(body) and read not in code(orelse):
                flipped = "is not" if isinstance(asked.operator, cst.Is) else "is"
                return f" or {code(left)} {flipped} {code(asked.comparator)}"
    return ""


def _read_gradient(target: cst.BaseExpression, node: cst.CSTNode) -> str:
    """Return `p.grad` if a node reads it for a loop's own name; else ""."""
    own = stores(target)
    written = {id(one.target) for one in inside(node) if isinstance(one, cst.AssignTarget)}
    for one in inside(node):
        match one:
            case cst.Attribute(value=cst.Name(name), attr=cst.Name("grad")) if name in own and id(one) not in written:
                return f"{name}.grad"
    return ""


def _is_asked(read: str, node: cst.CSTNode) -> bool:
    """Return whether a gradient is already compared with None."""
    tests = [one for one in inside(node) if isinstance(one, cst.Comparison)]
    return any(code(test.left) == read and dotted(test.comparisons[0].comparator) == "None" for test in tests)


class WithElements(Pattern):
    """Skip gradients without elements if the code skips parameters without a gradient."""

    def leave_Comparison(self, _: cst.Comparison, node: cst.Comparison) -> cst.BaseExpression:
        match node.comparisons:
            case [cst.ComparisonTarget(operator=cst.IsNot() | cst.Is() as asked, comparator=cst.Name("None"))]:
                if isinstance(node.left, cst.Attribute) and last_name(node.left) == "grad":
                    template = "{t} and {g}.numel()" if isinstance(asked, cst.IsNot) else "({t} or not {g}.numel())"
                    return expression(template, t=node, g=node.left)
        return node

    def leave_For(self, _: cst.For, node: cst.For) -> cst.BaseStatement:
        name = _reduced_parameter(node)
        if not name or not isinstance(node.body, cst.IndentedBlock):
            return node
        skip = statement(f"if not {name}.numel():\n{self.draft.indent}continue\n")
        return node.with_changes(body=node.body.with_changes(body=[skip, *node.body.body]))


def _reduced_parameter(loop: cst.For) -> str:
    """Return the loop's own name if a maximum or a mean of its data is computed."""
    for node in inside(loop):
        if isinstance(node, cst.Attribute) and node.attr.value in _NEEDS_ELEMENTS:
            own = names(node.value).loads & stores(loop.target)
            read = {one.attr.value for one in inside(node.value) if isinstance(one, cst.Attribute)}
            if own and "data" in read and "grad" not in read:
                return min(own)
    return ""


class AtLeastOne(Pattern):
    """Divide by 1 if the number of tensors or elements is 0."""

    def __init__(self, draft: Draft, unit: Unit) -> None:
        super().__init__(draft, unit)
        self._counts = {key for one in draft.units for key in _counted_keys(one)}

    def leave_BinaryOperation(self, _: cst.BinaryOperation, node: cst.BinaryOperation) -> cst.BaseExpression:
        if isinstance(node.operator, cst.Divide) and self._is_count(node.right):
            return node.with_changes(right=expression("max({n}, 1)", n=node.right))
        return node

    def _is_count(self, node: cst.BaseExpression) -> bool:
        match node:
            case cst.Name(name):
                return name in self._counts
            case cst.Subscript(slice=[cst.SubscriptElement(slice=cst.Index(value=cst.SimpleString() as key))]):
                return key.evaluated_value in self._counts
        return _counts(node)


def _counted_keys(unit: Unit) -> Iterator[str]:
    """Yield keys of mappings, and names, whose values are a number of tensors or elements."""
    for node in inside(unit.node):
        match node:
            case cst.DictElement(key=cst.SimpleString() as key, value=value) if _counts(value):
                yield str(key.evaluated_value)
            case cst.Assign(targets=[cst.AssignTarget(target=cst.Name(name))], value=value) if _counts(value):
                yield name


def _counts(node: cst.BaseExpression) -> bool:
    match node:
        case cst.Call(func=cst.Name("len")) | cst.Call(func=cst.Attribute(attr=cst.Name("numel"))):
            return True
        case cst.Call(func=cst.Name("sum"), args=[cst.Arg(value=cst.GeneratorExp(elt=elt))]):
            return _counts(elt)
    return False


class ZerosOfNothing(Pattern):
    """Return a zero instead of a stack of no norms, which raises."""

    def __init__(self, draft: Draft, unit: Unit) -> None:
        super().__init__(draft, unit)
        self._lists = {parameter.arg for parameter in unit.function.parameters}
        for node in inside(unit.node):
            match node:
                case cst.Assign(targets=[cst.AssignTarget(target=cst.Name(name))], value=value):
                    if isinstance(value, cst.ListComp) or code(value) == "[]" or self._listed(value):
                        self._lists.add(name)

    def leave_Call(self, _: cst.Call, node: cst.Call) -> cst.BaseExpression:
        if dotted(node.func) != f"{self.torch}.stack" or not node.args or isinstance(node.args[0].value, cst.List):
            return node
        found = sorted(names(node.args[0].value).loads & self._lists)
        zero = f"{self.torch}.zeros(1, dtype={self.torch}.float64)"
        return expression(f"{{s}} if {found[0]} else {zero}", s=node) if found else node

    def leave_Assign(self, _: cst.Assign, node: cst.Assign) -> cst.Assign:
        listed = self._listed(node.value)
        return node.with_changes(value=expression(f"{{n}} if {listed} else []", n=node.value)) if listed else node

    def _listed(self, value: cst.BaseExpression) -> str:
        """Return the list in `torch._foreach_norm(grads)`, which raises if the list is empty."""
        match value:
            case cst.Call(func=cst.Attribute(attr=cst.Name("_foreach_norm")), args=[cst.Arg(value=cst.Name(name)), *_]):
                return name if name in self._lists else ""
        return ""
