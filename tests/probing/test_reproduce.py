"""The script of a finding: it runs in plain torch, prints the defect, and is no script where the defect is fixed."""

from __future__ import annotations

import functools
import shutil
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from auditkit.audit.audit import specimen_dir
from auditkit.audit.filing import with_reproductions
from auditkit.model.enums import Outcome
from auditkit.model.runs.run import Environment, Finding, ProbeResult, Run, TargetReading
from auditkit.model.runs.target import Target
from auditkit.probing.engine.catalog import load_catalog, select
from auditkit.probing.engine.sandbox import Setting
from auditkit.probing.reproduce import MOST_LINES, NoReproduction, Reproduction, reproduction
from auditkit.probing.run.measurement import Progress, Questions, measure

pytestmark = pytest.mark.process
PLACE = Environment("", "", False, "", "", "", "")
MODULE = "gradmon.defective"
NORM, LAYERS, QUALITY = f"{MODULE}:squared_sum_norm", f"{MODULE}:per_layer_norms", f"{MODULE}:concatenated_quality"
HEALTH, MONITOR = f"{MODULE}:collect_health_async", f"{MODULE}:IsolationMonitor.check_isolation"
# Of each target the probe, and what its script prints last.
FINDINGS = {
    NORM: ("norm_underflows_to_zero", "elements of 1e-30: 0.0"),
    LAYERS: ("syncs_grow_with_tensors", "64 tensors: 64 device values read"),
    QUALITY: ("fails_on_noncontiguous_grads", "RuntimeError: view size is not"),
    HEALTH: ("nonfinite_grads_look_healthy", "with nan: {'grad_norm': nan, 'health': 1.0, 'has_exploding': False}"),
    MONITOR: (
        "norm_overflows_on_finite_grads",
        "elements of 1e+20: {'isolated': False, 'host_norm': inf, 'seed_norm': 0.0}",
    ),
}


def setting_of(folder: Path) -> Setting:
    return Setting(folder, sys.executable, (folder,))


Found = Callable[[str], tuple[ProbeResult, TargetReading]]


@pytest.fixture(scope="module")
def found() -> Found:
    """What gives the result of a target's probe, with the target as the worker called it; measured once."""

    @functools.cache
    def measured(call: str) -> tuple[ProbeResult, TargetReading]:
        finish = f"{MODULE}:materialize_health" if call == HEALTH else None
        probes = select(load_catalog(), [FINDINGS[call][0]])
        questions = Questions([Target(call, finish=finish)], probes, PLACE, attributed=False)
        run = measure(questions, setting_of(specimen_dir()), Progress())
        return run.results[0], run.targets[0]

    return measured


@pytest.mark.parametrize(
    "call",
    [
        NORM,
        *(
            pytest.param(call, marks=pytest.mark.acceptance if call in (HEALTH, MONITOR) else pytest.mark.slow)
            for call in FINDINGS
            if call != NORM
        ),
    ],
)
def test_a_script_prints_the_defect(call: str, found: Found) -> None:
    _, printed = FINDINGS[call]
    result, reading = found(call)

    made = reproduction(result, reading, setting_of(specimen_dir()))

    assert isinstance(made, Reproduction), made
    assert made.output.split("\n")[-1].startswith(printed)
    lines = made.script.split("\n")
    assert len(lines) <= MOST_LINES
    assert max(map(len, lines)) <= 100
    assert "auditkit" not in made.script
    assert f"from {MODULE} import " in made.script


def test_no_script_is_kept_for_fixed_code(found: Found, tmp_path: Path) -> None:
    result, reading = found(NORM)
    folder = tmp_path / "fixed"
    shutil.copytree(specimen_dir(), folder)
    file = folder / "gradmon" / "defective.py"
    source = file.read_text()
    assert ".grad.float()" in source
    file.write_text(source.replace(".grad.float()", ".grad.double()"))
    again = reproduction(result, reading, setting_of(folder))
    assert again == NoReproduction(f"The script for {result.probe} ran and did not show the defect.")


