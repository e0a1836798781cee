"""How bad a finding is: what breaks, and who meets it in training (docs/design/severity.md)."""

from __future__ import annotations

from enum import StrEnum

from auditkit.model.enums import Severity


class Breaks(StrEnum):
    """What a defect does to a training. It stops where the call raises, hangs or runs out of memory."""

    WRONG_STEP = "wrong_step"
    STOPS = "stops"
    WRONG_ANSWER = "wrong_answer"
    COST = "cost"
    UPKEEP = "upkeep"


class Occurs(StrEnum):
    """Who meets a defect, or notices a cost."""

    ORDINARY = "ordinary"
    """Any run: float32 or bfloat16, hundreds of tensors, one device, now and then a NaN."""
    COMMON = "common"
    """A configuration that many use: float16, frozen parameters, channels_last, several dtypes in one model."""
    RARE = "rare"
    """A configuration that few use, or a run that diverges."""
    EXTREME = "extreme"
    """Values, layouts or configurations that training does not have."""


_TABLE = {
    Breaks.WRONG_STEP: ("P0 P1 P2 P4", "the optimizer silently gets wrong gradients"),
    Breaks.STOPS: ("P1 P2 P3 P4", "training stops"),
    Breaks.WRONG_ANSWER: ("P1 P2 P3 P4", "a value is silently wrong"),
    Breaks.COST: ("P2 P3 P4 P4", "every step costs more time or memory"),
    Breaks.UPKEEP: ("P3 P4 P4 P4", "nothing breaks today"),
}
"""The severities of a defect by who meets it, and what it does in words."""
_OCCURS_IN_WORDS = {
    Occurs.ORDINARY: "in normal use",
    Occurs.COMMON: "in a common configuration",
    Occurs.RARE: "in a rare configuration or a diverging run",
    Occurs.EXTREME: "only with values or layouts that training hardly ever has",
}


WRONG_NORM = "wrong_norm"
"""What a probe of the norm says breaks: the optimizer's step if the target clips by the norm, else a number."""


def meant(breaks: str, clips: bool) -> Breaks:
    """Return what breaks for a target that clips, or does not; raise ValueError for an unknown word."""
    if breaks == WRONG_NORM:
        return Breaks.WRONG_STEP if clips else Breaks.WRONG_ANSWER
    return Breaks(breaks)


def severity_of(breaks: Breaks, occurs: Occurs) -> Severity:
    """The cell of the table for a finding."""
    return Severity(_TABLE[breaks][0].split()[list(Occurs).index(occurs)])


def in_words(breaks: Breaks | None, occurs: Occurs | None) -> str:
    """Return the reason of a finding's severity in one phrase; "" if its probe states none."""
    if breaks is None or occurs is None:
        return ""
    does = _TABLE[breaks][1]
    return does if breaks is Breaks.UPKEEP else f"{does}, {_OCCURS_IN_WORDS[occurs]}"
