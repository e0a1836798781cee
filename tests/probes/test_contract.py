"""What every probe promises: it tells the bad specimen from the good one, and its own advice passes it."""

from __future__ import annotations

import inspect
import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

from auditkit.errors import BadInputError
from auditkit.model.enums import Contract, DeviceChoice, Outcome, Reason
from auditkit.model.runs.measurement import Measurement
from auditkit.model.runs.target import Target
from auditkit.probing.engine.catalog import load_catalog, load_module, read_probe
from tests.probes import spectral_specimens
from tests.probes.in_process import ask_all
from tests.probes.specimens import (
    DEAR,
    FAMILIES,
    MAIN,
    NEEDS_GPU,
    PROBES,
    REPRODUCED,
    SPECIMEN,
    asked_here,
    audited,
    target_of,
)
from tests.probing_helpers import (
    CLIPPING,
    COUNTS,
    GRAPHS,
    MEMORY,
    OVERFLOW,
    PER_RANK,
    SPECTRAL,
    STEPS,
    SYNCS,
    by_probe,
    outcomes,
    run_probes,
)

pytestmark = pytest.mark.acceptance

GOOD = "not_reproduced"
# Source probes make the same promises in test_source_probes.py, those of spectra and shards in
# test_spectral_probes.py and test_sharding_probes.py, those of training steps in
# test_step_probes.py and test_rank_steps.py.
APART = {*SPECTRAL, *STEPS, PER_RANK}
CATALOG = {name: probe for name, probe in load_catalog().items() if probe.scope == "target" and name not in APART}
# One probe for each distinct code: several recommend the same, which is then run once.
ADVICE = sorted({CATALOG[probe].remediation_code: probe for probe in PROBES}.values())


def test_every_probe_that_exists_is_tested_here() -> None:
    assert set(CATALOG) == set(PROBES)


@pytest.mark.parametrize("probe_id", PROBES)
def test_a_definition_is_complete(probe_id: str) -> None:
    probe = CATALOG[probe_id]
    texts = (probe.title, probe.motivation, probe.method, probe.limits, probe.remediation, probe.remediation_code)
    assert all(text.strip() for text in texts)
    assert probe.contracts
    assert probe.categories
    assert (probe.lifecycle, probe.version >= 1) == ("stable", True)
    assert not probe.title.endswith(".")


@pytest.mark.parametrize("function", MAIN["defective"])
def test_a_defective_target_reproduces_its_defects_and_no_others(function: str) -> None:
    """Every reproduced probe says where, how bad, and on what evidence."""
    _is_as_expected("defective", function)


@pytest.mark.parametrize("function", MAIN["sound"])
def test_a_sound_target_reproduces_nothing(function: str) -> None:
    _is_as_expected("sound", function)


@pytest.mark.slow
@pytest.mark.parametrize(("kind", "function"), FAMILIES)
def test_every_probe_on_every_specimen(kind: str, function: str) -> None:
    _is_as_expected(kind, function)


def _is_as_expected(kind: str, function: str) -> None:
    results = audited(kind, function).results
    found = [result for result in results if result.outcome is Outcome.REPRODUCED]
    assert {result.probe for result in found} == (REPRODUCED[function] if kind == "defective" else set())
    assert {result.probe for result in results if result.outcome is Outcome.UNAVAILABLE} <= NEEDS_GPU
    assert Outcome.ERROR not in {result.outcome for result in results}
    for result in found:
        assert result.severity is not None
        assert result.location is not None
        assert result.excerpt is not None
        assert result.location.file == target_of(kind, function).call.split(":")[0].replace(".", "/") + ".py"
        assert result.evidence is not None


