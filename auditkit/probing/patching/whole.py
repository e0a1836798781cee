"""Blocks that are whole functions, and what every completion is made of: the original and its completed text."""

from __future__ import annotations

import ast
import builtins
import textwrap
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from auditkit.model.enums import Takes
from auditkit.probing.patching.fragments import CannotComplete, Fragment, OtherFunctions
from auditkit.probing.patching.names import names_of, parameters, required_parameters
from auditkit.probing.patching.standing_in import stand_in
from auditkit.probing.patching.writing import SourceText, indented, statements_of

_FunctionNode = ast.FunctionDef | ast.AsyncFunctionDef
OBVIOUS_IMPORTS: Mapping[str, str] = {
    "torch": "import torch",
    "nn": "from torch import nn",
    "F": "import torch.nn.functional as F",
    "math": "import math",
}
"""What a block may use without importing it, where its module does not either."""


@dataclass(frozen=True)
class Original:
    """The function that a block is to mend, in the text of its file.

    `known` are the names that its module defines; `owner` is the class of a method; `blamed` are lines
    (1-based) that the ticket says are wrong, `quoted` the dumped trees of statements that it shows as wrong;
    `takes` is how its callers feed it, where that is known.
    """

    text: str
    node: _FunctionNode
    known: frozenset[str]
    owner: str = ""
    blamed: frozenset[int] = frozenset()
    quoted: frozenset[str] = frozenset()
    takes: Takes | None = None

    @property
    def body(self) -> Sequence[ast.stmt]:
        """Its statements, without the docstring and a `with` around all of them."""
        return statements_of(self.node)

    @property
    def indentation(self) -> str:
        """The blanks, or tabs, before its `def`."""
        return SourceText(self.text).indentation(self.node)


@dataclass(frozen=True)
class Completed:
    """The whole function as text, what goes before it and behind it, and sentences on what was filled in.

    `function` is indented as the original, without its decorators; `imports` and `around` are statements
    of the module; `around` is of the class for a method, unless `is_beside`.
    """

    function: tuple[str, ...]
    imports: tuple[str, ...] = ()
    around: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    is_beside: bool = False


def standing_in(code: str, original: Original) -> Completed | None:
    """A function of another name that can be fed what the original is fed, and the original calling it."""
    tree = ast.parse(textwrap.dedent(code))
    takes = original.takes
    is_static = any(isinstance(item, ast.Name) and item.id == "staticmethod" for item in original.node.decorator_list)
    found = stand_in(tree, original.node, bool(original.owner) and not is_static, takes) if takes else None
    if found is None:
        return None
    lines, note = found
    needed = names_of(tree.body).loads - names_of(tree.body).stores
    imports, notes = needed_imports(needed, needed, original.known)
    return Completed(tuple(indented(lines, original.indentation)), imports, texts_of(tree.body), (note, *notes), True)


def whole_function(fragment: Fragment, function: _FunctionNode, original: Original) -> Completed:
    if type(function) is not type(original.node):
        raise CannotComplete("one of the block and the function is asynchronous, the other is not")
    extra = required_parameters(function.args) - parameters(original.node.args)
    if extra:
        raise OtherFunctions(f"asks for {', '.join(sorted(extra))}, which callers of {original.node.name} do not give")
    notes = list(fragment.notes)
    if lost := parameters(original.node.args) - parameters(function.args):
        notes.append(f"it takes {', '.join(sorted(lost))} no longer")
    lines = SourceText(fragment.text).lines(function.lineno, function.end_lineno or function.lineno)
    lines[0] = lines[0].replace(f"def {function.name}", f"def {original.node.name}", 1)
    lines = indented([line[function.col_offset :] for line in lines], original.indentation)
    local = names_of(function.body).stores | parameters(function.args)
    defined = names_of(fragment.around).stores | {original.node.name}
    needed = names_of([function, *fragment.around]).loads - local - defined
    spoken = names_of([function, *fragment.around], annotations=True).loads - local - defined
    imports, import_notes = needed_imports(needed, spoken, original.known)
    return Completed(
        tuple(lines), imports, texts_of(fragment.around), ("the block is a whole function", *notes, *import_notes)
    )


def needed_imports(
    needed: frozenset[str], spoken: frozenset[str], known: frozenset[str]
) -> tuple[tuple[str, ...], list[str]]:
    """The import statements for names that nothing defines; raises CannotComplete for one that is not obvious."""
    there = known | set(dir(builtins))
    if "*" not in known and (lost := sorted(needed - there - OBVIOUS_IMPORTS.keys())):
        raise CannotComplete(f"needs {', '.join(lost)}, which neither the function nor its module defines")
    added = sorted((spoken | needed) & OBVIOUS_IMPORTS.keys() - there)
    return tuple(OBVIOUS_IMPORTS[name] for name in added), [f"added: {OBVIOUS_IMPORTS[name]}" for name in added]


def texts_of(statements: Sequence[ast.stmt]) -> tuple[str, ...]:
    # A future import stands first in a file or nowhere; annotations are the file's own matter.
    kept = (item for item in statements if not (isinstance(item, ast.ImportFrom) and item.module == "__future__"))
    return tuple(ast.unparse(statement) for statement in kept)
