"""Two revisions compared: which target became which, and the results of both side by side."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from enum import StrEnum
from typing import Any, ClassVar

from auditkit.model.codec import Record
from auditkit.model.enums import Evidence, Outcome, Reason, Severity
from auditkit.model.revisions.changes import Changes
from auditkit.model.runs.measurement import CodeExcerpt, Location
from auditkit.model.runs.run import Environment, ProbeResult


class Change(StrEnum):
    """How one probe's result on one target changed from base to head."""

    FIXED = "fixed"
    INTRODUCED = "introduced"
    STILL_REPRODUCED = "still_reproduced"
    STILL_SOUND = "still_sound"
    NOT_COMPARABLE = "not_comparable"
    NOT_APPLICABLE = "not_applicable"


class Trend(StrEnum):
    """Where the figures went: `mixed` is better in one case and worse in another, `moved` neither."""

    BETTER = "better"
    WORSE = "worse"
    MIXED = "mixed"
    MOVED = "moved"
    SAME = "same"


class MatchState(StrEnum):
    """How a target of the base is found at the head; `unread` where the source does not define it by that name."""

    SAME = "same"
    CHANGED = "changed"
    MOVED = "moved"
    RENAMED = "renamed"
    UNREAD = "unread"
    ADDED = "added"
    REMOVED = "removed"


class Agreement(StrEnum):
    """How two results for the same gradients compare: `within` is inside the case's allowed difference."""

    IDENTICAL = "identical"
    WITHIN = "within"
    DIFFERS = "differs"
    ONLY_BASE = "only_base"
    ONLY_HEAD = "only_head"


@dataclass(frozen=True)
class FigureChange(Record, keys="name unit case base? head? trend evidence"):
    """One figure at both revisions; `base` or `head` is `ABSENT` where only the other side measured it."""

    name: str
    unit: str
    case: Mapping[str, Any]
    base: Any
    head: Any
    trend: Trend
    evidence: Evidence = Evidence.MEASURED


@dataclass(frozen=True)
class Said(Record):
    """What a probe said of a target at one revision."""

    target: str
    outcome: Outcome
    severity: Severity | None
    message: str
    law: str
    device: str
    probe_version: int
    evidence: Evidence | None = None
    location: Location | None = None
    reason: Reason | None = None

    @classmethod
    def of(cls, result: ProbeResult) -> Said:
        return cls(*(getattr(result, field.name) for field in fields(cls)))


@dataclass(frozen=True)
class Contrast(Record, keys="probe change trend reason severity base head figures"):
    """One probe on one target, at base and head; None if it did not run there.

    `reason` says why the two cannot be compared, or why the change is what it is.
    """

    probe: str
    base: Said | None
    head: Said | None
    change: Change
    trend: Trend = Trend.SAME
    reason: str = ""
    figures: tuple[FigureChange, ...] = ()

    @property
    def severity(self) -> Severity | None:
        """How bad it is now; of what is fixed, how bad it was."""
        sides = (self.head, self.base)
        return next((side.severity for side in sides if side is not None and side.severity), None)

    @property
    def target(self) -> str:
        """The target's name at the head; at the base where it is gone."""
        said = self.head or self.base
        return said.target if said is not None else ""

    @property
    def is_worse(self) -> bool:
        """Whether this is a finding that is new, or one that some figure of got worse."""
        if self.change is Change.STILL_REPRODUCED:
            return self.trend in (Trend.WORSE, Trend.MIXED)
        return self.change is Change.INTRODUCED

    @property
    def evidence(self) -> str:
        """How its numbers were obtained: `measured`, `simulated`, `read` of source, "" without any."""
        kinds = [side.evidence.value for side in (self.head, self.base) if side is not None and side.evidence]
        return kinds[0] if kinds else ""


