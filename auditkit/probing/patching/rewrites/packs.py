"""All gradients copied into one tensor for their counts: counted half a million elements at a time instead."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from auditkit.probing.patching.rewrites.edits import Edit, Rewrite, rewrite_of
from auditkit.probing.patching.rewrites.function_text import FunctionText
from auditkit.probing.source_code.modules import dotted_name

_MENDS = frozenset({
    "peak_memory_grows_with_params", "counts_are_rounded", "fails_on_noncontiguous_grads",
    "fails_on_gradients_of_two_devices", "fails_on_zero_element_grads", "ratio_divides_by_zero",
})  # fmt: skip
_FLAT = frozenset({"view", "reshape", "flatten", "ravel"})
_PACKS = '''def {name}({grads}, elements=1 << 19):
{step}"""The tensors as buffers of at most so many elements, each of one device."""
{step}pieces, space = [], elements
{step}for {grad} in {grads}:
{step}{step}for piece in {grad}.reshape(-1).split(elements):
{step}{step}{step}if piece.numel() > space or (pieces and piece.device != pieces[0].device):
{step}{step}{step}{step}yield {torch}.cat(pieces)
{step}{step}{step}{step}pieces, space = [], elements
{step}{step}{step}pieces.append(piece)
{step}{step}{step}space -= piece.numel()
{step}if pieces:
{step}{step}yield {torch}.cat(pieces)
'''


@dataclass(frozen=True)
class _Whole:
    """`flat = torch.cat([g.view(-1) for g in grads])`: the statement, its name, and the list that it copies."""

    statement: ast.Assign
    name: str
    grads: str


def counted_in_packs(functions: Sequence[FunctionText]) -> Iterator[Rewrite]:
    for function in functions:
        for statement in (node for node in function.nodes if isinstance(node, ast.Assign)):
            whole = _whole(statement, function.torch)
            edits = _Counts(function, whole).edits() if whole and function.has_own_lines(statement) else []
            told = "no copy of all gradients, they are counted half a million elements at a time"
            yield from rewrite_of("counted_in_packs", _MENDS, edits, told, [statement.lineno])


def _whole(statement: ast.Assign, torch: str) -> _Whole | None:
    match statement:
        case ast.Assign(
            targets=[ast.Name(id=name)],
            value=ast.Call(
                func=function,
                args=[
                    ast.ListComp(
                        elt=ast.Call(func=ast.Attribute(value=ast.Name(id=each), attr=attr)),
                        generators=[ast.comprehension(target=ast.Name(id=target), iter=ast.Name(id=grads), ifs=[])],
                    )
                ],
                keywords=[],
            ),
        ) if dotted_name(function) == f"{torch}.cat" and attr in _FLAT and each == target:
            return _Whole(statement, name, grads)
    return None


class _Counts:
    """The reductions of the whole copy, each as a sum over packs; none where one of them is something else."""

    def __init__(self, function: FunctionText, whole: _Whole) -> None:
        self._function = function
        self._whole = whole
        self._parents = {child: node for node in function.nodes for child in ast.iter_child_nodes(node)}
        self._packs = function.fresh("_packs")
        self._pack = function.fresh("pack")

    def edits(self) -> list[Edit]:
        function, whole = self._function, self._whole
        read = [node for node in function.nodes if isinstance(node, ast.Name) and node.id == whole.name]
        uses = [node for node in read if isinstance(node.ctx, ast.Load)]
        found = [self._use(node) for node in uses]
        if not uses or len(read) - len(uses) != 1 or any(edit is None for edit in found):
            return []
        if not any(f"{self._packs}(" in edit.text for edit in found if edit is not None):
            return []
        helper = _PACKS.format(name=self._packs, step=function.step, torch=function.torch, grads="grads", grad="grad")
        top = function.top_of_holder()
        taken_out = Edit((whole.statement.lineno, 0), (function.last(whole.statement)[0] + 1, 0), "")
        return [Edit(top, top, f"{helper}\n\n"), taken_out, *(edit for edit in found if edit is not None)]

    def _use(self, name: ast.Name) -> Edit | None:
        attribute = self._parents.get(name)
        if isinstance(attribute, ast.Attribute) and attribute.attr == "numel":
            return self._elements(self._parents[attribute])
        node: ast.AST = name
        while isinstance(outer := self._parents.get(node), ast.Compare | ast.Call | ast.Attribute | ast.BinOp):
            if isinstance(outer, ast.Attribute) and outer.attr in ("sum", "float", "mean", "norm"):
                return self._reduced(node, outer)
            if isinstance(outer, ast.Call) and dotted_name(outer.func).endswith("vector_norm"):
                return self._norm(outer)
            node = outer
        return None

    def _elements(self, call: ast.AST) -> Edit | None:
        """`flat.numel()`; 1 where that is 0 and something is divided by it."""
        if not isinstance(call, ast.Call):
            return None
        total = self._number()
        division = self._parents.get(call)
        if isinstance(division, ast.BinOp) and isinstance(division.op, ast.Div) and division.right is call:
            total = f"max({total}, 1)"
        return self._function.replace(call, total)

    def _number(self) -> str:
        each = self._function.fresh("grad")
        return f"sum({each}.numel() for {each} in {self._whole.grads})"

    def _reduced(self, node: ast.AST, attribute: ast.Attribute) -> Edit | None:
        """`(flat == 0).sum()` and `(flat == 0).float().mean()`, read or not."""
        call = self._parents.get(attribute)
        if not isinstance(node, ast.expr) or not _is_condition(node) or not isinstance(call, ast.Call) or call.args:
            return None
        count = self._count(node)
        if attribute.attr == "sum":
            behind = self._called_on(call)
            if behind is not None and behind[0] in ("float", "double"):
                return self._function.replace(behind[1], f"{count}.double()")
            return self._function.replace(call, count)
        mean: tuple[str, ast.Call] | None = ("mean", call) if attribute.attr == "mean" else self._called_on(call)
        if mean is None or mean[0] != "mean":
            return None
        read = self._called_on(mean[1])
        elements = f"max({self._number()}, 1)"
        if read is not None and read[0] == "item":
            return self._function.replace(read[1], f"{count}.item() / {elements}")
        return self._function.replace(mean[1], f"({count}.double() / {elements})")

    def _called_on(self, call: ast.Call) -> tuple[str, ast.Call] | None:
        """The method that is called on a call's result without arguments, and that call."""
        attribute = self._parents.get(call)
        outer = self._parents.get(attribute) if isinstance(attribute, ast.Attribute) else None
        if isinstance(attribute, ast.Attribute) and isinstance(outer, ast.Call) and not outer.args:
            return attribute.attr, outer
        return None

    def _count(self, condition: ast.expr) -> str:
        torch = self._function.torch
        text = self._of_pack(condition)
        return (
            f"sum({torch}.count_nonzero({text}){self._home()} for {self._pack} in {self._packs}({self._whole.grads}))"
        )

    def _norm(self, call: ast.Call) -> Edit | None:
        """A norm of everything as the norm of the packs' norms."""
        if len(call.args) != 1:
            return None
        torch = self._function.torch
        norms = f"[{self._of_pack(call)}{self._home()} for {self._pack} in {self._packs}({self._whole.grads})]"
        return self._function.replace(call, f"{torch}.linalg.vector_norm({torch}.stack({norms}))")

    def _home(self) -> str:
        return f".to({self._whole.grads}[0].device)"

    def _of_pack(self, node: ast.expr) -> str:
        """The text of an expression with the pack in the place of the whole."""
        names = [one for one in ast.walk(node) if isinstance(one, ast.Name) and one.id == self._whole.name]
        text, first = self._function.text(node), self._function.first(node)
        for name in sorted(names, key=lambda one: one.col_offset, reverse=True):
            line, column = self._function.first(name)
            if line == first[0]:
                start = column - first[1]
                text = text[:start] + self._pack + text[start + len(name.id) :]
        return text


def _is_condition(node: ast.expr) -> bool:
    """A comparison, or a question such as isnan, of which a sum is a count."""
    if isinstance(node, ast.Compare):
        return True
    return isinstance(node, ast.Call) and dotted_name(node.func).rpartition(".")[2] in ("isnan", "isinf", "isfinite")
