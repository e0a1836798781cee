"""How bad a finding is: what breaks, and how likely training as it is done meets it (docs/design/severity.md)."""

from __future__ import annotations

from enum import StrEnum

from auditkit.model.enums import Severity


class Breaks(StrEnum):
    """What a defect does to those who train with the code, and whether they are told."""

    WRONG_STEP = "wrong_step"
    """Other gradients reach the optimizer than meant, and nothing says so."""
    STOPS = "stops"
    """Training stops: the call raises, hangs or runs out of memory."""
    WRONG_ANSWER = "wrong_answer"
    """A figure that people or code act on is wrong, and nothing says so."""
    COST = "cost"
    """Time or memory of every step."""
    UPKEEP = "upkeep"
    """Nothing today; somebody will stumble over it."""


class Occurs(StrEnum):
    """Who meets a defect. Of a cost: who notices it."""

    ORDINARY = "ordinary"
    """Any run: float32 or bfloat16, hundreds of tensors, one device, now and then a NaN."""
    COMMON = "common"
    """A set-up that many use: float16, frozen parameters, channels_last, several dtypes in one model."""
    RARE = "rare"
    """A set-up that few use, or a run that is diverging."""
    EXTREME = "extreme"
    """Values, layouts or set-ups that training as it is done does not have."""


_TABLE = {
    Breaks.WRONG_STEP: "P0 P1 P2 P4",
    Breaks.STOPS: "P1 P2 P3 P4",
    Breaks.WRONG_ANSWER: "P1 P2 P3 P4",
    Breaks.COST: "P2 P3 P4 P4",
    Breaks.UPKEEP: "P3 P4 P4 P4",
}

_BREAKS_IN_WORDS = {
    Breaks.WRONG_STEP: "other gradients reach the optimizer, and nothing says so",
    Breaks.STOPS: "training stops",
    Breaks.WRONG_ANSWER: "a figure is wrong, and nothing says so",
    Breaks.COST: "every step costs more time or memory",
    Breaks.UPKEEP: "nothing breaks today",
}
_OCCURS_IN_WORDS = {
    Occurs.ORDINARY: "in ordinary runs of this code",
    Occurs.COMMON: "in a set-up that many use",
    Occurs.RARE: "in a set-up that few use, or a diverging run",
    Occurs.EXTREME: "with values, layouts or set-ups that training hardly ever has",
}


WRONG_NORM = "wrong_norm"
"""What a probe of the norm itself says breaks: a figure, or the step where the target clips by it."""


def meant(breaks: str, clips: bool) -> Breaks:
    """What `breaks` of a probe comes to for a target that clips, or does not; raises ValueError for another word."""
    if breaks == WRONG_NORM:
        return Breaks.WRONG_STEP if clips else Breaks.WRONG_ANSWER
    return Breaks(breaks)


def severity_of(breaks: Breaks, occurs: Occurs) -> Severity:
    """The cell of the table for a finding."""
    return Severity(_TABLE[breaks].split()[list(Occurs).index(occurs)])


def in_words(breaks: Breaks | None, occurs: Occurs | None) -> str:
    """Why a finding is as bad as it is, in one phrase; "" where its probe does not say."""
    if breaks is None or occurs is None:
        return ""
    if breaks is Breaks.UPKEEP:
        return _BREAKS_IN_WORDS[breaks]
    return f"{_BREAKS_IN_WORDS[breaks]}, {_OCCURS_IN_WORDS[occurs]}"
