"""Find a function again at another revision: under its name, in another module, or by a similar body."""

from __future__ import annotations

import ast
import difflib
import hashlib
import re
from dataclasses import dataclass, replace
from enum import StrEnum

from auditkit.model.revisions.comparison import FunctionText
from auditkit.model.runs.measurement import CodeExcerpt
from auditkit.model.runs.target import split_call
from auditkit.probing.find.blocks.blocks import Block, blocks_at, blocks_of, function_or_block
from auditkit.probing.source.modules import Function, SourceProblem
from auditkit.probing.source.python_files import PythonFiles

_LEAST_MOVED = 0.4
"""The similarity of the body of a function with the same qualified name in another module."""
_FEWEST_TOKENS = 12
"""A body of fewer tokens (a getter, a stub) resembles many others."""


class AnchorState(StrEnum):
    """How a function was found again: `changed` is the same name with another body."""

    SAME = "same"
    CHANGED = "changed"
    MOVED = "moved"
    RENAMED = "renamed"
    LOST = "lost"


@dataclass(frozen=True)
class Anchor:
    """A function at one revision: `call` is `module:qualified.name`, `digest` twelve hex digits of its body.

    Comments, blank lines, the docstring and the signature's annotations do not change the digest; `tokens` are compared
    for similarity. For a block, `siblings` are the digests of the others in its function, which get its name if it is
    removed.
    """

    call: str
    file: str
    digest: str
    tokens: tuple[str, ...]
    siblings: frozenset[str] = frozenset()

    @property
    def qualified_name(self) -> str:
        return self.call.partition(":")[2]


@dataclass(frozen=True)
class FoundAgain:
    """Where an anchor is now; `similarity` of the bodies, 0 to 1. `anchor` is None for a lost one."""

    state: AnchorState
    anchor: Anchor | None
    similarity: float

    @property
    def call(self) -> str:
        return self.anchor.call if self.anchor else ""

    def describe(self) -> str:
        """Describe it: `renamed to package.module:name (body 87 % the same)`."""
        if self.state in (AnchorState.SAME, AnchorState.LOST) or self.anchor is None:
            return self.state.value
        to = f" to {self.call}" if self.state is not AnchorState.CHANGED else ""
        return f"{self.state.value}{to} (body {self.similarity:.0%} the same)"


class AnchoredSource(PythonFiles):
    """The functions and blocks of a checkout's own files, which can be found again."""

    def function(self, call: str) -> Function | None:
        """Return the function or block that `call` names; None if the checkout does not define it there."""
        return function_or_block(self, call)

    @property
    def module_names(self) -> frozenset[str]:
        """The module names of its files."""
        return frozenset(self.names.values())

    def anchor(self, call: str) -> Anchor | None:
        """Return the anchor of `call`, None if the checkout does not define it in that module."""
        found = self.function(call)
        if isinstance(found, Block):
            beside = [each for each in blocks_at(self, found.module.file) if each.place == found.place]
            others = {_anchor(each).digest for each in beside if each.call != call}
            return replace(_anchor(found), siblings=frozenset(others))
        return _anchor(found) if found is not None else None

    def problem(self, call: str) -> SourceProblem | None:
        """Return why the module of `call` cannot be read; None if it can, or is missing."""
        parsed = self.module_of(call)
        return parsed if isinstance(parsed, SourceProblem) else None

    def find_again(self, old: Anchor) -> FoundAgain:
        """Find `old` in this checkout: by its name, else by its body, else by its name in another module."""
        is_block = bool(split_call(old.call)[2])
        here = self.anchor(old.call)
        if here is not None and (here.digest == old.digest or not is_block):
            return FoundAgain(
                AnchorState.SAME if here.digest == old.digest else AnchorState.CHANGED, here, _similarity(old, here)
            )
        modules = list(self.matching(re.compile(rb"\bgrad\b" if is_block else rb"\bdef\b")))
        others = [_anchor(each) for module in modules for each in (*module.defined(), *(blocks_of(module) * is_block))]
        is_long = len(old.tokens) >= _FEWEST_TOKENS
        best = next((one for one in others if one.digest == old.digest and is_long), None)
        if best is None and here is not None and here.digest not in old.siblings:
            return FoundAgain(AnchorState.CHANGED, here, _similarity(old, here))
        named = [one for one in others if one.qualified_name == old.qualified_name and one.digest not in old.siblings]
        best = best or max(named, key=lambda one: _similarity(old, one), default=None)
        if best is None or _similarity(old, best) < _LEAST_MOVED:
            return FoundAgain(AnchorState.LOST, None, 0.0)
        is_moved = best.qualified_name == old.qualified_name
        return FoundAgain(AnchorState.MOVED if is_moved else AnchorState.RENAMED, best, _similarity(old, best))


def _similarity(one: Anchor, other: Anchor) -> float:
    """Return how much of two bodies is the same, 0 to 1, by tokens."""
    return difflib.SequenceMatcher(None, one.tokens, other.tokens, autojunk=False).ratio()


def _anchor(function: Function) -> Anchor:
    text = _normalised(function)
    digest = hashlib.sha256(text.encode("utf-8", "replace")).hexdigest()[:12]
    tokens = tuple(re.findall(r"\w+|[^\w\s]", text))
    return Anchor(function.call, function.module.file, digest, tokens)


def _normalised(function: Function) -> str:
    """Return parameters and body in normalized form: no comments, docstring or annotations of the signature."""
    node = function.node
    body = node.body[1:] if ast.get_docstring(node, clean=False) is not None else node.body
    arguments = [argument.arg for argument in ast.walk(node.args) if isinstance(argument, ast.arg)]
    return "\n".join([",".join(arguments), *map(ast.unparse, body)])


MOST_LINES = 80
"""A longer function is cut: a review shows what changed, not a file."""


def text_of(function: Function) -> FunctionText:
    """Return the function from its first decorator on, at most `MOST_LINES` lines of it."""
    node = function.node
    first = min((item.lineno for item in node.decorator_list), default=node.lineno)
    last = min(node.end_lineno or node.lineno, first + MOST_LINES - 1)
    lines = function.module.lines[first - 1 : last]
    return FunctionText(CodeExcerpt(function.module.file, first, tuple(lines)), signature_of(function))


def signature_of(function: Function) -> str:
    """Return the signature: `total_norm(parameters, eps: float=1e-08) -> float`."""
    node = function.node
    returns = f" -> {ast.unparse(node.returns)}" if node.returns is not None else ""
    return f"{function.name}({ast.unparse(node.args)}){returns}"
