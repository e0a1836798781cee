"""Accuracy, grouping, clipping and retained memory: boundaries, laws and what is none of their business."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from auditkit.worker.gradients.gradients import GradientHolder
from tests.probes.in_process import Answer, ask, run_here
from tests.probes.specimens import SPECIMEN, target_of
from tests.probing_helpers import ACCURACY, CLIPPING, GROUPING, MUTATES, OVERFLOW, RETAINED, values

pytestmark = pytest.mark.process

MILLION = 1 << 20


@functools.cache
def answer_of(probe: str, function: Callable) -> Answer:
    """What several tests look at, asked once: of 16 million elements half a second."""
    return ask(probe, function)


def _norms(grads: Any, dtype: torch.dtype | None = None) -> torch.Tensor:
    return torch.stack([torch.linalg.vector_norm(grad, dtype=dtype) for grad in grads])


def exact(grads: Any) -> float:
    return torch.linalg.vector_norm(_norms(grads, torch.float64)).item()


def torch_norm(grads: Any) -> float:
    """As torch computes it: the norm of norms, each in its gradient's own type."""
    return nn.utils.get_total_norm(grads).item()


def one_accumulator(grads: Any) -> float:
    """float32 squares, added one after another."""
    sums = [np.cumsum(grad.float().square().reshape(-1).numpy(), dtype=np.float32)[-1] for grad in grads]
    return math.sqrt(math.fsum(sums))


def sum_in_own_type(grads: Any) -> float:
    return sum(grad.square().sum() for grad in grads).sqrt().item()


def rounded_total(grads: Any) -> float:
    """Accurate, then rounded once to the gradients' type."""
    return torch.tensor(exact(grads)).to(grads[0].dtype).item()


def rounded_layers(grads: Any) -> float:
    return torch.linalg.vector_norm(_norms(grads, torch.float64).bfloat16().double()).item()


# Correct answers whose formula is not the total 2-norm, or is one in disguise.
def mean_norm(grads: Any) -> float:
    return _norms(grads, torch.float64).mean().item()


def squared_norm(grads: Any) -> float:
    return exact(grads) ** 2


def per_layer_norms(grads: Any) -> list[float]:
    return _norms(grads, torch.float64).tolist()


def spread_of_layers(grads: Any) -> float:
    """In float32, as it is usually written; the spread of nearly equal layers is all rounding."""
    return _norms([grad.float() for grad in grads]).std(correction=0).item()


CORRECT = [exact, mean_norm, squared_norm, spread_of_layers]


# --- accuracy --------------------------------------------------------------------------------------


@pytest.mark.parametrize("function", [*CORRECT, torch_norm, rounded_total])
def test_rounding_is_no_loss_of_accuracy(function: Callable) -> None:
    """Neither another formula, nor float32 sums as torch makes them, nor norms in the gradients' own 16-bit type."""
    assert answer_of(ACCURACY, function).outcome == "not_reproduced"


def in_four_lanes(grads: Any) -> float:
    """float32 squares added one after another in four sums, as the vector register of NEON holds them."""
    squares = [grad.float().square().reshape(-1).numpy() for grad in grads]
    sums = [np.cumsum(each[lane::4], dtype=np.float32)[-1:].sum() for each in squares for lane in range(4)]
    return math.sqrt(math.fsum(sums))


@pytest.mark.parametrize("function", [torch_norm, in_four_lanes])
def test_sixteen_million_float32_elements_may_be_off_by_a_thousandth(function: Callable) -> None:
    """Vector registers are far below it; the control is one accumulator, in the next test."""
    answer = answer_of(ACCURACY, function)
    case = {"dtype": "float32", "elements": 1 << 24}
    assert (answer.outcome, answer.values("allowed_error", **case)) == ("not_reproduced", [1e-3])
    assert all(abs(error) < 3e-4 for error in answer.values("relative_error", **case))


def test_one_float32_accumulator_loses_half_a_percent_of_sixteen_million_elements() -> None:
    """From a sum of 2**23 on only whole squares are added, from 2**24 on even ones."""
    answer = answer_of(ACCURACY, one_accumulator)
    (error,) = answer.values("relative_error", dtype="float32", elements=1 << 24)
    assert error == pytest.approx(-4.56e-3, rel=0.01)
    assert "broken for " in answer.message
    # NumPy's operators are not seen: the definition stands for them.
    assert answer.line == one_accumulator.__code__.co_firstlineno


