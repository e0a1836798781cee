"""Replace a function in the file that defines it by recommended Python code."""

from __future__ import annotations

import ast
import io
import re
import textwrap
import tokenize
from dataclasses import dataclass

from auditkit.probing.find.blocks.blocks import Block, function_or_block
from auditkit.probing.source.modules import Function, FunctionNode
from auditkit.probing.source.python_files import PythonFiles

_ELISION = re.compile(r"^[ \t]*#[ \t]*(?:\.{3}|…)", re.MULTILINE)


class CannotComplete(Exception):
    """Code cannot replace a function, or a change cannot be made; the message says why."""


@dataclass(frozen=True)
class FunctionFile:
    """A function and the bytes of the file that defines it."""

    function: Function
    data: bytes

    @property
    def file(self) -> str:
        """The file, relative to the checkout."""
        return self.function.module.file


def function_in(files: PythonFiles, call: str) -> FunctionFile | None:
    """Return the function or the block that `call` names, None if the checkout does not define it there."""
    function = function_or_block(files, call)
    return FunctionFile(function, (files.path / function.module.file).read_bytes()) if function is not None else None


def has_line(function: Function, line: int | None) -> bool:
    """Return whether a line of its file is one of the function's."""
    return line is not None and function.node.lineno <= line <= (function.node.end_lineno or 0)


def text_of(data: bytes) -> tuple[str, str, str]:
    """Return the text of a Python file with its own line ends, its encoding, and its most common line end.

    Raises SyntaxError or UnicodeError if the file does not match its declared encoding.
    """
    encoding, _ = tokenize.detect_encoding(io.BytesIO(data).readline)
    encoding = "utf-8" if encoding == "utf-8-sig" else encoding  # A byte order mark stays a character.
    text = data.decode(encoding)
    return text, encoding, "\r\n" if text.count("\r\n") * 2 > text.count("\n") else "\n"


def patch(code: str, place: FunctionFile) -> bytes:
    """Return the file of `place` with its function replaced by the definition in `code`.

    Other statements in the code go above the function. Raises CannotComplete for code that is not a whole definition of
    this function.
    """
    function = place.function
    if isinstance(function, Block):
        raise CannotComplete("is Python, and the target is some statements of a function: write a diff of the file")
    text, encoding, end = text_of(place.data)
    new, around = _definition(code, function.node)
    lines, node = text.splitlines(keepends=True), function.node
    tree = function.module.tree.body
    holder = next(one for one in tree if one.lineno <= node.lineno <= (one.end_lineno or 0))
    top = min([holder.lineno, *(one.lineno for one in getattr(holder, "decorator_list", ()))]) - 1
    first = lines[node.lineno - 1]
    written = textwrap.indent(new, first[: len(first) - len(first.lstrip())])
    changed = [
        *lines[:top],
        *(line + end for each in around for line in ast.unparse(each).split("\n")),
        *lines[top : node.lineno - 1],
        *(line + end for line in written.split("\n")),
        *lines[node.end_lineno or node.lineno :],
    ]
    return "".join(changed).encode(encoding)


def _definition(code: str, original: FunctionNode) -> tuple[str, list[ast.stmt]]:
    """Return the text of the new definition, and the other statements of the code."""
    text = textwrap.dedent(code.expandtabs())
    try:
        body = ast.parse(text).body
    except SyntaxError as error:
        raise CannotComplete(f"is no Python: {error.msg} (its line {error.lineno})") from None
    if _ELISION.search(text):
        raise CannotComplete("leaves code out with dots: write the whole function, or a diff of the file")
    defined = [item for item in body if isinstance(item, FunctionNode)]
    found = [item for item in defined if item.name == original.name]
    if not found:
        names = ", ".join(item.name for item in defined) or "no function"
        raise CannotComplete(f"defines {names}, not {original.name}: write the whole function, or a diff of the file")
    new = found[-1]
    # A future import must be first in a file.
    future = [item for item in body if isinstance(item, ast.ImportFrom) and item.module == "__future__"]
    others = [item for item in body if item not in (new, *future)]
    return "\n".join(text.split("\n")[new.lineno - 1 : new.end_lineno]), others
