"""The few errors that auditkit raises for its users: one message, one hint, one exit code each."""

from __future__ import annotations

from collections.abc import Iterable
from enum import IntEnum


class ExitCode(IntEnum):
    """The exit code of a command."""

    OK = 0
    FINDINGS = 1
    BAD_INPUT = 2
    NOTHING_MEASURED = 3
    STORE_CONFLICT = 4
    TARGET_NOT_LOADED = 5
    NO_SANDBOX = 6


class AuditkitError(Exception):
    """A problem that the user can act on: `message` says what and where, `hint` what to do next."""

    exit_code = ExitCode.BAD_INPUT

    def __init__(self, message: str, hint: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint
        if hint:
            self.add_note(f"hint: {hint}")


class BadInputError(AuditkitError):
    """Wrong usage, a path that is not there, a file that cannot be read as what it should be."""


class NothingMeasuredError(AuditkitError):
    """No target or no probe ran, so there is no result."""

    exit_code = ExitCode.NOTHING_MEASURED


class StoreConflictError(AuditkitError):
    """A ticket changed on disk meanwhile, its folder is locked, or it cannot be written."""

    exit_code = ExitCode.STORE_CONFLICT


class TargetNotLoadedError(AuditkitError):
    """The target's interpreter, torch in it, or the target's module could not be loaded."""

    exit_code = ExitCode.TARGET_NOT_LOADED


class NoSandboxError(AuditkitError):
    """--cage requests a sandbox, and this machine has none."""

    exit_code = ExitCode.NO_SANDBOX


def nearest_names(name: str, known: Iterable[str], most: int = 3) -> list[str]:
    """The known names closest to `name`, best first, for "did you mean" hints; then those that hold it."""
    # Every command starts with this module; only one that failed needs to compare words.
    import difflib

    names = list(known)
    close = difflib.get_close_matches(name, names, n=len(names) or 1, cutoff=0.4)
    # Of names that are equally close the one with the same letters in the same places: TK010 for TKO10, not TK103.
    ratio = {other: difflib.SequenceMatcher(None, other, name).ratio() for other in close}
    close = sorted(close, key=lambda other: (-ratio[other], -sum(map(str.__eq__, other, name))))[:most]
    holding = [other for other in names if len(name) > 2 and name.lower() in other.lower() and other not in close]
    return [*close, *holding][:most]


def meant(name: str, known: Iterable[str], otherwise: str = "", most: int = 1) -> str:
    """The hint `did you mean a or b?` with the known names closest to `name`; `otherwise` if none is close."""
    near = nearest_names(name, known, most)
    return f"did you mean {' or '.join(near)}?" if near else otherwise
