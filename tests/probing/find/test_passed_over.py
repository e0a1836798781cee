"""Words in a function decide nothing: what it does makes it a candidate, or is the reason for which it is left out."""

from __future__ import annotations

import textwrap
from pathlib import Path

import pytest

from auditkit.probing.find.search import Discovery, discover


def read(root: Path, source: str) -> Discovery:
    (root / "m.py").write_text("import torch\n" + textwrap.dedent(source))
    return discover(root)


def functions(found: Discovery) -> list[str]:
    return [each.call for each in found.candidates if "#" not in each.call]


@pytest.mark.parametrize(
    "source",
    [
        """
        def f(parameters):
            '''The norm; neither momentum nor beta, lr or weight_decay matters.'''
            return torch.stack([p.grad.norm() for p in parameters]).norm()
        """,
        "def f(parameters, lr):\n    return lr * torch.stack([p.grad.norm() for p in parameters]).norm()\n",
        """
        def f(parameters, beta=0.9):
            norm = torch.stack([p.grad.norm() for p in parameters]).norm()
            return beta * norm + (1 - beta) * norm ** 2
        """,
    ],
    ids=["docstring", "lr", "beta"],
)
def test_words_of_optimizers_hide_no_collector(source: str, tmp_path: Path) -> None:
    found = read(tmp_path, source)
    assert functions(found) == ["m:f"]
    assert found.passed_over == ()


@pytest.mark.parametrize("name", ["step", "main", "training_step", "__call__"])
def test_a_method_is_checked_whatever_its_name(name: str, tmp_path: Path) -> None:
    """Whole, or by its statements: `Watch.step#norm`."""
    body = "return torch.stack([p.grad.norm() for p in self.model.parameters()]).norm()"
    init = "def __init__(self, model):\n        self.model = model\n"
    found = read(tmp_path, f"class Watch:\n    {init}\n    def {name}(self):\n        {body}\n")
    assert [each.call.split(":")[1].partition("#")[0] for each in found.candidates] == [f"Watch.{name}"]


UPDATES = {
    "p.data.add_(p.grad / norm, alpha=-self.rate)": "it updates parameters",
    "p.data = p.data - self.rate * p.grad / norm": "it updates parameters",
    "p -= self.rate * p.grad / norm": "it updates parameters",
    "self.average[p].lerp_(p.grad, 0.1)": "it updates parameters",
    "self.inner.step()": "it trains: it goes backward or calls an optimizer",
}


@pytest.mark.parametrize("update", UPDATES)
def test_what_is_left_out_has_a_reason(update: str, tmp_path: Path) -> None:
    """An update rule and a training step are no collectors, whatever they are called, and discovery says so."""
    source = f"""
    class Rule:
        def apply(self, parameters):
            worst = 0.0
            for p in parameters:
                norm = p.grad.norm()
                worst = max(worst, norm)
                {update}
            return worst
    """
    found = read(tmp_path, source)
    assert functions(found) == []
    reasons = [(each.call, each.why) for each in found.passed_over]
    is_block = any("#" in each.call for each in found.candidates)
    assert reasons == ([] if is_block else [("m:Rule.apply", UPDATES[update])])
