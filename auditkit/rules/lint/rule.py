"""What a lint rule is: its number, its level, and a pure function from a page to problems."""

from __future__ import annotations

import datetime
import inspect
import re
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import PurePath
from typing import Any, Protocol, TypeVar

from auditkit.model.runs.probe import CATEGORIES
from auditkit.model.tickets.ids import AGENT_NAMES, TicketId
from auditkit.model.tickets.page import Page
from auditkit.model.tickets.ticket import Status

_T = TypeVar("_T")
_PART = re.compile(r"^(Why|Bad|Good|Mend): *", re.MULTILINE)

FOLDERS: Mapping[str, tuple[str, ...]] = {
    "fixed": ("fixed", "already-fixed", "closed"),
    "closed": ("wont-fix", "not-a-bug", "duplicate", "closed"),
}
"""Where finished tickets lie, unless a project says otherwise; `closed` says too little to tell which."""


class Level(StrEnum):
    """How much a problem matters: `error` and `warn` are to be mended, `info` is good to know."""

    ERROR = "error"
    WARN = "warn"
    INFO = "info"

    def at_least(self, other: Level) -> bool:
        """Whether this matters as much as `other` or more."""
        order = list(Level)
        return order.index(self) <= order.index(other)


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

    has_history: bool
    """Whether it knows every commit; not so without git, and in a shallow clone."""

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
    any), `agents` names by code. `prefix` is the absolute path of the checkout that File(s) rows start
    with, "" where they are relative. `folders` maps a folder's name to the statuses filed there (empty:
    tickets stay where they are); tickets of other statuses lie in `batchN`. `reviewers` is how many a
    ticket needs, 0 for none. `first_commit` is None where nothing says when the repository began.
    """

    statuses: tuple[str, ...] = tuple(status.value for status in Status)
    domains: tuple[str, ...] = ()
    agents: Mapping[str, str] = field(default_factory=lambda: dict(AGENT_NAMES))
    categories: tuple[str, ...] = CATEGORIES
    prefix: str = ""
    first_commit: datetime.date | None = None
    folders: Mapping[str, tuple[str, ...]] = field(default_factory=lambda: dict(FOLDERS))
    reviewers: int = len(AGENT_NAMES)

    def knows_agent(self, name: str) -> bool:
        """Whether `name` is an agent's: one of ours, or one that the project has added."""
        return name in AGENT_NAMES.values() or name in self.agents.values()


@dataclass(frozen=True)
class LintContext:
    """What a rule may look at besides the page: the settings, the other tickets, and the source.

    `pages` are those that a rule may have to look at, by id (several where an id is in several files): where some
    files are checked, not all of a folder's. `titles` are of all its tickets, by id. `reports`
    are the texts of other Markdown pages of the folder by path; `tree` is None without a checkout. `folder` is
    the tickets folder as seen from the checkout, "" where it lies elsewhere. `digests` are those of what a
    review of a page would judge now, by the ticket's path. `branches` are the other local branches that
    have given a ticket's id to another ticket. `today` tells new tickets from old ones.
    """

    settings: LintSettings
    pages: Mapping[TicketId, Sequence[Page]]
    reports: Mapping[str, str] = field(default_factory=dict)
    tree: SourceTree | None = None
    folder: str = ""
    digests: Mapping[PurePath, str] = field(default_factory=dict)
    branches: Mapping[TicketId, Sequence[str]] = field(default_factory=dict)
    today: datetime.date = field(default_factory=datetime.date.today)
    titles: Mapping[TicketId, str] = field(default_factory=dict)
    _made: dict[Hashable, Any] = field(default_factory=dict, init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        looked_at = {ticket_id: pages[0].ticket.title for ticket_id, pages in self.pages.items()}
        object.__setattr__(self, "titles", {**self.titles, **looked_at})

    def once(self, key: Hashable, make: Callable[[LintContext], _T]) -> _T:
        """What `make` makes of this context, made once however many pages ask for it."""
        if key not in self._made:
            self._made[key] = make(self)
        made: _T = self._made[key]
        return made


Check = Callable[[Page, LintContext], Iterable[Problem]]


@dataclass(frozen=True)
class Rule:
    """A rule: its docs page is the docstring of `check`, below `title`.

    The docstring says what the rule finds; lines that start with `Why:`, `Bad:`, `Good:` and `Mend:` start
    the parts of the page with these names. What a rule that `waits` asks for may come in a new ticket's first week.
    """

    id: str
    level: Level
    title: str
    check: Check
    needs_tree: bool = False
    is_fixable: bool = False
    waits: bool = False

    def parts(self) -> dict[str, str]:
        """The parts of the docstring: what the rule finds under "", and Why, Bad, Good and Mend."""
        pieces = _PART.split(inspect.getdoc(self.check) or "")
        texts = zip(pieces[1::2], pieces[2::2], strict=True)
        return {"": pieces[0].strip(), **{name: text.strip() for name, text in texts}}


RULES: dict[str, Rule] = {}
"""Every rule by its id, filled when the modules beside this one are imported."""


def rule(
    rule_id: str, level: Level, title: str, *, needs_tree: bool = False, is_fixable: bool = False, waits: bool = False
) -> Callable[[Check], Check]:
    """Register a check under `rule_id`; `title` says in one sentence what it finds."""

    def register(check: Check) -> Check:
        if rule_id in RULES:
            raise ValueError(f"two rules are named {rule_id}")
        RULES[rule_id] = Rule(rule_id, level, title, check, needs_tree, is_fixable, waits)
        return check

    return register
