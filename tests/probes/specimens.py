"""The bundled specimen's targets, each audited by all probes once in a test process."""

from __future__ import annotations

import functools
from pathlib import Path

from auditkit.model.runs.target import Target
from auditkit.probing.engine.results import TargetRun
from tests.bundled_audit import bundled_audit
from tests.probes.in_process import Answer, ask_all
from tests.probing_helpers import (
    ACCURACY,
    ASYNC,
    CACHED,
    CAPTURE,
    CLIPPING,
    COUNTS,
    EMPTY,
    GENERATOR,
    GRAPHS,
    GROUPING,
    HEALTH,
    LAUNCHES,
    MEMORY,
    MISSING,
    MIXED_DTYPES,
    MUTATES,
    NO_ELEMENTS,
    NONCONTIGUOUS,
    OFF_DEVICE,
    OVERFLOW,
    RATIO,
    RETAINED,
    SPARSE,
    SYNCS,
    TWO_DEVICES,
    UNDERFLOW,
    run_probes,
)
from tests.sharing import once

SPECIMEN = Path(__file__).parents[2] / "probes" / "specimens" / "gradient_monitoring"
PROBES = (
    *(OVERFLOW, UNDERFLOW, HEALTH, COUNTS, MEMORY, SYNCS, LAUNCHES, ASYNC, GRAPHS),
    *(TWO_DEVICES, MIXED_DTYPES, OFF_DEVICE, CAPTURE),
    *(EMPTY, GENERATOR, MISSING, RATIO, NONCONTIGUOUS, SPARSE, NO_ELEMENTS, MUTATES),
    *(ACCURACY, GROUPING, CLIPPING, RETAINED, CACHED),
)

# Their instrument needs a CUDA device: `unavailable` on every target without one. tests/gpu has their specimens.
NEEDS_GPU = frozenset({CAPTURE})

# The probes that each defective target exists for, and no others. `inputs:f` is `f` of `defective_inputs.py`.
REPRODUCED = {
    "squared_sum_norm": {OVERFLOW, UNDERFLOW, LAUNCHES, TWO_DEVICES},
    "double_copies_norm": {MEMORY, LAUNCHES, TWO_DEVICES},
    "per_layer_norms": {OVERFLOW, UNDERFLOW, SYNCS, LAUNCHES, GRAPHS, GROUPING},
    "concatenated_quality": {MEMORY, COUNTS, RATIO, NONCONTIGUOUS, SPARSE, NO_ELEMENTS, TWO_DEVICES},
    "collect_health_async": {OVERFLOW, UNDERFLOW, HEALTH, ASYNC, GRAPHS, EMPTY, GROUPING, TWO_DEVICES},
    "IsolationMonitor.check_isolation": {OVERFLOW, UNDERFLOW, LAUNCHES, ACCURACY, GROUPING, TWO_DEVICES},
    "devices:local_norm": {TWO_DEVICES},
    "devices:main_dtype_norm": {MIXED_DTYPES, ACCURACY},
    "devices:smoothed_layer_norms": {TWO_DEVICES, MIXED_DTYPES, LAUNCHES},
    "devices:host_norms": {OFF_DEVICE, SYNCS, GRAPHS},
    "compile:branching_share": {GRAPHS},
    "compile:read_layer_norms": {GRAPHS, SYNCS, LAUNCHES},
    "compile:collect_logged_async": {GRAPHS},
    "inputs:collect_layers_async": {EMPTY},
    "inputs:device_norm": {EMPTY},
    "inputs:trained_layer_norm": {GENERATOR},
    "inputs:every_parameter_norm": {EMPTY, MISSING},
    "inputs:mean_layer_norm": {MISSING},
    "inputs:layer_imbalance": {RATIO},
    "inputs:compare_groups": {RATIO},
    "layouts:restrided_norm": {NONCONTIGUOUS},
    "layouts:embedding_norm": {SPARSE},
    "layouts:layer_rms": {NO_ELEMENTS, RATIO},
    "layouts:repaired_norm": {MUTATES},
    "layouts:detached_norm": {MUTATES},
    "numerics:packed_norms": {ACCURACY, GROUPING, TWO_DEVICES},
    "numerics:norm_of_norms": {OVERFLOW, UNDERFLOW, GROUPING, TWO_DEVICES},
    "numerics:clip_gradients": {CLIPPING, TWO_DEVICES},
    "numerics:GradientHistory.record": {RETAINED, TWO_DEVICES},
    "numerics:NormSummary.read": {CACHED},
    "numerics:norm_on_device": {RETAINED, TWO_DEVICES},
}
SOUND = (
    "foreach_norm",
    "stacked_layer_norms",
    "counted_quality",
    "collect_health_async",
    "IsolationMonitor.check_isolation",
    "devices:all_devices_norm",
    "devices:one_device_norm",
    "devices:smoothed_layer_norms",
    "devices:collect_norms_async",
    "compile:selected_share",
    "compile:eager_layer_norms",
    "compile:collect_quiet_async",
    "inputs:collect_layers_async",
    "inputs:device_norm",
    "inputs:refusing_norm",
    "inputs:trained_layer_norm",
    "inputs:mean_layer_norm",
    "inputs:layer_imbalance",
    "inputs:compare_groups",
    "layouts:strided_norm",
    "layouts:dense_norm",
    "layouts:layer_rms",
    "layouts:reported_norm",
    "numerics:packed_norms",
    "numerics:norm_of_norms",
    "numerics:clip_gradients",
    "numerics:GradientHistory.record",
    "numerics:NormSummary.read",
    "numerics:norm_on_device",
)


_ALL = [("defective", name) for name in REPRODUCED] + [("sound", name) for name in SOUND]
MAIN = {kind: [name for of, name in _ALL if of == kind and ":" not in name] for kind in ("defective", "sound")}
FAMILIES = [(kind, name) for kind, name in _ALL if ":" in name]
# Probes of 0.5 to 7 s: by default families are not asked them here. Those whose own they are have tests of values.
DEAR = {GRAPHS, MEMORY, ACCURACY, GROUPING}


def target_of(kind: str, function: str) -> Target:
    """The specimen's target; `kind` is `defective` or `sound`, `collect_x_async` is finished by `materialize_x`."""
    family, _, name = function.rpartition(":")
    module = f"gradmon.{kind}_{family}" if family else f"gradmon.{kind}"
    finish = name.replace("collect_", "materialize_").removesuffix("_async") if name.endswith("_async") else ""
    return Target(f"{module}:{name}", finish=f"{module}:{finish}" if finish else None)


@functools.cache
def audited(kind: str, function: str) -> TargetRun:
    """All probes on one target in a real worker: of the bundled audit, or, for a target of a family, 10 s."""
    target = target_of(kind, function)
    if function in MAIN[kind]:
        results = [result for result in bundled_audit().run.results if result.target == target.call]
        return TargetRun(results=[result for result in results if result.probe in PROBES])
    name = f"{kind}-{function}".replace(":", "-")
    return TargetRun(results=once(name, lambda: run_probes(SPECIMEN, target, PROBES).results))


@functools.cache
def asked_here(kind: str, function: str) -> dict[str, Answer]:
    """The probes on one target of a family in this process, less the dear ones: about 1 s."""
    chosen = [probe for probe in PROBES if probe not in NEEDS_GPU | DEAR]
    name = f"here-{kind}-{function}".replace(":", "-")
    return once(name, lambda: ask_all(target_of(kind, function), chosen, SPECIMEN))