def test_a_sum_in_bfloat16_stops_at_256_times_the_next_term() -> None:
    """The first of 1,024 tensors weighs as much as the rest: the rest is not added at all."""
    answer = answer_of(ACCURACY, sum_in_own_type)
    (error,) = answer.values("relative_error", dtype="bfloat16", pattern="outlier_tensor")
    assert error == pytest.approx(math.sqrt(0.5) - 1, rel=0.01)
    assert (answer.severity, answer.message.rpartition("broken for ")[2]) == ("P2", "bfloat16")
    assert answer.line == sum_in_own_type.__code__.co_firstlineno + 1


def test_layers_rounded_to_bfloat16_are_inaccurate_for_wider_gradients_only() -> None:
    """Off by 0.17 %: within what bfloat16 gradients are allowed, far above float32's 3.3e-5."""
    result = run_here(SPECIMEN, target_of("defective", "numerics:packed_norms"), [ACCURACY]).results[0]
    (error,) = values(result, "relative_error", dtype="float32", pattern="outlier_tensor")
    (allowed,) = values(result, "allowed_error", dtype="float32", pattern="outlier_tensor")
    assert error == pytest.approx(1.665e-3, rel=0.01)
    assert allowed == pytest.approx((256 / 4 + 1024 + 16) * 2.0**-25, rel=1e-3)
    assert result.message.endswith("spread around 1); 0.1 % is allowed; broken for float16, float32, float64")


def test_float64_is_judged_by_its_own_bound_only_where_the_policy_asks() -> None:
    def in_float32(grads: Any) -> float:
        return exact([grad.float() for grad in grads])

    assert ask(ACCURACY, in_float32).outcome == "not_reproduced"
    strict = ask(ACCURACY, in_float32, policy={"judge_float64": 1})
    assert (strict.outcome, strict.severity, strict.message.rpartition("broken for ")[2]) == (
        "reproduced", "P4", "float64",
    )  # fmt: skip
    assert ask(ACCURACY, exact, policy={"judge_float64": 1}).outcome == "not_reproduced"


def test_an_unknown_formula_is_compared_with_its_own_float64_answer() -> None:
    answer = answer_of(ACCURACY, mean_norm)
    assert answer.notes == [
        "its norm is not the total 2-norm: compared with its own answer to the same values as float64"
    ]
    assert {row.case["pattern"] for row in answer.rows if row.name == "relative_error"} == {
        "outlier_element", "outlier_tensor",
    }  # fmt: skip


def test_an_unknown_formula_that_loses_is_seen_too() -> None:
    def mean_in_own_type(grads: Any) -> float:
        total: Any = 0
        for grad in grads:
            total = total + grad.norm()
        return (total / len(grads)).item()

    answer = ask(ACCURACY, mean_in_own_type)
    assert (answer.outcome, answer.severity) == ("reproduced", "P2")
    assert answer.message.rpartition("broken for ")[2] == "bfloat16, float16"


def test_a_dtype_that_is_refused_is_not_judged_and_the_result_says_so() -> None:
    def only_float32(grads: Any) -> float:
        if any(grad.dtype != torch.float32 for grad in grads):
            raise TypeError("only float32")
        return exact(grads)

    for probe in (ACCURACY, GROUPING):
        answer = ask(probe, only_float32)
        assert answer.outcome == "not_reproduced"
        assert "float16 gradients were not judged: TypeError: only float32" in answer.notes


def test_a_formula_without_an_answer_in_float64_has_nothing_to_be_compared_with() -> None:
    def mean_of_float32(grads: Any) -> float:
        if grads[0].dtype == torch.float64:
            raise TypeError("no float64")
        return mean_norm(grads)

    answer = ask(ACCURACY, mean_of_float32)
    assert answer.outcome == "not_applicable"
    assert answer.message.endswith("it takes no float64 gradients to compare with: TypeError: no float64")


# --- grouping --------------------------------------------------------------------------------------


