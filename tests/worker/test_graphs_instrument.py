"""Graphs and breaks under torch.compile: exact on functions counted by hand."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from auditkit.worker.base.frames import SourceRoots
from auditkit.worker.gradients.gradients import GradientHolder, make_gradients
from auditkit.worker.measure import graphs, selfcheck

pytestmark = pytest.mark.process

ROOTS = SourceRoots(str(Path(__file__).parent))


def grads_of(parameters: Any) -> list[torch.Tensor]:
    return [p.grad for p in parameters if p.grad is not None]


def norms_of(parameters: Any) -> torch.Tensor:
    return torch.stack(torch._foreach_norm(grads_of(parameters), 2))


def one_tensor(ps: Any) -> torch.Tensor:
    return norms_of(ps).norm()


def one_read(ps: Any) -> float:
    return norms_of(ps).norm().item()


def reads_at_the_end(ps: Any) -> list[float]:
    return [norm.item() for norm in torch._foreach_norm(grads_of(ps), 2)]


def branch_at_the_end(ps: Any) -> dict[str, Any]:
    norm = norms_of(ps).norm()
    return {"norm": norm.item(), "large": bool(norm > 1.0)}


def read_between(ps: Any) -> float:
    norms = norms_of(ps)
    largest = norms.max().item()
    return (norms / 2).norm().item() * largest


def branch_between(ps: Any) -> torch.Tensor:
    norm = norms_of(ps).norm()
    if norm > 1.0:
        norm = norm * 2
    return norm


@torch.compiler.disable
def doubled(norms: torch.Tensor) -> torch.Tensor:
    return norms * 2


def eager_between(ps: Any) -> torch.Tensor:
    return doubled(norms_of(ps)).norm()


def selects_by_mask(ps: Any) -> torch.Tensor:
    norms = norms_of(ps)
    return norms[norms > 0].norm()


def reads_in_a_loop(ps: Any) -> list[float]:
    found = []
    for grad in grads_of(ps):
        found.append(grad.norm().item())
    return found


# (graphs, breaks, breaks before the end, operators outside) for n tensors.
HAND_COUNTED: list[tuple[Callable, Callable[[int], tuple[int, int, int, int]]]] = [
    (one_tensor, lambda n: (1, 0, 0, 0)),
    (one_read, lambda n: (1, 1, 0, 0)),
    (reads_at_the_end, lambda n: (1, 1, 0, 0)),
    (branch_at_the_end, lambda n: (2, 2, 1, 0)),
    (read_between, lambda n: (2, 2, 1, 0)),
    (branch_between, lambda n: (2, 1, 1, 0)),
    (eager_between, lambda n: (2, 1, 1, 1)),
    (selects_by_mask, lambda n: (2, 1, 1, 1)),
    (reads_in_a_loop, lambda n: (0, n, n, n)),
]


def call_of(function: Callable, tensors: int, magnitude: float = 1.0) -> Callable[[], Any]:
    module = GradientHolder(make_gradients(tensors, 128, magnitude=magnitude))
    return lambda: function(list(module.parameters()))


@pytest.mark.parametrize(("function", "expected"), HAND_COUNTED, ids=[case[0].__name__ for case in HAND_COUNTED])
def test_breaks_are_counted_as_the_call_runs(function: Callable, expected: Callable) -> None:
    assert graphs.trace(call_of(function, 5), ROOTS)[:4] == expected(5)


def test_a_clean_call_names_no_stop() -> None:
    assert graphs.trace(call_of(one_tensor, 3), ROOTS).first_stop is None


def raises_when_compiled(ps: Any) -> torch.Tensor:
    compiled = torch.compiler.is_compiling()
    total = one_tensor(ps)
    torch._dynamo.graph_break()
    if compiled:  # what was traced as true stays true behind the break
        raise ValueError("not in a compiled step")
    return total


def test_a_call_that_raises_only_when_compiled_says_so() -> None:
    traced = graphs.trace(call_of(raises_when_compiled, 2), ROOTS)
    assert "not in a compiled step" in traced.error
    assert traced.graph_count == 0


def test_fullgraph_refuses_a_branch_and_takes_a_tensor() -> None:
    assert graphs.fullgraph_failure(call_of(one_tensor, 2), ROOTS) is None
    refused = graphs.fullgraph_failure(call_of(branch_between, 2), ROOTS)
    assert refused is not None
    assert refused.reason == "Unsupported: Data-dependent branching"
    assert refused.site is not None
    assert refused.site.line == branch_between.__code__.co_firstlineno + 2


def test_an_instrument_that_misreads_its_toy_is_not_believed(monkeypatch: pytest.MonkeyPatch) -> None:
    selfcheck.check("graphs", "cpu", ROOTS)
    monkeypatch.setattr(graphs, "trace", lambda *_: graphs.Trace(1, 0, 0, 0, None))
    with pytest.raises(selfcheck.SelfCheckError, match=r"reads \(1, 0, 0, 0\) for two graphs with one break"):
        selfcheck.check("graphs", "cpu", ROOTS)
