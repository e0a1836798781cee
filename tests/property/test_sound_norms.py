"""Whatever the formula of a correct norm and the shape of its answer, the numerics probes find nothing."""

from __future__ import annotations

import types
from collections.abc import Callable
from dataclasses import make_dataclass
from pathlib import Path
from typing import Any

import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from auditkit.probing.engine.catalog import load_catalog, load_module
from auditkit.worker.base.frames import SourceRoots
from auditkit.worker.context.context import Context
from auditkit.worker.feed.caller import Caller
from auditkit.worker.feed.search import find_plan
from tests.probing_helpers import HEALTH, OVERFLOW, UNDERFLOW

PROBES = {name: load_module(load_catalog()[name]) for name in (OVERFLOW, UNDERFLOW, HEALTH)}

Reduction = Callable[[list], torch.Tensor]
REDUCTIONS: dict[str, Reduction] = {
    "foreach": lambda grads: torch.stack(torch._foreach_norm(grads, 2, dtype=torch.float64)).norm(),
    "vector_norm": lambda grads: torch.stack([torch.linalg.vector_norm(g, dtype=torch.float64) for g in grads]).norm(),
    "double, then sum": lambda grads: sum(g.double().pow(2).sum() for g in grads).sqrt(),
    "cat, then double": lambda grads: torch.cat([g.double().reshape(-1) for g in grads]).norm(),
    "scaled by the largest": lambda grads: scaled_norm(grads),
    "largest element": lambda grads: torch.stack([g.abs().max().double() for g in grads]).max(),
}
DIVISORS: dict[str, Callable[[list], float]] = {
    "total": lambda grads: 1.0,
    "per tensor": lambda grads: float(len(grads)),
    "root of elements": lambda grads: sum(g.numel() for g in grads) ** 0.5,
    "a constant": lambda grads: 3.0,
}
ANSWERS: dict[str, Callable[[float], Any]] = {
    "number": lambda norm: norm,
    "tensor": lambda norm: torch.tensor(norm, dtype=torch.float64),
    "mapping": lambda norm: {"layers": 3, "grad_norm": norm},
    "nested": lambda norm: ({"grad": {"norm": norm}}, 7),
    "dataclass": make_dataclass("Stats", ["grad_norm"]),
    "object": lambda norm: types.SimpleNamespace(value=norm),
}


def scaled_norm(grads: list) -> torch.Tensor:
    """Divide by the largest element first: safe without a wider type for the squares."""
    doubles = [g.double() for g in grads]
    largest = torch.stack([g.abs().max() for g in doubles]).max()
    if not largest.isfinite() or largest == 0:
        return largest
    return largest * sum((g / largest).pow(2).sum() for g in doubles).sqrt()


def outcome(probe: str, collector: Callable) -> str:
    """What the probe says of a collector in this process, judged under its own policy."""
    caller = Caller(collector, None, "", {})
    context = Context(find_plan(caller, {}), caller, "cpu", SourceRoots(str(Path(__file__).parent)), {})
    messages = list(PROBES[probe].measure(context))
    measured = [types.SimpleNamespace(**m) for m in messages if m["type"] == "measurement"]
    return PROBES[probe].judge(measured, load_catalog()[probe].policy)["outcome"]


@settings(max_examples=50, deadline=None)
@given(
    reduce=st.sampled_from(sorted(REDUCTIONS)),
    divide=st.sampled_from(sorted(DIVISORS)),
    answer=st.sampled_from(sorted(ANSWERS)),
    probe=st.sampled_from(sorted(PROBES)),
)
def test_a_correct_norm_reproduces_nothing(reduce: str, divide: str, answer: str, probe: str) -> None:
    def collector(gradients: list) -> Any:
        return ANSWERS[answer](REDUCTIONS[reduce](gradients).item() / DIVISORS[divide](gradients))

    assert outcome(probe, collector) == "not_reproduced"


def test_an_incorrect_one_is_found_by_each_probe() -> None:
    """The control: float32 squares overflow and vanish, and a norm that drops NaN hides it."""

    def float32_squares(gradients: list) -> float:
        return sum(g.float().pow(2).sum() for g in gradients).sqrt().item()

    def dropping(gradients: list) -> float:
        return sum(g.nan_to_num(0.0, 0.0).double().pow(2).sum() for g in gradients).sqrt().item()

    assert outcome(OVERFLOW, float32_squares) == "reproduced"
    assert outcome(UNDERFLOW, float32_squares) == "reproduced"
    assert outcome(HEALTH, dropping) == "reproduced"
