"""The seam of the optimizer reads its toy, and says so where it does not."""

from __future__ import annotations

import pytest

from auditkit.worker.measure import selfcheck
from auditkit.worker.steps import seam
from auditkit.worker.steps.toy_model import Batch, ToyModel, joined, loss_of, make_batches, true_gradient
from tests.probes.in_process import ROOTS


def test_the_seam_reads_its_toy() -> None:
    selfcheck.check("steps", "cpu", ROOTS)


def test_a_seam_that_sees_no_backward_is_not_believed(monkeypatch: pytest.MonkeyPatch) -> None:
    blind = {code: see for code, see in seam._WATCHED.items() if see is not seam.Trace._see_backward}
    monkeypatch.setattr(seam, "_WATCHED", blind)
    with pytest.raises(selfcheck.SelfCheckError, match=r"reads \[3.0\] for one step"):
        selfcheck.check("steps", "cpu", ROOTS)


@pytest.mark.parametrize("task", ["samples", "tokens", "values"])
def test_the_true_gradient_is_that_of_the_model(task: str) -> None:
    """In float64 and float32, of a tied, a trained and no frozen or unused parameter."""
    batch = joined(make_batches(3, task))
    model = ToyModel("scores")
    loss_of(model(batch.inputs), batch.targets).backward()
    own = {name: each.grad for name, each in model.named_parameters() if each.grad is not None}
    exact = true_gradient(ToyModel("scores"), Batch(*batch))
    assert set(own) == set(exact) == {"embedding.weight", "linear.weight", "linear.bias"}
    assert all((own[name] - exact[name]).abs().max() < 1e-6 for name in own)
