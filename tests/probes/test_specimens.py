"""What every probe of targets promises: it tells the bad specimen from the good one, and its own advice passes it."""
# ruff: noqa: F403, F405 - the names of probes

from __future__ import annotations

import inspect
import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from auditkit.model.enums import Contract, DeviceChoice, Evidence, Outcome, Reason
from auditkit.model.runs.measurement import Measurement
from auditkit.model.runs.target import Target
from auditkit.probing.engine.catalog import load_catalog, load_module
from tests.probes.in_process import ask_all
from tests.probes.specimens import *
from tests.probing_helpers import *
from tests.sharing import one_of

CATALOG = {name: probe for name, probe in load_catalog().items() if probe.scope == "target"}
MILLION = 1 << 20


def _marked(calls: Any) -> list[Any]:
    """Two training steps run by default, others in the acceptance or in the slow tests; ranks need gloo."""
    marked = []
    for call in calls:
        slow = [] if call in KEPT else [pytest.mark.slow]
        with_ranks = bool((EXPECTED[call] | SOUND.get(call, set())) & set(OF_RANKS))
        skip = [pytest.mark.skipif(NO_RANKS is not None, reason=str(NO_RANKS))] if with_ranks else []
        steps = call.startswith("trainsteps") and call.partition(":")[2] in ("train_on_sums", "train_accumulating")
        marked.append(pytest.param(call, marks=skip if steps else [*skip, *slow, pytest.mark.acceptance]))
    return marked


def test_every_probe_has_a_defective_and_a_sound_target() -> None:
    assert set(CATALOG) == {*PROBES, *ONE_PROCESS, *OF_RANKS, *STEPS}
    assert set().union(*REPRODUCED.values()) == set(CATALOG) - NEEDS_GPU


@pytest.mark.parametrize("call", _marked([call for call in EXPECTED if call not in MAIN]))
def test_a_specimen_reproduces_its_defects_and_no_others(call: str) -> None:
    answers = asked_here(call)
    assert {probe for probe, answer in answers.items() if answer.outcome == "reproduced"} == EXPECTED[call]
    assert {answer.outcome for answer in answers.values()} <= {"reproduced", "not_reproduced", "not_applicable"}
    for probe, answer in answers.items():
        assert {row.name: row.unit for row in answer.rows}.items() <= CATALOG[probe].units.items()
        assert answer.line or probe not in EXPECTED[call]


@pytest.mark.acceptance
@pytest.mark.parametrize("call", _marked(MAIN))
def test_a_main_target_reproduces_its_defects_and_no_others(call: str) -> None:
    """In real workers; every reproduced probe says where, how bad, and on what evidence."""
    results = audited(call)
    found = [result for result in results if result.outcome is Outcome.REPRODUCED]
    assert {result.probe for result in found} == EXPECTED[call]
    assert {result.probe for result in results if result.outcome is Outcome.UNAVAILABLE} <= NEEDS_GPU
    assert Outcome.ERROR not in {result.outcome for result in results}
    for result in found:
        assert None not in (result.severity, result.location, result.excerpt, result.evidence)
        assert result.location.file == call.split(":")[0].replace(".", "/") + ".py"
    for result in results:
        units = CATALOG[result.probe].units
        assert all(m.unit == units.get(m.name) for m in result.measurements), result.probe
    capture = by_probe(audited(call))[CAPTURE]
    assert (capture.outcome, capture.reason, "CUDA" in capture.message) == (
        Outcome.UNAVAILABLE, Reason.NO_DEVICE, True,
    )  # fmt: skip


@pytest.mark.slow
def test_every_probe_passes_some_sound_target() -> None:
    """Not by being out of scope everywhere."""
    told = [outcomes(audited(call)).items() for call in MAIN if call in SOUND]
    told += [{probe: one.outcome for probe, one in asked_here(call).items()}.items() for call in SOUND
             if call not in MAIN and not (SOUND[call] & set(OF_RANKS) and NO_RANKS)]  # fmt: skip
    passed = {probe for answers in told for probe, outcome in answers if outcome == "not_reproduced"}
    assert passed >= set(CATALOG) - NEEDS_GPU - set(OF_RANKS)


