"""Two pretended devices: what torch lets mix may mix, what it refuses raises in its words, copies are counted."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
import torch
from torch import nn

from auditkit.worker.base.frames import SourceRoots
from auditkit.worker.measure.syncs import count_launches
from auditkit.worker.simulated import tensor as simulated
from auditkit.worker.simulated.device import simulated_cuda
from auditkit.worker.simulated.tensor import is_simulated, to_simulated

CUDA_0, CUDA_1, HOST = torch.device("cuda", 0), torch.device("cuda", 1), torch.device("cpu")
ROOTS = SourceRoots(__file__)


@pytest.fixture(autouse=True)
def _two_devices(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(simulated.State, "device_count", 2)
    with simulated_cuda():
        yield


def on(device: torch.device, *values: float) -> torch.Tensor:
    host = torch.tensor(values or (1.0, 2.0, 3.0))
    return host if device.type == "cpu" else to_simulated(host, device.index)


def scalar(device: torch.device, value: float = 2.0) -> torch.Tensor:
    host = torch.tensor(value)
    return host if device.type == "cpu" else to_simulated(host, device.index)


def test_a_tensor_says_which_device_it_is_on() -> None:
    t = on(CUDA_1)
    assert (t.device, t.get_device(), t.is_cuda, torch.cuda.device_count()) == (CUDA_1, 1, True, 2)
    with pytest.raises(TypeError, match="can't convert cuda:1 device type tensor to numpy"):
        t.numpy()


@pytest.mark.parametrize(
    "build",
    [
        lambda t: torch.zeros(3, device=t.device),
        lambda t: torch.zeros(3, device=t.get_device()),
        lambda t: torch.zeros(3).cuda(1),
        lambda t: torch.zeros(3).to(t),
        lambda t: on(CUDA_0).to("cuda:1"),
        lambda t: torch.tensor([1.0], device=t.device),
        lambda t: t.new_tensor([1.0]),
        lambda t: torch.stack([t.sum(), t.max()]),
        lambda t: torch.quantile(t, 0.5),
        lambda t: torch._foreach_norm([t, t])[1],
        lambda t: torch.tensor(1.0) * t,
        lambda t: t.clone().copy_(on(CUDA_0)),
        lambda t: t[torch.tensor([0, 1])],
    ],
)
def test_what_is_made_from_the_second_device_is_there(build: Callable) -> None:
    made = build(on(CUDA_1))
    assert (is_simulated(made), made.device) == (True, CUDA_1)


def test_the_current_device_is_where_factories_without_an_index_build() -> None:
    assert torch.zeros(1, device="cuda").device == CUDA_0
    with torch.cuda.device(1):
        assert torch.cuda.current_device() == 1
        assert torch.zeros(1, device="cuda").device == on(CUDA_0).to("cuda").device == CUDA_1
    torch.cuda.set_device("cuda:1")
    assert torch.zeros(1).cuda().device == CUDA_1
    assert on(CUDA_0).cuda().device == CUDA_1
    torch.cuda.set_device(0)
    assert torch.zeros(1).cuda().device == CUDA_0


MIXES: list[tuple[str, Callable[[torch.Tensor, torch.Tensor], object]]] = [
    ("add", lambda a, b: a + b),
    ("scalar of the other", lambda a, b: a * b.sum()),
    ("stack", lambda a, b: torch.stack([a.sum(), b.sum()])),
    ("cat", lambda a, b: torch.cat([a, b])),
    ("where", lambda a, b: torch.where(a > 1, a, b)),
    ("dot", lambda a, b: torch.dot(a, b)),
    ("in place", lambda a, b: a.add_(b)),
    ("foreach add", lambda a, b: torch._foreach_add([a, a], [a, b])),
    ("foreach by a scalar tensor", lambda a, b: torch._foreach_mul([a, a], b.sum())),
    ("out", lambda a, b: torch.add(a, a, out=b)),
]


@pytest.mark.parametrize("mix", [mix for _, mix in MIXES], ids=[name for name, _ in MIXES])
def test_two_devices_do_not_mix(mix: Callable) -> None:
    """In torch's words, with the names of both; the control: on one device each is right."""
    with pytest.raises(RuntimeError, match=r"found at least two devices, cuda:[01] and cuda:[01]!"):
        mix(on(CUDA_0), on(CUDA_1))
    mix(on(CUDA_1), on(CUDA_1))


@pytest.mark.parametrize("device", [CUDA_0, CUDA_1])
def test_a_scalar_of_the_host_goes_along_but_is_not_written_into(device: torch.device) -> None:
    """`total = torch.tensor(0.0); total += norm` raises on CUDA: a kernel cannot write to the host."""
    assert (on(device) + scalar(HOST)).tolist() == [3.0, 4.0, 5.0]
    assert (scalar(HOST) + scalar(device)).device == device
    for refused in (
        lambda: scalar(HOST).add_(scalar(device)),
        lambda: on(HOST).add_(on(device)),
        lambda: on(HOST) + scalar(device),
        lambda: torch.stack([scalar(HOST), scalar(device)]),
    ):
        with pytest.raises(RuntimeError, match=r"at least two devices, (cpu and cuda:\d|cuda:\d and cpu)!"):
            refused()


def test_indices_may_lie_on_the_host_but_not_on_another_device() -> None:
    t, index = on(CUDA_0), torch.tensor([2, 0])
    assert t[index].tolist() == [3.0, 1.0]
    assert t[to_simulated(index, 0)].tolist() == [3.0, 1.0]
    for indexed, where in ((t, CUDA_1), (on(HOST), CUDA_0)):
        with pytest.raises(RuntimeError, match="indices should be either on cpu or on the same device"):
            indexed[to_simulated(index, where.index)]


def test_foreach_takes_every_tensor_where_it_is() -> None:
    """The slow path: one launch for each tensor on a device, results where their inputs are, values right."""
    grads = [on(CUDA_0, 3.0, 4.0), on(HOST, 6.0, 8.0), on(CUDA_1, 5.0, 12.0)]
    norms = torch._foreach_norm(grads, 2, dtype=torch.float64)
    assert [norm.device for norm in norms] == [CUDA_0, HOST, CUDA_1]
    assert [norm.item() for norm in norms] == [5.0, 10.0, 13.0]
    torch._foreach_mul_(grads, 2.0)
    assert [grad.tolist() for grad in grads] == [[6.0, 8.0], [12.0, 16.0], [10.0, 24.0]]
    assert count_launches(lambda: torch._foreach_norm(grads), "simulated", ROOTS).total == 2
    same_device = [on(CUDA_1), on(CUDA_1)]
    assert count_launches(lambda: torch._foreach_norm(same_device), "simulated", ROOTS).total == 1


@pytest.mark.parametrize("foreach", [None, True, False])
def test_torchs_own_clipping_takes_gradients_of_two_devices(foreach: bool | None) -> None:
    """It reduces each device by itself and brings the norms to the first one."""
    parameters = [nn.Parameter(on(device, 3.0, 4.0)) for device in (CUDA_0, CUDA_1, CUDA_0)]
    for parameter in parameters:
        parameter.grad = parameter.detach().clone()
    total = nn.utils.clip_grad_norm_(parameters, 1.0, foreach=foreach)
    assert (total.device, total.item()) == (CUDA_0, pytest.approx(75**0.5))
    assert [parameter.grad.device for parameter in parameters] == [CUDA_0, CUDA_1, CUDA_0]
    assert nn.utils.get_total_norm([p.grad for p in parameters]).item() == pytest.approx(1.0, rel=1e-5)
