"""Replace one norm after the other, each a launch of its own, by one operator over all gradients."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import libcst as cst

from auditkit.probing.patching.rewrites.drafts import Draft
from auditkit.probing.patching.rewrites.norms import in_float64, operand_of_norm, summed_squares
from auditkit.probing.patching.rewrites.sparse import stored_values
from auditkit.probing.patching.rewrites.syntax import (
    Pattern,
    assigned,
    code,
    dotted,
    expression,
    flattened,
    inside,
    names,
    statement,
    stores,
)


def norms_together(draft: Draft) -> Draft:
    """Form the norms of a list in float64 by torch._foreach_norm, and bring them to one device."""
    if draft.changed(NormsTogether).data == draft.data:
        return draft
    return in_float64(stored_values(draft).changed(NormsTogether))


@dataclass(frozen=True)
class _Norms:
    """The parts of `p.grad.norm(2).item()`."""

    operand: cst.BaseExpression
    order: str
    is_read: bool


class NormsTogether(Pattern):
    def leave_SimpleStatementLine(
        self, _: cst.SimpleStatementLine, node: cst.SimpleStatementLine
    ) -> cst.SimpleStatementLine | cst.FlattenSentinel[cst.BaseStatement]:
        name, value = assigned(node)
        norms = self._norms(value.elt) if isinstance(value, cst.ListComp) else None
        if isinstance(value, cst.ListComp) and norms is not None:
            lines = self._list_of_norms(name, value, norms)
        else:
            lines = self._stack_of_norms(node)
        if not lines:
            return node
        return flattened([lines[0].with_changes(leading_lines=node.leading_lines)], lines[1:])

    def _list_of_norms(self, name: str, value: cst.ListComp, norms: _Norms) -> list[cst.BaseStatement]:
        """`norms = [p.grad.norm(2).item() for p in parameters]` as the norms of a list, read once."""
        torch, indent, source = self.torch, self.draft.indent, value.for_in
        lines = []
        if dotted(source.iter) and not source.ifs and code(norms.operand) == code(source.target):
            grads = dotted(source.iter)
        elif names(norms.operand).loads & stores(source.target):
            grads = self.draft.fresh("grads", self.unit)
            listed = value.with_changes(elt=norms.operand.with_changes(lpar=[], rpar=[]))
            lines.append(statement(f"{grads} = {{x}}\n", x=listed))
        else:
            return []
        foreach = f"{torch}._foreach_norm({grads}, {norms.order}, dtype={torch}.float64)"
        text = f"if {grads}:\n{indent}{name} = {foreach}\n"
        if norms.is_read:
            text += f"{indent}{name} = {torch}.stack([norm.to({name}[0].device) for norm in {name}]).tolist()\n"
        return [*lines, statement(f"{name} = []\n"), statement(text)]

    def _stack_of_norms(self, node: cst.SimpleStatementLine) -> list[cst.BaseStatement]:
        """`torch.stack([torch.norm(g, 2).to(home) for g in grads])`: the norms in a line before it, and their stack."""
        stacks = [
            one for one in inside(node) if isinstance(one, cst.Call) and dotted(one.func) == f"{self.torch}.stack"
        ]
        values = stacks[0].args[0].value if len(stacks) == 1 and len(stacks[0].args) == 1 else None
        if not isinstance(values, cst.ListComp | cst.GeneratorExp):
            return []
        name = self.draft.fresh("norms", self.unit)
        home, elt = f"{name}[0].device", values.elt
        match elt:
            case cst.Call(
                func=cst.Attribute(value=norm, attr=cst.Name("to")), args=[cst.Arg(value=device, keyword=None)]
            ):
                home, elt = code(device), norm
        norms = self._norms(elt)
        if norms is None or norms.is_read:
            return []
        listed = cst.ListComp(norms.operand.with_changes(lpar=[], rpar=[]), values.for_in)
        torch = self.torch
        line = statement(f"{name} = {torch}._foreach_norm({{x}}, {norms.order}, dtype={torch}.float64)\n", x=listed)
        brought = cst.parse_expression(f"[norm.to({home}) for norm in {name}]")
        changed = node.with_deep_changes(stacks[0], args=[stacks[0].args[0].with_changes(value=brought)])
        return [line, changed.with_changes(leading_lines=[])]

    def _norms(self, elt: cst.BaseExpression) -> _Norms | None:
        is_read = False
        match elt:
            case cst.Call(func=cst.Attribute(value=cst.Call() as call, attr=cst.Name("item")), args=[]):
                elt, is_read = call, True
        operand = operand_of_norm(elt, self.torch) if isinstance(elt, cst.Call) else None
        if operand is None or not isinstance(elt, cst.Call):
            return None
        words = [arg.keyword.value for arg in elt.args if arg.keyword is not None]
        if not {*words} <= {"p", "ord", "dtype"}:
            return None
        given = [
            arg for arg in elt.args if arg.value is not operand and (not arg.keyword or arg.keyword.value != "dtype")
        ]
        return _Norms(operand, code(given[0].value) if given else "2", is_read)

    def leave_Call(self, _: cst.Call, node: cst.Call) -> cst.BaseExpression:
        """`sum(g.pow(2).sum() for g in grads)` as the square of the norm of norms; its root as the norm."""
        match node:
            case cst.Call(func=cst.Attribute(value=cst.Call() as inner, attr=cst.Name("sqrt")), args=[]):
                match inner:
                    case cst.Call(func=cst.Attribute(value=norm, attr=cst.Name("square")), args=[]):
                        return norm if "_foreach_norm" in code(norm) else node
            case cst.Call(
                func=cst.Name("sum"), args=[cst.Arg(value=cst.GeneratorExp(elt=cst.Call() as elt, for_in=each))]
            ):
                squared = summed_squares(elt, self.torch)
                grads, torch = dotted(each.iter), self.torch
                if squared is not None and grads and code(squared) == code(each.target) and not each.ifs:
                    norms = f"{torch}._foreach_norm({grads}, 2, dtype={torch}.float64)"
                    stacked = f"{torch}.stack([norm.to({grads}[0].device) for norm in {norms}])"
                    return expression(f"{torch}.linalg.vector_norm({stacked}).square()")
        return node


def without_double_copies(draft: Draft) -> Draft:
    """Form norms in float64 by their dtype, where the code lists float64 copies only to take norms of them."""
    found = draft.changed(_WithoutCopies)
    return in_float64(found) if found.data != draft.data else draft


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
        """Whether all that is done with a list is to take norms of it."""
        found: Sequence[cst.CSTNode] = list(inside(self.unit.node))
        called = [one for one in found if isinstance(one, cst.Call) and one.args and "norm" in dotted(one.func)]
        normed = [one for one in called if name in names(one.args[0].value).loads]
        named = [one for one in found if isinstance(one, cst.Name) and one.value == name]
        return len(normed) == len(named) - 1
