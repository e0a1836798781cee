"""What a user is promised by collect_gradients and compute_total_norm, over every kind of input."""

import dataclasses
import gc
import math
import weakref
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from auditkit.collectors import GradientStats, collect_gradients, compute_total_norm
from auditkit.collectors.cpu_pass import measure_on_cpu
from tests.collectors.oracle import exact_norm, norm_error_bound, relative_error
from tests.collectors.pretend_cuda import PretendCuda

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


def test_a_single_tensor_is_a_source() -> None:
    """One parameter or one gradient needs no list."""
    assert stats_of(torch.tensor([3.0, 4.0])).total_norm == 5.0


def test_missing_gradients_are_left_out(model: nn.Module) -> None:
    """Parameters without gradient, frozen ones and None count nowhere."""
    model[0].weight.grad = None
    model[1].bias.requires_grad_(False).grad = None
    stats = stats_of([*model.parameters(), None])
    assert (stats.tensor_count, stats.element_count) == (2, 4 + 8)


def test_a_leaf_that_holds_a_gradient_is_a_parameter() -> None:
    """A plain tensor with requires_grad stands for its gradient; one without is a gradient."""
    leaf = torch.ones(4, requires_grad=True)
    (leaf * 3).sum().backward()
    assert stats_of([leaf]).total_norm == 6.0
    assert stats_of([torch.ones(4, requires_grad=True)]).tensor_count == 0
    assert stats_of([torch.ones(4)]).total_norm == 2.0


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


def test_a_16_bit_norm_may_leave_16_bits() -> None:
    """A float16 gradient of norm 70,000 has that norm."""
    gradient = torch.full((49,), 10_000.0, dtype=torch.float16)
    assert relative_error(stats_of([gradient]).total_norm, 70_000.0) <= NARROW_BOUND
    assert torch.linalg.vector_norm(gradient).item() == math.inf  # control


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


@pytest.mark.filterwarnings("ignore:Sparse invariant checks are implicitly disabled:UserWarning")
@pytest.mark.parametrize(
    ("dtype", "scale"),
    [(torch.float64, 1e300), (torch.float64, 1e-300), (torch.float32, 1e37), (torch.float32, 1e-40), (torch.half, 1e3)],
)
def test_complex_and_sparse_gradients_of_every_scale(dtype: torch.dtype, scale: float) -> None:
    """The parts of complex gradients, and stored elements beside those that are not, keep their norm; NaN counts."""
    parts = (torch.tensor([[3.0, 4.0], [0.0, -12.0]], dtype=torch.float64) * scale).to(dtype)
    expected = exact_norm(parts.reshape(-1).tolist())
    sources = {"sparse": torch.sparse_coo_tensor(torch.tensor([[1, 3]]), parts, (6, 2)), "dense": parts}
    if dtype != torch.half:
        sources["complex"] = torch.view_as_complex(parts)
    for name, source in sources.items():
        stats = stats_of([source, torch.full((1,), math.nan, dtype=dtype)])
        zero_count = 1 + (8 if name == "sparse" else 0)
        assert (stats.zero_count, stats.nan_count, stats.element_count) == (zero_count, 1, zero_count + 4), name
        assert relative_error(stats.finite_norm, expected) <= norm_error_bound(4, measure_on_cpu, dtype), name


@pytest.mark.filterwarnings("ignore:Sparse CSR tensor support is in beta:UserWarning")
@pytest.mark.filterwarnings("ignore:Sparse invariant checks are implicitly disabled:UserWarning")
def test_compressed_sparse_gradients() -> None:
    """CSR stores each element once, explicit zeros included."""
    dense = torch.tensor([[0.0, 3.0], [4.0, 0.0]])
    assert stats_of([dense.to_sparse_csr()]) == stats_of([dense])


def test_tensors_without_elements_do_not_poison_extremes() -> None:
    """A zero-size gradient is listed, and neither vanishes nor is the smallest."""
    stats = stats_of([torch.full((4,), 2.0), torch.empty(0, 5)])
    assert (stats.min_norm, stats.max_norm, stats.vanishing_count, stats.health) == (4.0, 4.0, 0, 1.0)
    assert stats.per_tensor_norms == (4.0, 0.0)
    assert stats.tensor_count == 2


def test_gradients_are_not_modified(model: nn.Module) -> None:
    """Values, versions and requires_grad are what they were, on both passes."""
    gradients = [p.grad.clone() for p in model.parameters() if p.grad is not None]
    gradients[0].view(-1)[0] = math.nan
    gradients[1].requires_grad_(False)
    before = [(g.clone(), g._version, g.requires_grad) for g in gradients]
    stats_of(gradients)
    stats_of([PretendCuda(g) for g in gradients])
    for gradient, (values, version, requires_grad) in zip(gradients, before, strict=True):
        assert torch.equal(gradient.nan_to_num(), values.nan_to_num())
        assert (gradient._version, gradient.requires_grad) == (version, requires_grad)


def test_statistics_are_of_the_moment_of_collection() -> None:
    """What happens to the gradients after collect_gradients does not show."""
    for gradient in (torch.ones(4), PretendCuda(torch.ones(4))):
        pending = collect_gradients([gradient])
        gradient.zero_()
        assert pending.materialize().total_norm == 2.0


def test_the_default_device_does_not_matter() -> None:
    """CPU gradients are measured on the CPU, wherever new tensors would go."""
    gradients = [torch.ones(4)]
    with torch.device("meta"):
        assert stats_of(gradients).total_norm == 2.0


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


@pytest.mark.filterwarnings("ignore:torch.q:UserWarning", "ignore:.*quantiz.*", "ignore:.*Quantiz.*")
def test_quantized_gradients_are_refused() -> None:
    """Quantized tensors are refused by name."""
    quantized = torch.quantize_per_tensor(torch.ones(3), 0.1, 0, torch.qint8)
    with pytest.raises(ValueError, match="gradient 0 is quantized"):
        collect_gradients([quantized])


def test_both_passes_agree(model: nn.Module) -> None:
    """A pretended device gives the statistics that the CPU gives, up to rounding of the norms."""
    gradients: list[Tensor] = [p.grad for p in model.parameters() if p.grad is not None]
    gradients += [torch.tensor([1e300, 0.0]).double(), torch.empty(0), gradients[0].half()[:, ::2]]
    here, there = stats_of(gradients), stats_of([PretendCuda(g) for g in gradients])
    assert there.as_dict(per_tensor=True) == pytest.approx(here.as_dict(per_tensor=True), rel=NARROW_BOUND)