@pytest.mark.parametrize("function", [*CORRECT, rounded_total])
def test_a_formula_is_no_dependence_on_grouping(function: Callable) -> None:
    """A mean over tensors depends on the split, rightly; rounding an accurate total once gives one answer."""
    assert answer_of(GROUPING, function).outcome == "not_reproduced"


def test_a_mean_is_judged_on_the_order_only() -> None:
    answer = answer_of(GROUPING, mean_norm)
    assert answer.notes == ["its formula depends on the split (82.9 % in float32): only the order was judged"]
    assert {row.name for row in answer.rows} == {"order_difference", "allowed_difference"}


def test_a_spread_has_no_value_for_equal_layers() -> None:
    (note,) = answer_of(GROUPING, spread_of_layers).notes
    assert note == "its formula depends on the split (it is 0 for equal elements): only the order was judged"


def test_one_layers_norm_is_not_applicable() -> None:
    """The first entry of a list of norms is the first layer's: no norm of all gradients."""
    answer = answer_of(GROUPING, per_layer_norms)
    assert (answer.outcome, answer.message) == ("not_applicable", "its answer has no norm; fields: 0, 1, 2")


def test_norms_in_16_bits_depend_on_the_split_by_one_rounding_each() -> None:
    """258 ones have the norm 16.062, stored as 16 in bfloat16: 0.39 %; a second rounding brings 0.69 %."""
    answer = answer_of(GROUPING, torch_norm)
    assert (answer.outcome, answer.severity) == ("reproduced", "P4")
    assert answer.values("split_difference", dtype="bfloat16") == [pytest.approx(0.0069, rel=0.01)]
    assert answer.values("split_difference", dtype="float16") == [pytest.approx(0.0008, rel=0.03)]
    assert answer.values("split_difference", dtype="float64") == [pytest.approx(0.0, abs=1e-15)]
    message = (
        "splitting the same gradients into other tensors changes the norm by 0.69 % in bfloat16, 0.08 % in float16"
    )
    assert answer.message == message
    assert answer.line == torch_norm.__code__.co_firstlineno + 2
    assert answer.values("allowed_difference", of="split_difference", dtype="float16") == [
        pytest.approx(2 * (10250 / 4 + 384 + 16) * 2.0**-25)
    ]


def test_norms_of_norms_in_16_bits_pass_where_the_policy_accepts_them() -> None:
    assert ask(GROUPING, torch_norm, policy={"roundings": 3}).outcome == "not_reproduced"
    assert ask(GROUPING, sum_in_own_type, policy={"roundings": 3}).outcome == "reproduced"


def test_a_sum_in_16_bits_depends_on_the_order() -> None:
    answer = answer_of(GROUPING, sum_in_own_type)
    (difference,) = answer.values("order_difference", dtype="bfloat16")
    assert difference > 0.2
    assert answer.values("order_difference", dtype="float32") == [pytest.approx(0.0, abs=1e-6)]
    assert (answer.severity, answer.line) == ("P2", sum_in_own_type.__code__.co_firstlineno + 1)
    assert "; listing them in another order changes the norm by " in answer.message


def test_layers_rounded_to_bfloat16_are_off_by_less_than_1_percent_in_float32_too() -> None:
    answer = answer_of(GROUPING, rounded_layers)
    assert (answer.outcome, answer.severity) == ("reproduced", "P4")
    assert answer.values("split_difference") == [pytest.approx(0.0062, rel=0.01)] * 4


# --- clipping --------------------------------------------------------------------------------------


def _factor(grads: Any, max_norm: float) -> float:
    norm = exact(grads)
    return max_norm / norm if norm > max_norm else 1.0


def clip_exactly(grads: Any, max_norm: float) -> None:
    for grad, factor in [(grad, _factor(grads, max_norm)) for grad in grads]:
        grad.mul_(factor)


def clip_by_value(grads: Any, clip_value: float) -> None:
    for grad in grads:
        grad.clamp_(-clip_value, clip_value)


def clip_only_by_finite_norms(grads: Any, max_norm: float) -> None:
    norm = _norms(grads).norm().item()
    if max_norm < norm < math.inf:
        for grad in grads:
            grad.mul_(max_norm / norm)


