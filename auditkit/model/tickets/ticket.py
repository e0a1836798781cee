"""A ticket: what its Markdown file says, and the words that its status may be."""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import StrEnum
from pathlib import PurePath
from typing import Any

from auditkit.model.codec import Record
from auditkit.model.enums import Severity
from auditkit.model.runs.measurement import Measured
from auditkit.model.text import inert
from auditkit.model.tickets.comment import Comment
from auditkit.model.tickets.ids import TicketId
from auditkit.model.tickets.relation import Relation
from auditkit.model.tickets.review import Review

_NO_PATH = PurePath()
_MOST_SHOWN = 160


class Status(StrEnum):
    """Where a ticket stands."""

    OPEN = "open"
    INVESTIGATING = "investigating"
    FIX_IN_PROGRESS = "fix-in-progress"
    IN_REVIEW = "in-review"
    DEFERRED = "deferred"
    FIXED = "fixed"
    CLOSED = "closed"
    WONT_FIX = "wont-fix"
    ALREADY_FIXED = "already-fixed"
    NOT_A_BUG = "not-a-bug"
    DUPLICATE = "duplicate"

    @property
    def is_finished(self) -> bool:
        """Whether nobody is expected to work on the ticket any more."""
        return self in FINISHED


FINISHED = frozenset(
    {Status.FIXED, Status.CLOSED, Status.WONT_FIX, Status.ALREADY_FIXED, Status.NOT_A_BUG, Status.DUPLICATE}
)

# Spellings that people write, folded to letters alone. The canonical ones come by themselves.
_STATUS_ALIASES = {
    "reopened": Status.OPEN,
    "todo": Status.OPEN,
    "inprogress": Status.FIX_IN_PROGRESS,
    "fixing": Status.FIX_IN_PROGRESS,
    "review": Status.IN_REVIEW,
    "postponed": Status.DEFERRED,
    "resolved": Status.FIXED,
    "done": Status.CLOSED,
    "willnotfix": Status.WONT_FIX,
    "invalid": Status.NOT_A_BUG,
    "notabug": Status.NOT_A_BUG,
    "falsepositive": Status.NOT_A_BUG,
    "dup": Status.DUPLICATE,
} | {re.sub("[^a-z]", "", status.value): status for status in Status}


def read_status(text: str) -> Status | None:
    """The status that `text` means in any known spelling, or None; prose after a blank is ignored.

    `wontfix`, `Won't fix` and `wont-fix (by design)` are all `wont-fix`.
    """
    folded = re.sub("[^a-z]", "", text.casefold())
    if folded in _STATUS_ALIASES:
        return _STATUS_ALIASES[folded]
    head = re.split(r"[\s(:;,]", text.strip(), maxsplit=1)[0]
    return _STATUS_ALIASES.get(re.sub("[^a-z]", "", head.casefold()))


def parse_status(text: str) -> Status:
    """The status that `text` is in any known spelling and nothing beside it; raises ValueError."""
    status = _STATUS_ALIASES.get(re.sub("[^a-z]", "", text.casefold()))
    if status is None:
        raise ValueError(f"no such status: '{text}'")
    return status


def parse_severity(text: str) -> Severity:
    """The severity that `text` is, in either case; raises ValueError."""
    try:
        return Severity(text.strip().upper())
    except ValueError:
        raise ValueError(f"no such severity: '{text}'") from None


@dataclass(frozen=True)
class LineRange(Record):
    """Lines `first` to `last` of `file`; "" where the ticket names the file only in its File(s) row."""

    file: str
    first: int
    last: int

    def __str__(self) -> str:
        return f"{self.first}-{self.last}" if self.last > self.first else str(self.first)


@dataclass(frozen=True)
class MetadataRow(Record):
    """A row of the metadata that a project has and other projects need not have."""

    label: str
    text: str


@dataclass(frozen=True)
class VerificationItem(Record, keys="is_done text probe condition line"):
    """A box of the Verification section; `probe` is the one that it is bound to, "" for none.

    `condition` is what the probe's measurements have to say, "" where it has to reproduce no longer.
    """

    is_done: bool
    text: str
    probe: str
    line: int
    condition: str = ""


@dataclass(frozen=True)
class SignOff(Record, keys="agent text date"):
    """Who accepted a resolution: an agent's name ("" where it names none), and the line that says so."""

    agent: str
    text: str
    date: str
    line: int


@dataclass(frozen=True)
class Resolution(Record, keys="sections text disposition commits tests sign_offs placeholders line"):
    """How a ticket ended, from every section that says so (Resolution, Closure Notes, Status).

    `disposition` is what it was closed as, in its own words; `commits` are abbreviated or full hashes;
    `tests` the test files it names; `placeholders` are texts such as `(pending)` with their lines; `line`
    is that of the first section. What a `### Status Changes` list says is not part of it.
    """

    sections: tuple[str, ...]
    text: str
    disposition: str
    dates: tuple[str, ...]
    commits: tuple[str, ...]
    tests: tuple[str, ...]
    sign_offs: tuple[SignOff, ...]
    placeholders: tuple[tuple[str, int], ...]
    line: int

    def to_json(self) -> dict[str, Any]:
        return super().to_json() | {"placeholders": [text for text, _ in self.placeholders]}


@dataclass(frozen=True)
class ReportReference(Record):
    """Where in a report the finding was made: its file, the section as quoted, and the line (1-based)."""

    file: str
    section: str
    line: int


