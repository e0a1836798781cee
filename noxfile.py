"""Everything that CI runs, and what it does not: `nox -l` lists it, `nox -s lint types tests` runs it."""

import re
from pathlib import Path

import nox

nox.options.sessions = ["lint", "types", "tests"]
CONSTRAINTS = Path(".ci/constraints.txt")
PYTHONS = ["3.11", "3.12", "3.13"]


@nox.session
def lint(session: nox.Session) -> None:
    """ruff, as the test suite runs it too."""
    session.install("-c", str(CONSTRAINTS), "ruff")
    session.run("ruff", "check", ".")


@nox.session
def types(session: nox.Session) -> None:
    """mypy, strict."""
    session.install("-c", str(CONSTRAINTS), "-e", ".[dev]")
    session.run("mypy", "--strict", "auditkit")


@nox.session(python=PYTHONS)
def tests(session: nox.Session) -> None:
    """The default tests: no GPU, no network, within 15 minutes on two cores."""
    session.install("-c", str(CONSTRAINTS), "-e", ".[dev]")
    session.run("pytest", "-n", "3", *session.posargs)


@nox.session
def slow(session: nox.Session) -> None:
    """The tests that take minutes or gigabytes."""
    session.install("-c", str(CONSTRAINTS), "-e", ".[dev]")
    session.run("pytest", "-m", "slow", *session.posargs)


@nox.session
def gpu(session: nox.Session) -> None:
    """The tests that need a CUDA device."""
    session.install("-c", str(CONSTRAINTS), "-e", ".[dev]")
    session.run("pytest", "-m", "gpu", *session.posargs)


@nox.session(name="newest-torch")
def newest_torch(session: nox.Session) -> None:
    """The default tests with the newest release of every dependency: does the next torch break us?"""
    session.install("-U", "-e", ".[dev]")
    session.run("pytest", "-n", "3", *session.posargs)


@nox.session(python="3.11")
def constraints(session: nox.Session) -> None:
    """Rewrite .ci/constraints.txt with the newest versions that fit; run the tests before you commit it."""
    session.install("-U", "-e", ".[dev]")
    frozen = session.run("pip", "freeze", "--exclude-editable", silent=True) or ""
    pins = [re.sub(r"\+\w+$", "", line) for line in frozen.splitlines() if "==" in line]
    head = "# The versions that the tests pass with, on Python 3.11. Made by `nox -s constraints`.\n"
    CONSTRAINTS.write_text(head + "".join(f"{pin}\n" for pin in sorted(pins, key=str.lower)), encoding="utf-8")
