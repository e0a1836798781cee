"""Of gradients that a target never reads nothing passes and nothing fails."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import pytest
import torch

from auditkit.model.enums import Outcome
from auditkit.model.runs.target import Target
from tests.probes.in_process import ask, run_here
from tests.probing_helpers import COUNTS, LAUNCHES, OVERFLOW, RETAINED, SYNCS, TARGETS

PARTIAL = TARGETS / "partial"


def norm(grads: Sequence[torch.Tensor]) -> float:
    return math.sqrt(sum(float(grad.detach().double().square().sum()) for grad in grads))


def of_dimensions(*dimensions: int) -> Callable[[Any], float]:
    """The norm of those gradients alone, whatever is among them."""

    def part_of_norm(grads: Any) -> float:
        return norm([grad for grad in grads if grad.dim() in dimensions])

    return part_of_norm


@pytest.mark.parametrize("probe", [SYNCS, LAUNCHES, RETAINED])
def test_nothing_is_counted_of_matrices_that_are_never_read(probe: str) -> None:
    """The controls read them: a norm of matrices is asked."""
    answer = ask(probe, of_dimensions(1))
    told = "its answer does not follow float32 gradients of two dimensions"
    assert (answer.outcome, answer.message) == ("not_applicable", told)
    assert ask(probe, of_dimensions(2, 3)).outcome in ("reproduced", "not_reproduced")


def test_a_declared_norm_of_biases_is_not_broken_by_matrices() -> None:
    """Its norm of matrices is 0 at every magnitude."""
    target = Target("norms:norm_of_biases", returns={"norm": ""})
    assert run_here(PARTIAL, target, [OVERFLOW]).results[0].outcome is Outcome.NOT_APPLICABLE


# --- counts --------------------------------------------------------------------------------------------


def zeros(grads: Any) -> int:
    return sum(int((grad == 0).sum()) for grad in grads)


def zeros_of_weights(grads: Any) -> dict[str, Any]:
    return {"norm": norm(grads), "zeros": zeros([grad for grad in grads if grad.dim() > 1])}


def zeros_of_matrices_in_bfloat16(grads: Any) -> dict[str, Any]:
    rounded = torch.tensor(zeros([grad for grad in grads if grad.dim() == 2])).bfloat16().item()
    return {"norm": norm(grads), "zeros": rounded + zeros([grad for grad in grads if grad.dim() != 2])}


def test_zeros_that_are_not_counted_in_biases_are_no_rounded_count() -> None:
    answer = ask(COUNTS, zeros_of_weights)
    assert (answer.outcome, answer.notes) == (
        "not_reproduced", ["zeros of a 1-dimensional tensor are not counted: they were not judged there"],
    )  # fmt: skip
    assert {row.case["dimensions"] for row in answer.rows} == {2, 3}


def test_a_count_is_planted_in_every_number_of_dimensions() -> None:
    """The control is the count that nothing rounds."""
    answer = ask(COUNTS, zeros_of_matrices_in_bfloat16)
    assert (answer.outcome, answer.values("count_error", dimensions=2)) == ("reproduced", [-1])
    assert ask(COUNTS, zeros).outcome == "not_reproduced"


def test_a_count_that_is_the_whole_answer_is_asked_too() -> None:
    """A number is a `grad_norm` by contract, whatever it counts."""
    result = run_here(PARTIAL, "norms:zeros_in_float32", [COUNTS]).results[0]
    assert result.outcome is Outcome.REPRODUCED
    assert result.message.startswith("16,777,217 planted zeros are reported as 16,777,216 ")