@dataclass(frozen=True)
class AnswerContrast(Record, keys="case field exact allowed agreement nearer base? head?"):
    """One number of the result for the same gradients at both revisions.

    `exact` is the exact norm of those gradients, `allowed` the relative difference that two careful results
    may have. `field` "" is the result itself, `ABSENT` stands for a field that only the other side has.
    """

    case: Mapping[str, Any]
    field: str
    base: Any
    head: Any
    exact: float
    allowed: float
    agreement: Agreement
    nearer: str = ""
    """Which side is nearer the exact norm where the two differ and the field is the norm: `base` or `head`."""

    @property
    def agrees(self) -> bool:
        """Whether two careful implementations could differ so."""
        return self.agreement in (Agreement.IDENTICAL, Agreement.WITHIN)

    @property
    def family(self) -> str:
        return str(self.case.get("family", ""))


@dataclass(frozen=True)
class FunctionText(Record, keys="**excerpt signature"):
    """A function's own lines at one revision, and its signature on one line."""

    excerpt: CodeExcerpt
    signature: str


@dataclass(frozen=True)
class TargetMatch(Record):
    """A target at base and at head by qualified name, "" where it is not; `similarity` of the bodies, 0 to 1."""

    base: str
    head: str
    state: MatchState
    similarity: float = 0.0
    base_text: FunctionText | None = None
    head_text: FunctionText | None = None

    @property
    def name(self) -> str:
        """Its name at the head; at the base where it is gone."""
        return self.head or self.base

    def describe(self) -> str:
        """`renamed from package.module:name (body 87 % the same)`."""
        alike = f" (body {self.similarity:.0%} the same)"
        if self.state in (MatchState.MOVED, MatchState.RENAMED):
            return f"{self.state.value} from {self.base}{alike}"
        if self.state is MatchState.UNREAD:
            return "matched by its name alone"
        return {
            MatchState.SAME: "body unchanged",
            MatchState.CHANGED: f"changed{alike}",
            MatchState.ADDED: "added: not there at the base",
            MatchState.REMOVED: "removed: not there at the head",
        }[self.state]

    def to_json(self) -> dict[str, Any]:
        return super().to_json() | {"similarity": round(self.similarity, 4)}


@dataclass(frozen=True)
class TargetComparison(Record, keys="**match contrasts answers agreement"):
    """One target with the result of every probe, and its own results."""

    match: TargetMatch
    contrasts: tuple[Contrast, ...] = ()
    answers: tuple[AnswerContrast, ...] = ()

    @property
    def agreement(self) -> dict[str, int]:
        """The number of results of each agreement."""
        counts = Counter(answer.agreement for answer in self.answers)
        return {agreement.value: counts[agreement] for agreement in Agreement}


@dataclass(frozen=True)
class Comparison(Record, keys="checkout base head targets source changes summary notes untouched?"):
    """Everything that one comparison found; `source` is of the targets' modules, read and not run.

    `untouched` counts the targets that neither are in a changed file nor call into one: they were not run.
    """

    schema_version: ClassVar[int] = 1

    checkout: str
    base: Environment
    head: Environment
    targets: tuple[TargetComparison, ...]
    source: tuple[Contrast, ...] = ()
    changes: Changes = field(default_factory=Changes)
    notes: tuple[str, ...] = ()
    untouched: int = 0

    @property
    def contrasts(self) -> tuple[Contrast, ...]:
        """Every probe's about every target, then those of the source."""
        return (*(contrast for target in self.targets for contrast in target.contrasts), *self.source)

    @property
    def summary(self) -> dict[str, int]:
        """How many there are of each change, and how many findings got worse."""
        counts = Counter(contrast.change for contrast in self.contrasts)
        worse = sum(each.is_worse and each.change is Change.STILL_REPRODUCED for each in self.contrasts)
        return {**{change.value: counts[change] for change in Change}, "worsened": worse}


def relative_difference(base: Any, head: Any) -> float:
    """How far two numbers are apart relative to the larger; 0 for equal ones, infinite where one is not finite."""
    if base == head or repr(base) == repr(head):
        return 0.0
    try:
        if not (math.isfinite(base) and math.isfinite(head)):
            return math.inf
        return float(abs(base - head) / max(abs(base), abs(head)))
    except TypeError:
        return math.inf
