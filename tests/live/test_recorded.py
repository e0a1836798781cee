"""`auditkit run` records the calls of a program, and `auditkit audit` builds inputs from the file."""

from __future__ import annotations

import json
import os
import shutil
import sys
from pathlib import Path

import pytest
from torch.utils.data import DataLoader

from auditkit.live.watch import watch
from auditkit.model.runs.recorded import RECORDED_NAME, VERSION, RecordedRun, read_recorded
from auditkit.probing.run.recorded_file import recorded_notes
from auditkit.probing.source.python_files import PythonFiles
from auditkit.worker.feed.recorded import FULL, SHRUNK, in_size, sizes_of
from auditkit.worker.watch.structure import Encoder, Literals, open_loaders
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

def loop(model, steps):
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for step in range(steps):
        optimizer.zero_grad()
        model(torch.randn(4, 5)).pow(2).mean().backward()
        squares = 0.0
        for p in model.parameters():
            squares += p.grad.norm().item() ** 2
        grad_norm = squares**0.5
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        print(step, grad_norm)

if __name__ == "__main__":
    loop(torch.nn.Linear(5, 3), 4)
"""
MET_BY = {
    "library:Trainer.grad_norm": "once a step from library.py:41, 4 float32 tensors on cpu",
    "library:Trainer.training_step": "once a step from train.py:9, 4 float32 tensors on cpu",
    "torch.nn.utils:clip_grad_norm_": "once a step from train.py:20, 2 float32 tensors on cpu",
    "train.py:loop#training_step": "once a step from train.py:15, 2 float32 tensors on cpu",
    "train.py:loop#grad_norm": "once a step from train.py:18, 2 float32 tensors on cpu",
}
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
    assert f"recorded 5 functions in {RECORDED_NAME}" in ended.stderr
    return folder


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


def test_an_audit_calls_what_it_cannot_call_without_the_recording_and_says_who_calls_it(
    recorded: Path, tmp_path: Path
) -> None:
    run_json, sarif, html, tickets = (tmp_path / name for name in ("run.json", "run.sarif", "run.html", "tickets"))
    probes = ("norm_overflows_on_finite_grads", "step_waits_for_the_device", "sync_in_loop")
    asked = [word for probe in probes for word in ("--probe", probe)] + ["--fix-time", "0"]
    ended = auditkit("audit", ".", *asked, "-v", "--save", run_json, "--sarif", sarif, "--html", html,
                     "--tickets", tickets, cwd=recorded)  # fmt: skip
    document = json.loads(run_json.read_text())
    assert dict.fromkeys(MET_BY, True) == {each["call"]: each["fed"] for each in document["candidates"]}
    found = [each for each in document["results"] if each["outcome"] == "reproduced"]
    by_reading = [each for each in found if each["probe"] == "sync_in_loop"]
    assert {each["target"] for each in by_reading} == {CALLS[0], "train:loop"}
    assert {each["target"] for each in found if each not in by_reading} == set(MET_BY)
    assert {(each["probe"], each["target"]) for each in found} >= {("step_waits_for_the_device", CALLS[1])}
    assert all(each["met_by"]["source"] == "run" for each in found)
    noted = json.loads(sarif.read_text())["runs"][0]["results"]
    in_sarif = {each["properties"]["metBy"].partition(": ")[2] for each in noted}
    assert in_sarif == set(MET_BY.values())
    filed = " ".join(path.read_text().replace("\n", " ") for path in tickets.glob("*.md"))
    screen = ended.stdout.splitlines()
    for call in (CALLS[0], "train.py:loop#grad_norm"):
        assert f"    Met by: in the run of {document_day(recorded)}: {MET_BY[call]}" in screen
    assert MET_BY[CALLS[0]] in html.read_text()
    assert f"Met by: in the run of {document_day(recorded)}: {MET_BY['train.py:loop#grad_norm']}." in filed


def document_day(folder: Path) -> str:
    met_by = read_recorded((folder / RECORDED_NAME).read_bytes()).met_by(CALLS[0])
    assert met_by is not None
    return met_by.when


@pytest.mark.parametrize(
    ("file", "old", "new", "said"),
    [
        (
            RECORDED_NAME,
            '"auditkit_recorded": 1',
            '"auditkit_recorded": 99',
            ["is not used: it is of version 99, not 1"],
        ),
        ("library.py", "total = 0.0", "total = float(0)", ["changed since their calls were recorded", CALLS[0]]),
        ("library.py", "self.opt.zero_grad()", "self.opt.zero_grad( )  # the same", []),
    ],
    ids=["of another version", "changed", "another comment"],
)
def test_a_note_says_that_the_recording_does_not_fit(
    recorded: Path, tmp_path: Path, file: str, old: str, new: str, said: list[str]
) -> None:
    folder = Path(shutil.copytree(recorded, tmp_path / "copy"))
    (folder / file).write_text((folder / file).read_text().replace(old, new))
    notes = recorded_notes(folder, lambda: PythonFiles(folder, [folder]))
    assert len(notes) == bool(said)
    assert all(each in notes[0] for each in said)


def test_tensors_shrink_to_2_mb_and_equal_sizes_stay_equal() -> None:
    def tensor(number: int, *shape: int, **more: object) -> dict[str, object]:
        return {"k": "tensor", "id": number, "shape": list(shape), "dtype": "float32", "device": "cpu", **more}

    linear = {
        "k": "module", "c": "torch.nn.modules.linear:Linear", "id": 0, "attrs": {"in_features": 768},
        "params": {"weight": tensor(1, 2304, 768, p=True), "bias": tensor(2, 2304, p=True)},
    }  # fmt: skip
    arguments = {"layer": linear, "x": tensor(3, 12, 768), "steps": 12}
    assert sizes_of(arguments, True) == [SHRUNK, FULL]
    assert sizes_of(arguments, False) == [FULL]  # the probe's module stands for the layer
    small = in_size(arguments, SHRUNK)
    weight, width = small["layer"]["params"]["weight"]["shape"], small["layer"]["attrs"]["in_features"]
    assert weight == [3 * width, width]
    assert small["x"]["shape"] == [12, width]
    assert 4 * (3 * width * width + 3 * width + 12 * width) <= 2_000_000
    assert small["steps"] == 12


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


OTHER = """
import torch
from train import full_norm