@pytest.mark.slow
def test_judging_needs_neither_torch_nor_anything_of_ours() -> None:
    """In a process of its own, every `judge` judges stored measurements; torch is never imported."""
    stored = {
        probe: [Measurement.from_json(vars(row)).to_json() for row in asked_here(call)[probe].rows]
        for call, probes in REPRODUCED.items()
        for probe in probes
        if call not in MAIN and not (probe in OF_RANKS and NO_RANKS)
    }
    stored |= {
        result.probe: [measured.to_json() for measured in result.measurements]
        for call in MAIN
        for result in audited(call)
        if result.outcome is Outcome.REPRODUCED
    }
    code = (
        "import json, os, runpy, sys, types\n"
        "for path, policy, stored in json.load(sys.stdin):\n"
        "    sys.path[:1] = [os.path.dirname(path)]\n"
        "    named = [types.SimpleNamespace(**m) for m in stored]\n"
        "    for m in named: m.value = float(m.value) if m.value in ('inf', 'nan') else m.value\n"
        "    assert runpy.run_path(path)['judge'](named, policy)['outcome'] == 'reproduced', path\n"
        "assert not {'torch', 'auditkit'} & set(sys.modules), 'imported'\n"
    )
    jobs = [(str(CATALOG[probe].path), dict(CATALOG[probe].policy), rows) for probe, rows in stored.items()]
    subprocess.run([sys.executable, "-I", "-c", code], input=json.dumps(jobs), text=True, check=True)


# --- values --------------------------------------------------------------------------------------

FLOAT32, FLOAT16 = {"dtype": "float32"}, {"dtype": "float16", "elements": MILLION}
AT_10M = {"params": 10_000_000}
# Target, probe, measurement, its case and its values, worked out by hand.
BY_HAND: list[tuple[str, str, str, dict[str, Any], list[Any]]] = [
    # The square of 2**64 is 2**128; with a million elements that is 2**54 for each.
    ("gradmon.defective:squared_sum_norm", OVERFLOW, "breaking_norm", FLOAT32, [2.0**64, 2.0**64]),
    ("gradmon.defective:squared_sum_norm", OVERFLOW, "breaking_magnitude", {**FLOAT32, "elements": MILLION}, [2.0**54]),
    # 65,536 is the first power of two above 65,504.
    ("gradmon.defective:per_layer_norms", OVERFLOW, "breaking_norm", FLOAT16, [65536.0]),
    # The smallest subnormal float32 is 2**-149: half a unit of it rounds to zero.
    ("gradmon.defective:squared_sum_norm", UNDERFLOW, "vanishing_magnitude", FLOAT32, [2.0**-75]),
    ("gradmon.defective:concatenated_quality", COUNTS, "count_error", {"planted": 2**24 + 1}, [-1] * 3),
    ("gradmon.defective:concatenated_quality", COUNTS, "count_error", {"planted": 2**20 + 1}, [0] * 3),
    # One hidden read in collecting, three in finishing.
    ("gradmon.defective:collect_health_async", ASYNC, "collect_sync_count", {}, [1, 1]),
    # A square of each tensor is a tenth of ten and the whole of one.
    *(
        (call, MEMORY, "peak_extra_per_gradient_byte", {**AT_10M, "tensors": tensors}, [share])
        for call, in_ten, in_one in (
            ("gradmon.defective:concatenated_quality", 3.25, 3.25),
            ("gradmon.defective:double_copies_norm", 2.0, 2.0),
            ("gradmon.defective:squared_sum_norm", 0.1, 1.0),
            ("gradmon.defective:per_layer_norms", 0.0, 0.0),
            ("gradmon.sound:foreach_norm", 0.2, 2.0),
        )
        for tensors, share in ((10, in_ten), (1, in_one))
    ),
    # Magnitudes 1 and 4 of 1, 2, 4, 8, 64 elements each: sqrt(64 * 17) of sqrt(64 * 85).
    ("gradmon.defective_devices:local_norm", TWO_DEVICES, "relative_difference",
     {"arrangement": "alternating, cpu first"}, [1 - (17 / 85) ** 0.5]),
    # Two numbers of 8 bytes are the answer.
    ("gradmon.defective_devices:host_norms", OFF_DEVICE, "off_device_bytes", {"gradient_bytes": MILLION},
     [MILLION - 16]),
    ("specan.defective:diagonal_svds", MATRICES, "elements_per_singular_value", {}, [4, 8, 16, 32]),
    ("specan.defective:biased_echoes", ECHO, "echo_of_identical", {},
     [(1 - 2 / count) ** 0.5 for count in (2, 3, 4, 8, 16, 32)]),
    ("specan.sound:spectral_echoes", ECHO, "echo_of_orthogonal", {}, [0.0] * 5),
    ("ranksteps.defective:train_by_all_tokens", PER_RANK, "norm_ratio", {"wrapping": "ddp", "ranks": 4}, [0.25] * 4),
]  # fmt: skip


