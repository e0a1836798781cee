"""Replace a function in the file that defines it by recommended Python code."""

from __future__ import annotations

import ast
import builtins
import difflib
import io
import re
import textwrap
import tokenize
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from auditkit.probing.find.blocks.blocks import Block, function_or_block
from auditkit.probing.fix.local_names import names_of, parameters, required_parameters
from auditkit.probing.source.modules import Function, FunctionNode, top_level
from auditkit.probing.source.python_files import PythonFiles

_MODULE_NAMES = frozenset({"__file__", "__name__", "__doc__", "__package__"})
_OBVIOUS_IMPORTS: Mapping[str, str] = {
    "torch": "import torch",
    "nn": "from torch import nn",
    "F": "import torch.nn.functional as F",
    "math": "import math",
}
"""Imports that recommended code may omit, even if its module lacks them."""
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


@dataclass(frozen=True)
class Patch:
    """A changed file: its new bytes, the changed function, the diff, and notes on additions.

    `file` is relative to the checkout.
    """

    file: str
    data: bytes
    function: str
    difference: str
    notes: tuple[str, ...]


def find_function(checkout: Path, roots: Sequence[Path], call: str) -> FunctionFile | None:
    """Return the function or the block that `call` names, None if the checkout does not define it there."""
    return function_in(PythonFiles(checkout, roots), call)


def function_in(files: PythonFiles, call: str) -> FunctionFile | None:
    """Return the same for files that are already read."""
    function = function_or_block(files, call)
    if function is None:
        return None
    return FunctionFile(function, (files.path / function.module.file).read_bytes())


def text_of(data: bytes) -> tuple[str, str, str]:
    """Return the text of a Python file with its own line ends, its encoding, and its most common line end.

    Raises SyntaxError or UnicodeError if the file does not match its declared encoding.
    """
    encoding, _ = tokenize.detect_encoding(io.BytesIO(data).readline)
    encoding = "utf-8" if encoding == "utf-8-sig" else encoding  # A byte order mark stays a character.
    text = data.decode(encoding)
    return text, encoding, "\r\n" if text.count("\r\n") * 2 > text.count("\n") else "\n"


def patch(code: str, place: FunctionFile) -> Patch:
    """Return the file of `place` with its function replaced by the definition in `code`.

    Other definitions in the code, and obvious imports that it lacks, go above the function. Raises CannotComplete for
    code that is not a whole definition of this function.
    """
    function = place.function
    if isinstance(function, Block):
        raise CannotComplete("is Python, and the target is some statements of a function: write a diff of the file")
    text, encoding, end = text_of(place.data)
    new, notes, around = _definition(code, function.node)
    tree = function.module.tree.body
    known = names_of(top_level(tree)).stores | _MODULE_NAMES | {one.name for one in function.module.imports} & {"*"}
    imports = _needed_imports([*around, ast.parse(new).body[0]], known | set(dir(builtins)))
    lines, node = text.splitlines(keepends=True), function.node
    holder = next(one for one in tree if one.lineno <= node.lineno <= (one.end_lineno or 0))
    top = min([holder.lineno, *(one.lineno for one in getattr(holder, "decorator_list", ()))]) - 1
    first = lines[node.lineno - 1]
    written = textwrap.indent(new, first[: len(first) - len(first.lstrip())])
    above = "\n".join([*imports, *map(ast.unparse, around)])
    changed = [
        *lines[:top],
        *(line + end for line in above.split("\n") if above),
        *lines[top : node.lineno - 1],
        *(line + end for line in written.split("\n")),
        *lines[node.end_lineno or node.lineno :],
    ]
    names = f"a/{place.file}", f"b/{place.file}"
    difference = difflib.unified_diff(text.splitlines(), "".join(changed).splitlines(), *names, lineterm="")
    notes += [f"added: {one}" for one in imports]
    return Patch(place.file, "".join(changed).encode(encoding), written, "\n".join(difference), tuple(notes))


def _definition(code: str, original: FunctionNode) -> tuple[str, list[str], list[ast.stmt]]:
    """Return the text of the new definition, notes on assumptions, and the other statements of the code."""
    opened = re.compile(rf"(def\s+{re.escape(original.name)}\s*)\([^()]*(?:\.\.\.|…)[^()]*\)\s*(->[^:\n]+)?:")
    returns = f" -> {ast.unparse(original.returns)}" if original.returns else ""
    text = textwrap.dedent(code.expandtabs())
    text, is_open = opened.subn(lambda match: f"{match[1]}({ast.unparse(original.args)}){returns}:", text)
    try:
        body = ast.parse(text).body
    except SyntaxError as error:
        raise CannotComplete(f"is no Python: {error.msg} (its line {error.lineno})") from None
    if _ELISION.search(text):
        raise CannotComplete("leaves code out with dots: write the whole function, or a diff of the file")
    defined = [item for item in body if isinstance(item, FunctionNode)]
    found = [item for item in defined if item.name == original.name]
    if not found and len(defined) == 1 and parameters(defined[0].args) == parameters(original.args):
        found = defined
    if not found:
        names = ", ".join(item.name for item in defined) or "no function"
        raise CannotComplete(f"defines {names}, not {original.name}: write the whole function, or a diff of the file")
    new = found[-1]
    if type(new) is not type(original):
        raise CannotComplete("one of the code and the function is asynchronous, the other is not")
    if extra := required_parameters(new.args) - parameters(original.args):
        raise CannotComplete(f"needs {', '.join(sorted(extra))}, which callers of {original.name} do not pass")
    notes = ["the code is a whole function"]
    notes += [f"the signature, left out with ..., is the original's: ({ast.unparse(original.args)})"] * bool(is_open)
    if lost := parameters(original.args) - parameters(new.args):
        notes.append(f"it no longer takes {', '.join(sorted(lost))}")
    lines = text.split("\n")[new.lineno - 1 : new.end_lineno]
    lines[0] = lines[0].replace(f"def {new.name}", f"def {original.name}", 1)
    # A future import must be first in a file.
    future = [item for item in body if isinstance(item, ast.ImportFrom) and item.module == "__future__"]
    return "\n".join(lines), notes, [item for item in body if item not in (new, *future)]


def _needed_imports(statements: Sequence[ast.stmt], known: frozenset[str]) -> list[str]:
    """Return the imports of undefined names. Raises CannotComplete for a name that is not obvious."""
    there = known | names_of(statements).stores
    needed = names_of(statements).loads - there
    if "*" not in known and (lost := sorted(needed - _OBVIOUS_IMPORTS.keys())):
        raise CannotComplete(f"needs {', '.join(lost)}, which neither the function nor its module defines")
    spoken = names_of(statements, annotations=True).loads - there
    return [_OBVIOUS_IMPORTS[name] for name in sorted((needed | spoken) & _OBVIOUS_IMPORTS.keys())]