model = torch.nn.Linear(5, 3)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for step in range(2):
    model(torch.ones(4, 5)).sum().backward()
    print(full_norm(model))
    optimizer.step()
    optimizer.zero_grad()
"""
COLLECTORS = """
import torch

def norms(model):
    return [p.grad.norm() for p in model.parameters() if p.grad is not None]

def zeroed_norm(model):
    return sum(float(n) ** 2 for n in norms(model)) ** 0.5

def half_norm(model):
    return torch.stack([p.grad.half().pow(2).sum() for p in model.parameters()]).sum().sqrt()

def weight_norm(model):
    return model.weight.grad.norm()

def unused_norm(parts):
    return sum(float(n) ** 2 for n in norms(parts)) ** 0.5

def full_norm(model):
    return torch.linalg.vector_norm(torch.stack(norms(model)))

def max_norm(model):
    return max(p.grad.abs().max().item() for p in model.parameters())

if __name__ == "__main__":
    model, unused = torch.nn.Linear(5, 3), torch.nn.Linear(2, 2)
    optimizer = torch.optim.SGD([*model.parameters(), *unused.parameters()], lr=1e-9)
    for step in range(4):
        (1000 * model(torch.linspace(0.5, 1.5, 20).view(4, 5))).sum().backward()
        print(half_norm(model), weight_norm(model), full_norm(model), max_norm(model))
        optimizer.step()
        optimizer.zero_grad()
        print(zeroed_norm(model))
        print(unused_norm(unused))
"""


def test_the_number_of_a_collector_is_checked_and_a_further_run_keeps_what_it_did_not_call(tmp_path: Path) -> None:
    """A norm of zeroed gradients, one that overflows, and one of a part; two correct ones are named as equal."""
    (tmp_path / "train.py").write_text(COLLECTORS)
    ended = auditkit("run", "--save", "run.json", "--", sys.executable, "train.py", cwd=tmp_path)
    results = json.loads((tmp_path / "run.json").read_text())["results"]
    found = {
        each["message"].partition(" ")[0].partition(":")[2]: (each["severity"], each["location"]["line"])
        for each in results
        if each["probe"] == "logged_norm_is_wrong"
    }
    lines = COLLECTORS.splitlines()
    zeroed, others = lines.index("        print(zeroed_norm(model))") + 1, len(lines) - 4
    assert found == {"zeroed_norm": ("P1", zeroed), "half_norm": ("P1", others), "weight_norm": ("P3", others)}
    assert (
        "note: collectors that return what the law computes of their gradients: "
        "train:full_norm (norm), train:max_norm (largest element)"
    ) in ended.stderr
    first = read_recorded((tmp_path / RECORDED_NAME).read_bytes())
    (tmp_path / "train.py").write_text(COLLECTORS.replace("model.weight.grad.norm()", "model.weight.grad.norm() + 0"))
    (tmp_path / "other.py").write_text(OTHER)
    ended = auditkit("run", "--", sys.executable, "other.py", cwd=tmp_path)
    later = read_recorded((tmp_path / RECORDED_NAME).read_bytes())
    kept = {call for call, each in later.calls.items() if each.when}
    names = ("half_norm", "max_norm", "unused_norm", "zeroed_norm")
    assert kept == {"train.py:#training_step", *(f"train:{name}" for name in names)}
    assert f"in {RECORDED_NAME}, beside 5 of earlier runs, from which" in ended.stderr
    assert all(later.calls[call].when == first.when for call in kept)
    assert later.calls["train:full_norm"].callers == ("other.py:9",)
    assert "train:weight_norm" not in later.calls


def test_the_report_of_a_run_is_there_if_its_recording_cannot_be_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / RECORDED_NAME).mkdir()
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("auditkit.live.watch.recorded_run", lambda *_: RecordedRun(VERSION, "2026-01-01", "", 1, {}))
    watched = watch(["true"], {})
    assert "were not recorded" in watched.recording.reasons[0]


def test_the_batch_of_a_loader_is_that_of_its_dataset() -> None:
    """accelerate's loader iterates over the one that it was made of, with the same dataset."""
    loader = DataLoader([1, 2])
    node = Encoder(Literals("")).encode(loader)
    assert (node, id(loader.dataset)) == open_loaders.pop()