@pytest.mark.parametrize(("kind", "function"), FAMILIES)
def test_a_specimen_of_a_family_reproduces_its_defects_and_no_others(
    kind: str, function: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In this process and without the dear probes of other families; the slow test asks all, in real workers."""
    monkeypatch.syspath_prepend(str(SPECIMEN))
    answers = asked_here(kind, function)
    expected = REPRODUCED[function] & set(answers) if kind == "defective" else set()
    assert {probe for probe, answer in answers.items() if answer.outcome == "reproduced"} == expected
    assert {answer.outcome for answer in answers.values()} <= {"reproduced", "not_reproduced", "not_applicable"}


def test_every_probe_reproduces_on_some_defective_target() -> None:
    assert set().union(*REPRODUCED.values()) == set(PROBES) - NEEDS_GPU


def test_every_probe_passes_some_sound_target(monkeypatch: pytest.MonkeyPatch) -> None:
    """Not by being out of scope everywhere."""
    monkeypatch.syspath_prepend(str(SPECIMEN))
    every = [outcomes(audited("sound", name)) for name in MAIN["sound"]]
    passed = {probe for answers in every for probe, outcome in answers.items() if outcome == GOOD}
    for kind, name in FAMILIES:
        if kind == "sound":
            passed |= {probe for probe, answer in asked_here(kind, name).items() if answer.outcome == GOOD}
    assert passed == set(PROBES) - NEEDS_GPU


def test_every_measurement_has_its_unit_in_the_definition() -> None:
    for kind, functions in MAIN.items():
        for result in (result for function in functions for result in audited(kind, function).results):
            units = CATALOG[result.probe].units
            for measured in result.measurements:
                assert (measured.name, measured.unit) == (measured.name, units.get(measured.name)), result.probe


@pytest.mark.parametrize("probe_id", NEEDS_GPU)
def test_a_probe_that_needs_a_gpu_is_unavailable_on_every_target(probe_id: str) -> None:
    """Never a pass: it says which device it needs. Stored measurements test its judge (test_device_probes.py)."""
    for kind, functions in MAIN.items():
        results = [by_probe(audited(kind, function))[probe_id] for function in functions]
        assert {(result.outcome, result.reason) for result in results} == {(Outcome.UNAVAILABLE, Reason.NO_DEVICE)}
        assert all("CUDA" in result.message for result in results)


def test_a_contract_that_it_does_not_cover_is_not_applicable() -> None:
    assert all(Contract.SHARD_PLAN not in probe.contracts for probe in CATALOG.values())
    run = run_probes(spectral_specimens.SPECIMEN, spectral_specimens.target_of("sound", "shard_keys"), PROBES)
    expected = (Outcome.NOT_APPLICABLE, "the probe does not cover the contract shard_plan")
    assert {(result.outcome, result.message) for result in run.results} == {expected}
    assert outcomes(audited("sound", "foreach_norm"))[COUNTS] == "not_applicable"


def test_without_a_gpu_every_probe_is_unavailable_on_cuda(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    run = run_probes(SPECIMEN, Target("gradmon.sound:foreach_norm"), PROBES, device=DeviceChoice.CUDA)
    covered = [result for result in run.results if Contract.GRAD_NORM in CATALOG[result.probe].contracts]
    assert len(covered) > 20
    assert {(result.outcome, result.reason) for result in covered} == {(Outcome.UNAVAILABLE, Reason.NO_DEVICE)}


# --- judging -------------------------------------------------------------------------------------


def test_judging_needs_neither_torch_nor_anything_of_ours(monkeypatch: pytest.MonkeyPatch) -> None:
    """In a process of its own, every `judge` judges stored measurements; torch is never imported."""
    monkeypatch.syspath_prepend(str(SPECIMEN))
    stored = {
        probe: [Measurement.from_json(vars(row)).to_json() for row in answer.rows]
        for kind, function in FAMILIES
        for probe, answer in asked_here(kind, function).items()
        if answer.outcome == "reproduced"
    }
    stored |= {
        result.probe: [measured.to_json() for measured in result.measurements]
        for function in MAIN["defective"]
        for result in audited("defective", function).results
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
    assert set(stored) == set(PROBES) - NEEDS_GPU
    subprocess.run([sys.executable, "-I", "-c", code], input=json.dumps(jobs), text=True, check=True)


@pytest.mark.parametrize(
    ("function", "probe_id", "policy", "outcome"),
    [
        ("foreach_norm", "peak_memory_grows_with_params", {"share": 0.1}, "reproduced"),
        ("foreach_norm", "peak_memory_grows_with_params", {"share": 0.25}, "not_reproduced"),
        ("foreach_norm", OVERFLOW, {"judge_float64": 1}, "reproduced"),
        ("foreach_norm", OVERFLOW, {"judge_float64": 0}, "not_reproduced"),
    ],
)
def test_a_stored_run_can_be_judged_again_under_another_policy(
    function: str, probe_id: str, policy: dict, outcome: str
) -> None:
    measured = by_probe(audited("sound", function))[probe_id].measurements
    assert load_module(CATALOG[probe_id]).judge(measured, policy)["outcome"] == outcome


# --- the recommended code --------------------------------------------------------------------------


@pytest.fixture(scope="module")
def advice(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("advice")
    for probe in CATALOG.values():
        (folder / f"fix_of_{probe.id}.py").write_text(probe.remediation_code, encoding="utf-8")
    return folder


@pytest.mark.parametrize("probe_id", ADVICE)
def test_the_recommended_code_passes_its_own_probe_and_all_others(
    probe_id: str, advice: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No advice trades one finding for another. In this process; other probes that are dear in the slow test."""
    monkeypatch.syspath_prepend(str(advice))
    own = {probe for probe in PROBES if CATALOG[probe].remediation_code == CATALOG[probe_id].remediation_code}
    chosen = [probe for probe in PROBES if probe not in NEEDS_GPU and (probe in own or probe not in DEAR)]
    answers = ask_all(_advice_of(probe_id), chosen, advice)
    assert {answers[probe].outcome for probe in own - NEEDS_GPU} <= {"not_reproduced"}
    assert {answer.outcome for answer in answers.values()} <= {"not_reproduced", "not_applicable"}


@pytest.mark.slow
@pytest.mark.parametrize("probe_id", ADVICE)
def test_the_recommended_code_passes_every_probe(probe_id: str, advice: Path) -> None:
    answers = outcomes(run_probes(advice, _advice_of(probe_id), PROBES))
    assert {answers.pop(probe) for probe in NEEDS_GPU} == {"unavailable"}
    assert set(answers.values()) <= {"not_reproduced", "not_applicable"}


def _advice_of(probe_id: str) -> Target:
    function = re.findall(r"^def (\w+)", CATALOG[probe_id].remediation_code, re.MULTILINE)[-1]
    return Target(f"fix_of_{probe_id}:{function}")


@pytest.mark.parametrize("probe_id", PROBES)
def test_the_recommended_code_answers_an_empty_input(probe_id: str) -> None:
    names: dict = {}
    exec(CATALOG[probe_id].remediation_code, names)
    function = re.findall(r"^def (\w+)", CATALOG[probe_id].remediation_code, re.MULTILINE)[-1]
    required = [p for p in inspect.signature(names[function]).parameters.values() if p.default is p.empty]
    assert names[function](*[[] for _ in required]) is not None


# --- files -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("probe_id", PROBES)
def test_every_probe_file_ends_alike(probe_id: str) -> None:
    """What makes it run alone is the same in each; the next test runs one of each kind."""
    last = CATALOG[probe_id].path.read_text(encoding="utf-8").rpartition("\n\n\n")[2]
    assert last == 'if __name__ == "__main__":\n    run_alone(__file__)\n'


@pytest.mark.parametrize(
    "probe_id",
    [OVERFLOW, *(pytest.param(probe_id, marks=pytest.mark.slow) for probe_id in (SYNCS, MEMORY, CLIPPING, GRAPHS))],
)
def test_a_probe_file_runs_alone(probe_id: str, tmp_path: Path) -> None:
    """From any folder, with the options of `auditkit probe run`; 1 is the exit code of a finding."""
    function = next(name for name, reproduced in REPRODUCED.items() if probe_id in reproduced and "." not in name)
    command = [sys.executable, str(CATALOG[probe_id].path), "--checkout", str(SPECIMEN), "--json"]
    target = target_of("defective", function)
    command += ["--target", target.call, "--device", "auto", "--python", sys.executable]
    if target.finish:
        command += ["--finish", target.finish]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert all(line.startswith("note: ") for line in done.stderr.splitlines()), done.stderr
    (result,) = json.loads(done.stdout)["results"]
    assert (result["probe"], result["outcome"]) == (probe_id, "reproduced")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("x = 1\n", "no `PROBE = {...}` at the top level"),
        ("PROBE = {'id': 'mine'\n", "not valid Python"),
        ("PROBE = dict(id='mine')\n", ":1: PROBE must be a literal"),
        ("PROBE = [1]\n", ":1: PROBE is not a mapping"),
        ("PROBE = {'id': 'mine'}\n", ":1: PROBE lacks 'title'"),
    ],
)
def test_a_broken_definition_is_refused_with_file_and_line(text: str, problem: str, tmp_path: Path) -> None:
    path = tmp_path / "mine.py"
    path.write_text(text)
    with pytest.raises(BadInputError) as refused:
        read_probe(path)
    assert str(path) in str(refused.value)
    assert problem in str(refused.value)


def test_counts_and_syncs_say_when_they_do_not_apply() -> None:
    results = by_probe(run_probes(SPECIMEN, target_of("sound", "stacked_layer_norms"), (COUNTS, SYNCS)))
    assert results[COUNTS].outcome is Outcome.NOT_APPLICABLE
    assert "its answer counts no zeros, NaNs or Infs" in results[COUNTS].message
    assert results[SYNCS].law == "1"


def test_several_probes_may_share_one_remedy(tmp_path: Path) -> None:
    """Named as a file beside them; one that is not there is said."""
    text = CATALOG[CLIPPING].path.read_text(encoding="utf-8")
    path = tmp_path / f"{CLIPPING}.py"
    path.write_text(text.replace("remedies/clip_gradients.py", "remedies/norm.py"), encoding="utf-8")
    with pytest.raises(BadInputError, match=r"PROBE is incomplete: .*remedies/norm\.py"):
        read_probe(path)
    (tmp_path / "remedies").mkdir()
    (tmp_path / "remedies" / "norm.py").write_text("def norm(): ...\n", encoding="utf-8")
    assert read_probe(path).remediation_code == "def norm(): ...\n"
