"""Pages against rules: what is found, in the order of a file's lines."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from auditkit.model.codec import Record
from auditkit.model.text import shortened
from auditkit.model.tickets.page import Page
from auditkit.rules.lint.positions import is_new
from auditkit.rules.lint.rule import Level, LintContext, Rule

_LONGEST_MESSAGE = 1000
"""A message may quote a value of megabytes."""


@dataclass(frozen=True, order=True)
class LintFinding(Record, keys="rule level path line column message"):
    """A place that breaks a rule: a path as the user will read it, and 1-based line and column."""

    path: str
    line: int
    column: int
    rule: str
    message: str
    level: Level


def check_pages(
    pages: Iterable[tuple[str, Page]],
    context: LintContext,
    rules: Sequence[Rule],
    levels: Mapping[str, Level] | None = None,
) -> list[LintFinding]:
    """What `rules` find on `pages`, each with the path to name it by; `levels` replace those of rules.

    Rules that need a source tree are left out where the context has none, and those that wait on new tickets.
    """
    known = [rule for rule in rules if context.tree is not None or not rule.needs_tree]
    found = [
        LintFinding(
            path,
            problem.line,
            problem.column,
            rule.id,
            shortened(problem.message, _LONGEST_MESSAGE),
            (levels or {}).get(rule.id, rule.level),
        )
        for path, page in pages
        for rule in known
        if not (rule.waits and is_new(page, context))
        for problem in rule.check(page, context)
    ]
    return sorted(found)