@dataclass(frozen=True)
class CheckedRun(Record):
    """One row of what `ticket verify` wrote into a block: `role` is `base` or `fix`.

    `is_as_found` says that the base was not run again: it is the run that the block shows.
    """

    role: str
    outcome: str
    revision: str
    is_dirty: bool
    version: int
    law: str = ""
    is_as_found: bool = False


@dataclass(frozen=True)
class EvidenceSummary(Record):
    """What one machine-written block says, in its own words; "" for a row that it does not have.

    `outcome` is what the last run said; `was_found` that its rows are of a run that reproduced, at `revision`
    (`is_dirty`: with uncommitted changes) with that `version` of the probe (0 where it is not said) and `severity`.
    `checks`, `measurements_at_fix` and `law_at_fix` are of the last verification. `history` are its lines
    about runs in which the finding went or returned; `line` is that of its first.
    """

    fingerprint: str
    probe: str
    target: str
    outcome: str = ""
    evidence: str = ""
    message: str = ""
    revision: str = ""
    device: str = ""
    torch: str = ""
    history: tuple[str, ...] = ()
    line: int = 0
    version: int = 0
    is_dirty: bool = False
    was_found: bool = False
    python: str = ""
    law: str = ""
    measurements: tuple[Measured, ...] = ()
    checks: tuple[CheckedRun, ...] = ()
    measurements_at_fix: tuple[Measured, ...] = ()
    severity: str = ""

    @property
    def law_at_fix(self) -> str:
        return next((check.law for check in self.checks if check.role == "fix"), "")


@dataclass(frozen=True)
class Ticket(
    Record,
    keys="id title severity severity_written status status_written batch agent domains assignee created updated "
    "files lines lines_written function summary categories description recommended_fix evidence fingerprints "
    "reviews related verification resolution reports path labels? due? further? comments?",
):
    """What a ticket's file says.

    `status` and `severity` are None where the word is not known; `status_written`, `severity_written`
    and the dates are kept as people wrote them. `path` is relative to the tickets folder.
    `disposition` is the metadata's own Resolution row, where a ticket has one. `description` and
    `recommended_fix` are Markdown, as it stands below their headings. `reopened` is when it was opened again last
    after it was finished, "" for never: what was reviewed and signed off before stands under other titles. `further`
    are the rows of its metadata that no other field holds.
    """

    id: TicketId
    title: str
    severity: Severity | None
    severity_written: str
    status: Status | None
    status_written: str
    batch: int
    agent: str
    domains: tuple[str, ...]
    assignee: str
    created: str
    updated: str
    files: tuple[str, ...]
    lines_written: str
    lines: tuple[LineRange, ...]
    function: str
    summary: str
    categories: tuple[str, ...]
    fingerprints: tuple[str, ...] = ()
    disposition: str = ""
    path: PurePath = _NO_PATH
    reviews: tuple[Review, ...] = ()
    related: tuple[Relation, ...] = ()
    verification: tuple[VerificationItem, ...] = ()
    resolution: Resolution | None = None
    reports: tuple[ReportReference, ...] = ()
    description: str = ""
    recommended_fix: str = ""
    evidence: tuple[EvidenceSummary, ...] = ()
    reopened: str = ""
    labels: tuple[str, ...] = ()
    due: str = ""
    further: tuple[MetadataRow, ...] = ()
    comments: tuple[Comment, ...] = ()

    @property
    def decision(self) -> Status | None:
        """The status, or for a `closed` ticket what its Resolution row says it was closed as."""
        if self.status is Status.CLOSED and self.disposition:
            return read_status(self.disposition) or self.status
        return self.status

    @property
    def may_stay(self) -> frozenset[str]:
        """The fingerprints of its minor findings, P4, which a fix of its graver ones may leave as they are."""
        minor = frozenset(one.fingerprint for one in self.evidence if one.severity == Severity.P4)
        return minor if len(minor) < len(self.evidence) else frozenset()

    @property
    def is_finished(self) -> bool:
        """Whether its status says that nobody works on it any more."""
        return self.status is not None and self.status.is_finished


@dataclass(frozen=True)
class BrokenTicket(Record, keys="path line column message"):
    """A file that cannot be read as a ticket: where (1-based) and why, with the line in question.

    `also` are further problems of the same file, in its order.
    """

    path: PurePath
    line: int
    column: int
    message: str
    source: str = ""
    also: tuple[BrokenTicket, ...] = ()

    @property
    def problems(self) -> tuple[BrokenTicket, ...]:
        """This problem and the further ones."""
        return (self, *self.also)

    def describe(self, path: PurePath | None = None) -> str:
        """For each problem `path:line:column: message`, the line, and a caret below its column; all of it inert."""
        return "\n".join(problem._describe_one(path or self.path) for problem in self.problems)

    def _describe_one(self, path: PurePath) -> str:
        head = f"{path}:{self.line}:{self.column}: {self.message}"
        if not self.source:
            return inert(head)
        # The blanks under the line keep its tabs, so that the caret stands where the column is. Of a long line only
        # what stands around it is shown.
        start = max(0, self.column - 1 - _MOST_SHOWN // 2) if len(self.source) > _MOST_SHOWN else 0
        before = inert(self.source[start : self.column - 1])
        blanks = "".join("\t" if char == "\t" else " " for char in before)
        return f"{inert(head)}\n    {inert(self.source[start : start + _MOST_SHOWN])}\n    {blanks}^"