def test_what_has_no_script_says_why(found: Found) -> None:
    result, reading = found(NORM)
    setting = setting_of(specimen_dir())
    block = replace(reading, target=replace(reading.target, call="train.py:#training_step"))

    assert reproduction(replace(result, device="source"), reading, setting) == NoReproduction(
        "The source was read and nothing was run."
    )
    assert reproduction(result, block, setting) == NoReproduction(
        "The code is a block of a script, which no import reaches."
    )
    unknown = replace(result, probe="norm_depends_on_mesh")
    assert reproduction(unknown, reading, setting) == NoReproduction(
        "No script of 12 lines shows what norm_depends_on_mesh measures."
    )


def test_a_script_that_is_too_long_says_how_many_lines_it_needs(found: Found) -> None:
    result, reading = found(MONITOR)
    longer = replace(result, probe="peak_memory_grows_with_params")
    feed = {**reading.plan["feed"], "slots": ["model"], "setup": "register", "setup_slots": ["model"]}

    absent = replace(reading, plan={**reading.plan, "feed": feed}, placeholders=("absent_here",))
    made = reproduction(longer, absent, setting_of(specimen_dir()))

    assert made == NoReproduction(
        f"A script that calls {MONITOR.partition(':')[2]} needs 13 lines, and a ticket shows at most 12."
    )


def test_a_run_keeps_no_plan_in_its_document(found: Found) -> None:
    result, reading = found(NORM)

    assert reading.plan["feed"]["takes"] == "module"
    assert "plan" not in Run("1", PLACE, (result,), (reading,)).to_json()["targets"][0]


def test_a_ticket_gets_the_script_of_its_worst_finding_that_has_one(
    found: Found,
) -> None:
    probe = load_catalog()["norm_underflows_to_zero"]
    result, reading = found(NORM)
    read = replace(result, device="source", fingerprint="read")
    findings = [Finding(probe, one, PLACE, "1") for one in (read, result)]
    run = Run("1", PLACE, (read, result), (reading,))

    with_script = with_reproductions(run, [findings], setting_of(specimen_dir()))
    without = with_reproductions(run, [findings[:1]], setting_of(specimen_dir()))

    assert list(with_script.scripts) == ["read"]
    assert with_script.scripts["read"].startswith("```python\nimport torch\n")
    assert "elements of 1e-30: 0.0\n```" in with_script.scripts["read"]
    assert with_script.no_script == {}
    assert (without.scripts, without.no_script) == ({}, {"read": "The source was read and nothing was run."})


@pytest.mark.acceptance
def test_an_optimizer_that_was_read_is_called_with_4_and_with_64_parameters(tmp_path: Path) -> None:
    place = tmp_path / "optimizers.py"
    step = "    def step(self):\n        for group in self.param_groups:\n            for p in group['params']:\n"
    defect = "                if p.grad.norm() > 1:\n                    p.data -= p.grad\n"
    head = "import torch\n\n\nclass Slow(torch.optim.Optimizer):\n    def __init__(self, params, lr):\n"
    head += "        super().__init__(params, {'lr': lr})\n\n"
    result = ProbeResult("sync_in_loop", 1, "optimizers:Slow.step", Outcome.REPRODUCED, "", "f", device="source")
    setting = Setting(tmp_path, sys.executable, (tmp_path,))
    place.write_text(head + step + defect)
    made = reproduction(result, None, setting)
    assert isinstance(made, Reproduction), made
    assert made.output == "4 tensors: 4 device values read\n64 tensors: 64 device values read"
    assert made.script.count("\n") < MOST_LINES
    place.write_text("def norms(grads, p=2):\n    return [grad.norm(p).item() for grad in grads]\n")
    made = reproduction(replace(result, target="optimizers:norms"), None, setting)
    assert isinstance(made, Reproduction), made
    assert "as profile: norms(params)\n" in made.script
