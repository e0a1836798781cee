"""Change one expression: a view, a comparison that is false for NaN, a branch that waits for the device."""

from __future__ import annotations

import re
from typing import Any

import libcst as cst

from auditkit.probing.fix.rewrites.drafts import Unit
from auditkit.probing.fix.rewrites.syntax import (
    Pattern,
    assigned,
    dotted,
    expression,
    inside,
    last_name,
    names,
)

_TOO_LARGE = re.compile(r"explod|large|upper|high|max_norm|threshold", re.IGNORECASE)
_SMALL = re.compile(r"vanish|small|lower|low\b|min", re.IGNORECASE)
_REDUCTIONS = frozenset({"sum", "max", "min", "mean", "norm", "vector_norm", "any", "all", "count_nonzero"})


class Reshape(Pattern):
    """Replace `.view(-1)`, which needs contiguous memory, by `.reshape(-1)`."""

    def leave_Call(self, _: cst.Call, node: cst.Call) -> cst.BaseExpression:
        match node:
            case cst.Call(func=cst.Attribute(attr=cst.Name("view")), args=[cst.Arg(value=cst.UnaryOperation()), *_]):
                return node.with_changes(func=node.func.with_changes(attr=cst.Name("reshape")))
        return node


class NanIsTooLarge(Pattern):
    """Replace `norms > limit`, which is false for NaN, by `~(norms <= limit)`, which is true."""

    def leave_Call(self, _: cst.Call, node: cst.Call) -> cst.BaseExpression:
        match node:
            case cst.Call(func=cst.Attribute(value=cst.Comparison() as test, attr=cst.Name("sum")), args=[]):
                if _is_too_large(test):
                    return node.with_changes(func=node.func.with_changes(value=expression("(~{t})", t=_at_most(test))))
            case cst.Call(
                func=cst.Name("sum"), args=[cst.Arg(value=cst.GeneratorExp(for_in=each) as counted) as given]
            ):
                for condition in each.ifs:
                    if isinstance(condition.test, cst.Comparison) and _is_too_large(condition.test):
                        new = condition.with_changes(test=expression("not {t}", t=_at_most(condition.test)))
                        each = each.with_changes(ifs=[new if one is condition else one for one in each.ifs])
                return node.with_changes(args=[given.with_changes(value=counted.with_changes(for_in=each))])
        return node


def _is_too_large(test: cst.Comparison) -> bool:
    match test.comparisons:
        case [cst.ComparisonTarget(operator=cst.GreaterThan(), comparator=limit)]:
            name = dotted(limit).rpartition(".")[2]
            return bool(_TOO_LARGE.search(name)) and not _SMALL.search(name)
    return False


def _at_most(test: cst.Comparison) -> cst.Comparison:
    (compared,) = test.comparisons
    return test.with_changes(comparisons=[compared.with_changes(operator=cst.LessThanEqual())])


class ChosenOnDevice(Pattern):
    """Replace `if total > 0: share = share / total` by torch.where, without a branch."""

    def leave_If(self, _: cst.If, node: cst.If) -> Any:
        match node:
            case cst.If(
                test=cst.Comparison(left=cst.Name(tested), comparisons=[compared]) as test,
                body=cst.IndentedBlock(body=[line]),
                orelse=None,
            ):
                name, value = assigned(line)
                is_order = not isinstance(compared.operator, cst.Equal | cst.NotEqual | cst.Is | cst.IsNot)
                if value is not None and is_order and name in names(value).loads and _is_tensor(self.unit, tested):
                    where = expression(f"{self.torch}.where({{test}}, {{value}}, {name})", test=test, value=value)
                    assert isinstance(line, cst.SimpleStatementLine)
                    body = [line.body[0].with_changes(value=where)]
                    return line.with_changes(body=body, leading_lines=node.leading_lines)
        return node


def _is_tensor(unit: Unit, name: str) -> bool:
    """Return whether a name is only set to unread reductions."""
    values = []
    for node in inside(unit.node):
        match node:
            case cst.Assign(targets=[cst.AssignTarget(target=cst.Name(target))], value=value) if target == name:
                values.append(last_name(value.func) if isinstance(value, cst.Call) else "")
    return bool(values) and _REDUCTIONS.issuperset(values)