def clip_or_remove(parameters: Any, max_norm: float) -> None:
    norm = _norms([p.grad for p in parameters]).norm().item()
    for parameter in parameters:
        parameter.grad = parameter.grad.mul_(min(1.0, max_norm / norm)) if norm < math.inf else None


def clip_by_squares(grads: Any, max_norm: float) -> None:
    """inf / inf where the squares overflow."""
    squares = sum(grad.float().square().sum() for grad in grads)
    for grad in grads:
        grad.div_(squares).mul_(squares.sqrt() * max_norm)


def scale_for_loss(grads: Any) -> None:
    for grad in grads:
        grad.mul_(1024.0)


def test_torchs_clipping_zeroes_finite_gradients_from_a_norm_of_two_to_the_64() -> None:
    """1.84e19; in float16 from 2**16. At 4,096 elements of 1e20 nothing is left."""
    answer = ask(CLIPPING, nn.utils.clip_grad_norm_)
    assert (answer.outcome, answer.severity) == ("reproduced", "P4")
    assert answer.message == (
        "from a norm of 1.84e+19 on, finite float32 gradients are zero after clipping; "
        "destroyed for bfloat16, float16, float32, mixed"
    )
    assert answer.values("destroying_norm", dtype="float32") == [2.0**64, 2.0**64]
    assert answer.values("destroying_magnitude", dtype="float32", elements=MILLION) == [2.0**54]
    assert answer.values("destroying_norm", dtype="float16", elements=MILLION) == [2.0**16]
    assert answer.values("norm_after", magnitude=1e20) == [0.0]
    assert answer.values("expected_norm_after") == [pytest.approx(1.0, rel=1e-5)]
    assert {row.case["how"] for row in answer.rows if row.name == "destroying_norm"} == {"zero"}


@pytest.mark.parametrize("function", [clip_exactly, clip_by_value])
def test_clipping_that_holds_has_no_boundary(function: Callable) -> None:
    answer = ask(CLIPPING, function)
    assert answer.outcome == "not_reproduced"
    assert set(answer.values("destroying_norm", dtype="float32")) == {None}
    assert answer.message == "no finite gradients are destroyed up to the largest norm that float32 holds"


@pytest.mark.parametrize("function", [nn.utils.clip_grad_norm_, clip_exactly])
def test_gradients_below_a_large_limit_are_not_destroyed(function: Callable) -> None:
    """A limit of a million: what is below it stays, and only the overflow counts."""
    answer = ask(CLIPPING, function, {"max_norm": 1e6})
    assert answer.values("expected_norm_after") == [pytest.approx(1e6, rel=1e-5)]
    boundary = 2.0**64 if function is nn.utils.clip_grad_norm_ else None
    assert answer.values("destroying_norm", dtype="float32", elements=4096) == [boundary]


def test_nan_is_named() -> None:
    answer = ask(CLIPPING, clip_by_squares)
    assert answer.message.startswith("from a norm of 1.84e+19 on, finite float32 gradients are NaN after clipping")
    assert answer.line == clip_by_squares.__code__.co_firstlineno + 2


@pytest.mark.parametrize(
    ("function", "arguments", "said"),
    [
        (clip_only_by_finite_norms, {}, "it leaves the largest ones unclipped in bfloat16, float16, float32, mixed"),
        (clip_or_remove, {}, "it refuses the largest ones in bfloat16, float16, float32, float64, mixed"),
        (nn.utils.clip_grad_norm_, {"error_if_nonfinite": True}, "it refuses the largest ones in bfloat16"),
    ],
    ids=["left", "removed", "raises"],
)
def test_leaving_removing_and_raising_lose_nothing_without_a_word(
    function: Callable, arguments: dict, said: str
) -> None:
    answer = ask(CLIPPING, function, arguments)
    assert answer.outcome == "not_reproduced"
    assert said in answer.message


@pytest.mark.parametrize("function", [exact, scale_for_loss])
def test_what_has_no_limit_does_not_clip(function: Callable) -> None:
    """A loss scale that overflows at 2**118 is not this probe's business."""
    answer = ask(CLIPPING, function)
    assert (answer.outcome, answer.message) == ("not_applicable", "it does not clip: it sets no limit to gradients")


