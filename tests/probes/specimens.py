"""The bundled specimens: which probes each of their targets exists for, and what the probes say of it."""
# ruff: noqa: F403, F405 - the names of probes

from __future__ import annotations

import functools
from pathlib import Path

from auditkit.model.enums import Contract
from auditkit.model.runs.run import ProbeResult
from auditkit.model.runs.target import Target
from auditkit.worker.measure.ranks import why_not
from tests.probes.in_process import Answer, ask_all
from tests.probing_helpers import *
from tests.sharing import kept_of, once

FOLDER = Path(__file__).parents[2] / "probes" / "specimens"
SPECIMEN = FOLDER / "gradient_monitoring"
# Of gradients; those of spectra and shards in one process; those that start ranks.
PROBES = (
    OVERFLOW, UNDERFLOW, HEALTH, COUNTS, MEMORY, SYNCS, LAUNCHES, ASYNC, GRAPHS, TWO_DEVICES, MIXED_DTYPES, OFF_DEVICE,
    CAPTURE, EMPTY, GENERATOR, MISSING, RATIO, NONCONTIGUOUS, SPARSE, NO_ELEMENTS, MUTATES, ACCURACY, GROUPING,
    CLIPPING, RETAINED, CACHED,
)  # fmt: skip
ONE_PROCESS = (MATRICES, LOW_PRECISION, ALIGNMENT, ECHO, BATCH, SHARDS)
OF_RANKS = (SHARDING, MESH, GATHER, PER_RANK)
# Without a CUDA device `unavailable` on every target. tests/gpu has its specimens.
NEEDS_GPU = frozenset({CAPTURE})
# Probes of 0.5 to 7 s, which a target is asked in this process only if it exists for them.
DEAR = {GRAPHS, MEMORY, ACCURACY, GROUPING, BATCH, RETAINED, *OF_RANKS}

# The probes that each defective target exists for, and no others.
REPRODUCED = {
    "gradmon.defective:squared_sum_norm": {OVERFLOW, UNDERFLOW, LAUNCHES, TWO_DEVICES},
    "gradmon.defective:double_copies_norm": {MEMORY, LAUNCHES, TWO_DEVICES},
    "gradmon.defective:per_layer_norms": {OVERFLOW, UNDERFLOW, SYNCS, LAUNCHES, GRAPHS, GROUPING},
    "gradmon.defective:concatenated_quality":
        {MEMORY, COUNTS, RATIO, NONCONTIGUOUS, SPARSE, NO_ELEMENTS, TWO_DEVICES},
    "gradmon.defective:collect_health_async":
        {OVERFLOW, UNDERFLOW, HEALTH, ASYNC, GRAPHS, EMPTY, GROUPING, TWO_DEVICES},
    "gradmon.defective:IsolationMonitor.check_isolation":
        {OVERFLOW, UNDERFLOW, LAUNCHES, ACCURACY, GROUPING, TWO_DEVICES},
    "gradmon.defective_devices:local_norm": {TWO_DEVICES},
    "gradmon.defective_devices:main_dtype_norm": {MIXED_DTYPES, ACCURACY},
    "gradmon.defective_devices:smoothed_layer_norms": {TWO_DEVICES, MIXED_DTYPES, LAUNCHES},
    "gradmon.defective_devices:host_norms": {OFF_DEVICE, SYNCS, GRAPHS},
    "gradmon.defective_loop:trained_layer_norm": {GENERATOR},
    "gradmon.defective_loop:mean_layer_norm": {MISSING},
    "gradmon.defective_loop:compare_groups": {RATIO},
    "gradmon.defective_loop:repaired_norm": {MUTATES},
    "gradmon.defective_loop:clip_gradients": {CLIPPING, TWO_DEVICES},
    "gradmon.defective_loop:GradientHistory.record": {RETAINED},
    "gradmon.defective_loop:NormSummary.read": {CACHED},
    "specan.defective:diagonal_svds": {MATRICES},
    "specan.defective:unpromoted_svds": {LOW_PRECISION, BATCH},
    "specan.defective:rounded_svds": {LOW_PRECISION},
    "specan.defective:greedy_svds": {ALIGNMENT, BATCH},
    "specan.defective:host_svds": {OFF_DEVICE},
    "specan.defective:biased_echoes": {ECHO},
    "specan.defective:overlapping_shards": {SHARDS},
    "specan.defective:truncated_shards": {SHARDS},
    "specan.defective:unordered_shards": {SHARDS},
    "specan.defective_ranks:local_norm": {SHARDING},
    "specan.defective_ranks:plain_norm_per_rank": {MESH},
    "specan.defective_ranks:echoes_without_last": {GATHER},
    "specan.defective_ranks:unordered_keys_of_group": {SHARDS},
    "trainsteps.defective:train_on_sums": {ACCUMULATION},
    "trainsteps.defective:train_on_means": {ACCUMULATION},
    "trainsteps.defective:train_and_clip": {LIMIT_MISSED},
    "trainsteps.defective:train_and_clip_each": {LIMIT_MISSED},
    "trainsteps.defective:train_in_half": {SCALED_CLIP},
    "trainsteps.defective:train_weights": {MISSES},
    "trainsteps.defective:train_last_micro_batch": {LOST},
    "trainsteps.defective:train_without_zeroing": {LOST},
    "trainsteps.defective:train_past_nan": {NAN_STEP},
    "trainsteps.defective:train_unfrozen": {FROZEN},
    "trainsteps.defective:train_in_bfloat16": {LOW_SUMS},
    "trainsteps.defective:train_and_log": {WAITS},
    "ranksteps.defective:train_by_own_tokens": {PER_RANK},
    "ranksteps.defective:train_by_all_tokens": {PER_RANK},
}  # fmt: skip
# Sound ones, with the dear probes that each of them is asked too; tests/data/frozen_results.txt has those of all.
SOUND: dict[str, set[str]] = {
    "gradmon.sound:foreach_norm": {GRAPHS, MEMORY, ACCURACY, GROUPING, RETAINED},
    "gradmon.sound:stacked_layer_norms": set(),
    "gradmon.sound:counted_quality": set(),
    "gradmon.sound:collect_health_async": set(),
    "gradmon.sound:IsolationMonitor.check_isolation": set(),
    "gradmon.sound_devices:all_devices_norm": set(),
    "gradmon.sound_devices:one_device_norm": set(),
    "gradmon.sound_devices:smoothed_layer_norms": set(),
    "gradmon.sound_devices:collect_norms_async": set(),
    "gradmon.sound_loop:trained_layer_norm": set(),
    "gradmon.sound_loop:mean_layer_norm": set(),
    "gradmon.sound_loop:compare_groups": set(),
    "gradmon.sound_loop:reported_norm": set(),
    "gradmon.sound_loop:clip_gradients": set(),
    "gradmon.sound_loop:GradientHistory.record": {RETAINED},
    "gradmon.sound_loop:NormSummary.read": set(),
    "specan.sound:aligned_svds": {BATCH},
    "specan.sound:spectral_echoes": set(),
    "specan.sound:shard_keys": set(),
    "specan.sound_ranks:sharded_norm": {SHARDING, MESH},
    "specan.sound_ranks:gathered_echoes": {GATHER},
    "specan.sound_ranks:shard_keys_of_group": set(),
    "trainsteps.sound:train_accumulating": set(),
    "trainsteps.sound:train_by_token": set(),
    "trainsteps.sound:train_and_clip": set(),
    "trainsteps.sound:train_in_half": set(),
    "trainsteps.sound:train_all": set(),
    "trainsteps.sound:train_past_nan": set(),
    "trainsteps.sound:train_frozen": set(),
    "trainsteps.sound:train_and_log": set(),
    "trainsteps.sound:Trainer.train_step": set(),
    "ranksteps.sound:train_by_all_tokens": {PER_RANK},
    "ranksteps.sound:train_and_reduce": {PER_RANK},
}
EXPECTED: dict[str, set[str]] = {**REPRODUCED, **{call: set() for call in SOUND}}
# Defective ones whose memory has a known value.
MEASURED = {"gradmon.defective:squared_sum_norm": {MEMORY}, "gradmon.defective:per_layer_norms": {MEMORY}}
MAIN = [call for call in EXPECTED if call.startswith(("gradmon.defective:", "gradmon.sound:"))]
NO_RANKS = why_not("cpu", 2)


