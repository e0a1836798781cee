"""How bad a finding is: what breaks, and who meets it in training (docs/design/severity.md)."""

from __future__ import annotations

from enum import StrEnum

from auditkit.model.enums import Severity


class Breaks(StrEnum):
    """What a defect does to a training."""

    WRONG_STEP = "wrong_step"
    """The optimizer gets other gradients than intended, silently."""
    STOPS = "stops"
    """Training stops: the call raises, hangs or runs out of memory."""
    WRONG_ANSWER = "wrong_answer"
    """A number that people or code act on is wrong, silently."""
    COST = "cost"
    """Every step costs more time or memory."""
    UPKEEP = "upkeep"
    """Nothing breaks today."""


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
    Breaks.WRONG_STEP: "P0 P1 P2 P4",
    Breaks.STOPS: "P1 P2 P3 P4",
    Breaks.WRONG_ANSWER: "P1 P2 P3 P4",
    Breaks.COST: "P2 P3 P4 P4",
    Breaks.UPKEEP: "P3 P4 P4 P4",
}

_BREAKS_IN_WORDS = {
    Breaks.WRONG_STEP: "the optimizer silently gets wrong gradients",
    Breaks.STOPS: "training stops",
    Breaks.WRONG_ANSWER: "a value is silently wrong",
    Breaks.COST: "every step costs more time or memory",
    Breaks.UPKEEP: "nothing breaks today",
}
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
    return Severity(_TABLE[breaks].split()[list(Occurs).index(occurs)])


def in_words(breaks: Breaks | None, occurs: Occurs | None) -> str:
    """Return the reason of a finding's severity in one phrase; "" if its probe states none."""
    if breaks is None or occurs is None:
        return ""
    if breaks is Breaks.UPKEEP:
        return _BREAKS_IN_WORDS[breaks]
    return f"{_BREAKS_IN_WORDS[breaks]}, {_OCCURS_IN_WORDS[occurs]}"
