"""Rewrites of training steps: the rewritten step passes every probe, and the text is what a person would write."""

from __future__ import annotations

import ast
import shutil
import sys
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from auditkit.model.enums import Contract
from auditkit.model.runs.run import Finding, ProbeResult
from auditkit.model.runs.target import Target
from auditkit.probing.checkouts.checkout import parse_checkout
from auditkit.probing.hosts.catalog import load_catalog
from auditkit.probing.patching.patches import FunctionFile
from auditkit.probing.patching.rewrites.rewrite import Edit, Rewrite, rewrites_of
from auditkit.store.config.config import Config
from auditkit.workflows.audit.measurement import ask
from auditkit.workflows.audit.run_options import RunOptions
from auditkit.workflows.fixes.bench import Bench
from auditkit.workflows.fixes.fix_search import Found, Search
from auditkit.workflows.fixes.fix_trials import Scene
from tests.probes.in_process import ask_all
from tests.probes.test_step_probes import REPRODUCED, SPECIMEN
from tests.probing.patching.rewrites.places import after, rewrites
from tests.probing_helpers import ACCUMULATION, LOST, LOW_SUMS, SCALED_CLIP, STEPS, TARGETS, WAITS

Rewrites = Callable[[FunctionFile, Sequence[ProbeResult]], Sequence[Rewrite]]
LOOPS = TARGETS / "steps" / "loops.py"
REWRITE = {
    "train_on_sums": "divided_by_count",
    "train_on_means": "weighed_by_targets",
    "train_and_clip": "clipped_before_step",
    "train_and_clip_each": "clipped_before_step",
    "train_in_half": "unscaled_before_clip",
    "train_last_micro_batch": "zeroed_once",
    "train_without_zeroing": "zeroed_after_step",
    "train_past_nan": "left_out_if_nonfinite",
    "train_in_bfloat16": "summed_in_float32",
    "train_and_log": "added_up_on_device",
}
OF_LOOPS = {
    "train_every_fourth_undivided": (ACCUMULATION, "divided_by_count"),
    "train_stepping_twice": (LOST, "stepped_once"),
    "train_keeping_nan": (LOST, "zeroed_when_left_out"),
    "MixedTrainer.train_batch": (SCALED_CLIP, "unscaled_before_clip"),
}
CASES = [
    *((SPECIMEN / "trainsteps" / "defective.py", name, *REPRODUCED[name], REWRITE[name]) for name in REWRITE),
    *((LOOPS, name, *found) for name, found in OF_LOOPS.items()),
]


