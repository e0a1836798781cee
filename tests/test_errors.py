"""Errors that teach: an exit code for each kind, and the nearest names."""

from __future__ import annotations

import pytest

from auditkit.errors import (
    AuditkitError,
    BadInputError,
    ExitCode,
    NoSandboxError,
    NothingMeasuredError,
    StoreConflictError,
    TargetNotLoadedError,
    nearest_names,
)

PROBES = ["syncs_grow_with_tensors", "launches_grow_with_tensors", "counts_are_rounded"]


def test_every_kind_of_error_has_its_exit_code() -> None:
    """The codes that the README lists; scripts rely on them."""
    assert [int(code) for code in ExitCode] == [0, 1, 2, 3, 4, 5, 6]
    kinds = (BadInputError, NothingMeasuredError, StoreConflictError, TargetNotLoadedError, NoSandboxError)
    assert [kind("text").exit_code for kind in kinds] == [2, 3, 4, 5, 6]
    assert all(issubclass(kind, AuditkitError) for kind in kinds)


@pytest.mark.parametrize(
    ("typed", "nearest"),
    [
        ("syncs_grow_with_tensor", ["syncs_grow_with_tensors", "launches_grow_with_tensors"]),
        ("rounded", ["counts_are_rounded"]),
        ("GROW", ["syncs_grow_with_tensors", "launches_grow_with_tensors"]),
        ("xyz", []),
        ("s", []),
    ],
)
def test_the_nearest_names_come_first_then_those_that_hold_the_word(typed: str, nearest: list[str]) -> None:
    assert nearest_names(typed, PROBES)[: len(nearest)] == nearest
    assert bool(nearest_names(typed, PROBES)) == bool(nearest)


def test_at_most_three_names_are_suggested() -> None:
    names = [f"target{index}" for index in range(9)]
    assert len(nearest_names("target", names, most=3)) == 3
