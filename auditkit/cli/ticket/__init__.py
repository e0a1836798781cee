"""`auditkit ticket`: the tickets of a folder on the terminal."""

from auditkit.cli.ticket import (
    creating,
    linking,
    linting,
    making,
    merging,
    moving,
    proving,
    reading,
    reviewing,
    statistics,
    trying,
)
from auditkit.cli.ticket.app import app

__all__ = [
    "app",
    "creating",
    "linking",
    "linting",
    "making",
    "merging",
    "moving",
    "proving",
    "reading",
    "reviewing",
    "statistics",
    "trying",
]
