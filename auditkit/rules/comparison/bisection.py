"""Which side of a bisection a commit is on, and which one of the rest to ask."""

from __future__ import annotations

from collections.abc import Sequence

from auditkit.model.revisions.bisection import CommitAnswer, State


def side_of(answer: CommitAnswer, older: CommitAnswer, newer: CommitAnswer) -> State | None:
    """The end of the bisection that this commit is like; None for one that says nothing.

    A commit without the function says nothing, unless the older end has none either: then the finding is not
    there yet. So does one without the finding in that case.
    """
    if answer.state is newer.state:
        return newer.state
    if answer.state is older.state:
        return older.state
    if older.state is State.ABSENT and answer.state is State.NOT_REPRODUCED:
        return older.state
    return None


def choose(candidates: Sequence[str], silent: Sequence[str], misses: int) -> str | None:
    """The commit to ask, of `candidates` with the best one first; None where all of them are silent.

    After `misses` silent ones in a row it moves away from the best in steps that double: commits that cannot
    be imported come in rows, and each of them costs as much as an answer.
    """
    known = set(silent)
    open_ = [commit for commit in candidates if commit not in known]
    return open_[min(2**misses - 1, len(open_) - 1)] if open_ else None
