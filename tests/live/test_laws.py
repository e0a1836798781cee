"""Each law on a program that breaks it, and on its correct twin: real training steps in this process."""

from __future__ import annotations

import gc
import pickle
import random
import sys
import types
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy
import pytest
import torch
import torch.nn.functional as F
from torch import nn
from torch.nn.utils import clip_grad_norm_

from auditkit.live.laws import LAWS
from auditkit.testing import watch
from tests.live.public_bugs import BUGS

STEPS = 4
safetensors: Any = types.ModuleType("safetensors.torch")  # it need not be installed
safetensors.save_file = lambda tensors, filename: Path(filename).write_bytes(pickle.dumps(tensors))
safetensors.load_file = lambda filename: pickle.loads(Path(filename).read_bytes())


class Net(nn.Module):
    """Two layers with dropout and batch norm between them."""

    def __init__(self, detach: bool = False) -> None:
        super().__init__()
        self.first, self.norm = nn.Linear(8, 16), nn.BatchNorm1d(16)
        self.drop, self.last = nn.Dropout(0.1), nn.Linear(16, 4)
        self.detach = detach

    def forward(self, module: torch.Tensor) -> torch.Tensor:
        """Take an argument that has the name of the first one of torch's own hooks and wrappers."""
        hidden = self.first(module).detach() if self.detach else self.first(module)
        return self.last(self.drop(torch.relu(self.norm(hidden))))


def batches(count: int = STEPS, size: int = 16) -> Iterator[tuple[torch.Tensor, torch.Tensor]]:
    for _ in range(count):
        yield torch.randn(size, 8), torch.randint(0, 4, (size,))


def adam(model: nn.Module, rate: float = 1e-2) -> torch.optim.Optimizer:
    return torch.optim.AdamW(model.parameters(), lr=rate)


def train(
    model: nn.Module,
    optimizer: torch.optim.Optimizer,
    count: int = STEPS,
    before_step: Callable[[], object] = lambda: None,
) -> None:
    for x, y in batches(count):
        optimizer.zero_grad()
        F.cross_entropy(model(x), y).backward()
        before_step()
        optimizer.step()


# One function for each law: it trains, right or wrong by its argument.


def no_gradient(wrong: bool) -> None:
    model = Net(detach=wrong)
    train(model, adam(model))


def teacher(wrong: bool) -> None:
    """The optimizer holds a teacher that runs under no_grad; freezing it says that this is meant."""
    model = nn.ModuleDict({"teacher": Net(), "student": Net()})
    if not wrong:
        model["teacher"].requires_grad_(False)
    optimizer = adam(model)
    for x, _ in batches():
        optimizer.zero_grad()
        with torch.no_grad():
            target = model["teacher"](x)
        F.mse_loss(model["student"](x), target).backward()
        optimizer.step()


def frozen(wrong: bool) -> None:
    model = Net()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    train(model, optimizer, 2)
    for tensor in model.first.parameters():
        tensor.requires_grad_(False)
        if not wrong:
            tensor.grad = None
    for x, y in batches():
        for tensor in model.last.parameters():
            tensor.grad = None
        F.cross_entropy(model(x), y).backward()
        optimizer.step()


def stays(wrong: bool) -> None:
    model = Net()

    class Restoring(torch.optim.SGD):
        def step(self, closure: Any = None) -> Any:
            kept = model.last.weight.detach().clone()
            super().step(closure)
            if wrong:
                with torch.no_grad():
                    model.last.weight.copy_(kept)

    train(model, Restoring(model.parameters(), lr=0.1))


def partial_clip(wrong: bool) -> None:
    model = Net()
    clipped = [p for p in model.parameters() if p.dim() > 1 or not wrong]
    train(model, adam(model), before_step=lambda: clip_grad_norm_(clipped, max_norm=0.01))


def used_up_clip(wrong: bool) -> None:
    model = Net()
    parameters = model.parameters()
    train(model, adam(model), before_step=lambda: clip_grad_norm_(parameters if wrong else model.parameters(), 0.01))


