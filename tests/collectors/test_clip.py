"""clip_gradients scales what a model holds to the limit, at every norm, reads nothing and copies nothing."""

import math
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from torch import Tensor, nn

from auditkit.collectors import clip_gradients, collect_gradients
from auditkit.collectors.clip import multiply_each
from auditkit.worker.base.frames import SourceRoots
from auditkit.worker.measure.syncs import count_launches, count_syncs
from auditkit.worker.simulated.tensor import to_simulated
from tests.collectors.oracle import relative_error
from tests.collectors.test_memory import CPU_PEAK_BYTES, peak_bytes

ROOTS = SourceRoots(str(Path(__file__).parent))


def norm_of(gradients: list[Tensor]) -> float:
    return math.hypot(*[value for gradient in gradients for value in gradient.to_dense().double().flatten().tolist()])


# torch's own: 0.0 from norms of 1.84e19 in float32 on, and from elements of 256 in float16.
@pytest.mark.parametrize("magnitude", [1e-3, 1.0, 300.0, 6e4, 1e20, 1e35])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16, torch.float64])
def test_gradients_keep_their_direction_at_every_norm(magnitude: float, dtype: torch.dtype) -> None:
    """The norm afterwards is the limit, or what it was below; 65,536 elements take coefficients below 6e-8."""
    if magnitude > torch.finfo(dtype).max:
        pytest.skip(f"{dtype} has no such elements")
    torch.manual_seed(0)
    gradients = [(torch.rand(n) * magnitude).to(dtype) for n in (7, 65_536, 0)]
    before, directions = norm_of(gradients), [g.double() / magnitude for g in gradients]
    norm = clip_gradients(gradients, 0.5)
    assert relative_error(norm.item(), before) <= 1e-6
    assert norm.dtype == torch.float64
    assert relative_error(norm_of(gradients), min(before, 0.5)) <= 4 * torch.finfo(dtype).eps
    for gradient, direction in zip(gradients[:2], directions[:2], strict=True):
        assert torch.cosine_similarity(gradient.double().flatten(), direction.flatten(), dim=0) > 0.999


@pytest.mark.parametrize("bad", [math.nan, math.inf])
def test_what_becomes_of_gradients_with_nan_or_inf(bad: float) -> None:
    """They stay as they are, or all become zero; the norm says so either way."""
    gradients = [torch.tensor([3.0, bad]), torch.ones(3).half(), torch.ones(2).double()]
    norm = clip_gradients(gradients, 1.0)
    assert torch.equal(norm, torch.tensor(bad, dtype=torch.float64)) or (math.isnan(bad) and bool(norm.isnan()))
    assert (gradients[0][0], gradients[1][0], gradients[2][0]) == (3.0, 1.0, 1.0)
    clip_gradients(gradients, 1.0, nonfinite="zero")
    assert not any(gradient.any() for gradient in gradients)
    finite = [torch.tensor([3.0, 4.0])]
    clip_gradients(finite, 1.0, nonfinite="zero")
    assert torch.allclose(finite[0], torch.tensor([0.6, 0.8]))


FORMS: dict[str, Callable[[], Tensor]] = {
    "sparse with duplicates": lambda: torch.sparse_coo_tensor([[0, 0]], [3.0, 1.0], (3,)),
    "coalesced": lambda: torch.sparse_coo_tensor([[0, 2]], [3.0, 1.0], (3,)).coalesce(),
    "transposed": lambda: torch.ones(3, 4).t(),
    "sliced": lambda: torch.ones(3, 4)[:, ::2],
    "0-d": lambda: torch.tensor(4.0),
}


@pytest.mark.filterwarnings("ignore:Sparse invariant checks:UserWarning")
@pytest.mark.parametrize("form", FORMS)
def test_the_gradient_itself_changes(form: str) -> None:
    """What the parameter holds is scaled, and not a copy that was made to measure it."""
    gradient = FORMS[form]()
    before = norm_of([gradient])
    assert clip_gradients([gradient], 0.5).item() == pytest.approx(before, rel=1e-6)
    assert norm_of([gradient]) == pytest.approx(0.5, rel=1e-6)


