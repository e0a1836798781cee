"""`auditkit ticket`: the tickets of a folder on the terminal."""

from auditkit.cli.ticket import creating, moving, reading
from auditkit.cli.ticket.app import app

__all__ = ["app", "creating", "moving", "reading"]
