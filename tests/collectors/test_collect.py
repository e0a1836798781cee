"""What a user is promised by collect_gradients and compute_total_norm, over every kind of input."""

import dataclasses
import gc
import math
import weakref
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn

from auditkit.collectors import GradientStats, collect_gradients, compute_total_norm
from auditkit.collectors.cpu_pass import measure_on_cpu
from auditkit.worker.simulated.device import simulated_cuda
from auditkit.worker.simulated.tensor import to_simulated
from tests.collectors.oracle import norm_error_bound, relative_error

# Of the norm of a few float32 elements on the CPU.
NARROW_BOUND = norm_error_bound(100, measure_on_cpu, torch.float32)


def stats_of(source: Any) -> GradientStats:
    return collect_gradients(source).materialize()


@pytest.fixture(name="model")
def _model() -> nn.Module:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(3, 4), nn.Linear(4, 2))
    model(torch.randn(5, 3)).square().sum().backward()
    return model


FORMS: dict[str, Callable[[nn.Module], Any]] = {
    "module": lambda m: m,
    "generator of parameters": lambda m: m.parameters(),
    "list of parameters": lambda m: list(m.parameters()),
    "named pairs": lambda m: m.named_parameters(),
    "mapping": lambda m: dict(m.named_parameters()),
    "gradients": lambda m: [p.grad for p in m.parameters()],
    "generator of gradients": lambda m: (p.grad for p in m.parameters()),
    "named gradients": lambda m: {name: p.grad for name, p in m.named_parameters()},
}


@pytest.mark.parametrize("form", FORMS)
def test_every_form_of_input_gives_the_same_statistics(form: str, model: nn.Module) -> None:
    """A module, its parameters, its gradients and named pairs mean the same; iterators are read once."""
    flat = torch.cat([p.grad.reshape(-1) for p in model.parameters() if p.grad is not None])
    stats = stats_of(FORMS[form](model))
    assert relative_error(stats.total_norm, torch.linalg.vector_norm(flat.double()).item()) <= NARROW_BOUND
    assert (stats.element_count, stats.tensor_count) == (26, 4)
    assert dataclasses.replace(stats, names=()) == dataclasses.replace(stats_of(model), names=())
    if form in ("module", "named pairs", "mapping", "named gradients"):
        assert stats.norms == dict(zip(dict(model.named_parameters()), stats.per_tensor_norms, strict=True))
    else:
        assert list(stats.norms) == ["0", "1", "2", "3"]


def test_missing_gradients_are_left_out(model: nn.Module) -> None:
    """Parameters without gradient, frozen ones and None count nowhere."""
    model[0].weight.grad = None
    model[1].bias.requires_grad_(False).grad = None
    stats = stats_of([*model.parameters(), None])
    assert (stats.tensor_count, stats.element_count) == (2, 4 + 8)


def test_a_gradient_with_a_graph_is_a_gradient() -> None:
    """create_graph=True gives gradients that are no leaves; the result keeps neither them nor the graph."""
    leaf = torch.ones(4, requires_grad=True)
    (gradient,) = torch.autograd.grad((leaf**2).sum(), leaf, create_graph=True)
    pending = collect_gradients([gradient])
    assert pending.materialize().total_norm == 4.0
    held = weakref.ref(gradient)
    del gradient
    gc.collect()
    assert held() is None
    assert pending.materialize().tensor_count == 1


def test_empty_input_has_the_same_fields_and_types(model: nn.Module) -> None:
    """No gradients: zeros, ratio 1, health 1, of the types that gradients give."""
    empty, full = dataclasses.asdict(stats_of([])), dataclasses.asdict(stats_of(model))
    assert {name: type(value) for name, value in empty.items()} == {name: type(value) for name, value in full.items()}
    assert empty["total_norm"] == empty["min_norm"] == 0.0
    assert empty["health"] == 1.0
    assert stats_of([None]) == stats_of([]) == stats_of(iter(()))


