"""`auditkit run` records the calls of a program, and `auditkit audit` builds inputs from the file."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

import pytest

from auditkit.model.runs.recorded import RECORDED_NAME, read_recorded
from auditkit.probing.checkout.recorded_file import recorded_in
from tests.project_files import auditkit

pytestmark = pytest.mark.process
SECRET = "sk-live-51Hx"
LIBRARY = """
import dataclasses
import torch

@dataclasses.dataclass
class Config:
    scale: float
    api_key: str
    kind: str = "plain"

class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.first = torch.nn.Linear(5, 3)
        self.last = torch.nn.Linear(3, 2)

    def forward(self, inputs, scale):
        assert scale.kind == "plain"
        return self.last(torch.tanh(self.first(inputs)))

class Holder:
    def __init__(self, model):
        self.model = model

class Trainer:
    def __init__(self, cfg, extra):
        self.cfg, self.extra, self.net = cfg, extra, Net()
        self.held = Holder(self.net)
        self.opt = torch.optim.AdamW(self.net.parameters(), lr=0.01)

    def grad_norm(self, weird, table):
        total = 0.0
        for each in weird.model.parameters():
            if each.grad is not None:
                total += each.grad.norm().item() ** 2
        return total**0.5 * table["one"]

    def training_step(self, x, key):
        self.opt.zero_grad()
        self.net(x, self.cfg).pow(2).mean().backward()
        norm = self.grad_norm(self.held, {"one": 1.0})
        self.opt.step()
        return norm
"""
PROGRAM = """
import os, sys
import torch
from library import Config, Trainer

secret = sys.argv[1]
trainer = Trainer(Config(0.5, secret), {"token": secret, "environment": os.environ})
for _ in range(4):
    trainer.training_step(torch.randn(4, 5), secret)
"""
CALLS = ("library:Trainer.grad_norm", "library:Trainer.training_step")


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A checkout after a run."""
    folder = tmp_path_factory.mktemp("recorded")
    (folder / "library.py").write_text(LIBRARY)
    (folder / "train.py").write_text(PROGRAM)
    os.environ["AUDITKIT_TEST_KEY"] = SECRET
    try:
        ended = auditkit("run", "--", sys.executable, "train.py", SECRET, cwd=folder)
    finally:
        del os.environ["AUDITKIT_TEST_KEY"]
    assert ended.code == 0, ended.stderr
    assert f"recorded 2 functions in {RECORDED_NAME}" in ended.stderr
    return folder


def audited(folder: Path) -> tuple[dict[str, bool], list[dict[str, object]]]:
    """Which candidates an audit could feed, and its results."""
    ended = auditkit("audit", ".", "--json", "--probe", "norm_overflows_on_finite_grads",
                     "--probe", "step_waits_for_the_device", cwd=folder)  # fmt: skip
    document = json.loads(ended.stdout)
    return {each["call"]: each["fed"] for each in document["candidates"]}, document["results"]


def test_the_file_has_structure_and_no_value_of_a_secret(recorded: Path) -> None:
    text = (recorded / RECORDED_NAME).read_bytes()
    run = read_recorded(text)
    assert SECRET.encode() not in text
    assert str(recorded).encode() not in text
    assert '{"k": "str", "n": 12}' in text.decode()  # the key's length
    norm = run.calls[CALLS[0]]
    assert (
        norm.callers, norm.calls_per_step, norm.tensors, norm.dtypes, norm.devices,
    ) == (("library.py:41",), 1.0, 4, ("float32",), ("cpu",))  # fmt: skip


def test_an_audit_calls_what_it_cannot_call_without_the_recording(recorded: Path) -> None:
    fed, results = audited(recorded)
    assert dict.fromkeys(CALLS, True) == fed
    step = next(each for each in results if each["target"] == CALLS[1] and each["probe"] == "step_waits_for_the_device")
    assert step["outcome"] == "reproduced"  # its norm is read with .item()
    assert all(each["met_by"]["source"] == "run" for each in results if each["target"] in CALLS)  # type: ignore[index]
    text = (recorded / RECORDED_NAME).read_bytes()
    try:
        (recorded / RECORDED_NAME).write_text('{"auditkit_recorded": 99}')
        assert "is not used" in recorded_in(recorded)[1]
        ended = auditkit("audit", ".", "--probe", "step_waits_for_the_device", cwd=recorded)
    finally:
        (recorded / RECORDED_NAME).write_bytes(text)
    assert "no gradient collector could be fed" in ended.stderr


@pytest.mark.parametrize(
    ("text", "why"),
    [
        (b'{"auditkit_recorded": 1, "when": "2026-11-24", "torch": "2", "steps": 1, "calls": 3}', "calls"),
        (b"[" * 100_000, "object|recursion"),
        (b" " * 1_000_001, "1,000,001 bytes"),
    ],
    ids=["another form", "deep", "large"],
)
def test_a_file_of_another_form_is_refused(text: bytes, why: str) -> None:
    with pytest.raises(ValueError, match=why):
        read_recorded(text)
