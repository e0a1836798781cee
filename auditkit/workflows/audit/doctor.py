"""What this machine can measure for a checkout, and why not the rest."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from auditkit.errors import TargetNotLoadedError
from auditkit.model.enums import CageChoice, Reason
from auditkit.probing.checkouts.checkout import choose_interpreter, parse_checkout
from auditkit.probing.checkouts.git import git_is_installed
from auditkit.probing.hosts.cage import Engine, engine_of
from auditkit.probing.hosts.examination import Examination, examine


@dataclass(frozen=True)
class Machine:
    """The interpreter that probes would use, what it said of itself, whether git is here, and what shuts code in."""

    interpreter: Path
    examination: Examination
    has_git: bool
    cage: Engine


def doctor(checkout: str = ".", python: str | None = None) -> Machine:
    """Check every instrument on every device in the checkout's interpreter.

    Raises BadInputError for a directory or interpreter that is not there, TargetNotLoadedError where the
    interpreter cannot be used (it has no torch, or is no Python).
    """
    directory = parse_checkout(checkout).directory
    interpreter, _ = choose_interpreter(directory, python)
    found = examine(str(interpreter), directory)
    if found.failure is not None:
        without = "; tickets, reports, lint and the probes that read source need none"
        raise TargetNotLoadedError(
            found.failure.message + (without if found.failure.reason is Reason.NO_TORCH else ""),
            found.failure.hint or "name another interpreter: --python PATH",
        )
    return Machine(interpreter, found, git_is_installed(), engine_of(CageChoice.AUTO))
