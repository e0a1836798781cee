"""The whole command line, for tests that run commands in their own process."""

from auditkit.cli.application import application

app = application()
