"""A measured review of a change: what was required of it, what was found, and whether it may go in."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import ClassVar

from auditkit.model.codec import Record
from auditkit.model.enums import Severity
from auditkit.model.revisions.comparison import Comparison
from auditkit.model.runs.measurement import Location


class Assessment(StrEnum):
    """What a review comes to."""

    APPROVED = "APPROVED"
    NEEDS_WORK = "NEEDS WORK"
    REJECTED = "REJECTED"


class ClaimState(StrEnum):
    """What the measurements show about a claim or a requirement."""

    CONFIRMED = "CONFIRMED"
    REFUTED = "REFUTED"
    UNTESTED = "UNTESTED"


@dataclass(frozen=True)
class Requirement(Record):
    """Something that the change has to do, and what was measured of it.

    `origin` is who says so: `commit message`, `ticket B7-PT-01`, `required`, `probe`.
    """

    text: str
    origin: str
    state: ClaimState
    message: str
    evidence: str = ""


@dataclass(frozen=True)
class Issue(Record):
    """A finding at the head: new, worse, or as it was; with the remedy that its probe recommends."""

    severity: Severity
    probe: str
    title: str
    target: str
    change: str
    message: str
    remedy: str
    evidence: str
    location: Location | None = None


@dataclass(frozen=True)
class FigureRow(Record):
    """One line of the before/after table; values as text."""

    target: str
    figure: str
    case: str
    before: str
    after: str
    trend: str
    evidence: str


@dataclass(frozen=True)
class Group(Record):
    """Of one kind of question: how many were sound at the base and at the head, of those answered at both."""

    name: str
    asked: int
    sound_before: int
    sound_after: int


@dataclass(frozen=True)
class ImplementationReview(Record):
    """The whole review; `plan` names what it was measured against besides the commits, "" for nothing."""

    schema_version: ClassVar[int] = 1

    title: str
    reviewer: str
    date: str
    plan: str
    assessment: Assessment
    reasons: tuple[str, ...]
    requirements: tuple[Requirement, ...]
    issues: tuple[Issue, ...]
    strengths: tuple[str, ...]
    performance: tuple[FigureRow, ...]
    impact: tuple[FigureRow, ...]
    groups: tuple[Group, ...]
    comparison: Comparison