def test_float16_alone_at_large_norms_is_p2_and_float64_is_judged_where_the_policy_asks() -> None:
    def clip_in_one_step(grads: Any, max_norm: float) -> None:
        """The coefficient is rounded to the gradients' type: below 2**-25 it is zero in float16."""
        for grad, factor in [(grad, _factor(grads, max_norm)) for grad in grads]:
            grad.mul_(torch.tensor(factor).to(grad.dtype))

    answer = ask(CLIPPING, clip_in_one_step)
    assert (answer.outcome, answer.severity) == ("reproduced", "P2")
    assert answer.values("destroying_norm", dtype="float16", elements=MILLION) == [2.0**25]
    assert answer.message.endswith("destroyed for float16")
    assert ask(CLIPPING, clip_exactly, policy={"judge_float64": 1}).severity == "P4"


def test_what_is_next_to_nothing_is_called_so() -> None:
    def clip_twice_when_large(grads: Any, max_norm: float) -> None:
        factor = _factor(grads, max_norm)
        for grad in grads:
            grad.mul_(factor if factor > 2.0**-30 else factor * 0.01)

    answer = ask(CLIPPING, clip_twice_when_large)
    assert "gradients are next to nothing after clipping" in answer.message
    assert answer.values("destroying_norm", dtype="float32", elements=4096) == [2.0**30]


# --- retained memory -------------------------------------------------------------------------------


class History:
    def __init__(self, length: int = 0) -> None:
        self.steps: list = []
        self.length = length

    def record(self, grads: Any) -> float:
        self.steps.append([grad.clone() for grad in grads])
        del self.steps[: max(0, len(self.steps) - self.length) if self.length else 0]
        return exact([grad.detach() for grad in grads])


def test_a_history_is_a_law_in_the_number_of_calls() -> None:
    answer = ask(RETAINED, History.record, owner=History)
    assert (answer.outcome, answer.severity) == ("reproduced", "P1")
    assert answer.values("held_bytes", memory="tensors") == [1 << 20, 4 << 20, 16 << 20, 64 << 20]
    assert answer.values("growth_per_call", memory="tensors") == [1 << 20]
    assert answer.values("constant_share", memory="tensors") == [0.0]
    assert answer.message == "every call leaves 1x the gradients' bytes in tensors"
    assert answer.line == History.record.__code__.co_firstlineno + 1


@pytest.mark.acceptance
def test_a_history_of_fixed_length_is_a_store() -> None:
    answer = ask(RETAINED, History.record, {"length": 3}, owner=History)
    assert (answer.outcome, answer.severity) == ("reproduced", "P3")
    assert answer.message == "3x the gradients' bytes stay in tensors for good"
    assert answer.values("growth_share", memory="tensors") == [0.0]


def test_the_last_gradients_may_be_kept() -> None:
    answer = ask(RETAINED, History.record, {"length": 1}, owner=History)
    assert (answer.outcome, answer.values("constant_share", memory="tensors")) == ("not_reproduced", [1.0])


class NumpyHistory:
    def __init__(self) -> None:
        self.steps: list = []

    def record(self, grads: Any) -> float:
        self.steps.append([grad.detach().numpy().copy() for grad in grads])
        return exact([grad.detach() for grad in grads])


def test_memory_of_numpy_is_seen() -> None:
    answer = ask(RETAINED, NumpyHistory.record, owner=NumpyHistory)
    assert answer.message == "every call leaves 1x the gradients' bytes in NumPy and Python"
    assert answer.values("growth_share", memory="tensors") == [0.0]


ONLY_WITH_GRAPH = ", only where gradients carry a graph (create_graph=True)"


class NormHistory:
    """Four bytes a call, until they hang on a graph."""

    def __init__(self) -> None:
        self.norms: list[torch.Tensor] = []

    def record(self, grads: Any) -> float:
        self.norms.append(_norms(grads).norm())
        return self.norms[-1].item()


