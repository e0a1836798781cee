"""What a bisection found out: the answer at each commit that was asked, and the first one with the other answer."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Any, ClassVar

from auditkit.model.codec import Record
from auditkit.model.enums import Outcome
from auditkit.model.revisions.changes import Commit, FileChange


class State(StrEnum):
    """What is known of one commit; a `skipped` one gave no answer, an `absent` one lacks the function."""

    REPRODUCED = "reproduced"
    NOT_REPRODUCED = "not_reproduced"
    ABSENT = "absent"
    SKIPPED = "skipped"


@dataclass(frozen=True)
class CommitAnswer(Record, keys="commit state message=why target=call found torch device was_known"):
    """What the probe said at one commit, of the target under the name that it had there.

    `found` says how it was found (`same`, `renamed to ...`), `torch` the version that ran; `why` the message of
    the probe, or why there is no answer. `was_known` is true where an earlier bisection had asked already.
    """

    commit: str
    state: State
    why: str
    call: str = ""
    found: str = ""
    torch: str = ""
    device: str = ""
    was_known: bool = False


@dataclass(frozen=True)
class Bisection(
    Record,
    keys="ticket probe target first commit files change older=older.commit newer=newer.commit candidates "
    "commit_count asked=answers",
):
    """From the older commit's answer to the newer one's.

    `first` is the first commit with the newer answer, "" where commits without an answer stand in the way: it is
    then one of `candidates`. `commit` and `files` tell of it. `answers` are in the order in which they were
    asked, the two ends first; `commit_count` is how many commits there are after the older one.
    """

    schema_version: ClassVar[int] = 1

    ticket: str
    probe: str
    target: str
    older: CommitAnswer
    newer: CommitAnswer
    first: str
    candidates: tuple[str, ...]
    answers: tuple[CommitAnswer, ...]
    commit_count: int
    commit: Commit | None = None
    files: tuple[FileChange, ...] = ()

    @property
    def reproduces_since(self) -> bool:
        """Whether the first commit brought the finding; else it took it away."""
        return self.newer.state is State.REPRODUCED

    @property
    def skipped(self) -> tuple[CommitAnswer, ...]:
        """The commits that could not be told to be on either side."""
        silent = {State.SKIPPED} if self.older.state is State.ABSENT else {State.SKIPPED, State.ABSENT}
        return tuple(answer for answer in self.answers if answer.state in silent)

    @property
    def change(self) -> Outcome:
        return Outcome.REPRODUCED if self.reproduces_since else Outcome.NOT_REPRODUCED

    def to_json(self) -> dict[str, Any]:
        return super().to_json() | {"first": self.first or None}
