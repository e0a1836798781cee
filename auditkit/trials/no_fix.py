"""Why a ticket has no fix that was run, in one phrase: what was tried and how near it came, or why nothing was."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from auditkit.model.text import counted

LEAVES, TRADES, COSTS_OTHERS = range(3)
"""How near a change comes: a finding is left, or none and something got worse, for its own target or another."""
NOT_ASKED = "not tried: --fix-time 0"
INTERRUPTED = "not tried: the search for fixes was interrupted"
NO_LIBCST = "not tried: libcst is not installed (the extra audit has it)"
NO_REWRITE = "no rewrite fits these statements"
NO_TARGET = "not tried: nothing that was called runs these statements"
NO_ANSWERS = "not tried: it returns nothing to compare"
_TIME_WAS_OVER = "not tried: the time for fixes ("


def time_was_over(limit_s: float) -> str:
    """Return the reason of a ticket for which no time was left."""
    return f"{_TIME_WAS_OVER}{limit_s:g} s) was over"


def was_not_searched(reason: str) -> bool:
    """Return whether auditkit has not searched for a fix yet."""
    return reason in (NOT_ASKED, INTERRUPTED, NO_LIBCST) or reason.startswith(_TIME_WAS_OVER)


@dataclass(frozen=True)
class Failed:
    """A change that is not a fix: how near it came, what is wrong with it, and the finding that it left."""

    near: int
    told: str
    left: str = ""


def reason_of(tried: Collection[Failed], refused: str) -> str:
    """The reason of a ticket without a fix: the best of the changes that were tried, or why none could be made."""
    if not tried:
        return f"not tried: the change {refused}" if refused else NO_REWRITE
    best = max(tried, key=lambda one: one.near)
    if len(tried) == 1:
        return f"1 change was tried and is not sufficient: it {best.told}"
    return f"{counted(len(tried), 'change')} were tried, none is sufficient; the best one {best.told}"