@pytest.mark.acceptance
@pytest.mark.parametrize(("call", "probe", "name", "case", "expected"), BY_HAND)
def test_a_value_is_that_of_arithmetic(call: str, probe: str, name: str, case: dict, expected: list) -> None:
    if probe in OF_RANKS and NO_RANKS:
        pytest.skip(NO_RANKS)
    read = values(by_probe(audited(call))[probe], name, **case) if call in MAIN else (
        asked_here(call)[probe].values(name, **case)
    )  # fmt: skip
    assert read == [each if each is None else pytest.approx(each, abs=1e-3, rel=1e-3) for each in expected]


@pytest.mark.acceptance
@pytest.mark.parametrize(
    ("call", "sync_law", "launch_law"),
    [
        ("gradmon.defective:squared_sum_norm", "1", "3n"),
        ("gradmon.defective:double_copies_norm", "1", "n+3"),
        ("gradmon.defective:per_layer_norms", "n", "n"),
        ("gradmon.defective:concatenated_quality", "1", "13"),
        ("gradmon.defective:collect_health_async", "4", "10"),
        ("gradmon.defective:IsolationMonitor.check_isolation", "1", "3n+1"),
        ("gradmon.sound:foreach_norm", "1", "3"),
        ("gradmon.sound:stacked_layer_norms", "1", "6"),
        ("gradmon.sound:counted_quality", "1", "13"),
        ("gradmon.sound:collect_health_async", "1", "9"),
        ("gradmon.sound:IsolationMonitor.check_isolation", "1", "3"),
    ],
)
def test_traffic_laws_are_exact(call: str, sync_law: str, launch_law: str) -> None:
    results = by_probe(audited(call))
    assert (results[SYNCS].law, results[LAUNCHES].law) == (sync_law, launch_law)
    assert (results[SYNCS].device, results[SYNCS].evidence) == ("simulated", Evidence.SIMULATED)


@pytest.mark.acceptance
def test_what_was_not_measured_is_called_extrapolated() -> None:
    measured = by_probe(audited("gradmon.defective:concatenated_quality"))[MEMORY].measurements
    billion = [m for m in measured if m.case.get("params") == 1_000_000_000]
    assert {m.evidence for m in billion} == {Evidence.EXTRAPOLATED}
    assert [m.value for m in billion if m.unit == "ratio"] == [pytest.approx(3.25, abs=1e-3)]


@pytest.mark.acceptance
@pytest.mark.parametrize(
    ("call", "probe", "message"),
    [
        ("gradmon.defective:collect_health_async", HEALTH,
         "a planted nan is not flagged: health 1.0 for nan, has_exploding False for nan, norm nan for nan"),
        ("gradmon.defective_devices:local_norm", TWO_DEVICES,
         "gradients on cpu and cuda:0 (alternating, cpu first): norm is 32.9848 instead of 73.7564"),
        ("gradmon.sound_devices:one_device_norm", TWO_DEVICES,
         "refuses clearly: ValueError: gradients lie on several devices: cpu, cuda:0"),
        ("gradmon.defective_devices:main_dtype_norm", MIXED_DTYPES,
         "float32+bfloat16+float16+float64 (float32 first): norm is 8 instead of 73.7564, the result in float32"),
    ],
)  # fmt: skip
def test_a_message_says_what_was_read_and_what_is_right(call: str, probe: str, message: str) -> None:
    result: Any = by_probe(audited(call))[probe] if call in MAIN else asked_here(call)[probe]
    assert result.message == message


def test_a_capture_is_judged_from_stored_measurements() -> None:
    """It cannot be captured, it says something else when replayed, and it is right: three verdicts."""

    def judged(*rows: tuple[str, Any, dict[str, Any]]) -> tuple[str, str | None]:
        measured = [type("Row", (), {"name": name, "value": value, "case": case}) for name, value, case in rows]
        said = load_module(CATALOG[CAPTURE]).judge(measured, {})
        return said["outcome"], said.get("breaks")

    assert judged(("captured", False, {"error": "not permitted"})) == ("reproduced", None)
    case = {"field": "grad_norm", "replayed": "1.0", "ordinary": "3.0"}
    assert judged(("captured", True, {}), ("unequal_fields", 1, case)) == ("reproduced", "wrong_answer")
    assert judged(("captured", True, {}), ("unequal_fields", 0, {})) == ("not_reproduced", None)


# --- where a probe does not apply, and other policies -----------------------------------------------


@pytest.mark.acceptance
def test_a_contract_that_it_does_not_cover_is_not_applicable() -> None:
    call = "specan.sound:shard_keys"
    run = run_probes(folder_of(call), target_of(call), PROBES)
    expected = (Outcome.NOT_APPLICABLE, "the probe does not cover the contract shard_plan")
    assert {(result.outcome, result.message) for result in run.results} == {expected}
    assert outcomes(audited("gradmon.sound:foreach_norm"))[COUNTS] == "not_applicable"
    assert asked_here("specan.sound:aligned_svds")[SHARDS].outcome == "not_applicable"


