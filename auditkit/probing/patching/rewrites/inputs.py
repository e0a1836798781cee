"""Parameters without a gradient, left out where `p.grad` is read."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence

from auditkit.probing.patching.local_names import names_of
from auditkit.probing.patching.rewrites.edits import Edit, Rewrite, rewrite_of
from auditkit.probing.patching.rewrites.function_text import FunctionText


def present_gradients(functions: Sequence[FunctionText]) -> Iterator[Rewrite]:
    """Comprehensions and loops that read `p.grad`, with the question whether there is one."""
    edits = [edit for function in functions for node in function.nodes for edit in _asking(function, node)]
    lines = {edit.first[0] for edit in edits}
    told = "parameters without a gradient are left out"
    return rewrite_of("present_gradients", {"fails_on_missing_grads"}, edits, told, lines)


def _asking(function: FunctionText, node: ast.AST) -> Iterator[Edit]:
    match node:
        case (
            ast.ListComp(elt=elt, generators=[source])
            | ast.SetComp(elt=elt, generators=[source])
            | ast.GeneratorExp(elt=elt, generators=[source])
        ):
            read = _read_gradient(source.target, [elt])
            if read and not _is_asked(read, source.ifs):
                yield from _with_condition(function, source, f"{read} is not None{_otherwise(function, elt, read)}")
        case ast.For(body=body):
            read = _read_gradient(node.target, body)
            readers = _first_readers(body, node.target) if read and not _is_asked(read, body) else []
            if all(map(function.has_own_lines, readers)):
                skip = f"if {read} is None:\n{function.step}continue"
                yield from (function.line_before(reader, skip) for reader in readers)


def _otherwise(function: FunctionText, elt: ast.expr, read: str) -> str:
    """` or buffers is not None` of `p.grad.device if buffers is None else ...`, whose other case needs no gradient."""
    match elt:
        case ast.IfExp(test=ast.Compare(left=left, ops=[ast.Is() | ast.IsNot() as asked]) as test, body=body):
            if read in ast.unparse(body) and read not in ast.unparse(elt.orelse):
                flipped = "is not" if isinstance(asked, ast.Is) else "is"
                return f" or {function.text(left)} {flipped} {function.text(test.comparators[0])}"
    return ""


def _first_readers(suite: Sequence[ast.stmt], target: ast.expr) -> list[ast.stmt]:
    """The first statement that reads a gradient; where only a branch does, the first in it: the others need none."""
    for statement in suite:
        if _read_gradient(target, [statement]):
            if isinstance(statement, ast.If) and not _read_gradient(target, [statement.test]):
                return [one for part in (statement.body, statement.orelse) for one in _first_readers(part, target)]
            return [statement]
    return []


def _with_condition(function: FunctionText, source: ast.comprehension, condition: str) -> Iterator[Edit]:
    """Before the clause's own condition, which is put into brackets where it has to be."""
    if not source.ifs:
        line = function.lines[source.target.lineno - 1]
        blanks = line[: len(line) - len(line.lstrip())]
        has_own_line = line.lstrip().startswith("for ")
        yield function.insert_after(source.iter, (f"\n{blanks}" if has_own_line else " ") + f"if {condition}")
        return
    condition = f"({condition})" if " or " in condition else condition
    own = source.ifs[0]
    is_loose = isinstance(own, ast.IfExp) or (isinstance(own, ast.BoolOp) and isinstance(own.op, ast.Or))
    yield Edit(function.first(own), function.first(own), f"{condition} and " + "(" * is_loose)
    if is_loose:
        yield function.insert_after(own, ")")


def _read_gradient(target: ast.expr, nodes: Sequence[ast.AST]) -> str:
    """`p.grad` of a loop's own name, where something of it is read; "" where nothing is."""
    own = names_of(target).stores
    for node in (inner for outer in nodes for inner in ast.walk(outer)):
        match node:
            case ast.Attribute(value=ast.Name(id=name), attr="grad", ctx=ast.Load()) if name in own:
                return f"{name}.grad"
    return ""


def _is_asked(read: str, nodes: Sequence[ast.AST]) -> bool:
    """Whether a gradient is compared with None already, or taken for a truth value."""
    tests = [node for outer in nodes for node in ast.walk(outer) if isinstance(node, ast.Compare)]
    return any(ast.unparse(test.left) == read and ast.unparse(test.comparators[0]) == "None" for test in tests)
