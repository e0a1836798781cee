"""Which status may follow which, what a change needs, and where a ticket's file lies: for commands and for lint."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import IntEnum

from auditkit.model.tickets.ids import AGENT_NAMES, agent_code, id_parts
from auditkit.model.tickets.ticket import Resolution, Status, Ticket

CHAIN = (Status.OPEN, Status.INVESTIGATING, Status.FIX_IN_PROGRESS, Status.IN_REVIEW, Status.FIXED)
"""The way of a finding that gets mended, one step at a time; work may be put back to any earlier step."""

DECISIONS = frozenset({Status.DEFERRED, Status.WONT_FIX, Status.NOT_A_BUG, Status.DUPLICATE, Status.ALREADY_FIXED})
"""What people may decide at any time, with a reason."""

RETURNS = frozenset({Status.FIXED, Status.CLOSED, Status.ALREADY_FIXED})
"""Finished as mended: a finding that reproduces again opens such a ticket; other decisions stand."""

BATCH_FOLDER = re.compile(r"batch(\d+)", re.IGNORECASE)


@dataclass(frozen=True)
class Permission:
    """Whether a change is allowed; if not, `problem` says why and `hint` what to do instead."""

    problem: str = ""
    hint: str = ""

    @property
    def is_allowed(self) -> bool:
        return not self.problem


_ALLOWED = Permission()


def next_statuses(old: Status) -> tuple[Status, ...]:
    """Every status that may follow `old`, in the order of the enum, with or without a reason."""
    return tuple(status for status in Status if status is not old and _is_known_step(old, status))


def needs_reason(old: Status, new: Status) -> bool:
    """Whether the change from `old` to `new` must say why.

    A decision must, a finished ticket that opens again must, and `fixed` must say what mended it.
    """
    return new in DECISIONS or new is Status.FIXED or (old.is_finished and not new.is_finished)


def check_transition(old: Status, new: Status, reason: str = "") -> Permission:
    """Whether a ticket may go from `old` to `new` for `reason`."""
    if not _is_known_step(old, new):
        allowed = ", ".join(status.value for status in next_statuses(old))
        return Permission(f"a ticket does not go from {old} to {new}", f"from {old} it can go to: {allowed}")
    if needs_reason(old, new) and not reason.strip():
        return Permission(f"{old} to {new} needs a reason", 'say why: --reason "..."')
    return _ALLOWED


def reopens(decision: Status | None) -> bool:
    """Whether a ticket with this decision opens again when its finding reproduces."""
    return decision in RETURNS


def steps_to(old: Status, new: Status) -> tuple[Status, ...]:
    """The statuses on the way from `old` to `new`, the last one included; () where there is no way.

    Only the chain of a finding that gets mended has steps in between; a deferred or finished ticket has to
    be opened first, by somebody who says why.
    """
    if old in CHAIN and new in CHAIN and CHAIN.index(new) > CHAIN.index(old):
        return CHAIN[CHAIN.index(old) + 1 : CHAIN.index(new) + 1]
    return (new,) if _is_known_step(old, new) else ()


class Step(IntEnum):
    """In which order people give a ticket what it lacks: nobody ticks by hand what a run would show."""

    RESOLVE = 0
    VERIFY = 1
    TICK = 2
    REVIEW = 3
    SIGN_OFF = 4


@dataclass(frozen=True)
class Missing:
    """One thing that a ticket lacks for a status: `problem` says what, `hint` which command gives it, and when."""

    problem: str
    hint: str
    step: Step = Step.RESOLVE


def next_first(missing: Iterable[Missing]) -> list[Missing]:
    """What is missing, in the order of the steps that give it."""
    return sorted(missing, key=lambda one: one.step)


def missing_for_fixed(
    ticket: Ticket,
    commit_problems: Sequence[str],
    reproducing: Sequence[str],
    agents: Mapping[str, str] = AGENT_NAMES,
    unproven: Iterable[Missing] = (),
) -> tuple[Missing, ...]:
    """What `fixed` needs and the ticket lacks; () when it may be fixed.

    `commit_problems` are what git says against the commits of its resolution, `reproducing` the
    fingerprints of evidence that says `reproduced`; `agents` are names by code; `unproven` is what
    `rules.fixed` says of the rest of the evidence.
    """
    return (*_missing(ticket, commit_problems, reproducing, agents), *unproven)


def _missing(
    ticket: Ticket, commit_problems: Sequence[str], reproducing: Sequence[str], agents: Mapping[str, str]
) -> Iterator[Missing]:
    resolve = f'auditkit ticket resolve {ticket.id} --as fixed --text "..." --commit HASH'
    resolution = ticket.resolution
    if resolution is None or not says_what_was_done(resolution):
        yield Missing("the Resolution does not say what was done", resolve)
    if resolution is None or not resolution.commits:
        yield Missing("the Resolution names no commit", "--commit HASH")
    for text, line in resolution.placeholders if resolution else ():
        yield Missing(f"the Resolution still says {text} (line {line})", resolve)
    for problem in commit_problems:
        yield Missing(problem, "--checkout DIR names another repository")
    commits = resolution.commits if resolution else ()
    verify = f"auditkit ticket verify {ticket.id} --at {commits[-1] if commits else 'COMMIT'}"
    for number, item in enumerate(ticket.verification, 1):
        if not item.is_done:
            by_hand = f"auditkit ticket edit {ticket.id} verified {number}"
            hint, step = (verify, Step.VERIFY) if item.probe else (by_hand, Step.TICK)
            yield Missing(f"not verified: {item.text} (line {item.line})", hint, step)
    if ticket.reopened and not any(one.verdict and _is_since(one.date, ticket) for one in ticket.reviews):
        command = f"auditkit ticket review {ticket.id} --verdict endorse --reviewer AGENT"
        yield Missing(f"no review since it was opened again on {ticket.reopened}", command, Step.REVIEW)
    if not is_signed_off(ticket, agents):
        yield Missing(f"no sign-off by {ticket.agent}", f"auditkit ticket sign-off {ticket.id}", Step.SIGN_OFF)
    for fingerprint in reproducing:
        yield Missing(f"the evidence still says reproduced: {fingerprint}", verify, Step.VERIFY)


def is_signed_off(ticket: Ticket, agents: Mapping[str, str] = AGENT_NAMES) -> bool:
    """Whether the agent that reported the finding accepted its resolution."""
    agent = ticket.agent.casefold()
    return any(
        agent_code(one.agent, agents) == agent_code(agent, agents) if one.agent else f"`{agent}`" in one.text.casefold()
        for one in (ticket.resolution.sign_offs if ticket.resolution else ())
        if _is_since(one.date, ticket)
    )


def _is_since(date: str, ticket: Ticket) -> bool:
    """Whether something of that date may be of the time since the ticket was opened again."""
    return not date or date >= ticket.reopened


def says_something(resolution: Resolution) -> bool:
    """Whether it is more than a form that nobody filled in."""
    return any(_FORM.fullmatch(line) is None for line in resolution.text.split("\n"))


def says_what_was_done(resolution: Resolution) -> bool:
    """Whether anything beside the form, its commits and its sign-offs stands in it."""
    signed = {one.text for one in resolution.sign_offs}
    lines = (line for line in resolution.text.split("\n") if line not in signed)
    return any(_FORM.fullmatch(line) is None and _COMMIT.fullmatch(line) is None for line in lines)


# A heading, a rule, a table's header or delimiter, a row without a value, words in brackets, an unticked box.
_FORM = re.compile(
    r"\s*|#.*|[-*_ ]{3,}|\|[ *]*Field[ *]*\|.*|\|[\s|:-]*\||\|[^|]*\|\s*(?:\(pending\))?\s*\|?"
    r"|(?:[-*+]\s+)?(?:[^\[]*[-–:*]\s*)?\[[^\]]*\]|[-*+] \[ \].*",
    re.IGNORECASE,
)
_COMMIT = re.compile(r"[-*+]\s+`[0-9a-f]{7,40}`|\|[ *]*Commits?[ *]*\|.*", re.IGNORECASE)


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


def home_of(ticket: Ticket, folders: Mapping[str, Sequence[str]]) -> str | None:
    """The folder that the ticket's status calls for, where that is another one than it lies in; else None.

    `folders` are those for finished tickets with their statuses. None too where a status may lie in several,
    and for a ticket that lies in neither a batch folder nor one of these: such a project has its own order.
    """
    here = ticket.path.parent.name
    if ticket.status is None or not (here in folders or BATCH_FOLDER.fullmatch(here)):
        return None
    homes = [name for name, statuses in folders.items() if ticket.status.value in statuses]
    if not homes and not ticket.status.is_finished:
        homes = [f"batch{id_parts(ticket.id)[0]}"]
    return homes[0] if len(homes) == 1 and homes[0] != here else None
