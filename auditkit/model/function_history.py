"""What happened to a function between two revisions."""

from __future__ import annotations

from dataclasses import dataclass

from auditkit.model.changes import Commit
from auditkit.model.codec import Record


@dataclass(frozen=True)
class FunctionHistory(Record):
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
