"""Of gradients that a target never reads nothing passes and nothing fails."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import pytest
import torch

from tests.probes.in_process import ask, ask_all
from tests.probing_helpers import (
    COUNTS,
    HEALTH,
    LAUNCHES,
    NONCONTIGUOUS,
    RATIO,
    RETAINED,
    SPARSE,
    SYNCS,
    TARGETS,
)


def norm(grads: Sequence[torch.Tensor]) -> float:
    return math.sqrt(sum(float(grad.detach().double().square().sum()) for grad in grads))


def of_dimensions(*dimensions: int) -> Callable[[Any], float]:
    """The norm of those gradients alone, whatever is among them."""

    def part_of_norm(grads: Any) -> float:
        return norm([grad for grad in grads if grad.dim() in dimensions])

    return part_of_norm


TOLD = "its result does not follow float32 gradients of two dimensions"


@pytest.mark.parametrize("probe", [SYNCS, LAUNCHES, RETAINED])
def test_nothing_is_counted_of_matrices_that_are_never_read(probe: str) -> None:
    answer = ask(probe, of_dimensions(1))
    assert (answer.outcome, answer.message) == ("not_applicable", TOLD)


# --- not finite ----------------------------------------------------------------------------------------


def finite(grads: Any) -> bool:
    return all(bool(torch.isfinite(grad).all()) for grad in grads)


def norm_of_finite(grads: Any) -> float:
    return norm([torch.nan_to_num(grad, 0, 0, 0) for grad in grads])


@pytest.mark.parametrize("dimensions", [(1, 2), (2, 3), (2,)])
def test_what_is_left_out_for_its_shape_neither_passes_nor_fails(dimensions: tuple[int, ...]) -> None:
    """With a health value too: a collector of weights may say that the weights' gradients are sound."""

    def health(grads: Any) -> dict[str, Any]:
        chosen = [grad for grad in grads if grad.dim() in dimensions]
        return {"norm": norm_of_finite(chosen), "healthy": finite(chosen)}

    left_out = [each for each in (2, 1, 3) if each not in dimensions]
    named = ", ".join(f"a gradient of {each} dimension{'s' if each > 1 else ''}" for each in left_out)
    for function in (of_dimensions(*dimensions), health):
        answer = ask(HEALTH, function)
        assert answer.outcome == "not_applicable"
        assert f"and it follows nothing of {named}" in answer.message


# --- zero, layouts and counts --------------------------------------------------------------------------


@pytest.mark.parametrize("dimensions", [1, 2, 3])
def test_each_tensor_in_turn_is_zero(dimensions: int) -> None:
    def share(grads: Any) -> dict[str, float]:
        part = torch.tensor(of_dimensions(dimensions)(grads))
        return {"norm": norm(grads), "share": (torch.tensor(norm(grads)) / part).item() if norm(grads) else 0.0}

    answer = ask(RATIO, share)
    assert answer.outcome == "reproduced"
    assert "share is inf (one tensor zero" in answer.message


@pytest.mark.parametrize(
    ("probe", "function", "outcome"),
    [
        (NONCONTIGUOUS, of_dimensions(1), "not_applicable"),
        (NONCONTIGUOUS, of_dimensions(1, 2), "not_reproduced"),
        (NONCONTIGUOUS, lambda grads: norm([grad for grad in grads if grad.is_contiguous()]), "reproduced"),
        (SPARSE, of_dimensions(1), "not_applicable"),
    ],
)
def test_a_form_that_is_not_read_is_not_judged(probe: str, function: Any, outcome: str) -> None:
    """The control leaves gradients out for their layout, not for their shape."""
    assert ask(probe, function).outcome == outcome


def zeros(grads: Any) -> int:
    return sum(int((grad == 0).sum()) for grad in grads)


def zeros_of_weights(grads: Any) -> dict[str, Any]:
    return {"norm": norm(grads), "zeros": zeros([grad for grad in grads if grad.dim() > 1])}


def zeros_of_matrices_in_bfloat16(grads: Any) -> dict[str, Any]:
    rounded = torch.tensor(zeros([grad for grad in grads if grad.dim() == 2])).bfloat16().item()
    return {"norm": norm(grads), "zeros": rounded + zeros([grad for grad in grads if grad.dim() != 2])}


def test_zeros_that_are_not_counted_in_biases_are_no_rounded_count() -> None:
    answer = ask(COUNTS, zeros_of_weights)
    assert answer.outcome == "not_reproduced"
    assert answer.notes == ["zeros of a 1-dimensional tensor are not counted and were not judged"]


def test_a_count_is_planted_in_every_number_of_dimensions() -> None:
    """The control is the count that nothing rounds."""
    answer = ask(COUNTS, zeros_of_matrices_in_bfloat16)
    assert (answer.outcome, answer.values("count_error", dimensions=2)) == ("reproduced", [-1])
    assert ask(COUNTS, zeros).outcome == "not_reproduced"


def test_a_count_that_is_the_whole_answer_is_asked_too() -> None:
    """A number is a `grad_norm` by contract, whatever it counts."""
    answer = ask_all("norms:zeros_in_float32", [COUNTS], TARGETS / "partial")[COUNTS]
    assert answer.outcome == "reproduced"
    assert answer.message.startswith("16,777,217 planted zeros are reported as 16,777,216 ")
