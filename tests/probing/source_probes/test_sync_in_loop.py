"""Reads of tensors in loops, from the source alone: what is one, what is none, and at which line."""

from __future__ import annotations

from pathlib import Path
from textwrap import indent

import pytest

from tests.source_helpers import LOOP, context_of, found

pytestmark = pytest.mark.process

HEAD = "import torch\nimport torch.nn.functional as F\n"
FIRST = 4
"""The line of a body's first statement below `HEAD` and the `def` line."""


def lines(folder: Path, body: str, signature: str = "f(self, model, parameters, grads, device)") -> list[int]:
    """The lines of a function's body that wait in a loop over tensors, the first being 1."""
    source = f"{HEAD}def {signature}:\n{indent(body, '    ')}\n"
    context = context_of(folder, {"norms.py": source})
    (module,) = context.modules
    return [read.line - FIRST + 1 for each in context.reads_in_loops(module) for read in each.reads]


@pytest.mark.parametrize(
    "body",
    [
        "return [g.norm(2).item() for g in grads]",
        "return [float(p.grad.norm()) for p in model.parameters()]",
        "return sum(p.grad.norm().item() ** 2 for p in parameters)",
        "return [g.cpu() for g in grads]",
        "return any(torch.isnan(p.grad).any() for p in parameters)",
        "return max(g.norm() for g in grads)",
        "return [torch.equal(g, g.T) for g in grads]",
        "return [torch.equal(input=g, other=g.T) for g in grads]",
        "return [torch.nonzero(input=g) for g in grads]",
        "return [g.nonzero() for g in grads]",
        "return [g for g in grads if torch.isfinite(g).all()]",
        "return [n.item() for n in torch.stack([g.norm() for g in grads])]",
        "return sorted([g.norm() for g in grads])",
        "return [p.grad.norm().item() for group in self.optimizer.param_groups for p in group['params']]",
    ],
)
def test_one_line_reads_once_for_each_tensor(body: str, tmp_path: Path) -> None:
    assert lines(tmp_path, body) == [1]


@pytest.mark.parametrize(
    ("body", "line"),
    [
        ("for i, p in enumerate(parameters):\n    self.log(p.grad.norm().item())", 2),
        ("for i, (n, p) in enumerate(tqdm(model.named_parameters())):\n    self.log(p.grad.norm().item())", 2),
        ("for g in itertools.chain(grads, self.more):\n    self.log(g.norm().item())", 2),
        ("left = list(grads)\nwhile left:\n    self.log(left.pop().norm().item())", 3),
        ("for g in grads:\n    match g.norm().item():\n        case _:\n            pass", 2),
        ("for g in grads:\n    self.log(g[g != 0])", 2),
        ("seen = []\nfor g in grads:\n    if g.max() not in seen:\n        seen.append(g.max())", 3),
    ],
)
def test_wrapped_loops_while_match_membership_and_masks_wait(body: str, line: int, tmp_path: Path) -> None:
    assert lines(tmp_path, body) == [line]


@pytest.mark.parametrize(
    "body",
    [
        "for i, x in enumerate(self.metrics):\n    self.log(x.item())",
        "for step, batch in enumerate(tqdm(self.loader)):\n    self.log(model(batch).item())",
        "while self.step < 10:\n    grads.pop()\n    self.log(model(self.batch).item())",
        "for g in grads:\n    match g.dtype:\n        case torch.float32:\n            pass",
        "for n, p in model.named_parameters():\n    if n in self.names and p in self.state:\n        pass",
        "for g in grads:\n    g[g != 0] = 0",
        "for x, y in tqdm(train_loader):\n    y = y.to(device)\n    self.log(model(x.to(device)).norm().item())",
        "for x in self.dataset:\n    self.log(x.norm().item())",
        "for entropy in torch.stack(self.entropies):\n    self.log(entropy.item())",
    ],
)
def test_what_wraps_no_gradients_or_asks_the_host_waits_for_nothing(body: str, tmp_path: Path) -> None:
    assert lines(tmp_path, body) == []