def _kept() -> set[str]:
    """Return what the acceptance tests run: for every probe a defective specimen, and a third of the sound ones."""
    kept, found = set(kept_of(3, SOUND)), set[str]()
    for call, probes in sorted(REPRODUCED.items(), key=lambda item: -len(item[1])):
        if probes - found:
            kept.add(call)
            found |= probes
    return kept


KEPT = _kept()


def folder_of(call: str) -> Path:
    packages = {"gradmon": SPECIMEN, "specan": FOLDER / "spectral_analysis"}
    return packages.get(call.split(".")[0], FOLDER / "training_steps")


def target_of(call: str) -> Target:
    """The specimen's target; `materialize_x` finishes `collect_x_async`."""
    finish = call.replace("collect_", "materialize_").removesuffix("_async") if call.endswith("_async") else None
    contract = Contract.TRAIN_STEP if "steps." in call else None
    return Target(call, finish=finish, contract=contract)


def dear_for(call: str) -> set[str]:
    return DEAR & (EXPECTED[call] | SOUND.get(call, set()) | MEASURED.get(call, set()))


@functools.cache
def audited(call: str) -> list[ProbeResult]:
    """The probes of gradients on a main target, in a real worker, less the dear ones that it does not exist for."""
    chosen = [probe for probe in PROBES if probe not in DEAR - dear_for(call)]
    return once(call, lambda: run_probes(folder_of(call), target_of(call), chosen).results)


@functools.cache
def asked_here(call: str) -> dict[str, Answer]:
    """The probes on one target in this process, less the dear ones that it does not exist for: about 1 s."""
    kinds = {"gradmon": (*PROBES, SHARDING), "specan": (*ONE_PROCESS, OFF_DEVICE, SHARDING, MESH, GATHER)}
    probes = kinds.get(call.split(".")[0], (*STEPS, PER_RANK))
    chosen = [each for each in probes if each not in NEEDS_GPU | (DEAR - dear_for(call))]
    return once(call, lambda: ask_all(target_of(call), chosen, folder_of(call)))
