"""`auditkit report`: what was found, as a document for people."""

from auditkit.cli.reports.commands import app

__all__ = ["app"]