def test_a_known_norm_is_not_measured_again() -> None:
    """Statistics and clipping share one pass: the norm that collect_gradients left on the device."""
    gradients = [torch.tensor([3.0, 4.0])]
    pending = collect_gradients(gradients)
    assert clip_gradients(gradients, 1.0, total_norm=2 * pending.total_norm).item() == 10.0
    assert torch.allclose(gradients[0], torch.tensor([0.3, 0.4]))


def test_nothing_is_read_and_operators_do_not_grow() -> None:
    """No wait for any number of gradients of three types; launches by type, not by gradient."""
    launches = []
    for count in (4, 64):
        dtypes = (torch.float32, torch.float16, torch.float64)
        gradients = [to_simulated(torch.ones(7, dtype=dtype)) for dtype in dtypes] * count
        for work in (
            lambda gradients=gradients: clip_gradients(gradients, 1.0, nonfinite="zero"),
            lambda gradients=gradients: collect_gradients(gradients).total_norm,
        ):
            assert count_syncs(work, "simulated", ROOTS).total == 0
        launches.append(count_launches(lambda gradients=gradients: clip_gradients(gradients, 1.0), "simulated", ROOTS))
    assert launches[0].total == launches[1].total
    parameters = [nn.Parameter(gradients[0])]
    parameters[0].grad = gradients[0]
    control = count_syncs(
        lambda: torch.nn.utils.clip_grad_norm_(parameters, 1.0, error_if_nonfinite=True), "simulated", ROOTS
    )
    assert control.total >= 1  # a branch on the norm waits


def test_no_copy_of_the_gradients_is_made() -> None:
    """The peak is that of measuring."""
    gradients = [torch.full((100_000,), 1e20) for _ in range(20)]
    assert peak_bytes(lambda: clip_gradients(gradients, 1.0)) <= CPU_PEAK_BYTES + 256 * len(gradients)
    assert norm_of([gradients[0]]) > 0.2


def test_it_compiles_without_a_graph_break() -> None:
    """Dynamo traces it whole, and the compiled one does what the eager one does."""
    torch._dynamo.reset()
    compiled = torch.compile(lambda gradients: clip_gradients(gradients, 1.0), fullgraph=True, backend="aot_eager")
    once, twice = ([torch.full((5,), 1e20), torch.full((3,), 300.0).half()] for _ in range(2))
    assert torch.equal(compiled(once), clip_gradients(twice, 1.0))
    assert all(torch.equal(left, right) for left, right in zip(once, twice, strict=True))


def test_what_cannot_be_clipped_is_refused() -> None:
    """A limit below zero or NaN, another policy, float8; an infinite limit only measures."""
    gradients = [torch.ones(4)]
    for limit in (-1.0, math.nan):
        with pytest.raises(ValueError, match="max_norm is"):
            clip_gradients(gradients, limit)
    with pytest.raises(ValueError, match="'leave' or 'zero'"):
        clip_gradients(gradients, 1.0, nonfinite="skip")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="float8"):
        clip_gradients([torch.ones(2).to(torch.float8_e5m2)], 1.0)
    assert clip_gradients(gradients, math.inf).item() == 2.0
    assert torch.equal(gradients[0], torch.ones(4))
    assert clip_gradients([], 1.0).item() == 0.0


def test_bfloat16_is_multiplied_by_a_coefficient_of_float32() -> None:
    """CUDA has no operator on lists that does it: each gradient is the float32 product, rounded once."""
    torch.manual_seed(0)
    gradients = [torch.rand(5, 1000).bfloat16(), torch.rand(()).bfloat16()]
    coefficient = torch.tensor(0.7777)
    products = [(gradient.float() * coefficient).bfloat16() for gradient in gradients]
    rounded_twice = [(gradient.float() * coefficient.bfloat16()).bfloat16() for gradient in gradients]
    multiply_each(gradients, coefficient)
    assert all(map(torch.equal, gradients, products))
    assert not torch.equal(gradients[0], rounded_twice[0])
