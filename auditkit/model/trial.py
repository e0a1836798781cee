"""A recommended fix that was tried: its block, its arms beside the base, and what came of each."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from auditkit.model.enums import Outcome
from auditkit.model.run import Run

TRIAL_SCHEMA_VERSION = 1
TRIAL_SCHEME = "try-fix/1"


class FixVerdict(StrEnum):
    """What a fix is worth: no finding left and nothing worse, a finding left, one gone for another, or no answer."""

    SUFFICIENT = "sufficient"
    INSUFFICIENT = "insufficient"
    TRADES = "trades"
    DOES_NOT_RUN = "does not run"


class ArmKind(StrEnum):
    """Whose code an arm ran: the checkout's own, a block of the ticket, or the fix that was made."""

    BASE = "base"
    RECOMMENDED = "recommended"
    APPLIED = "applied"


class ChangeKind(StrEnum):
    """What a fix did to one probe's answer."""

    GONE = "gone"
    STILL = "still reproduces"
    INTRODUCED = "introduced"
    WORSE = "worse"
    BETTER = "better"
    LOST = "no answer"
    SAME = "same"


@dataclass(frozen=True)
class FixBlock:
    """A Python block of a ticket: its section, its number there (from 1), its line in the file, its text."""

    section: str
    number: int
    line: int
    code: str

    def to_json(self) -> dict[str, Any]:
        return {"section": self.section, "number": self.number, "line": self.line, "code": self.code}


@dataclass(frozen=True)
class ProbeChange:
    """One probe at the base and in an arm; `told` has the numbers that say so, such as `1 -> 2n+1`.

    `is_finding` says that the ticket is about it, `noun` is what it stands for in a trade ("memory").
    """

    probe: str
    base: Outcome
    arm: Outcome
    kind: ChangeKind
    told: str
    noun: str
    is_finding: bool = False

    def to_json(self) -> dict[str, Any]:
        return {
            "probe": self.probe,
            "base": self.base.value,
            "arm": self.arm.value,
            "change": self.kind.value,
            "told": self.told,
            "is_finding": self.is_finding,
        }


@dataclass(frozen=True)
class Judgement:
    """What an arm is worth: `text` is the verdict in words (`trades overflow for memory`), `reason` a sentence."""

    verdict: FixVerdict
    text: str
    reason: str
    changes: tuple[ProbeChange, ...] = ()

    def to_json(self) -> dict[str, Any]:
        return {
            "verdict": self.text,
            "kind": self.verdict.value,
            "reason": self.reason,
            "changes": [change.to_json() for change in self.changes],
        }


@dataclass(frozen=True)
class TriedArm:
    """One column: a block of the ticket (None for a commit), how it was completed, what ran and came of it.

    `run` is None where nothing could run; `target` is what was called, which a later revision may have renamed.
    """

    name: str
    kind: ArmKind
    judgement: Judgement
    run: Run | None = None
    block: FixBlock | None = None
    completion: tuple[str, ...] = ()
    source: str = ""
    difference: str = ""
    target: str = ""

    def to_json(self) -> dict[str, Any]:
        return {
            "arm": self.name,
            "kind": self.kind.value,
            "judgement": self.judgement.to_json(),
            "block": self.block.to_json() if self.block else None,
            "completion": list(self.completion),
            "source": self.source,
            "difference": self.difference,
            "target": self.target,
            "run": self.run.to_json() if self.run else None,
        }


@dataclass(frozen=True)
class FixTrial:
    """The whole trial of one ticket's fix on one target; `findings` are the probes that it is judged by.

    `chosen` says how the findings were chosen where the ticket is bound to none.
    """

    ticket: str
    target: str
    findings: tuple[str, ...]
    chosen: str
    base: Run
    arms: tuple[TriedArm, ...]
    notes: tuple[str, ...] = ()

    @property
    def first(self) -> TriedArm:
        """The arm that the whole trial's verdict is of."""
        return self.arms[0]

    @property
    def id(self) -> str:
        """What its block in the ticket is found again by; no finding's fingerprint begins so."""
        return f"{TRIAL_SCHEME}/{self.target}"

    def to_json(self, more: Mapping[str, Any] | None = None) -> dict[str, Any]:
        return {
            "schema_version": TRIAL_SCHEMA_VERSION,
            "ticket": self.ticket,
            "target": self.target,
            "verdict": self.first.judgement.text,
            "findings": list(self.findings),
            "chosen": self.chosen,
            "base": self.base.to_json(),
            "arms": [arm.to_json() for arm in self.arms],
            "notes": list(self.notes),
            **(more or {}),
        }
