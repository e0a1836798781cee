"""Probes of training steps: each is red on its own specimen and on no other, with values, lines and laws."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from auditkit.model.enums import Contract, Evidence, Outcome, Severity
from auditkit.model.runs.target import Target
from auditkit.probing.engine.catalog import load_catalog
from auditkit.worker.base.refusals import CannotFeedError
from tests.probes.in_process import Answer, ask_all
from tests.probing_helpers import (
    ACCUMULATION,
    FROZEN,
    LIMIT_MISSED,
    LOST,
    LOW_SUMS,
    MISSES,
    NAN_STEP,
    SCALED_CLIP,
    STEPS,
    WAITS,
    run_probes,
)

CATALOG = load_catalog()
SPECIMEN = Path(__file__).parents[2] / "probes" / "specimens" / "training_steps"
REPRODUCED = {
    "train_on_sums": {ACCUMULATION},
    "train_on_means": {ACCUMULATION},
    "train_and_clip": {LIMIT_MISSED},
    "train_and_clip_each": {LIMIT_MISSED},
    "train_in_half": {SCALED_CLIP},
    "train_weights": {MISSES},
    "train_last_micro_batch": {LOST},
    "train_without_zeroing": {LOST},
    "train_past_nan": {NAN_STEP},
    "train_unfrozen": {FROZEN},
    "train_in_bfloat16": {LOW_SUMS},
    "train_and_log": {WAITS},
}
SOUND = (
    "train_accumulating",
    "train_by_token",
    "train_and_clip",
    "train_in_half",
    "train_all",
    "train_past_nan",
    "train_frozen",
    "train_and_log",
    "Trainer.train_step",
)
LINES = {
    "train_on_sums": "loss.backward()",
    "train_and_clip": "clip_grad_norm_(model.parameters(), max_norm)",
    "train_in_half": "clip_grad_norm_(model.parameters(), max_norm)",
    "train_weights": "optimizer = torch.optim.SGD(",
    "train_last_micro_batch": "optimizer.zero_grad()",
    "train_without_zeroing": "optimizer.step()",
    "train_past_nan": "optimizer.step()",
    "train_and_log": "loss.item()",
}
"""The line of the loop that causes the defect."""
TARGETS = [("defective", name) for name in REPRODUCED] + [("sound", name) for name in SOUND]


@pytest.fixture(autouse=True)
def _specimen(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(SPECIMEN))


def asked(kind: str, function: str) -> dict[str, Answer]:
    return ask_all(Target(f"trainsteps.{kind}:{function}", contract=Contract.TRAIN_STEP), STEPS, SPECIMEN)


@pytest.mark.parametrize(("kind", "function"), TARGETS)
def test_a_specimen_reproduces_its_defect_and_no_other(kind: str, function: str) -> None:
    answers = asked(kind, function)
    expected = REPRODUCED[function] if kind == "defective" else set()
    assert {probe for probe, answer in answers.items() if answer.outcome == "reproduced"} == expected
    assert {answer.outcome for answer in answers.values()} <= {"reproduced", "not_reproduced", "not_applicable"}
    source = (SPECIMEN / "trainsteps" / "defective.py").read_text().splitlines()
    for probe in expected:
        line = answers[probe].line
        assert line is not None
        assert LINES.get(function, "") in source[line - 1]
    for probe, answer in answers.items():
        assert {row.name: row.unit for row in answer.rows}.items() <= CATALOG[probe].units.items()


@pytest.mark.parametrize("probe_id", STEPS)
def test_the_recommended_code_passes_every_probe(
    probe_id: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    code = CATALOG[probe_id].remediation_code
    (tmp_path / f"fix_of_{probe_id}.py").write_text(code, encoding="utf-8")
    monkeypatch.syspath_prepend(str(tmp_path))
    function = re.findall(r"^def (\w+)", code, re.MULTILINE)[-1]
    target = Target(f"fix_of_{probe_id}:{function}", contract=Contract.TRAIN_STEP)
    answers = ask_all(target, STEPS, tmp_path)
    assert answers[probe_id].outcome == "not_reproduced"
    assert {answer.outcome for answer in answers.values()} <= {"not_reproduced", "not_applicable"}


@pytest.mark.process
def test_a_real_worker_finds_the_step_and_tells_what_was_made_up() -> None:
    """With the location, the severity and the evidence that a ticket needs."""
    target = Target("trainsteps.defective:train_on_sums", contract=Contract.TRAIN_STEP)
    result, other = run_probes(SPECIMEN, target, [ACCUMULATION, WAITS]).results
    assert (result.outcome, result.severity, result.evidence) == (Outcome.REPRODUCED, Severity.P0, Evidence.MEASURED)
    assert result.law == "norm ratio N"
    assert result.location is not None
    assert result.location.file == "trainsteps/defective.py"
    assert "batches=batches of three samples" in result.notes[0]
    assert (other.outcome, other.evidence) == (Outcome.NOT_REPRODUCED, Evidence.SIMULATED)


SCRIPT = """\
import torch
from torch.nn.utils import clip_grad_norm_

grad_clip, accumulation_steps = 1.0, 8
model = torch.load("model.pt")
optimizer = torch.optim.AdamW(model.parameters())
x, y = get_batch("train")
while True:
    for micro_step in range(accumulation_steps):
        logits, loss = model(x, y)
        x, y = get_batch("train")
        (loss / accumulation_steps).backward()
    clip_grad_norm_(model.parameters(), grad_clip)
    optimizer.step()
    optimizer.zero_grad()
"""


@pytest.mark.process
def test_the_loop_of_a_script_is_asked_where_it_stands(tmp_path: Path) -> None:
    """A sound one is silent; with one statement moved each defect is red, at the script's own line."""
    probes = [ACCUMULATION, LIMIT_MISSED, LOST]
    late = SCRIPT.replace("    clip_grad_norm_", "    optimizer.step()\n    clip_grad_norm_").replace(
        "grad_clip)\n    optimizer.step()", "grad_clip)"
    )
    undivided = SCRIPT.replace("(loss / accumulation_steps)", "loss")
    found = {}
    for name, text in {"sound": SCRIPT, "late": late, "undivided": undivided}.items():
        (tmp_path / f"{name}.py").write_text(text, encoding="utf-8")
        target = Target(f"{name}.py:#training_step", contract=Contract.TRAIN_STEP)
        results = run_probes(tmp_path, target, probes).results
        assert {each.outcome for each in results} <= {Outcome.REPRODUCED, Outcome.NOT_REPRODUCED}
        found[name] = {
            each.probe: text.split("\n")[each.location.line - 1].strip()
            for each in results
            if each.outcome is Outcome.REPRODUCED and each.location is not None
        }
    assert found == {
        "sound": {},
        "late": {LIMIT_MISSED: "clip_grad_norm_(model.parameters(), grad_clip)"},
        "undivided": {ACCUMULATION: "loss.backward()"},
    }


def test_which_parameters_two_optimizers_have_is_not_made_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two of the same parameters would step twice on one gradient, and be told as stale."""
    (tmp_path / "two_optimizers.py").write_text(
        "def train(model, criterion, loader, host_optimizer, seed_optimizer):\n"
        "    for x, y in loader:\n"
        "        host_optimizer.zero_grad()\n        seed_optimizer.zero_grad()\n"
        "        criterion(model(x), y).backward()\n"
        "        host_optimizer.step()\n        seed_optimizer.step()\n",
        encoding="utf-8",
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    with pytest.raises(CannotFeedError, match="several optimizers"):
        ask_all(Target("two_optimizers:train", contract=Contract.TRAIN_STEP), [LOST], tmp_path)
