"""`auditkit sweep`: many checkouts, revisions, torch versions and devices, on an engine that is there."""

from auditkit.cli.sweep.commands import app

__all__ = ["app"]
