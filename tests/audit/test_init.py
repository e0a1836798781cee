"""`init` writes a file that `audit` takes, whatever the checkout, the interpreter and the place of the file are."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from auditkit.audit.audit import AuditRequest, audit
from auditkit.audit.init import init
from auditkit.config.config import read_config
from auditkit.errors import BadInputError
from auditkit.model.runs.run import Run
from auditkit.probing.engine.catalog import load_catalog
from auditkit.probing.run.configuration import checkout_of
from auditkit.probing.run.run_options import RunOptions
from tests.filing_helpers import put
from tests.probing_helpers import OVERFLOW
from tests.project_files import auditkit
from tests.verify_helpers import git

pytestmark = pytest.mark.process

SOURCE = """\
import torch

def grad_norm(parameters):
    return torch.stack([p.grad.norm() for p in parameters]).norm()

def step(parameters, limit):
    torch.nn.utils.clip_grad_norm_(parameters, limit)
    torch.nn.utils.clip_grad_norm_(parameters, limit, norm_type=1)
    torch.nn.utils.clip_grad_norm_(parameters, limit, norm_type=3)
"""
CALLS = ["stats:grad_norm", "stats:step", *["torch.nn.utils:clip_grad_norm_"] * 3]


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    folder = tmp_path / "work" / "code"
    put(folder, "stats.py", SOURCE)
    for words in (["init", "-q"], ["add", "-A"], ["commit", "-qm", "one"], ["tag", "v1"]):
        git(folder, *words)
    return folder


def audited(path: Path) -> Run:
    """The run of `auditkit audit --config path`."""
    config = read_config(path, load_catalog, is_named=True)
    return audit(AuditRequest(checkout_of(None, config), (RunOptions(config),), probes=(OVERFLOW,)))


def asked(run: Run) -> list[str]:
    return [result.target for result in run.results if result.loaded]


def test_the_checkout_as_it_lies(checkout: Path) -> None:
    """Every target has a name of its own, and torch's own function stays torch's."""
    run = audited(init(str(checkout)).path)
    assert sorted(asked(run)) == CALLS
    assert {reading.target.name for reading in run.targets} == {
        "grad-norm", "step", "clip-grad-norm", "clip-grad-norm-norm-type", "clip-grad-norm-norm-type-2",
    }  # fmt: skip
    assert all(bool(one.owner) == one.target.startswith("torch.") for one in run.results if one.severity)


@pytest.mark.parametrize("output", [pytest.param(None, marks=pytest.mark.acceptance), "audits/auditkit.yaml"])
def test_a_revision_is_written_down(checkout: Path, output: str | None) -> None:
    """Also in the checkout's own folder, where the file at that revision does not lie."""
    put(checkout, "stats.py", "")
    folder = checkout.parent
    if output is not None:
        put(folder, output, "")  # as --cage creates it
    run = audited(init(f"{checkout}@v1", output=folder / output if output else None).path)
    assert run.environment.checkout == f"{checkout}@v1"
    assert sorted(asked(run)) == CALLS


LOOPS = """\
import argparse

import torch

def make(width):
    return torch.nn.Linear(width, width)

def stale(count):
    ddpm = make(count)
    optim = make_optimizer(ddpm)
    for x, _ in read(count):
        loss = ddpm(x).mean()
        loss.backward()
        optim.step()

def fresh(count):
    ddpm = make(count)
    optim = make_optimizer(ddpm)
    for x, _ in read(count):
        optim.zero_grad()
        loss = ddpm(x).mean()
        loss.backward()
        optim.step()
        log(loss)

def third(h, ddpm, optim):
    for x, _ in read(3):
        optim.zero_grad()
        (h.weight * ddpm(x)).mean().backward()
        torch.nn.utils.clip_grad_norm_(ddpm.parameters(), h.grad_clip)
        optim.step()
"""
ADAPTED = '''
def step(model, optimizer, batches):
    """train.py:28: train.py:third#training_step"""
    # Obstacle: AttributeError: 'NoneType' object has no attribute 'weight' (train.py:29)

    ddpm = model
    optim = optimizer
    h = ...
    for x, _ in batches:
        optim.zero_grad()
        (h.weight * ddpm(x)).mean().backward()
        torch.nn.utils.clip_grad_norm_(ddpm.parameters(), h.grad_clip)
        optim.step()


def step_2(model, optimizer, batches):
    """train.py:12: train.py:stale#training_step"""
    # Obstacle: no name that it reads shows the model and its batches (ddpm, x, optim)

    ddpm = ...  # train.py:9: ddpm = make(count)
    optim = optimizer
    for x, _ in batches:
        loss = ddpm(x).mean()
        loss.backward()
        optim.step()

'''


def test_a_step_that_cannot_be_called_gets_an_adapter_to_complete(tmp_path: Path) -> None:
    """Completed, it is checked in place of the program's own loop: a defect is found, its counterpart passes."""
    put(tmp_path, "train.py", LOOPS)
    done = init(str(tmp_path))
    assert done.adapter is not None
    text = done.adapter.read_text()
    assert ADAPTED in text
    done.adapter.write_text(text.replace("ddpm = ...", "ddpm = model", 2))
    config = read_config(done.path, load_catalog, is_named=True)
    stale = "gradients_lost_or_stale"
    run = audit(AuditRequest(checkout_of(None, config), (RunOptions(config),), probes=(stale,)))
    found = {one.target: (one.outcome.value, one.message) for one in run.results if one.probe == stale}
    assert [found[f"auditkit_step:{name}"][0] for name in ("step", "step_2", "step_3")] == [
        "error", "reproduced", "not_reproduced",
    ]  # fmt: skip
    assert "AttributeError: 'ellipsis' object has no attribute 'weight'" in found["auditkit_step:step"][1]
    assert "(auditkit_step.py:" in found["auditkit_step:step"][1]
    assert [each.call for each in run.candidates if not (each.excluded or each.places)] == []
    with pytest.raises(BadInputError, match=r"auditkit\.yaml exists already"):
        init(str(tmp_path))
    done.path.unlink()
    assert (init(str(tmp_path)).adapter, done.adapter.read_text().count("ddpm = model")) == (None, 3)


def test_without_a_checkout_the_folder_of_the_file_is_audited(tmp_path: Path) -> None:
    put(tmp_path, "stats.py", SOURCE)
    asked = ("audit", "--probe", "sync_in_loop", "--json", "--no-tickets")
    named = []
    for text in (None, "batch: 1\n"):
        if text:
            put(tmp_path, "auditkit.yaml", text)
        named.append(json.loads(auditkit(*asked, cwd=tmp_path).stdout)["run"]["checkout"])
    assert named == ["bundled specimen", str(tmp_path)]