def test_what_only_a_graph_retains_is_said_so() -> None:
    """Leaf and gradient of every call; the control is the history of gradients above, which any gradients show."""
    answer = ask(RETAINED, NormHistory.record, owner=NormHistory)
    told = "every call leaves 2x the gradients' bytes" + ONLY_WITH_GRAPH
    assert (answer.outcome, answer.severity, answer.message) == ("reproduced", "P4", told)
    assert answer.values("growth_share", memory="tensors")[0] < 1e-4
    assert answer.line == _norms.__code__.co_firstlineno + 1


def test_an_answer_with_a_graph_keeps_gradients_and_leaves() -> None:
    result = run_here(SPECIMEN, target_of("defective", "numerics:norm_on_device"), [RETAINED]).results[0]
    assert values(result, "graph_tensors") == [0, 1]
    (kept,) = values(result, "kept_by_answer", gradients="with graph")
    assert kept == pytest.approx(2.0, abs=0.01)
    told = "the answer keeps the autograd graph alive (the answer): 2x the gradients' bytes"
    assert result.message == told + ONLY_WITH_GRAPH


def test_numbers_hold_nothing() -> None:
    assert ask(RETAINED, lambda grads: exact([grad.detach() for grad in grads])).outcome == "not_reproduced"


def norm64(parameters: Any) -> float:
    """The norm, in float64."""
    grads = [p.grad for p in parameters if p.grad is not None]
    return float(torch.linalg.vector_norm(torch.stack([g.double().norm() for g in grads])))


def clamped_norm(parameters: Any) -> float:
    """Follows the norm up to 1e4, for a plot."""
    return min(norm64(parameters), 1e4)


def finite_norm(parameters: Any) -> float:
    """Overflows, and hides it behind float32's largest number."""
    grads = [p.grad for p in parameters if p.grad is not None]
    norm = torch.stack([(g.float() * g).sum() for g in grads]).sum().sqrt()
    return float(torch.nan_to_num(norm))


def one_dtype_norm(parameters: Any) -> dict[str, float] | None:
    """None for a mix of dtypes."""
    grads = [p.grad for p in parameters if p.grad is not None]
    return {"norm": norm64(parameters)} if len({g.dtype for g in grads}) == 1 else None


def test_a_value_that_is_held_at_a_bound_is_no_overflow() -> None:
    """With its control: what overflows jumps, also where the jump ends at a finite number that stays."""
    clamped = ask(OVERFLOW, clamped_norm)
    assert (clamped.outcome, clamped.message) == (
        "not_applicable", "its norm is held at 10000: a bound, and no norm above it"
    )  # fmt: skip
    assert ask(OVERFLOW, finite_norm).outcome == "reproduced"


def test_a_dtype_without_a_norm_is_not_judged() -> None:
    """That None is an answer to a mix of dtypes is another probe's finding."""
    answer = ask(OVERFLOW, one_dtype_norm)
    assert answer.outcome == "not_reproduced"
    assert {row.case["dtype"] for row in answer.rows} == {"float32", "bfloat16", "float16", "float64"}


def clip_by_weights(params: Any) -> None:
    for p in params:
        limit = 0.05 * torch.linalg.vector_norm(p.detach(), dtype=torch.float64).item()
        p.grad.mul_(min(1.0, limit / torch.linalg.vector_norm(p.grad, dtype=torch.float64).item()))


def test_weights_are_as_large_as_those_of_a_model_and_of_one_norm_in_any_grouping() -> None:
    """Weights of zero are a limit of zero for whoever clips by them."""
    assert ask(CLIPPING, clip_by_weights).outcome == "not_reproduced"
    for shapes in ([(6, 2), (4,)], [(4, 4)], [(2, 2, 2), (8,)]):
        holder = GradientHolder([torch.ones(shape) for shape in shapes])
        squares = sum(float(p.detach().double().square().sum()) for p in holder.parameters())
        assert squares**0.5 == pytest.approx(0.02 * 4)
        assert sum(float(p.detach().sum()) for p in holder.parameters()) == 0.0


def log_magnitude(grad: Any) -> float:
    return float(grad.abs_().log().mean())


def test_a_hook_of_one_tensor_may_write_to_gradients_with_a_graph() -> None:
    answer = ask(MUTATES, log_magnitude)
    assert (answer.outcome, answer.severity) == ("reproduced", "P0")