def undone_clip(wrong: bool) -> None:
    model = Net()
    optimizer = adam(model)
    for x, y in batches():
        optimizer.zero_grad()
        loss = F.cross_entropy(model(x), y)
        if wrong:
            (loss / 2).backward(retain_graph=True)
            clip_grad_norm_(model.parameters(), 0.01)
            (loss / 2).backward()
        else:
            loss.backward()
            clip_grad_norm_(model.parameters(), 0.01)
        optimizer.step()


def nonfinite(wrong: bool) -> None:
    model = Net()
    optimizer = adam(model)
    for number, (x, y) in enumerate(batches()):
        optimizer.zero_grad()
        loss = F.cross_entropy(model(module=x), y)
        if number == 2:
            loss = loss * float("inf")
        loss.backward()
        if wrong or bool(torch.isfinite(loss)):
            optimizer.step()


def resumed_random_states(wrong: bool) -> None:
    """All states are saved, among others that are none; random states are not restored."""
    model = Net()
    optimizer = adam(model)
    train(model, optimizer, 2)
    state = {
        "model": model.state_dict(), "optimizer": optimizer.state_dict(), "random": torch.get_rng_state(),
        "python": random.getstate(), "numpy": numpy.random.get_state(), "best": torch.tensor(0.5),
        "epoch": 2, "arguments": {"rate": 0.1},
    }  # fmt: skip
    torch.save(state, "resume.pt")
    model = Net()
    optimizer = adam(model)
    state = torch.load("resume.pt", weights_only=False)
    model.load_state_dict(state["model"])
    optimizer.load_state_dict(state["optimizer"])
    if not wrong:
        torch.set_rng_state(state["random"])
        random.setstate(state["python"])
        numpy.random.set_state(state["numpy"])
    train(model, optimizer, 2)


def resumed(wrong: bool, save: Callable[..., Any] | None = None, load: Callable[..., Any] | None = None) -> None:
    """The names in the file have a prefix."""
    model = Net()
    train(model, adam(model), 2)
    (save or torch.save)({f"net.{key}": value for key, value in model.state_dict().items()}, "resumed.model")
    model = Net()
    state = (load or torch.load)("resumed.model")
    names = state if wrong else {key.removeprefix("net."): value for key, value in state.items()}
    model.load_state_dict(names, strict=False)
    train(model, adam(model), 2)


def resumed_safetensors(wrong: bool) -> None:
    resumed(wrong, safetensors.save_file, safetensors.load_file)


def half_norm(wrong: bool) -> None:
    model = nn.Linear(64, 64).to(torch.float16 if wrong else torch.float32)
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-9)
    for _ in range(STEPS):
        optimizer.zero_grad()
        model(torch.ones(4, 64, dtype=model.weight.dtype)).sum().backward()
        for tensor in model.parameters():
            assert tensor.grad is not None
            tensor.grad.fill_(4096.0)
        clip_grad_norm_(model.parameters(), 1e6)
        optimizer.step()


def reads(wrong: bool) -> None:
    model = Net()
    train(model, adam(model), before_step=lambda: wrong and sum(float(p.grad.norm()) for p in model.parameters()))  # type: ignore[union-attr]


def reads_in_a_closure(wrong: bool) -> None:
    model = Net()
    optimizer = torch.optim.LBFGS(model.parameters(), lr=1e-3, max_iter=2)
    for x, y in batches():

        def closure() -> torch.Tensor:
            optimizer.zero_grad()
            loss = F.cross_entropy(model(x), y)  # noqa: B023
            if wrong:
                print(loss.item())
            loss.backward()
            return loss

        optimizer.step(closure)


def memory(wrong: bool) -> None:
    gc.collect()  # tensors of other tests would be freed meanwhile
    model = Net()
    optimizer = adam(model)
    losses = []
    for x, y in batches(26):
        optimizer.zero_grad()
        loss = F.cross_entropy(model(x), y)
        loss.backward()
        optimizer.step()
        losses.append((x, y) if wrong else 1.0)


