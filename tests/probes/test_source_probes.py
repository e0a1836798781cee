"""What every source probe promises, over a checkout that is read and never run: `training_telemetry`."""
# ruff: noqa: F403, F405 - the names of probes

from __future__ import annotations

from functools import cache
from pathlib import Path

import pytest

from auditkit.model.enums import Evidence, Outcome
from auditkit.model.runs.run import ProbeResult
from auditkit.probing.engine.catalog import load_catalog
from tests.probing_helpers import HEALTH, LAUNCHES, OVERFLOW, SYNCS, UNDERFLOW, outcomes, run_probes
from tests.project_files import ROOT
from tests.source_helpers import *

pytestmark = pytest.mark.process

SPECIMEN = ROOT / "probes" / "specimens" / "training_telemetry"
MAIN_SPECIMEN = ROOT / "probes" / "specimens" / "gradient_monitoring"
CATALOG = {name: probe for name, probe in load_catalog().items() if probe.scope == "source"}

# Subject, severity, file:line and message of every finding in `unwired`.
UNWIRED = {
    COLLECT: {
        "unwired.dual:materialize_dual_norms": (
            "P3",
            "unwired/dual.py:23",
            "no public function returns its input (the keys host_size, host_squared, seed_size, "
            "seed_squared); written by hand at unwired/loop.py:16 in train_step",
        )
    },
    EXPORT: {
        "unwired.collector": (
            "P4",
            "unwired/__init__.py:3",
            "unwired exports GradientHealth of this module, and lacks GradientCollector (imported by 1 file)",
        )
    },
    UNUSED: {
        "unwired.norms": (
            "P4",
            "unwired/norms.py:16",
            "1 public function is referred to by nothing in the checkout: norm_histogram (line 16)",
        )
    },
    DEFAULT: {
        f"unwired:{parameter}={number}": (
            "P4",
            "unwired/collector.py:24",
            "2 signatures repeat the same default: GradientCollector.__init__ (collector.py:24), "
            "collect_gradients (collector.py:39)",
        )
        for parameter, number in (("vanishing_norm", "1e-07"), ("exploding_norm", "100"))
    },
    UNTESTED: {"unwired.norms": ("P4", "unwired/norms.py:16", "no test names norm_histogram (line 16)")},
    LOOP: {
        "unwired.norms:layer_norms": (
            "P2",
            "unwired/norms.py:8",
            "1 line waits for the device inside a loop over tensors: line 8, .item() of parameter.grad.norm() "
            "(loop over named_parameters)",
        )
    },
    PRIVATE: {
        "unwired.norms": (
            "P4",
            "unwired/norms.py:13",
            "1 private name of torch without version guard or fallback: torch._foreach_norm (line 13)",
        )
    },
}
# The function that the advice is about, where it writes a collector.
ADVISED = dict.fromkeys((COLLECT, LOOP, PRIVATE), "advice:gradient_norms")


@cache
def results() -> tuple[ProbeResult, ...]:
    return tuple(read(SPECIMEN))


def test_every_source_probe_that_exists_is_tested_here() -> None:
    assert set(CATALOG) == set(SOURCE_PROBES) == set(UNWIRED)


@pytest.mark.parametrize("probe_id", SOURCE_PROBES)
def test_the_unwired_package_reproduces(probe_id: str) -> None:
    """Each finding with its subject, severity, line, and the sentence that the ticket will hold."""
    found = findings([result for result in results() if result.probe == probe_id])
    shown = {
        name: (str(result.severity), f"{result.location.file}:{result.location.line}", result.message)
        for name, result in found.items()
    }
    assert shown == UNWIRED[probe_id]
    for result in found.values():
        line = (SPECIMEN / result.location.file).read_text(encoding="utf-8").splitlines()[result.location.line - 1]
        assert line in result.excerpt.lines
        assert result.evidence is Evidence.READ
        assert {(m.name, m.unit) for m in result.measurements} <= set(CATALOG[probe_id].units.items())


@pytest.mark.parametrize("probe_id", SOURCE_PROBES)
def test_the_wired_package_does_not(probe_id: str, tmp_path: Path) -> None:
    """Alone, with its tests: one answer, which says what was examined."""
    for part in ("wired", "tests"):
        for path in (SPECIMEN / part).rglob("*.py"):
            text = path.read_text(encoding="utf-8")
            write(tmp_path, {path.relative_to(SPECIMEN).as_posix(): text})
    (result,) = read(tmp_path, probe_id)
    assert (result.outcome, result.target) == (Outcome.NOT_REPRODUCED, "wired")
    assert any(m.name == "files_examined" and m.value == 5 for m in result.measurements)


def test_nothing_is_found_in_the_sound_specimens_of_the_other_probes() -> None:
    """One line repairs what one probe reports: the sound collectors are sound for readers of their source too."""
    files = {result.location.file for result in read(MAIN_SPECIMEN, *SOURCE_PROBES) if result.location is not None}
    assert "gradmon/defective.py" in files
    assert [file for file in files if "sound" in file] == []


@pytest.mark.parametrize("probe_id", SOURCE_PROBES)
def test_an_empty_checkout_has_one_answer(probe_id: str, tmp_path: Path) -> None:
    (result,) = read(tmp_path, probe_id)
    assert (result.outcome, result.target) == (Outcome.NOT_APPLICABLE, "source")
    assert result.message == "the checkout has no module that it checks"


def test_a_checkout_without_tests_has_no_finding_for_each_module(tmp_path: Path) -> None:
    (result,) = read(write(tmp_path, {"a.py": "def f():\n    pass\n", "b.py": "def g():\n    pass\n"}), UNTESTED)
    expected = "the checkout has no test file (test_*.py, *_test.py, tests/)"
    assert (result.outcome, result.message) == (Outcome.NOT_APPLICABLE, expected)


# --- the advice ------------------------------------------------------------------------------------


@pytest.mark.parametrize("probe_id", [name for name, advised in ADVISED.items() if advised])
def test_the_recommended_code_passes_its_own_probe(probe_id: str, tmp_path: Path) -> None:
    """And the others: what it leaves are functions that its reader is meant to call."""
    by_probe: dict[str, set[Outcome]] = {}
    for result in read(write(tmp_path, {"advice.py": CATALOG[probe_id].remediation_code})):
        by_probe.setdefault(result.probe, set()).add(result.outcome)
    assert by_probe.pop(probe_id) == {Outcome.NOT_REPRODUCED}
    by_probe.pop(UNUSED, None)
    assert set().union(*by_probe.values()) <= {Outcome.NOT_REPRODUCED, Outcome.NOT_APPLICABLE}


@pytest.mark.acceptance
@pytest.mark.parametrize("probe_id", [name for name, advised in ADVISED.items() if advised])
def test_the_recommended_code_passes_target_probes(probe_id: str, tmp_path: Path) -> None:
    """No advice on the source trades its finding for one of another kind; the probes that take minutes left out."""
    quick = (OVERFLOW, UNDERFLOW, HEALTH, SYNCS, LAUNCHES)
    write(tmp_path, {"advice.py": CATALOG[probe_id].remediation_code})
    answers = outcomes(run_probes(tmp_path, ADVISED[probe_id], quick))
    assert set(answers.values()) <= {"not_reproduced", "not_applicable"}, answers
    assert "not_reproduced" in answers.values()
