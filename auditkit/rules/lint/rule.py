"""What a lint rule is: its number, its level, and a pure function from a page to problems."""

from __future__ import annotations

import datetime
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Protocol

from auditkit.model.ids import TicketId
from auditkit.model.page import Page


class Level(StrEnum):
    """How much a problem matters: `error` and `warn` are to be mended, `info` is good to know."""

    ERROR = "error"
    WARN = "warn"
    INFO = "info"


@dataclass(frozen=True)
class Problem:
    """One place that breaks a rule: 1-based line and column, and what is wrong there."""

    message: str
    line: int = 1
    column: int = 1


class SourceTree(Protocol):
    """A checkout at one revision, as the rules that compare with source see it."""

    paths: frozenset[str]
    """Every file, relative to the checkout, with forward slashes."""

    def lines(self, path: str) -> Sequence[str]:
        """The lines of a file, () for one that is no text."""

    def has_commit(self, commit: str) -> bool:
        """Whether the repository has that commit."""

    def is_ancestor(self, commit: str) -> bool:
        """Whether the revision contains that commit."""


@dataclass(frozen=True)
class LintSettings:
    """What differs from project to project; the defaults are auditkit's own.

    `statuses` are the spellings that a Status may have, `domains` the roots that a Domain may have (empty:
    any), `agents` codes and names. `prefix` is the absolute path of the checkout that File(s) rows start
    with, "" where they are relative. `folders` maps a folder's name to the statuses filed there; tickets of
    other statuses lie in `batchN`. `reviewers` is how many a ticket needs, 0 for none.
    """

    statuses: tuple[str, ...] = ()
    domains: tuple[str, ...] = ()
    agents: Mapping[str, str] = field(default_factory=dict)
    categories: tuple[str, ...] = ()
    prefix: str = ""
    first_commit: datetime.date | None = None
    folders: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    reviewers: int = 0


@dataclass(frozen=True)
class LintContext:
    """What a rule may look at besides the page: the settings, the other tickets, and the source.

    `pages` are all pages by id (several where an id is in several files); `reports`
    the text of other Markdown pages of the folder by path; `tree` is None without a checkout.
    """

    settings: LintSettings
    pages: Mapping[TicketId, Sequence[Page]]
    reports: Mapping[str, str] = field(default_factory=dict)
    tree: SourceTree | None = None


Check = Callable[[Page, LintContext], Iterable[Problem]]


@dataclass(frozen=True)
class Rule:
    """A rule: its docs page is the docstring of `check`, below `title`."""

    id: str
    level: Level
    title: str
    check: Check
    needs_tree: bool = False
    is_fixable: bool = False


RULES: dict[str, Rule] = {}
"""Every rule by its id, filled when the modules beside this one are imported."""


def rule(
    rule_id: str, level: Level, title: str, *, needs_tree: bool = False, is_fixable: bool = False
) -> Callable[[Check], Check]:
    """Register a check under `rule_id`; `title` says in one sentence what it finds."""

    def register(check: Check) -> Check:
        if rule_id in RULES:
            raise ValueError(f"two rules are named {rule_id}")
        RULES[rule_id] = Rule(rule_id, level, title, check, needs_tree, is_fixable)
        return check

    return register
