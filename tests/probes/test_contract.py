"""What every probe promises: it tells the bad specimen from the good one, and its own advice passes it."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

from auditkit.model.enums import Contract, DeviceChoice, Outcome, Reason
from auditkit.model.target import Target
from auditkit.probing.catalog import load_catalog, load_module, read_probe
from tests.probes.specimens import PROBES, REPRODUCED, SOUND, SPECIMEN, audited
from tests.probing_helpers import COUNTS, OVERFLOW, SYNCS, by_probe, outcomes, run_probes

CATALOG = load_catalog()


def test_every_probe_that_exists_is_tested_here() -> None:
    assert set(CATALOG) == set(PROBES)


@pytest.mark.parametrize("probe_id", PROBES)
def test_a_definition_is_complete(probe_id: str) -> None:
    probe = CATALOG[probe_id]
    texts = (probe.title, probe.motivation, probe.method, probe.limits, probe.remediation, probe.remediation_code)
    assert all(text.strip() for text in texts)
    assert probe.contracts
    assert probe.categories
    assert probe.verification
    assert (probe.lifecycle, probe.version >= 1) == ("stable", True)
    assert not probe.title.endswith(".")


@pytest.mark.parametrize("probe_id", PROBES)
def test_every_measurement_has_its_unit_in_the_definition(probe_id: str) -> None:
    units = CATALOG[probe_id].units
    for function in REPRODUCED:
        for measured in by_probe(audited("defective", function))[probe_id].measurements:
            assert measured.name in units, f"{measured.name} is not in the definition"
            assert measured.unit == units[measured.name]


@pytest.mark.parametrize("function", REPRODUCED)
def test_a_defective_target_reproduces_its_defects_and_no_others(function: str) -> None:
    """Every reproduced probe says where, how bad, and on what evidence."""
    run = audited("defective", function)
    found = [result for result in run.results if result.outcome is Outcome.REPRODUCED]
    assert {result.probe for result in found} == REPRODUCED[function]
    for result in found:
        assert result.severity is not None
        assert result.location is not None
        assert result.excerpt is not None
        assert result.location.file == "gradmon/defective.py"
        assert result.evidence is not None


def test_every_probe_reproduces_on_some_defective_target() -> None:
    assert set().union(*REPRODUCED.values()) == set(PROBES)


@pytest.mark.parametrize("function", SOUND)
def test_a_sound_target_reproduces_nothing(function: str) -> None:
    answers = set(outcomes(audited("sound", function)).values())
    assert answers <= {"not_reproduced", "not_applicable"}


@pytest.mark.parametrize("probe_id", PROBES)
def test_every_probe_passes_some_sound_target(probe_id: str) -> None:
    """Not by being out of scope everywhere."""
    assert "not_reproduced" in {outcomes(audited("sound", function))[probe_id] for function in SOUND}


def test_a_contract_that_it_does_not_cover_is_not_applicable() -> None:
    assert all(Contract.SHARD_PLAN not in probe.contracts for probe in CATALOG.values())
    run = run_probes(SPECIMEN, Target("gradmon.sound:foreach_norm", contract=Contract.SHARD_PLAN), PROBES)
    expected = (Outcome.NOT_APPLICABLE, "the probe does not cover the contract shard_plan")
    assert {(result.outcome, result.message) for result in run.results} == {expected}
    assert outcomes(audited("sound", "foreach_norm"))[COUNTS] == "not_applicable"


def test_without_a_gpu_every_probe_is_unavailable_on_cuda(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    run = run_probes(SPECIMEN, Target("gradmon.sound:foreach_norm"), PROBES, device=DeviceChoice.CUDA)
    answers = {(result.outcome, result.reason) for result in run.results}
    assert answers == {(Outcome.UNAVAILABLE, Reason.NO_DEVICE)}


# --- judging -------------------------------------------------------------------------------------


def test_judging_needs_neither_torch_nor_anything_of_ours() -> None:
    """In a process of its own, every `judge` judges stored measurements; torch is never imported."""
    stored = {
        result.probe: [measured.to_json() for measured in result.measurements]
        for function in ("per_layer_norms", "concatenated_quality", "collect_health_async")
        for result in audited("defective", function).results
        if result.outcome is Outcome.REPRODUCED
    }
    code = (
        "import json, runpy, sys, types\n"
        "for path, policy, stored in json.load(sys.stdin):\n"
        "    named = [types.SimpleNamespace(**m) for m in stored]\n"
        "    for m in named: m.value = float(m.value) if m.value in ('inf', 'nan') else m.value\n"
        "    assert runpy.run_path(path)['judge'](named, policy)['outcome'] == 'reproduced', path\n"
        "assert not {'torch', 'auditkit'} & set(sys.modules), 'imported'\n"
    )
    jobs = [(str(CATALOG[probe].path), dict(CATALOG[probe].policy), rows) for probe, rows in stored.items()]
    assert len(jobs) == len(PROBES)
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


@pytest.mark.parametrize("probe_id", PROBES)
def test_the_recommended_code_passes_its_own_probe_and_all_others(probe_id: str, advice: Path) -> None:
    """No advice trades one finding for another."""
    function = re.findall(r"^def (\w+)", CATALOG[probe_id].remediation_code, re.MULTILINE)[-1]
    answers = outcomes(run_probes(advice, f"fix_of_{probe_id}:{function}", PROBES))
    assert answers.pop(probe_id) == "not_reproduced"
    assert set(answers.values()) <= {"not_reproduced", "not_applicable"}


@pytest.mark.parametrize("probe_id", PROBES)
def test_the_recommended_code_answers_an_empty_input(probe_id: str) -> None:
    names: dict = {}
    exec(CATALOG[probe_id].remediation_code, names)
    function = re.findall(r"^def (\w+)", CATALOG[probe_id].remediation_code, re.MULTILINE)[-1]
    assert names[function]([]) is not None


# --- files -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("probe_id", PROBES)
def test_a_probe_file_runs_alone(probe_id: str, tmp_path: Path) -> None:
    """From any folder, with the options of `auditkit probe run`; 1 is the exit code of a finding."""
    function = next(name for name, reproduced in REPRODUCED.items() if probe_id in reproduced and "." not in name)
    command = [sys.executable, str(CATALOG[probe_id].path), "--checkout", str(SPECIMEN), "--json"]
    command += ["--target", f"gradmon.defective:{function}", "--device", "auto", "--python", sys.executable]
    if function.endswith("_async"):
        command += ["--finish", "gradmon.defective:materialize_health"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (1, "")
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
        ("PROBE = {'id': 'mine'}\n", ":1: PROBE lacks the text 'title'"),
    ],
)
def test_a_broken_definition_is_refused_with_file_and_line(text: str, problem: str, tmp_path: Path) -> None:
    from auditkit.errors import BadInputError

    path = tmp_path / "mine.py"
    path.write_text(text)
    with pytest.raises(BadInputError) as refused:
        read_probe(path)
    assert str(path) in str(refused.value)
    assert problem in str(refused.value)


def test_counts_and_syncs_say_when_they_do_not_apply() -> None:
    results = by_probe(audited("sound", "stacked_layer_norms"))
    assert results[COUNTS].outcome is Outcome.NOT_APPLICABLE
    assert "its answer counts no zeros, NaNs or Infs" in results[COUNTS].message
    assert results[SYNCS].law == "1"
