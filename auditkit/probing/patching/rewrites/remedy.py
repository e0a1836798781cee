"""A probe's own example of how to do it, as the body of a function that takes the same and nothing else."""

from __future__ import annotations

import ast
from collections.abc import Collection

from auditkit.model.enums import Takes
from auditkit.probing.discovery.blocks.blocks import Block
from auditkit.probing.patching.local_names import names_of
from auditkit.probing.patching.rewrites.edits import Edit, Rewrite
from auditkit.probing.patching.rewrites.function_text import FunctionText
from auditkit.probing.patching.whole_functions import FED, NAMED

_STEP = "    "
_DOES_MORE = (ast.Global, ast.Nonlocal, ast.Yield, ast.YieldFrom, ast.Await, ast.Raise, ast.Assert, ast.With)


def as_recommended(function: FunctionText, takes: Takes, code: str, probes: Collection[str]) -> Rewrite | None:
    """The function with the example's body; its signature, decorators and docstring stay.

    None where the example is no single function of torch alone, where the function has an option that it would not
    heed any more, or where what one `takes` cannot be turned into what the other does.
    """
    example, given = _only_function(code), _only_parameter(function)
    if example is None or not given:
        return None
    wanted = example.args.args[0].arg
    fed = FED.get((takes, NAMED[wanted])) if wanted in NAMED else None
    body = _own_statements(function)
    if fed is None or not body or not all(map(function.has_own_lines, (body[0], body[-1]))):
        return None
    lines = code.split("\n")[example.body[0].lineno - 1 : example.end_lineno]
    blanks = function.indentation(body[0])
    text = [_indented(line, blanks, function.step) for line in lines]
    if fed.format(given) != wanted:
        text = [f"{blanks}{wanted} = {fed.format(given)}", *text]
    first = body[0].lineno
    edit = Edit((first, len(blanks)), function.last(body[-1]), "\n".join(text).removeprefix(blanks))
    return Rewrite("as_recommended", frozenset(probes), f"line {first}: the whole body, as it is recommended", (edit,))


def _only_function(code: str) -> ast.FunctionDef | None:
    try:
        body = ast.parse(code).body
    except SyntaxError:
        return None
    match body:
        case [ast.Import(names=[ast.alias(name="torch", asname=None)]), ast.FunctionDef() as function]:
            is_plain = len(function.args.args) == 1 and not function.args.kwonlyargs and not function.decorator_list
            return function if is_plain else None
    return None


def _only_parameter(function: FunctionText) -> str:
    """The name of the one thing that a function takes, which is no method and no block; "" for any other."""
    if isinstance(function.function, Block) or function.function.owner is not None or function.torch != "torch":
        return ""
    args = function.function.node.args
    is_only = len([*args.posonlyargs, *args.args, *args.kwonlyargs]) == 1 and not (args.vararg or args.kwarg)
    return function.function.parameters[0].arg if is_only else ""


def _own_statements(function: FunctionText) -> list[ast.stmt]:
    """The body behind the docstring; none where it does more than to answer, which no trial would miss."""
    body = function.function.node.body
    own = body[1:] if ast.get_docstring(function.function.node, clean=False) is not None else body
    names = [node for node in function.nodes if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)]
    local = {node.id for node in names} | {parameter.arg for parameter in function.function.parameters}
    changed = [node for node in function.nodes if isinstance(node, ast.Expr) or _is_place(node)]
    spoken = [node for node in changed if names_of(node).loads - local - {"torch"}]
    does_more = any(isinstance(node, _DOES_MORE) for node in function.nodes) or "torch" in local
    return [] if does_more or spoken else list(own)


def _is_place(node: ast.AST) -> bool:
    """Whether it is an item or an attribute that is set."""
    return isinstance(node, ast.Subscript | ast.Attribute) and isinstance(node.ctx, ast.Store)


def _indented(line: str, blanks: str, step: str) -> str:
    depth = (len(line) - len(line.lstrip())) // len(_STEP) - 1
    return blanks + step * depth + line.strip() if line.strip() else ""
