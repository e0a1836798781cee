"""`auditkit ticket`: the tickets of a folder on the terminal. Importing the files of the commands registers them."""

from auditkit.cli.ticket import (
    comments,
    fields,
    fix,
    fix_trial,
    from_commits,
    history,
    links,
    lint,
    merge,
    new,
    queries,
    reviews,
    statistics,
    status,
    undo,
    verification,
    work,
)  # fmt: skip
from auditkit.cli.ticket.common import app

__all__ = [
    "app", "comments", "fields", "fix", "fix_trial", "from_commits", "history", "links", "lint", "merge", "new",
    "queries", "reviews", "statistics", "status", "undo", "verification", "work",
]  # fmt: skip