@pytest.mark.parametrize(("file", "function", "probe", "name"), CASES, ids=[case[1] for case in CASES])
def test_a_rewritten_step_passes_every_probe(
    file: Path, function: str, probe: str, name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = file.read_text()
    found = after(tmp_path, source, name, probe, call=f"watch:{function}")
    assert found != source
    shutil.copytree(file.parent, tmp_path, dirs_exist_ok=True)
    module = f"fixed_{function.replace('.', '_')}"
    (tmp_path / f"{module}.py").write_text(found)
    monkeypatch.syspath_prepend(str(tmp_path))
    answers = ask_all(Target(f"{module}:{function}", contract=Contract.TRAIN_STEP), STEPS, tmp_path)
    assert answers[probe].outcome == "not_reproduced", answers[probe].message
    assert {answer.outcome for answer in answers.values()} <= {"not_reproduced", "not_applicable"}


SHAPES = """import torch


def measure(model, optimizer, scaler, loader, use_amp, max_norm, accum):
    losses = []
    for i, (x, y) in enumerate(loader):
        # each micro-batch
        optimizer.zero_grad()
        loss = model(x, y) / accum
        scaler.scale(loss / accum).backward()
        losses.append(loss.item())
        if (i + 1) % accum == 0:
            # keep it small
            torch.nn.utils.clip_grad_norm_(model.parameters(), max_norm)
            if use_amp:
                scaler.step(optimizer)
                scaler.update()
    return losses
"""


@pytest.mark.parametrize(
    ("name", "probe", "before", "wanted"),
    [
        (
            "unscaled_before_clip",
            SCALED_CLIP,
            "            # keep it small\n",
            "            if use_amp:\n                scaler.unscale_(optimizer)\n            # keep it small\n",
        ),
        (
            "zeroed_once",
            LOST,
            "                scaler.update()\n",
            "scaler.update()\n                # each micro-batch\n                optimizer.zero_grad()\n",
        ),
        ("read_once", WAITS, "loss.item()", "loss.detach()"),
    ],
)
def test_conditions_comments_and_the_scaler_are_kept(
    name: str, probe: str, before: str, wanted: str, tmp_path: Path
) -> None:
    found = after(tmp_path, SHAPES, name, probe)
    ast.parse(found)
    assert SHAPES.replace(before, wanted) != SHAPES
    assert wanted in found


def found_for(folder: Path, call: str, probe: str, rewrites: Rewrites) -> Found:
    """The fix that a search with these rewrites finds for one finding of the training step."""
    spec, options = parse_checkout(str(folder)), RunOptions(Config(), sys.executable, time_limit_s=60.0)
    infos = [load_catalog()[probe]]
    with options.open(spec) as opened, Bench.open(spec, sys.executable) as bench:
        run = ask(options, opened, [Target(call, contract=Contract.TRAIN_STEP)], infos)
        finding = Finding(infos[0], run.results[0], run.environment, run.id, run.targets[0].target)
        scene = Scene(spec, opened, {"": options}, infos, "")
        return Search(scene, run, [bench], 120.0, rewrites=rewrites).fixes_of([[finding]])


@pytest.mark.process
def test_a_change_that_ends_its_finding_and_doubles_the_gradient_is_no_fix(tmp_path: Path) -> None:
    """No probe reports a loss twice as large; the optimizer's gradients show it, and the next change is taken."""
    shutil.copytree(SPECIMEN / "trainsteps", tmp_path / "trainsteps")

    def proposed(place: FunctionFile, findings: Sequence[ProbeResult]) -> list[Rewrite]:
        right = rewrites_of(place, findings)
        lines = place.text.split("\n")
        number = next(n for n, line in enumerate(lines) if "scaler.scale(" in line)
        place_of_loss = number + 1, lines[number].index("functional")
        twice = Edit(place_of_loss, place_of_loss, "2 * ")
        return [replace(right[0], edits=(*right[0].edits, twice)), *right]

    (fix,) = found_for(tmp_path, "trainsteps.defective:train_in_half", SCALED_CLIP, proposed).fixes
    assert "+        scaler.unscale_(optimizer)" in fix.difference
    assert "2 * " not in fix.difference


GUARDED = """import torch
from torch.nn import functional


def train(model, optimizer, loader, accum, max_norm):
    norm, total = torch.tensor(0.0), 0
    for i, (x, y) in enumerate(loader):
        scores = model(x).flatten(0, 1)
        (functional.cross_entropy(scores, y.flatten(), ignore_index=-100) / accum).backward()
        if (i + 1) % accum == 0:
            norm = torch.nn.utils.clip_grad_norm_(model.parameters(), max_norm)
            if torch.isfinite(norm):
                optimizer.step()
            optimizer.zero_grad()
    return norm
"""
LOSS, STEP = (line + 1 for line, text in enumerate(GUARDED.split("\n")) if "accum)" in text or "r.step()" in text)
NORMALIZED = (
    "for p in model.parameters():\n{0}    if p.grad is not None:\n{0}        p.grad.div_(total)\n{0}total = 0\n{0}"
)


def normalized_at(line: int, indentation: int) -> Rewrite:
    """Losses weighed by their targets, and the gradients divided by their sum above a line."""
    lines = GUARDED.split("\n")
    loss = lines[LOSS - 1].replace("(functional", "(n * functional").replace(" / accum)", ")")
    counted = "        n = (y != -100).sum()\n        total += n\n"
    edits = (
        Edit((LOSS, 0), (LOSS, len(lines[LOSS - 1])), counted + loss),
        Edit((line, indentation), (line, indentation), NORMALIZED.format(" " * indentation)),
    )
    return Rewrite("normalized", frozenset({ACCUMULATION}), f"line {line}: changed", edits)


@pytest.mark.acceptance
@pytest.mark.process
def test_gradients_that_are_normalized_behind_the_clip_are_no_fix(tmp_path: Path) -> None:
    """Without a limit that clips they are right; with one the optimizer receives next to nothing."""
    (tmp_path / "guarded.py").write_text(GUARDED, "utf-8")
    found = found_for(tmp_path, "guarded:train", ACCUMULATION, lambda *_: [normalized_at(STEP, 16)])
    assert found.fixes == ()
    (why,) = found.no_fix.values()
    assert "of the return value" in why
    assert why.endswith("which is not the reference in float64")


@pytest.mark.process
def test_the_rewrite_of_a_guarded_step_normalizes_before_the_clip(tmp_path: Path) -> None:
    (tmp_path / "guarded.py").write_text(GUARDED, "utf-8")
    (fix,) = found_for(tmp_path, "guarded:train", ACCUMULATION, rewrites_of).fixes
    after = [line for line in fix.difference.splitlines() if not line.startswith("-")]
    numbers = [next(n for n, line in enumerate(after) if text in line) for text in (".mul_(accum", "clip_grad_norm_")]
    assert numbers == sorted(numbers)


def test_each_of_two_divisions_is_taken_out_in_turn(tmp_path: Path) -> None:
    """No run has said yet which of them is one too many."""
    assert sum(one.name == "divided_once" for one in rewrites(tmp_path, SHAPES, ACCUMULATION)) == 2


def test_what_is_right_already_is_not_rewritten(tmp_path: Path) -> None:
    source = (SPECIMEN / "trainsteps" / "sound.py").read_text()
    for function, probe in (("train_in_half", SCALED_CLIP), ("train_accumulating", LOW_SUMS)):
        assert rewrites(tmp_path, source, probe, call=f"watch:{function}") == []
