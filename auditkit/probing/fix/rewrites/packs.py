"""Count half a million elements at a time, if all gradients are copied into one tensor for counting."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, cast

import libcst as cst

from auditkit.probing.fix.rewrites.drafts import Draft, Unit
from auditkit.probing.fix.rewrites.syntax import (
    Pattern,
    assigned,
    code,
    dotted,
    expression,
    inside,
    last_name,
    names,
    swapped,
)

_FLAT = frozenset({"view", "reshape", "flatten", "ravel"})
_PACKS = '''def {name}(grads, elements=1 << 19):
{step}"""The tensors as buffers of at most so many elements, each of one device."""
{step}pieces, space = [], elements
{step}for grad in grads:
{step}{step}for piece in grad.reshape(-1).split(elements):
{step}{step}{step}if piece.numel() > space or (pieces and piece.device != pieces[0].device):
{step}{step}{step}{step}yield {torch}.cat(pieces)
{step}{step}{step}{step}pieces, space = [], elements
{step}{step}{step}pieces.append(piece)
{step}{step}{step}space -= piece.numel()
{step}if pieces:
{step}{step}yield {torch}.cat(pieces)
'''


def counted_in_packs(draft: Draft) -> Draft:
    """Replace every reduction of a copy of all gradients by a sum over packs, unless the copy has another use."""
    for unit in draft.units:
        for node in inside(unit.node):
            name, grads = _whole(node, draft.torch)
            if not grads:
                continue
            packs = draft.fresh("_packs", unit)
            changed = draft.visited(unit, _Counts(draft, unit, name, grads, packs))
            left = [one for one in inside(changed.node) if isinstance(one, cst.Name) and one.value == name]
            if not left and f"{packs}(" in changed.text:
                helper = _PACKS.format(name=packs, step=draft.indent, torch=draft.torch)
                units = tuple(changed if one is unit else one for one in draft.units)
                return replace(draft, units=units, helpers=(*draft.helpers, helper))
    return draft


def _whole(node: cst.CSTNode, torch: str) -> tuple[str, str]:
    """Return the name and the copied list of `flat = torch.cat([g.view(-1) for g in grads])`."""
    name, value = assigned(node)
    match value:
        case cst.Call(
            func=called,
            args=[
                cst.Arg(
                    value=cst.ListComp(
                        elt=cst.Call(func=cst.Attribute(value=cst.Name(each), attr=cst.Name(attr))),
                        for_in=cst.CompFor(target=cst.Name(target), iter=cst.Name(grads), ifs=[], inner_for_in=None),
                    )
                )
            ],
        ) if dotted(called) == f"{torch}.cat" and attr in _FLAT and each == target:
            return name, grads
    return "", ""


class _Counts(Pattern):
    def __init__(self, draft: Draft, unit: Unit, name: str, grads: str, packs: str) -> None:
        super().__init__(draft, unit)
        self._name, self._grads = name, grads
        self._pack = draft.fresh("pack", unit)
        each = draft.fresh("grad", unit)
        self._elements = f"sum({each}.numel() for {each} in {grads})"
        self._over = f"{{x}}.to({grads}[0].device) for {self._pack} in {packs}({grads})"

    def leave_IndentedBlock(self, original: cst.IndentedBlock, node: cst.IndentedBlock) -> cst.IndentedBlock:
        """Remove the statement that makes the copy; keep the comments above it."""
        body: list[Any] = list(node.body)
        for place, line in enumerate(original.body[:-1]):
            if _whole(line, self.torch) == (self._name, self._grads):
                above, below = body[place].leading_lines, body[place + 1].leading_lines
                body[place : place + 2] = [body[place + 1].with_changes(leading_lines=[*above, *below])]
        return node.with_changes(body=body)

    def leave_Call(self, _: cst.Call, node: cst.Call) -> cst.BaseExpression:
        """Change calls bottom-up: a condition's sum and mean first, then expressions that contain them."""
        owner = node.func.value if isinstance(node.func, cst.Attribute) else None
        match last_name(node.func), owner:
            case "numel", cst.Name(self._name):
                return cst.parse_expression(self._elements)
            case "sum", _ if self._is_condition(owner) and not node.args:
                return self._count(owner)
            case "mean", cst.Call(func=cst.Attribute(value=condition, attr=cst.Name("float" | "double"))):
                if self._is_condition(condition):
                    return expression(f"({{t}}.double() / max({self._elements}, 1))", t=self._count(condition))
            case "float", cst.Call() if "count_nonzero" in code(owner) and not node.args:
                return node.with_changes(func=node.func.with_changes(attr=cst.Name("double")))
            case "vector_norm", _ if node.args and dotted(node.args[0].value) == self._name:
                norms = expression(f"[{self._over}]", x=self._of_pack(node))
                return expression(f"{self.torch}.linalg.vector_norm({self.torch}.stack({{n}}))", n=norms)
        return node

    def leave_BinaryOperation(self, _: cst.BinaryOperation, node: cst.BinaryOperation) -> cst.BaseExpression:
        if isinstance(node.operator, cst.Divide) and code(node.right) == self._elements:
            return node.with_changes(right=expression("max({n}, 1)", n=node.right))
        return node

    def _is_condition(self, node: cst.CSTNode | None) -> bool:
        """Return whether a node is a comparison, or a predicate such as isnan, whose sum is a count."""
        if not isinstance(node, cst.BaseExpression) or self._name not in names(node).loads:
            return False
        is_predicate = isinstance(node, cst.Call) and last_name(node.func) in ("isnan", "isinf", "isfinite")
        return isinstance(node, cst.Comparison) or is_predicate

    def _count(self, condition: Any) -> cst.BaseExpression:
        count = expression(f"{self.torch}.count_nonzero({{c}})", c=self._of_pack(condition))
        return expression(f"sum({self._over})", x=count)

    def _of_pack(self, node: Any) -> cst.BaseExpression:
        """Return the expression with the pack instead of the whole."""
        bare = node.with_changes(lpar=[], rpar=[])
        whole = [one for one in inside(bare) if isinstance(one, cst.Name) and one.value == self._name]
        return cast(cst.BaseExpression, swapped(bare, dict.fromkeys(whole, cst.Name(self._pack))))
