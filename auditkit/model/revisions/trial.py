"""What a fix did to each probe, and its verdict."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from auditkit.model.codec import Record
from auditkit.model.enums import Outcome


class FixVerdict(StrEnum):
    """The worth of a fix: no finding left and nothing worse, a finding left, one gone for another, or no result."""

    SUFFICIENT = "sufficient"
    INSUFFICIENT = "insufficient"
    TRADES = "trades"
    DOES_NOT_RUN = "does not run"


class ChangeKind(StrEnum):
    """What a fix did to one probe's result."""

    GONE = "gone"
    STILL = "still reproduces"
    INTRODUCED = "introduced"
    WORSE = "worse"
    BETTER = "better"
    LOST = "no result"
    SAME = "same"


@dataclass(frozen=True)
class ProbeChange(Record, keys="probe base arm change=kind told is_finding"):
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


@dataclass(frozen=True)
class Judgement(Record, keys="verdict=text kind=verdict reason changes"):
    """What an arm is worth: `text` is the verdict in words (`trades overflow for memory`), `reason` a sentence."""

    verdict: FixVerdict
    text: str
    reason: str
    changes: tuple[ProbeChange, ...] = ()
