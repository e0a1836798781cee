"""A trap of counting that no instrument's own test shows: a limit of the address space."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from auditkit.model.enums import Outcome
from auditkit.model.runs.target import Target
from tests.probing_helpers import HEALTH, SYNCS, TARGETS, run_probes

pytestmark = pytest.mark.process


def limits_seen(tmp_path: Path, **arguments: Any) -> set[str]:
    """What a target saw of its process's address space, in every call that the worker's children made."""
    log = tmp_path / "limits"
    target = Target("limits:total_norm", arguments={"log": str(log), **arguments})
    run = run_probes(TARGETS / "limits", target, [SYNCS, HEALTH])
    assert {result.outcome for result in run.results} <= {Outcome.REPRODUCED, Outcome.NOT_REPRODUCED}
    lines = log.read_text().splitlines()
    assert len(lines) > 10
    return set(lines)


def test_trap_9_a_worker_does_not_limit_address_space(tmp_path: Path) -> None:
    """CUDA reserves more address space than the machine has memory; under a limit it cannot start.

    The control: the naive guard against targets that take too much memory is seen, and it refuses a
    reservation that takes none.
    """
    assert limits_seen(tmp_path) == {"unlimited reserved"}
    naive_limit_bytes = 256 << 30
    (tmp_path / "limits").unlink()
    assert limits_seen(tmp_path, naive_limit_bytes=naive_limit_bytes) == {f"{naive_limit_bytes} refused"}
