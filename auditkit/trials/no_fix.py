"""Why a ticket has no fix that was run, in one phrase: what was tried and how near it came, or why nothing was."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from auditkit.model.text import counted

LEAVES, TRADES, COSTS_OTHERS = range(3)
"""How near a change comes: a finding is left, or none and something got worse, for its own target or another."""
_IN_SHORT = ("no change fixed it", "the change trades", "another target would pay for the change")


@dataclass(frozen=True)
class NoFix:
    """The reason in short, as a summary counts it, and as the ticket says it."""

    short: str
    told: str


NOT_ASKED = NoFix("not tried: --fix-time 0", "not tried: --fix-time 0")
INTERRUPTED = NoFix("not tried: interrupted", "not tried: the search for fixes was interrupted")
NO_LIBCST = NoFix("not tried: no libcst", "not tried: libcst is not installed (the extra audit has it)")
NO_REWRITE = NoFix("no known change fits it", "no rewrite fits these statements")
NO_TARGET = NoFix("no target runs its code", "not tried: nothing that was called runs these statements")
NO_ANSWERS = NoFix("its results cannot be compared", "not tried: it returns nothing to compare")


def time_was_over(limit_s: float) -> NoFix:
    """Return the reason of a ticket for which no time was left."""
    return NoFix("not tried: time", f"not tried: the time for fixes ({limit_s:g} s) was over")


def was_not_searched(told: str) -> bool:
    """Return whether auditkit has not searched for a fix yet."""
    return told in (NOT_ASKED.told, INTERRUPTED.told, NO_LIBCST.told) or told.startswith(
        "not tried: the time for fixes ("
    )


@dataclass(frozen=True)
class Failed:
    """A change that is not a fix: how near it came, what is wrong with it, and the finding that it left."""

    near: int
    told: str
    left: str = ""


def reason_of(tried: Collection[Failed], refused: str) -> NoFix:
    """The reason of a ticket without a fix: the best of the changes that were tried, or why none could be made."""
    if not tried:
        return NoFix(NO_REWRITE.short, f"not tried: the change {refused}" if refused else NO_REWRITE.told)
    best = max(tried, key=lambda one: one.near)
    told = f"{counted(len(tried), 'change')} were tried, none is sufficient; the best one {best.told}"
    if len(tried) == 1:
        told = f"1 change was tried and is not sufficient: it {best.told}"
    return NoFix(_IN_SHORT[best.near], told)
