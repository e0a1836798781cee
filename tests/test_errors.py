"""Errors that teach: an exit code for each kind, and the nearest names."""

from __future__ import annotations

from auditkit.errors import (
    AuditkitError,
    BadInputError,
    ExitCode,
    NoSandboxError,
    NothingMeasuredError,
    StoreConflictError,
    TargetNotLoadedError,
)


def test_every_kind_of_error_has_its_exit_code() -> None:
    """The codes that the README lists; scripts rely on them."""
    assert [int(code) for code in ExitCode] == [0, 1, 2, 3, 4, 5, 6]
    kinds = (BadInputError, NothingMeasuredError, StoreConflictError, TargetNotLoadedError, NoSandboxError)
    assert [kind("text").exit_code for kind in kinds] == [2, 3, 4, 5, 6]
    assert all(issubclass(kind, AuditkitError) for kind in kinds)
