"""Run probes on the small checkouts under tests/targets, as the workflows do, and look into /proc."""

from __future__ import annotations

import importlib.util
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

from auditkit.model.runs.run import ProbeResult
from auditkit.model.runs.target import Target
from auditkit.probing.engine.catalog import load_catalog, select
from auditkit.probing.engine.results import TargetRun
from auditkit.probing.engine.runner import run_target
from auditkit.probing.engine.sandbox import Setting

TARGETS = Path(__file__).parent / "targets"
OVERFLOW, UNDERFLOW = "norm_overflows_on_finite_grads", "norm_underflows_to_zero"
HEALTH, SYNCS, LAUNCHES = "nonfinite_grads_look_healthy", "syncs_grow_with_tensors", "launches_grow_with_tensors"
CACHED = "answer_is_cached_between_calls"
MEMORY, COUNTS, ASYNC = "peak_memory_grows_with_params", "counts_are_rounded", "async_collect_synchronizes"
GRAPHS = "graph_breaks_under_compile"
TWO_DEVICES, MIXED_DTYPES = "fails_on_gradients_of_two_devices", "fails_on_mixed_dtypes"
OFF_DEVICE, CAPTURE = "work_runs_off_the_inputs_device", "breaks_cuda_graph_capture"
EMPTY, GENERATOR = "empty_input_changes_result_type", "fails_on_generator_input"
MISSING, RATIO = "fails_on_missing_grads", "ratio_divides_by_zero"
NONCONTIGUOUS, SPARSE = "fails_on_noncontiguous_grads", "fails_on_sparse_grads"
NO_ELEMENTS, MUTATES = "fails_on_zero_element_grads", "mutates_gradients"
ACCURACY, GROUPING = "norm_loses_accuracy", "norm_depends_on_grouping"
CLIPPING, RETAINED = "clip_destroys_gradients", "memory_is_retained_after_call"
MATRICES, LOW_PRECISION = "singular_values_returned_as_matrices", "svd_rejects_low_precision"
ALIGNMENT, ECHO = "alignment_worse_than_optimal", "echo_estimate_is_biased"
BATCH, SHARDS = "svd_batch_is_unbounded", "shards_overlap_or_miss_keys"
SHARDING, GATHER, MESH = "norm_depends_on_sharding", "ranks_disagree_after_gather", "norm_depends_on_mesh"
ACCUMULATION, LIMIT_MISSED = "accumulation_differs_from_full_batch", "clip_misses_the_step"
SCALED_CLIP, MISSES = "clip_on_scaled_gradients", "optimizer_misses_parameters"
LOST, NAN_STEP = "gradients_lost_or_stale", "nonfinite_step_is_applied"
FROZEN, LOW_SUMS, WAITS = "frozen_parameters_move", "accumulates_in_low_precision", "step_waits_for_the_device"
STEPS = (ACCUMULATION, LIMIT_MISSED, SCALED_CLIP, MISSES, LOST, NAN_STEP, FROZEN, LOW_SUMS, WAITS)
PER_RANK = "loss_weighted_per_rank"
SMALL_MEMORY = {"memory_sizes": [1_000_000, 10_000_000]}


def run_probes(checkout: Path, target: Target | str, probes: Sequence[str], **setting: Any) -> TargetRun:
    """`probes` on one target of `checkout`, in a real worker of this interpreter."""
    chosen = select(load_catalog(), list(probes))
    named = target if isinstance(target, Target) else Target(target)
    interpreter = setting.pop("interpreter", sys.executable)
    setting.setdefault("options", SMALL_MEMORY)
    return run_target(named, chosen, Setting(checkout, interpreter, (checkout,), **setting))


def load_target(path: Path) -> ModuleType:
    """A file of a checkout under tests/targets as a module of this process."""
    name = f"{path.parent.name}_{path.stem}"
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module  # dataclasses look their module up
    spec.loader.exec_module(module)
    return module


def by_probe(run: TargetRun | list[ProbeResult]) -> dict[str, ProbeResult]:
    return {result.probe: result for result in (run if isinstance(run, list) else run.results)}


def outcomes(run: TargetRun | list[ProbeResult]) -> dict[str, str]:
    return {probe: result.outcome.value for probe, result in by_probe(run).items()}


def values(result: ProbeResult, name: str, **case: Any) -> list[Any]:
    """The values of every measurement called `name` whose case holds `case`."""
    return [m.value for m in result.measurements if m.name == name and case.items() <= m.case.items()]


def processes_started_with(tmpdir: Path) -> list[int]:
    """The living processes, of any parent, that were started with this TMPDIR or a folder in it."""
    mark, found = f"TMPDIR={tmpdir}".encode(), []
    for name in os.listdir("/proc"):
        if name.isdigit() and is_alive(int(name)):
            try:
                environment = Path("/proc", name, "environ").read_bytes()
            except OSError:
                continue
            if any(one == mark or one.startswith(mark + b"/") for one in environment.split(b"\0")):
                found.append(int(name))
    return found


def is_alive(pid: int) -> bool:
    """Whether a process exists and is not a zombie."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except OSError:
        return False
