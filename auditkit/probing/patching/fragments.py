"""A code block of a ticket read as a fix of one function: its definition, or some of its statements."""

from __future__ import annotations

import ast
import re
import textwrap
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from auditkit.probing.patching.local_names import parameters

_FunctionNode = ast.FunctionDef | ast.AsyncFunctionDef
_ELISION = re.compile(r"^([ \t]*)#[ \t]*(?:\.{3}|…).*$", re.MULTILINE)


class CannotComplete(Exception):
    """A block that is no whole function and cannot be made one; the message says why."""


class OtherFunctions(CannotComplete):
    """A block that defines functions, none of which can be called as the one that it is to mend."""


@dataclass(frozen=True)
class Segment:
    """Statements of a block between two places where it leaves code out."""

    statements: tuple[ast.stmt, ...]


@dataclass(frozen=True)
class Fragment:
    """A block as it was read; `text` is what its syntax trees point into.

    `function` is the definition that it holds, None for bare statements; `around` are further definitions
    and imports of the block; `body` are the statements, those that stand for code left out among them.
    `starts_open` and `ends_open` say that it leaves out what stands before and behind, `is_whole` that its
    definition leaves nothing out. `notes` say what was read into it.
    """

    text: str
    function: _FunctionNode | None
    around: tuple[ast.stmt, ...]
    body: tuple[ast.stmt, ...]
    segments: tuple[Segment, ...]
    starts_open: bool
    ends_open: bool
    is_whole: bool
    notes: tuple[str, ...]


def read_fragment(code: str, original: _FunctionNode, owner: str = "") -> Fragment:
    """What a block says of the function `original`, a method of the class `owner` if that is given.

    Raises CannotComplete for what is no Python, leaves code out inside a statement, or is about other functions.
    """
    text, tree, signature_is_open = _parse(code, original)
    _refuse_open_statements(tree, original.name)
    body = tree.body
    if owner and len(body) == 1 and isinstance(body[0], ast.ClassDef) and body[0].name == owner:
        body = body[0].body
    function, notes = _definition(body, original)
    if function is None:
        if all(isinstance(item, _FunctionNode | ast.ClassDef | ast.Import | ast.ImportFrom) for item in body):
            names = [item.name for item in body if isinstance(item, _FunctionNode | ast.ClassDef)]
            raise OtherFunctions(f"defines {', '.join(names) or 'nothing'}, not {original.name}")
        return _of_statements(text, None, (), body, (), False)
    around = tuple(item for item in body if item is not function)
    if signature_is_open:
        notes = (*notes, f"the signature, left out with ..., is the original's: ({ast.unparse(original.args)})")
    return _of_statements(text, function, around, function.body, notes, signature_is_open)


def _parse(code: str, original: _FunctionNode) -> tuple[str, ast.Module, bool]:
    plain = textwrap.dedent(code.expandtabs())
    opened = re.compile(rf"(def\s+{re.escape(original.name)}\s*)\(([^()]*?(?:\.\.\.|…)[^()]*?)\)(\s*->[^:\n]+)?\s*:")
    returns = f" -> {ast.unparse(original.returns)}" if original.returns else ""
    text, count = opened.subn(lambda match: f"{match[1]}({ast.unparse(original.args)}){returns}:", plain)
    marked = _ELISION.sub(r"\1...", text)
    try:
        return marked, ast.parse(marked), bool(count)
    except SyntaxError as error:
        if marked != text and _is_python(text):
            raise CannotComplete("leaves code out inside a statement, with a comment of dots") from None
        raise CannotComplete(f"is no Python: {error.msg} (its line {error.lineno})") from None


def _is_python(text: str) -> bool:
    try:
        ast.parse(text)
    except SyntaxError:
        return False
    return True


def _refuse_open_statements(tree: ast.Module, name: str) -> None:
    """`...` may stand for whole statements of the function, in an index and in a type, nowhere else."""
    allowed: set[ast.AST] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Subscript):
            allowed |= set(ast.walk(node.slice))
        elif isinstance(node, _FunctionNode) and node.name == name:
            allowed |= {item.value for item in node.body if isinstance(item, ast.Expr)}
    allowed |= {item.value for item in tree.body if isinstance(item, ast.Expr)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and node.value is Ellipsis and node not in allowed:
            raise CannotComplete(f"leaves code out inside a statement (its line {node.lineno})")


def _definition(body: Sequence[ast.stmt], original: _FunctionNode) -> tuple[_FunctionNode | None, tuple[str, ...]]:
    """The definition that is meant: of the same name, or the only one and with the same parameters."""
    defined = [item for item in body if isinstance(item, _FunctionNode)]
    named = [item for item in defined if item.name == original.name]
    if named:
        return named[-1], ()
    others = [item for item in body if not isinstance(item, _FunctionNode | ast.Import | ast.ImportFrom)]
    same = [item for item in defined if parameters(item.args) == parameters(original.args)]
    if len(defined) == 1 and same and not others:
        return same[0], (f"{same[0].name} takes the same parameters, so it stands in for {original.name}",)
    return None, ()


def _of_statements(
    text: str,
    function: _FunctionNode | None,
    around: tuple[ast.stmt, ...],
    body: Sequence[ast.stmt],
    notes: tuple[str, ...],
    signature_is_open: bool,
) -> Fragment:
    if function is not None and ast.get_docstring(function, clean=False) is not None:
        body = body[1:]
    groups = list(_between_elisions(body))
    return Fragment(
        text=text,
        function=function,
        around=around,
        body=tuple(body),
        segments=tuple(Segment(tuple(group)) for group in groups if group),
        starts_open=function is None or not groups[0],
        ends_open=not groups[-1],
        is_whole=function is not None and len(groups) == 1 and not signature_is_open,
        notes=notes,
    )


def _between_elisions(body: Sequence[ast.stmt]) -> Iterator[list[ast.stmt]]:
    group: list[ast.stmt] = []
    for statement in body:
        if is_elision(statement):
            yield group
            group = []
        else:
            group.append(statement)
    yield group


def is_elision(statement: ast.stmt) -> bool:
    """Whether a statement is a bare `...`."""
    value = statement.value if isinstance(statement, ast.Expr) else None
    return isinstance(value, ast.Constant) and value.value is Ellipsis