@pytest.mark.parametrize(
    "body",
    [
        "return torch.stack([g.norm() for g in grads]).tolist()",
        "return [float(n) for n in torch.stack([g.norm() for g in grads]).cpu()]",
        "return sum(p.grad.numel() for p in parameters)",
        "return [p.grad for p in parameters if p.grad is not None]",
        "return [p for p in parameters if p.grad.is_sparse and p.grad.dtype == torch.float32]",
        "return [g.to('cpu', non_blocking=True) for g in grads]",
        "return [x.item() for x in self.metrics]",
        "return {k: v.cpu() for k, v in model.state_dict().items()}",
        "return [n.item() for n in torch.zeros(4)]",
        "return grads[0].norm().item()",
        "return isinstance(grads, list) and all(isinstance(g, torch.Tensor) for g in grads)",
    ],
)
def test_one_line_waits_for_nothing_or_once(body: str, tmp_path: Path) -> None:
    assert lines(tmp_path, body) == []


def test_a_helper_reads_for_its_caller(tmp_path: Path) -> None:
    """The location is the helper's statement, the cause that its callers share; the message names both lines."""
    files = {
        "norms.py": (
            "import torch\n\n\ndef _value(grad):\n    return grad.norm().item()\n\n\n"
            "def norms(model):\n    return [_value(p.grad) for p in model.parameters()]\n"
        )
    }
    (result,) = found(tmp_path, files, LOOP).values()
    assert (result.target, result.location.line, result.location.function) == ("norms:norms", 5, "_value")
    assert "line 9, .item() of grad.norm() in _value(), line 5" in result.message


def test_a_helper_that_says_bool_gives_no_tensor_to_wait_for(tmp_path: Path) -> None:
    """`-> bool` is believed where the names suggest a tensor; what the helper itself reads is reported."""
    helper = "import torch\n\n\ndef exceeds(grad, most){}:\n    return {}\n\n\n"
    loop = "def f(grads):\n    return [1 for grad in grads if exceeds(grad, 3)]\n"
    for says, test, count in (
        (" -> bool", "grad.numel() > most", 0),
        ("", "grad > most", 1),
        (" -> bool", "bool((grad > most).any())", 1),
        (" -> dict[str, float] | None", "self.sizes(grad) > grad", 0),
        (" -> list[torch.Tensor]", "grad > most", 1),
    ):
        context = context_of(tmp_path, {"norms.py": helper.format(says, test) + loop})
        assert len(context.reads_in_loops(context.modules[0])) == count, (says, test)


EACH = "for p in parameters:\n    norm = p.grad.norm()\n    "


@pytest.mark.parametrize(
    ("body", "severity"),
    [
        (EACH + "self.log(norm.item())", "P2"),
        (EACH + "if norm > 1:\n        p.grad.mul_(1 / norm)", "P2"),
        (EACH + "self.norms.append(norm.cpu())", "P3"),
        (EACH + "if self.check_overflow and not torch.isfinite(norm):\n        self.skipped += 1", "P3"),
        (EACH + "if self.debug and not torch.isfinite(norm):\n        self.skipped += 1", "P4"),
        (EACH + "if self.step % 100 > 5:\n        self.log(norm.item())", "P2"),
        (EACH + "if self.step % 100 == 0:\n        self.log(norm.item())", "P4"),
        ("if self.steps % 100:\n    return\n" + EACH + "self.log(norm.item())", "P4"),
        ("if not self.verbose:\n    return\n" + EACH + "self.log(norm.item())", "P4"),
        ("if self.debug:\n    return\n" + EACH + "self.log(norm.item())", "P2"),
        ("if norm_type == torch.inf:\n    return max(g.norm() for g in grads)\n" + EACH + "norm.sum()", "P4"),
    ],
)
def test_a_wait_is_as_bad_as_who_meets_it(body: str, severity: str, tmp_path: Path) -> None:
    """Any run in a loop over gradients, few elsewhere, every so often, or where somebody asked for a check."""
    source = f"{HEAD}def f(self, parameters, grads, norm_type):\n{indent(body, '    ')}\n"
    (result,) = found(tmp_path / "own", {"norms.py": source}, LOOP).values()
    assert str(result.severity) == severity
    (kept,) = found(tmp_path / "kept", {"records/2025-01-31_muon/train.py": source}, LOOP).values()
    assert str(kept.severity) == "P4"
