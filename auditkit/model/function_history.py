"""What happened to a function between two revisions."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from auditkit.model.changes import Commit


@dataclass(frozen=True)
class FunctionHistory:
    """From the revision `since` to the audited one.

    `how` is `same`, `changed`, `moved`, `renamed` or `new`; `before` what it was called, where that differs;
    `added` and `removed` count its own lines; `commits` are those that touched its file, newest first.
    """

    call: str
    since: str
    how: str
    before: str = ""
    added: int = 0
    removed: int = 0
    commits: tuple[Commit, ...] = ()

    def describe(self) -> str:
        """What changed, as a sentence without its commits."""
        if self.how == "same":
            return f"Nothing in `{self.call}` since {self.since}: what was found is older."
        if self.how == "new":
            return f"`{self.call}` is new since {self.since}."
        lines = f"+{self.added} -{self.removed} lines"
        origin = f" from `{self.before}`" if self.before else ""
        return f"`{self.call}` {self.how}{origin} since {self.since} ({lines})."

    def to_json(self) -> dict[str, Any]:
        return {
            "call": self.call,
            "since": self.since,
            "how": self.how,
            "before": self.before,
            "added": self.added,
            "removed": self.removed,
            "commits": [commit.to_json() for commit in self.commits],
        }
