"""Which status may follow which, and what a change needs: one table, for commands and for lint."""

from __future__ import annotations

from dataclasses import dataclass

from auditkit.model.ticket import Status

CHAIN = (
    Status.OPEN,
    Status.INVESTIGATING,
    Status.FIX_IN_PROGRESS,
    Status.IN_REVIEW,
    Status.FIXED,
)
"""The way of a finding that gets mended, one step at a time; work may be put back to any earlier step."""

DECISIONS = frozenset({Status.DEFERRED, Status.WONT_FIX, Status.NOT_A_BUG, Status.DUPLICATE, Status.ALREADY_FIXED})
"""What people may decide at any time, with a reason."""

RETURNS = frozenset({Status.FIXED, Status.CLOSED, Status.ALREADY_FIXED})
"""Finished as mended: a finding that reproduces again opens such a ticket; other decisions stand."""


@dataclass(frozen=True)
class Verdict:
    """Whether a change is allowed; if not, `problem` says why and `hint` what to do instead."""

    problem: str = ""
    hint: str = ""

    @property
    def is_allowed(self) -> bool:
        return not self.problem


_ALLOWED = Verdict()


def next_statuses(old: Status) -> tuple[Status, ...]:
    """Every status that may follow `old`, in the order of the enum, with or without a reason."""
    return tuple(status for status in Status if status is not old and _is_known_step(old, status))


def needs_reason(old: Status, new: Status) -> bool:
    """Whether the change from `old` to `new` must say why.

    A decision must, a finished ticket that opens again must, and `fixed` must say what mended it.
    """
    return new in DECISIONS or new is Status.FIXED or (old.is_finished and not new.is_finished)


def check_transition(old: Status, new: Status, reason: str = "") -> Verdict:
    """Whether a ticket may go from `old` to `new` for `reason`."""
    if not _is_known_step(old, new):
        allowed = ", ".join(status.value for status in next_statuses(old))
        return Verdict(f"a ticket does not go from {old} to {new}", f"from {old} it can go to: {allowed}")
    if needs_reason(old, new) and not reason.strip():
        return Verdict(f"{old} to {new} needs a reason", 'say why: --reason "..."')
    return _ALLOWED


def reopens(decision: Status | None) -> bool:
    """Whether a ticket with this decision opens again when its finding reproduces."""
    return decision in RETURNS


def _is_known_step(old: Status, new: Status) -> bool:
    if new in DECISIONS:
        return True
    if new is Status.CLOSED:
        return old.is_finished
    if old.is_finished or old is Status.DEFERRED:
        return new is Status.OPEN
    if old in CHAIN and new in CHAIN:
        return CHAIN.index(new) <= CHAIN.index(old) + 1
    return False
