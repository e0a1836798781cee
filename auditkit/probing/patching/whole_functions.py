"""Blocks that are whole functions, and what every completion is made of: the original and its completed text."""

from __future__ import annotations

import ast
import builtins
import textwrap
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from auditkit.model.enums import Takes
from auditkit.probing.patching.fragments import CannotComplete, Fragment, OtherFunctions
from auditkit.probing.patching.local_names import names_of, parameters, required_parameters
from auditkit.probing.patching.source_text import SourceText, indented, statements_of

_FunctionNode = ast.FunctionDef | ast.AsyncFunctionDef
OBVIOUS_IMPORTS: Mapping[str, str] = {
    "torch": "import torch",
    "nn": "from torch import nn",
    "F": "import torch.nn.functional as F",
    "math": "import math",
}
"""What a block may use without importing it, where its module does not either."""


NAMED = {
    "parameters": Takes.PARAMETERS,
    "params": Takes.PARAMETERS,
    "named_parameters": Takes.NAMED_PARAMETERS,
    "grads": Takes.GRADIENTS,
    "gradients": Takes.GRADIENTS,
    "module": Takes.MODULE,
    "model": Takes.MODULE,
}
_GRADIENTS = "[p.grad for p in {} if p.grad is not None]"
FED = {
    (Takes.MODULE, Takes.PARAMETERS): "{}.parameters()",
    (Takes.MODULE, Takes.NAMED_PARAMETERS): "{}.named_parameters()",
    (Takes.MODULE, Takes.GRADIENTS): _GRADIENTS.format("{}.parameters()"),
    (Takes.PARAMETERS, Takes.GRADIENTS): _GRADIENTS,
    (Takes.NAMED_PARAMETERS, Takes.PARAMETERS): "[p for _, p in {}]",
    (Takes.NAMED_PARAMETERS, Takes.GRADIENTS): "[p.grad for _, p in {} if p.grad is not None]",
} | {(takes, takes): "{}" for takes in Takes}


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
    found = _stand_in(tree, original.node, bool(original.owner) and not is_static, takes) if takes else None
    if found is None:
        return None
    lines, note = found
    needed = names_of(tree.body).loads - names_of(tree.body).stores
    imports, notes = needed_imports(needed, needed, original.known)
    return Completed(tuple(indented(lines, original.indentation)), imports, texts_of(tree.body), (note, *notes), True)


def _stand_in(tree: ast.Module, original: _FunctionNode, is_method: bool, takes: Takes) -> tuple[list[str], str] | None:
    """The original's definition as a call of the last function of a block, and what is said of it.

    Only where that function asks for one thing, whose name says what it is, and `takes`, what the original is
    fed, can be turned into it; one of the original's name gets another in `tree`. The definition is not indented.
    None where there is no such function.
    """
    defined = [item for item in tree.body if isinstance(item, ast.FunctionDef)]
    if not defined or isinstance(original, ast.AsyncFunctionDef):
        return None
    wanted = required_parameters(defined[-1].args)
    fed = FED.get((takes, NAMED[next(iter(wanted))])) if len(wanted) == 1 and wanted <= NAMED.keys() else None
    given = [*original.args.posonlyargs, *original.args.args][1 if is_method else 0 :]
    if fed is None or not given:
        return None
    if defined[-1].name == original.name:
        defined[-1].name = f"_recommended_{original.name}"
    call = f"{defined[-1].name}({fed.format(given[0].arg)})"
    returns = f" -> {ast.unparse(original.returns)}" if original.returns else ""
    lines = [f"def {original.name}({ast.unparse(original.args)}){returns}:", f"    return {call}"]
    return lines, f"the block defines {defined[-1].name}: {original.name} returns {call}, whatever that is"


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
