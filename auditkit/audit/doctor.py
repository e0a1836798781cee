"""What this machine can measure for a checkout, and why not the rest."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from auditkit import sandbox
from auditkit.errors import NoSandboxError, TargetNotLoadedError
from auditkit.model.enums import Reason
from auditkit.probing.checkout.checkout import choose_interpreter, parse_checkout
from auditkit.probing.checkout.git import git_is_installed
from auditkit.probing.engine.examination import Examination, examine


@dataclass(frozen=True)
class Machine:
    """The interpreter that probes would use, what it said of itself, whether git is here, and the sandbox of `--cage`.

    `no_sandbox` says why there is none, and what to install; "" if there is one.
    """

    interpreter: Path
    examination: Examination
    has_git: bool
    sandbox: str
    no_sandbox: str


def doctor(checkout: str = ".", python: str | None = None) -> Machine:
    """Check every instrument on every device in the checkout's interpreter.

    Raises BadInputError for a directory or interpreter that is not there, TargetNotLoadedError where the
    interpreter cannot be used (it has no torch, or is no Python).
    """
    directory = parse_checkout(checkout).directory
    interpreter, _ = choose_interpreter(directory, python)
    found = examine(str(interpreter))
    if found.failure is not None:
        without = "; tickets, reports, lint and the probes that read source need none"
        raise TargetNotLoadedError(
            found.failure.message + (without if found.failure.reason is Reason.NO_TORCH else ""),
            found.failure.hint or "name another interpreter: --python PATH",
        )
    known, missing = f"{sandbox.inside()}, and this command runs in it", ""
    if not sandbox.inside():
        try:
            known = sandbox.engine()[1]
        except NoSandboxError as error:
            known, missing = "", f"{error.message.removeprefix('--cage: ')}; {error.hint}"
    return Machine(interpreter, found, git_is_installed(), known, missing)
