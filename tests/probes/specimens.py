"""The bundled specimen's targets, each audited by all probes once in a test process."""

from __future__ import annotations

import functools
from pathlib import Path

from auditkit.model.target import Target
from auditkit.probing.results import TargetRun
from tests.probing_helpers import ASYNC, COUNTS, HEALTH, LAUNCHES, MEMORY, OVERFLOW, SYNCS, UNDERFLOW, run_probes

SPECIMEN = Path(__file__).parents[2] / "probes" / "specimens" / "gradient_monitoring"
PROBES = (OVERFLOW, UNDERFLOW, HEALTH, COUNTS, MEMORY, SYNCS, LAUNCHES, ASYNC)

# The probes that each defective target exists for, and no others.
REPRODUCED = {
    "squared_sum_norm": {OVERFLOW, UNDERFLOW, LAUNCHES},
    "double_copies_norm": {MEMORY, LAUNCHES},
    "per_layer_norms": {OVERFLOW, UNDERFLOW, SYNCS, LAUNCHES},
    "concatenated_quality": {MEMORY, COUNTS},
    "collect_health_async": {OVERFLOW, UNDERFLOW, HEALTH, ASYNC},
    "IsolationMonitor.check_isolation": {OVERFLOW, UNDERFLOW, LAUNCHES},
}
SOUND = (
    "foreach_norm",
    "stacked_layer_norms",
    "counted_quality",
    "collect_health_async",
    "IsolationMonitor.check_isolation",
)


@functools.cache
def audited(module: str, function: str) -> TargetRun:
    """All eight probes on one target; `module` is `defective` or `sound`."""
    finish = f"gradmon.{module}:materialize_health" if function.endswith("_async") else None
    return run_probes(SPECIMEN, Target(f"gradmon.{module}:{function}", finish=finish), PROBES)
