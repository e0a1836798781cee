"""Put a completed block into the file that defines its target."""

from __future__ import annotations

import ast
import difflib
import tokenize
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from auditkit.model.enums import Takes
from auditkit.probing.discovery.blocks.blocks import Block, function_or_block
from auditkit.probing.patching.block_statements import as_statements, original_of
from auditkit.probing.patching.completion import complete
from auditkit.probing.patching.fragments import CannotComplete
from auditkit.probing.patching.local_names import names_of
from auditkit.probing.patching.source_text import indented
from auditkit.probing.patching.whole_functions import Completed, Original
from auditkit.probing.source_code.modules import Function, top_level
from auditkit.probing.source_code.python_files import PythonFiles

_MODULE_NAMES = frozenset({"__file__", "__name__", "__doc__", "__package__"})


@dataclass(frozen=True)
class Blame:
    """What a ticket says is wrong: lines (1-based) of the target's file, and code that it shows."""

    lines: frozenset[int] = frozenset()
    code: tuple[str, ...] = ()

    @property
    def statements(self) -> frozenset[str]:
        """The dumped trees of the statements that it shows; what is no Python shows none."""
        return frozenset(ast.dump(statement) for code in self.code for statement in _statements(code))


@dataclass(frozen=True)
class Patch:
    """A module with a fix in it: the whole file's new text, the function in it, and what was filled in.

    `file` is relative to the checkout; `difference` is a unified diff of the file. `lines` are the first and the last
    that the function has there now.
    """

    file: str
    text: str
    function: str
    difference: str
    notes: tuple[str, ...]
    lines: tuple[int, int] = (0, 0)


@dataclass(frozen=True)
class FunctionFile:
    """A function and the text of the file that defines it, as `encoding` reads it."""

    function: Function
    text: str
    encoding: str

    @property
    def file(self) -> str:
        """The file, relative to the checkout."""
        return self.function.module.file


def find_function(checkout: Path, roots: Sequence[Path], call: str) -> FunctionFile | None:
    """The function or the block that `call` names, None where the checkout does not define it there."""
    return function_in(PythonFiles(checkout, roots), call)


def function_in(files: PythonFiles, call: str) -> FunctionFile | None:
    """The same in files that are read already."""
    function = function_or_block(files, call)
    if function is None:
        return None
    with tokenize.open(files.path / function.module.file) as source:
        return FunctionFile(function, source.read(), source.encoding)


def patch(
    code: str, place: FunctionFile, blame: Blame, earlier: Sequence[str] = (), takes: Takes | None = None
) -> Patch:
    """The file of `place` with the block `code` in the place of its function, which is fed as `takes` says.

    `earlier` are whole functions that the same section shows above: a block that needs what only they set is
    completed from them. Raises CannotComplete where a completion would be a guess.
    """
    function, text = place.function, place.text
    original = _original(function, text, blame, takes)
    try:
        completed = complete(code, original)
    except CannotComplete as refused:
        found = _from_earlier(code, original, earlier)
        if found is None:
            raise refused from None
        completed = found
    if isinstance(function, Block):
        completed = as_statements(completed, function, text)
    changed, first = _spliced(function, text, completed)
    difference = difflib.unified_diff(
        text.split("\n"), changed.split("\n"), f"a/{place.file}", f"b/{place.file}", lineterm=""
    )
    lines = (first, first + len(completed.function) - 1)
    return Patch(place.file, changed, "\n".join(completed.function), "\n".join(difference), completed.notes, lines)


def _original(function: Function, text: str, blame: Blame, takes: Takes | None) -> Original:
    tree = function.module.tree
    known = names_of(top_level(tree.body)).stores | _MODULE_NAMES
    if any(item.name == "*" for item in function.module.imports):
        known |= {"*"}
    if isinstance(function, Block):
        return original_of(function, text, known, blame.lines, blame.statements, takes)
    owner = function.owner.node.name if function.owner else ""
    return Original(text, function.node, known, owner, blame.lines, blame.statements, takes)


def _from_earlier(code: str, original: Original, earlier: Sequence[str]) -> Completed | None:
    """The block as a change of a whole function that the ticket shows above it, the nearest first."""
    for number in range(len(earlier), 0, -1):
        try:
            above = complete(earlier[number - 1], original)
            whole = "\n".join(above.function)
            node = ast.parse("if True:\n" + whole if original.node.col_offset else whole)
            found = next(item for item in ast.walk(node) if isinstance(item, type(original.node)))
            if original.node.col_offset:
                whole = "if True:\n" + whole
            done = complete(code, Original(whole, found, original.known, original.owner))
        except (CannotComplete, SyntaxError):
            continue
        notes = (f"completed from the whole function of block {number}, which defines what it needs", *done.notes)
        return Completed(done.function, (*above.imports, *done.imports), (*above.around, *done.around), notes)
    return None


def _spliced(function: Function, text: str, completed: Completed) -> tuple[str, int]:
    """The file's new text, and the first line of the function in it."""
    lines = text.split("\n")
    node = function.node
    holder = next(item for item in function.module.tree.body if item.lineno <= node.lineno <= (item.end_lineno or 0))
    top = min([holder.lineno, *(item.lineno for item in getattr(holder, "decorator_list", ()))])
    known = names_of(top_level(function.module.tree.body)).stores
    first = [*completed.imports]
    last: list[str] = []
    in_class: list[str] = []
    for statement in completed.around:
        is_new = names_of(ast.parse(statement)).stores.isdisjoint(known)
        is_function = isinstance(ast.parse(statement).body[0], ast.FunctionDef)
        if function.owner is not None and is_function and not completed.is_beside:
            blanks = lines[node.lineno - 1][: node.col_offset]
            in_class += ["", *indented(statement.splitlines(), blanks)]
        else:
            # What the module defines already, possibly further down, is defined anew behind all of it.
            (first if is_new else last).append(statement)
    end = node.end_lineno or node.lineno
    owner_end = (function.owner.node.end_lineno or end) if function.owner else end
    added = [line for statement in first for line in statement.splitlines()]
    changed = "\n".join([
        *lines[: top - 1],
        *added,
        *lines[top - 1 : node.lineno - 1],
        *completed.function,
        *lines[end:owner_end],
        *in_class,
        *lines[owner_end:],
        *["\n" + statement + "\n" for statement in last],
    ])  # fmt: skip
    return changed, node.lineno + len(added)


def _statements(code: str) -> list[ast.stmt]:
    try:
        return ast.parse(code).body
    except SyntaxError:
        return []
