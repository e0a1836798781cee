"""What the reviews of a ticket come to: agreement, dissent, and what still needs an answer."""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import StrEnum
from operator import attrgetter
from typing import Any

from auditkit.model.codec import Record
from auditkit.model.enums import Severity
from auditkit.model.tickets.review import Review, Verdict
from auditkit.model.tickets.ticket import Status, Ticket
from auditkit.rules.tickets.severity import severity_wanted

NEEDED_REVIEWERS = 2
"""One reviewer is an opinion; from two on there can be agreement. A project may need more."""

_ANSWER = re.compile(
    r"^#{3,6}[ \t]+Answer\b[^\n]*\n+(?=[^\s#])|^[ \t]*(?:[-*+][ \t]+)?(?:\*\*)?Answer(?:\*\*)?:(?:\*\*)?[ \t]*\S",
    re.MULTILINE | re.IGNORECASE,
)


class Agreement(StrEnum):
    """How far the reviewers agree."""

    UNANIMOUS = "unanimous"
    MAJORITY = "majority"
    SPLIT = "split"
    PARTIAL = "partial"
    NONE = "none"


@dataclass(frozen=True)
class Vote(Record):
    """The last word of one reviewer: `verdict` is None where it is not known, `wanted` the severities asked for."""

    reviewer: str
    verdict: Verdict | None
    wanted: tuple[Severity, ...]


@dataclass(frozen=True)
class Consensus(Record, keys="kind verdict votes dissent wanted minority_wanted needs_answer"):
    """What the reviewers say together.

    `verdict` is the one that more than half give, None where there is none; `dissent` are the votes for
    anything else, all of them where no verdict has a majority. `wanted` are the severities that a majority
    names instead of the ticket's, and `minority_wanted` those that fewer name; at most one of the two is
    filled. `is_objected` says that a majority objects, whatever the status. `needs_answer` is a sentence, ""
    where nothing waits.
    """

    kind: Agreement
    verdict: Verdict | None
    votes: tuple[Vote, ...]
    dissent: tuple[Vote, ...]
    is_objected: bool
    wanted: tuple[Severity, ...]
    minority_wanted: tuple[Severity, ...]
    needs_answer: str

    def to_json(self) -> dict[str, Any]:
        return super().to_json() | {"dissent": [vote.reviewer for vote in self.dissent]}


_UNREVIEWED = Consensus(Agreement.NONE, None, (), (), False, (), (), "")


def consensus_of(ticket: Ticket, needed: int = NEEDED_REVIEWERS) -> Consensus:
    """What the reviews of `ticket` come to, where agreement takes `needed` reviewers."""
    if not ticket.reviews:
        return _UNREVIEWED
    votes = votes_of(ticket)
    verdict = _majority_verdict(votes)
    objecting = sum(vote.verdict is Verdict.OBJECT for vote in votes)
    other = [vote for vote in votes if vote.wanted and ticket.severity not in vote.wanted]
    named = tuple(sorted({level for vote in other for level in vote.wanted})) if other else ()
    is_majority = len(votes) >= needed and 2 * len(other) > len(votes)
    is_objected = len(votes) >= needed and 2 * objecting > len(votes)
    return Consensus(
        kind=_agreement(votes, verdict, needed),
        verdict=verdict,
        votes=votes,
        dissent=tuple([vote for vote in votes if verdict is None or vote.verdict is not verdict]),
        is_objected=is_objected,
        wanted=named if is_majority else (),
        minority_wanted=() if is_majority else named,
        needs_answer=_open_question(ticket, votes, objecting if is_objected else 0, other if is_majority else []),
    )


def votes_of(ticket: Ticket) -> tuple[Vote, ...]:
    """One vote for each reviewer, by the review that stands last in the file, in the order of the file.

    Reviews that name nobody are taken for reviewers of their own.
    """
    last: dict[object, Review] = {}
    for review in sorted(ticket.reviews, key=attrgetter("line")):
        who = _reviewer(review) or review.line
        last.pop(who, None)
        last[who] = review
    return tuple([Vote(_reviewer(review), review.verdict, severity_wanted(review)) for review in last.values()])


def is_answered(ticket: Ticket) -> bool:
    """Whether the Resolution answers the reviewers: an `### Answer` with text, or a line `Answer: ...`."""
    return ticket.resolution is not None and _ANSWER.search(ticket.resolution.text) is not None


def _reviewer(review: Review) -> str:
    return review.reviewer or review.reviewer_written.strip().casefold()


def _majority_verdict(votes: tuple[Vote, ...]) -> Verdict | None:
    verdicts = [vote.verdict for vote in votes]
    for verdict in verdicts:
        if verdict and 2 * verdicts.count(verdict) > len(votes):
            return verdict
    return None


def _agreement(votes: tuple[Vote, ...], verdict: Verdict | None, needed: int) -> Agreement:
    if not votes:
        return Agreement.NONE
    if len(votes) < needed:
        return Agreement.PARTIAL
    if verdict is None:
        return Agreement.SPLIT
    is_alone = [vote.verdict for vote in votes].count(verdict) == len(votes)
    return Agreement.UNANIMOUS if is_alone else Agreement.MAJORITY


def _open_question(ticket: Ticket, votes: tuple[Vote, ...], objecting: int, other: list[Vote]) -> str:
    """What a majority says and nobody has answered; moving the ticket on answers objections."""
    if is_answered(ticket) or ticket.is_finished:
        return ""
    parts = []
    if objecting and ticket.status is Status.OPEN:
        parts.append(f"{objecting} of {len(votes)} reviewers object")
    if other:
        levels = " or ".join(sorted({level.value for vote in other for level in vote.wanted}))
        parts.append(
            f"{len(other)} of {len(votes)} reviewers ask for {levels}, not {ticket.severity_written or 'none'}"
        )
    return "; ".join(parts)
