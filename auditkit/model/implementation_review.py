"""A measured review of a change: what was required of it, what was found, and whether it may go in."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from auditkit.model.claim import ClaimState
from auditkit.model.comparison import Comparison
from auditkit.model.enums import Severity
from auditkit.model.measurement import Location

SCHEMA_VERSION = 1


class Assessment(StrEnum):
    """What a review comes to."""

    APPROVED = "APPROVED"
    NEEDS_WORK = "NEEDS WORK"
    REJECTED = "REJECTED"


@dataclass(frozen=True)
class Requirement:
    """Something that the change has to do, and what was measured of it.

    `origin` is who says so: `commit message`, `ticket B7-PT-01`, `required`, `probe`.
    """

    text: str
    origin: str
    state: ClaimState
    message: str
    evidence: str = ""

    def to_json(self) -> dict[str, Any]:
        return {
            "text": self.text,
            "origin": self.origin,
            "state": self.state.value,
            "message": self.message,
            "evidence": self.evidence,
        }


@dataclass(frozen=True)
class Issue:
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

    def to_json(self) -> dict[str, Any]:
        return {
            "severity": self.severity.value,
            "probe": self.probe,
            "title": self.title,
            "target": self.target,
            "change": self.change,
            "message": self.message,
            "remedy": self.remedy,
            "evidence": self.evidence,
            "location": self.location.to_json() if self.location else None,
        }


@dataclass(frozen=True)
class FigureRow:
    """One line of the before/after table; values as text."""

    target: str
    figure: str
    case: str
    before: str
    after: str
    trend: str
    evidence: str

    def to_json(self) -> dict[str, Any]:
        return dict(vars(self))


@dataclass(frozen=True)
class Group:
    """Of one kind of question: how many were sound at the base and at the head, of those answered at both."""

    name: str
    asked: int
    sound_before: int
    sound_after: int

    def to_json(self) -> dict[str, Any]:
        return dict(vars(self))


@dataclass(frozen=True)
class ImplementationReview:
    """The whole review; `plan` names what it was measured against besides the commits, "" for nothing."""

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

    def to_json(self) -> dict[str, Any]:
        return {
            "schema_version": SCHEMA_VERSION,
            "title": self.title,
            "reviewer": self.reviewer,
            "date": self.date,
            "plan": self.plan,
            "assessment": self.assessment.value,
            "reasons": list(self.reasons),
            "requirements": [one.to_json() for one in self.requirements],
            "issues": [one.to_json() for one in self.issues],
            "strengths": list(self.strengths),
            "performance": [one.to_json() for one in self.performance],
            "impact": [one.to_json() for one in self.impact],
            "groups": [one.to_json() for one in self.groups],
            "comparison": self.comparison.to_json(),
        }
