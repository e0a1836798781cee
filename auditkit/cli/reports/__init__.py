"""`auditkit report`: what was found, as a document for people. Each command is in the file of its name."""

from auditkit.cli.reports import audit, batch, code_audit, review, summary
from auditkit.cli.reports.app import app

__all__ = ["app", "audit", "batch", "code_audit", "review", "summary"]
