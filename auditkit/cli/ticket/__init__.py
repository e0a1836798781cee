"""`auditkit ticket`: the tickets of a folder on the terminal. Importing the files of the commands registers them."""

from auditkit.cli.ticket import (
    fields,
    fix,
    fix_trial,
    links,
    lint,
    merge,
    new,
    queries,
    reviews,
    statistics,
    status,
    verification,
)  # fmt: skip
from auditkit.cli.ticket.common import app

__all__ = [
    "app", "fields", "fix", "fix_trial", "links", "lint", "merge", "new", "queries", "reviews", "statistics", "status",
    "verification",
]  # fmt: skip
