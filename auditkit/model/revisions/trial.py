"""A recommended fix that was tried: its block, its arms beside the base, and what came of each."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from auditkit.model.codec import Record
from auditkit.model.enums import Outcome
from auditkit.model.runs.run import Run


class FixVerdict(StrEnum):
    """The worth of a fix: no finding left and nothing worse, a finding left, one gone for another, or no result."""

    SUFFICIENT = "sufficient"
    INSUFFICIENT = "insufficient"
    TRADES = "trades"
    DOES_NOT_RUN = "does not run"


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
class FixBlock(Record, keys="section number line code language?"):
    """A block of a ticket, Python or a diff: its section, its number there (from 1), its line in the file, its text."""

    section: str
    number: int
    line: int
    code: str
    language: str = "python"


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


@dataclass(frozen=True)
class TriedArm(Record, keys="arm=name judgement block completion source difference target run"):
    """One column: a block of the ticket (None for a commit), how it was completed, what ran and came of it.

    `run` is None where nothing could run; `target` is what was called, which a later revision may have renamed.
    """

    name: str
    judgement: Judgement
    run: Run | None = None
    block: FixBlock | None = None
    completion: tuple[str, ...] = ()
    source: str = ""
    difference: str = ""
    target: str = ""