def test_total_norm_is_none_without_gradients(model: nn.Module) -> None:
    """compute_total_norm tells no gradient from a gradient of zeros."""
    assert compute_total_norm(nn.Linear(2, 2)) is None
    assert compute_total_norm([torch.zeros(3)]) == 0.0
    assert compute_total_norm(model) == stats_of(model).total_norm


def test_mixed_dtypes_keep_their_order() -> None:
    """Gradients of several dtypes are one set; per-tensor norms stay in the order given."""
    dtypes = [torch.float32, torch.float64, torch.float16, torch.bfloat16, torch.float32, torch.complex64]
    gradients = [torch.full((4,), float(n), dtype=dtype) for n, dtype in enumerate(dtypes, start=1)]
    stats = stats_of(gradients)
    assert stats.per_tensor_norms == (2.0, 4.0, 6.0, 8.0, 10.0, 12.0)
    assert relative_error(stats.total_norm, 2 * math.sqrt(91)) <= 1e-15


def test_complex_gradients_count_their_real_parts() -> None:
    """A complex element is two real ones; lazily conjugated and negated views need no copy."""
    gradient = torch.tensor([3 + 4j, 0 + 5j, complex(math.nan, 1), 0j], dtype=torch.complex128)
    for view in (gradient, gradient.conj()):
        stats = stats_of([view])
        assert (stats.element_count, stats.zero_count, stats.nan_count) == (8, 3, 1)
        assert relative_error(stats.finite_norm, math.sqrt(51)) <= 1e-15
    assert gradient.conj().imag.is_neg()
    assert stats_of([gradient.conj().imag]).zero_count == 1


def test_sparse_gradients_add_duplicates_and_count_what_is_not_stored() -> None:
    """An embedding's sparse gradient measures as its dense form does; the gradient stays uncoalesced."""
    embedding = nn.Embedding(10, 3, sparse=True)
    embedding(torch.tensor([1, 1, 7])).sum().backward()
    gradient = embedding.weight.grad
    assert gradient is not None
    assert not gradient.is_coalesced()
    assert stats_of([gradient]) == stats_of([gradient.to_dense()])
    assert not gradient.is_coalesced()
    assert stats_of([gradient]).zero_count == 24


def test_gradients_are_not_modified(model: nn.Module) -> None:
    """Values, versions and requires_grad are what they were, on both passes."""
    gradients = [p.grad.clone() for p in model.parameters() if p.grad is not None]
    gradients[0].view(-1)[0] = math.nan
    gradients[1].requires_grad_(False)
    before = [(g.clone(), g._version, g.requires_grad) for g in gradients]
    stats_of(gradients)
    with simulated_cuda():
        stats_of([to_simulated(g) for g in gradients])
    for gradient, (values, version, requires_grad) in zip(gradients, before, strict=True):
        assert torch.equal(gradient.nan_to_num(), values.nan_to_num())
        assert (gradient._version, gradient.requires_grad) == (version, requires_grad)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: torch.tensor([1, 2]), r"gradient 1 has dtype torch.int64"),
        (lambda: torch.tensor([True]), r"gradient 1 has dtype torch.bool"),
        (lambda: torch.empty(3, device="meta"), r"gradient 1 is on device meta, which has no values"),
        (lambda: "weight", r"gradient 1 is a str"),
        (lambda: ("fc.bias", torch.tensor([1])), r"gradient 1 \('fc.bias'\) has dtype"),
        (lambda: torch.ones(3, 3).to_mkldnn(), r"gradient 1 has layout torch._mkldnn"),
        (lambda: torch.nested.as_nested_tensor([torch.ones(2)], layout=torch.jagged), r"nested tensor"),
    ],
)
def test_what_is_not_supported_is_named(make: Callable[[], Any], message: str) -> None:
    """A ValueError says what is wrong and which gradient it is."""
    with pytest.raises(ValueError, match=message):
        collect_gradients([torch.ones(2), make()])
