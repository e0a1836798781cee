"""`auditkit ticket`: the tickets of a folder on the terminal."""

from auditkit.cli.ticket import fields as creating
from auditkit.cli.ticket import fix_trial as trying
from auditkit.cli.ticket import links as linking
from auditkit.cli.ticket import lint as linting
from auditkit.cli.ticket import merge as merging
from auditkit.cli.ticket import new as making
from auditkit.cli.ticket import queries as reading
from auditkit.cli.ticket import reviews as reviewing
from auditkit.cli.ticket import statistics
from auditkit.cli.ticket import status as moving
from auditkit.cli.ticket import verification as proving
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
