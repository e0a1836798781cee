"""The specimen of spectra and shards: which probe each of its targets exists for."""

from __future__ import annotations

import functools
from pathlib import Path

from auditkit.model.runs.target import Target
from tests.probes.in_process import Answer, ask_all
from tests.probing_helpers import (
    ALIGNMENT,
    BATCH,
    ECHO,
    LOW_PRECISION,
    MATRICES,
    OFF_DEVICE,
    SHARDS,
)
from tests.sharing import once

SPECIMEN = Path(__file__).parents[2] / "probes" / "specimens" / "spectral_analysis"

# Asked in one process. Those that start ranks have tests/probes/test_sharding_probes.py.
ONE_PROCESS = (MATRICES, LOW_PRECISION, ALIGNMENT, ECHO, BATCH, SHARDS)

REPRODUCED = {
    "diagonal_svds": {MATRICES},
    "unpromoted_svds": {LOW_PRECISION, BATCH},
    "rounded_svds": {LOW_PRECISION},
    "greedy_svds": {ALIGNMENT, BATCH},
    "host_svds": {OFF_DEVICE},
    "biased_echoes": {ECHO},
    "overlapping_shards": {SHARDS},
    "truncated_shards": {SHARDS},
    "unordered_shards": {SHARDS},
}
SOUND = ("aligned_svds", "spectral_echoes", "shard_keys")
TARGETS = [("defective", name) for name in REPRODUCED] + [("sound", name) for name in SOUND]


def target_of(kind: str, function: str) -> Target:
    return Target(f"specan.{kind}:{function}")


@functools.cache
def asked_here(kind: str, function: str) -> dict[str, Answer]:
    """Every probe of one process on one target, in this process; the memory probe where it is expected, or sound."""
    dear = {BATCH} if kind == "defective" and BATCH not in REPRODUCED[function] else set()
    chosen = [probe for probe in (*ONE_PROCESS, OFF_DEVICE) if probe not in dear]
    return once(f"spectral-{kind}-{function}", lambda: ask_all(target_of(kind, function), chosen, SPECIMEN))