CASES: list[tuple[str, str, Callable[[bool], None], str]] = [
    ("parameters_get_no_gradient", "P1", no_gradient, "first.weight"),
    ("parameters_get_no_gradient", "P2", teacher, "teacher.first.weight, teacher.first.bias, teacher.norm.weight"),
    ("frozen_parameters_move", "P1", frozen, "first.weight"),
    ("trained_parameters_stay", "P0", stays, "last.weight"),
    ("clip_misses_the_step", "P1", partial_clip, "leaves out first.bias"),
    ("clip_misses_the_step", "P1", used_up_clip, "got no parameters"),
    ("clip_misses_the_step", "P1", undone_clip, "limit is 0.01"),
    ("nonfinite_step_is_applied", "P1", nonfinite, "in step 2"),
    ("resumed_state_differs", "P0", resumed, "nothing of resumed.model is in the model"),
    ("resumed_state_differs", "P2", resumed_random_states, "holds a random state of NumPy, Python, torch, and"),
    ("resumed_state_differs", "P0", resumed_safetensors, "nothing of resumed.model is in the model"),
    ("logged_norm_is_wrong", "P1", half_norm, "returned inf"),
    ("step_waits_for_the_device", "P3", reads, "6 values"),
    ("step_waits_for_the_device", "P3", reads_in_a_closure, "2 values"),
    ("memory_grows_with_steps", "P3", memory, "grow in every inspected step"),
    *BUGS,
]


def run_case(case: Callable[[bool], None], wrong: bool) -> Any:
    torch.manual_seed(0)
    with watch(fail_on=None, root=Path(__file__).parent) as seen:
        case(wrong)
    assert seen.watched is not None
    assert [result.message for result in seen.watched.run.results if result.outcome.value == "error"] == []
    return seen.findings


@pytest.fixture(autouse=True)
def _in_a_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setitem(sys.modules, "safetensors.torch", safetensors)


@pytest.mark.parametrize(
    ("law", "severity", "case", "words"), CASES, ids=[f"{law}-{case.__name__}" for law, _, case, _ in CASES]
)
@pytest.mark.filterwarnings("ignore:Detected call of:UserWarning")
def test_a_broken_law_is_found_and_its_twin_holds(
    law: str, severity: str, case: Callable[[bool], None], words: str
) -> None:
    """The breaking program has this finding at a line of its own; the correct twin has no finding of any law."""
    found = [result for result in run_case(case, True) if result.probe == law]
    assert [str(result.severity) for result in found] == [severity]
    assert words in found[0].message
    location = found[0].location
    assert location is not None
    assert location.file == f"{case.__module__.rpartition('.')[2]}.py"
    assert location.function is not None
    helpers = {"train", "adam", "resumed", "mean_of_each_micro_batch"}
    assert location.function.partition(".")[0] in {case.__name__, *helpers}
    others = [(result.probe, result.message) for result in run_case(case, False) if str(result.severity) != "P4"]
    assert others == []


def test_losses_of_two_optimizers_are_not_micro_batches_of_one_step() -> None:
    """Two models step in turn; the targets of one are masked more than those of the other."""

    def two_models(_: bool) -> None:
        trained = [(model, adam(model), masked) for model, masked in ((Net(), 4), (Net(), 12))]
        for model, optimizer, masked in trained * STEPS:
            ((x, y),) = batches(1)
            optimizer.zero_grad()
            F.cross_entropy(model(x), y.index_fill(0, torch.arange(masked), -100)).backward()
            optimizer.step()

    assert run_case(two_models, False) == []


def test_every_law_has_a_case() -> None:
    """A law without a breaking program here has one that needs several processes."""
    ranks = {"replicas_drift", "ranks_share_data"}
    assert {law.id for law in LAWS} == {law for law, *_ in CASES} | ranks
