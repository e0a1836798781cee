"""Gradients without elements and lists without gradients, left out or answered with the sums of nothing."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence

from auditkit.probing.patching.local_names import names_of
from auditkit.probing.patching.rewrites.edits import Edit, Rewrite, rewrite_of
from auditkit.probing.patching.rewrites.function_text import FunctionText
from auditkit.probing.source_code.modules import dotted_name

_EMPTY = frozenset({"empty_input_changes_result_type"})
_NEEDS_ELEMENTS = frozenset({"max", "min", "amax", "amin", "mean", "std", "var", "aminmax"})


def without_elements(functions: Sequence[FunctionText]) -> Iterator[Rewrite]:
    """What is asked of each gradient is asked of those that have elements."""
    edits = [edit for function in functions for edit in _asked(function)]
    probes = {"fails_on_zero_element_grads", "ratio_divides_by_zero"}
    return rewrite_of("without_elements", probes, edits, "gradients without elements are left out")


def _asked(function: FunctionText) -> Iterator[Edit]:
    """`p.grad is not None`, and `p.grad is None`, with the question for elements behind it."""
    for node in function.nodes:
        match node:
            case ast.Compare(
                left=gradient, ops=[ast.IsNot() | ast.Is() as asked], comparators=[ast.Constant(value=None)]
            ):
                if isinstance(gradient, ast.Attribute) and gradient.attr == "grad":
                    text = function.text(gradient)
                    has_elements = f" and {text}.numel()" if isinstance(asked, ast.IsNot) else f" or not {text}.numel()"
                    yield function.insert_after(node, has_elements)
    for loop in (node for node in function.nodes if isinstance(node, ast.For)):
        name = _reduced_parameter(loop)
        if name and function.has_own_lines(loop.body[0]):
            yield function.line_before(loop.body[0], f"if not {name}.numel():\n{function.step}continue")


def _reduced_parameter(loop: ast.For) -> str:
    """The loop's own name that a maximum or a mean is taken of, apart from its gradient."""
    own = names_of(loop.target).stores
    for node in ast.walk(loop):
        if isinstance(node, ast.Attribute) and node.attr in _NEEDS_ELEMENTS:
            read = [inner for inner in ast.walk(node.value) if isinstance(inner, ast.Attribute)]
            names = names_of(node.value).loads & own
            if names and "data" in {inner.attr for inner in read} and "grad" not in {inner.attr for inner in read}:
                return sorted(names)[0]
    return ""


def divided_by_at_least_one(functions: Sequence[FunctionText]) -> Iterator[Rewrite]:
    """Quotients by a number of tensors or elements that may be 0."""
    counts = {key for function in functions for key in _counted_keys(function)}
    edits = [edit for function in functions for edit in _divisions(function, counts)]
    probes = {"ratio_divides_by_zero", "fails_on_zero_element_grads"}
    lines = {edit.first[0] for edit in edits}
    told = "divided by 1 where there is nothing to divide by"
    return rewrite_of("divided_by_at_least_one", probes, edits, told, lines)


def _counted_keys(function: FunctionText) -> Iterator[str]:
    """Keys of mappings, and names, that stand for a number of tensors or elements."""
    for node in function.nodes:
        match node:
            case ast.Dict(keys=keys, values=values):
                pairs = zip(keys, values, strict=True)
                yield from (str(key.value) for key, value in pairs if isinstance(key, ast.Constant) and _counts(value))
            case ast.Assign(targets=[ast.Name(id=name)], value=value) if _counts(value):
                yield name


def _counts(node: ast.expr) -> bool:
    match node:
        case ast.Call(func=ast.Name(id="len")) | ast.Call(func=ast.Attribute(attr="numel")):
            return True
        case ast.Call(func=ast.Name(id="sum"), args=[ast.GeneratorExp(elt=elt)]):
            return _counts(elt)
    return False


def _divisions(function: FunctionText, counts: set[str]) -> Iterator[Edit]:
    for node in function.nodes:
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Div):
            key = node.right.slice if isinstance(node.right, ast.Subscript) else None
            named = isinstance(node.right, ast.Name) and node.right.id in counts
            if named or (isinstance(key, ast.Constant) and key.value in counts) or _counts(node.right):
                first, last = function.first(node.right), function.last(node.right)
                yield Edit(first, first, "max(")
                yield Edit(last, last, ", 1)")


def zeros_of_nothing(functions: Sequence[FunctionText]) -> Iterator[Rewrite]:
    """A stack of no norms, which raises, as one zero of the norms' kind, and quotients by their number guarded."""
    edits = [edit for function in functions for node in function.nodes for edit in _of_nothing(function, node)]
    if edits:
        counts = {key for function in functions for key in _counted_keys(function)}
        edits += [edit for function in functions for edit in _divisions(function, counts)]
        told = "without gradients the norms are one zero, and nothing is divided by their number"
        yield from rewrite_of("zeros_of_nothing", _EMPTY, edits, told)
    edits = [edit for function in functions for node in function.nodes for edit in _number(function, node)]
    told = "without gradients the answer is a tensor, as it is with some"
    yield from rewrite_of("tensor_of_nothing", _EMPTY, edits, told)


def _of_nothing(function: FunctionText, node: ast.AST) -> Iterator[Edit]:
    match node:
        case ast.Call(func=called, args=[part, *_]) if dotted_name(called) == f"{function.torch}.stack":
            gathered = next(iter(sorted(names_of(part).loads & _gathered(function))), "")
            if gathered and not isinstance(part, ast.List):
                zero = f" if {gathered} else {function.torch}.zeros(1, dtype={function.torch}.float64)"
                yield function.insert_after(node, zero)
        case ast.Assign(targets=[ast.Name()], value=value) if _norms_of(value) & _gathered(function):
            yield function.insert_after(value, f" if {', '.join(_norms_of(value))} else []")


def _norms_of(value: ast.expr) -> set[str]:
    """The name of the list that `torch._foreach_norm(grads)` goes through, which raises where it is empty."""
    match value:
        case ast.Call(func=ast.Attribute(attr="_foreach_norm"), args=[ast.Name(id=name), *_]):
            return {name}
    return set()


def _gathered(function: FunctionText) -> set[str]:
    """The names of lists of gradients or of their norms, which may be empty."""
    found = {parameter.arg for parameter in function.function.parameters}
    for node in function.nodes:
        match node:
            case ast.Assign(targets=[ast.Name(id=name)], value=ast.ListComp() | ast.List(elts=[])):
                found.add(name)
            case ast.Assign(targets=[ast.Name(id=name)], value=value) if _norms_of(value):
                found.add(name)
    return found


def _number(function: FunctionText, node: ast.AST) -> Iterator[Edit]:
    """`return 0.0` and `norm if grads else 0.0`, the zero as a tensor; whether the rest is one, a run says."""
    match node:
        case ast.If(test=ast.UnaryOp() | ast.Compare(), body=[*_, ast.Return(value=ast.Constant(value=0) as zero)]):
            yield function.replace(zero, f"{function.torch}.tensor(0.0)")
        case ast.IfExp(orelse=ast.Constant(value=0) as zero, body=ast.Call() as usual) if not _is_read(usual):
            yield function.replace(zero, f"{function.torch}.tensor(0.0)")


def _is_read(call: ast.Call) -> bool:
    name = call.func.attr if isinstance(call.func, ast.Attribute) else dotted_name(call.func)
    return name in ("item", "tolist", "float")