@pytest.mark.acceptance
def test_without_a_gpu_every_probe_is_unavailable_on_cuda(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    run = run_probes(SPECIMEN, Target("gradmon.sound:foreach_norm"), PROBES, device=DeviceChoice.CUDA)
    covered = [result for result in run.results if Contract.GRAD_NORM in CATALOG[result.probe].contracts]
    assert len(covered) > 20
    assert {(result.outcome, result.reason) for result in covered} == {(Outcome.UNAVAILABLE, Reason.NO_DEVICE)}


# --- the recommended code --------------------------------------------------------------------------

# One probe for each distinct code: several recommend the same, which is then run once.
ADVICE = sorted({probe.remediation_code: probe.id for probe in CATALOG.values()}.values())


@pytest.mark.acceptance
@pytest.mark.parametrize("probe_id", one_of(3, ADVICE))
def test_the_recommended_code_passes_its_own_probes_and_all_others(probe_id: str, tmp_path: Path) -> None:
    """No advice trades one finding for another. Other probes that are dear are left out."""
    code = CATALOG[probe_id].remediation_code
    (tmp_path / f"fix_of_{probe_id}.py").write_text(code, encoding="utf-8")
    function = re.findall(r"^def (\w+)", code, re.MULTILINE)[-1]
    is_step = probe_id in (*STEPS, PER_RANK)
    target = Target(f"fix_of_{probe_id}:{function}", contract=Contract.TRAIN_STEP if is_step else None)
    own = {probe for probe in CATALOG if CATALOG[probe].remediation_code == code} - NEEDS_GPU
    own -= set(OF_RANKS) if NO_RANKS else set()
    others = [each for each in CATALOG if each not in {*own, *NEEDS_GPU, *DEAR} and (each in STEPS) == is_step]
    answers = ask_all(target, [*own, *others], tmp_path)
    assert {answers[probe].outcome for probe in own} <= {"not_reproduced"}
    assert {answer.outcome for answer in answers.values()} <= {"not_reproduced", "not_applicable"}


@pytest.mark.parametrize("probe_id", PROBES)
def test_the_recommended_code_answers_an_empty_input(probe_id: str) -> None:
    names: dict = {}
    exec(CATALOG[probe_id].remediation_code, names)
    function = re.findall(r"^def (\w+)", CATALOG[probe_id].remediation_code, re.MULTILINE)[-1]
    required = [p for p in inspect.signature(names[function]).parameters.values() if p.default is p.empty]
    assert names[function](*[[] for _ in required]) is not None


# --- files -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("probe", load_catalog().values(), ids=lambda probe: probe.id)
def test_a_definition_is_complete_and_its_file_runs_alone(probe: Any) -> None:
    texts = (probe.title, probe.motivation, probe.method, probe.limits, probe.remediation)
    assert all(text.strip() for text in texts)
    assert probe.categories
    assert (bool(probe.contracts), bool(probe.remediation_code) or probe.scope == "source") == (
        probe.scope == "target", True,
    )  # fmt: skip
    assert (probe.lifecycle, probe.version >= 1, probe.title[-1] != ".") == ("stable", True, True)
    last = probe.path.read_text(encoding="utf-8").rpartition("\n\n\n")[2]
    assert last == 'if __name__ == "__main__":\n    run_alone(__file__)\n'


@pytest.mark.acceptance
@pytest.mark.parametrize(
    ("probe_id", "call"),
    [
        (OVERFLOW, "gradmon.defective:squared_sum_norm"),
        (ACCUMULATION, "trainsteps.defective:train_on_sums"),
        *(pytest.param(probe, "specan.defective" + call, marks=pytest.mark.slow)
          for probe, call in ((SHARDING, "_ranks:local_norm"), (GATHER, "_ranks:echoes_without_last"),
                              (SHARDS, ":truncated_shards"))),
    ],
)  # fmt: skip
def test_a_probe_file_finds_its_defect_from_any_folder(probe_id: str, call: str, tmp_path: Path) -> None:
    """With the options of `auditkit probe run`; 1 is the exit code of a finding."""
    command = [sys.executable, str(CATALOG[probe_id].path), "--checkout", str(folder_of(call)), "--json"]
    command += [*target_of(call).command_words(), "--device", "auto", "--python", sys.executable]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 1, done.stderr
    (result,) = json.loads(done.stdout)["results"]
    assert (result["probe"], result["outcome"]) == (probe_id, "reproduced")
    assert list(tmp_path.iterdir()) == []
