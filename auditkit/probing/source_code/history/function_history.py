"""Functions as they are, and how they came to be so: what changed since a revision, and by which commits."""

from __future__ import annotations

import ast
import difflib
from collections.abc import Iterable, Sequence
from pathlib import Path

from auditkit.model.revisions.changes import Commit, FunctionHistory
from auditkit.model.revisions.comparison import FunctionText
from auditkit.model.runs.measurement import CodeExcerpt, Location
from auditkit.probing.checkouts import git
from auditkit.probing.checkouts.checkout import OpenCheckout, import_roots
from auditkit.probing.source_code.history.anchors import AnchoredSource, AnchorState
from auditkit.probing.source_code.history.changes import read_commits
from auditkit.probing.source_code.modules import Function

MOST_LINES = 80
"""A longer function is cut: a review shows what changed, not a file."""
_WORDS = {
    AnchorState.SAME: "same",
    AnchorState.CHANGED: "changed",
    AnchorState.MOVED: "moved",
    AnchorState.RENAMED: "renamed",
    AnchorState.LOST: "new",
}


class FunctionHistories:
    """What changed from `base` to `head`, two open checkouts of one repository; `since` names the base."""

    def __init__(
        self, base: OpenCheckout, head: OpenCheckout, since: str, configured_roots: Sequence[str | Path] = ()
    ) -> None:
        self._since, self._base_revision, self._head = since, base.revision, head
        self._before = AnchoredSource(base.path, import_roots(base.path, configured_roots))
        self._after = AnchoredSource(head.path, import_roots(head.path, configured_roots))

    def at(self, location: Location | None, calls: Iterable[str]) -> FunctionHistory | None:
        """Of the function that a location is in, else of the first of `calls` that the checkout defines."""
        here = self._after.call_at(location.file, location.function) if location else ""
        return next((found for call in filter(None, (here, *calls)) if (found := self.of(call))), None)

    def of(self, call: str) -> FunctionHistory | None:
        """None where the checkout does not define a function of that name."""
        anchor = self._after.anchor(call)
        if anchor is None:
            return None
        found = self._before.find_again(anchor)
        added, removed = self._lines(found.call, call)
        return FunctionHistory(
            call=call,
            since=self._since,
            how=_WORDS[found.state],
            before=found.call if found.call != call else "",
            added=added,
            removed=removed,
            commits=() if found.state is AnchorState.SAME else self._commits(anchor.file),
        )

    def _lines(self, before: str, after: str) -> tuple[int, int]:
        old, new = self._before.function(before), self._after.function(after)
        before_lines, after_lines = (function.text.splitlines() if function else [] for function in (old, new))
        steps = difflib.SequenceMatcher(None, before_lines, after_lines, autojunk=False).get_opcodes()
        changed = [(b2 - b1, a2 - a1) for step, a1, a2, b1, b2 in steps if step != "equal"]
        return sum(added for added, _ in changed), sum(removed for _, removed in changed)

    def _commits(self, file: str) -> tuple[Commit, ...]:
        repository = git.find_repository(self._head.source)
        if repository is None or not self._head.revision:
            return ()
        return tuple(read_commits(repository, self._base_revision, self._head.revision, file))


def text_of(function: Function) -> FunctionText:
    """The function from its first decorator on, at most `MOST_LINES` lines of it."""
    node = function.node
    first = min((item.lineno for item in node.decorator_list), default=node.lineno)
    last = min(node.end_lineno or node.lineno, first + MOST_LINES - 1)
    lines = function.module.lines[first - 1 : last]
    return FunctionText(CodeExcerpt(function.module.file, first, tuple(lines)), signature_of(function))


def signature_of(function: Function) -> str:
    """`total_norm(parameters, eps: float=1e-08) -> float`."""
    node = function.node
    returns = f" -> {ast.unparse(node.returns)}" if node.returns is not None else ""
    return f"{function.name}({ast.unparse(node.args)}){returns}"
