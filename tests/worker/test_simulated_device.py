"""The pretended CUDA device: code takes its GPU path, results are right, and mistakes raise as on CUDA."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable, Iterator

import pytest
import torch
from torch import nn

from auditkit.worker.simulated.device import simulated_cuda
from auditkit.worker.simulated.tensor import State, is_simulated, to_simulated

CUDA = torch.device("cuda", 0)


@pytest.fixture(autouse=True)
def _on_the_device(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    # A probe has a process of its own; here another file may have pretended a second device before.
    monkeypatch.setattr(State, "device_count", 1)
    with simulated_cuda():
        yield


@pytest.fixture
def t() -> torch.Tensor:
    return to_simulated(torch.tensor([1.0, 2.0, 3.0]))


def test_a_tensor_says_that_it_is_on_cuda(t: torch.Tensor) -> None:
    assert (t.is_cuda, t.is_cpu, t.device, t.device.type, t.get_device()) == (True, False, CUDA, "cuda", 0)
    assert (t.dtype, t.shape, t.numel(), t.nbytes, t.stride()) == (torch.float32, (3,), 3, 12, (1,))
    assert t.type() == "torch.cuda.FloatTensor"
    assert isinstance(t, torch.cuda.FloatTensor)
    assert not isinstance(t, torch.cuda.HalfTensor)
    assert not isinstance(t.cpu(), torch.cuda.FloatTensor)
    assert torch.cuda.is_available()
    assert (torch.cuda.device_count(), torch.cuda.current_device()) == (1, 0)
    assert torch.cuda.get_device_properties(0).total_memory == torch.cuda.mem_get_info()[1]


def test_tensors_that_share_memory_are_told_from_others(t: torch.Tensor) -> None:
    """Tied parameters are left out by their `data_ptr()`."""
    assert t.data_ptr() == t.view(3, 1).data_ptr() == t.detach().data_ptr()
    assert len({t.data_ptr(), t.clone().data_ptr(), t[1:].data_ptr()}) == 3


@pytest.mark.process
def test_outside_of_the_simulation_nothing_is_left(t: torch.Tensor) -> None:
    """The control: `torch.cuda` and the foreach checks are torch's own again afterwards."""
    import subprocess
    import sys

    code = (
        "import torch; before = vars(torch.cuda).copy(), vars(torch.accelerator).copy()\n"
        "from auditkit.worker.simulated.device import simulated_cuda\n"
        "with simulated_cuda(): assert torch.cuda.is_available()\n"
        "assert before == (vars(torch.cuda), vars(torch.accelerator))\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True, cwd=".")


@pytest.mark.parametrize(
    "build",
    [
        lambda t: torch.zeros(3, device=t.device),
        lambda t: torch.tensor(0.0, device=t.device),
        lambda t: torch.as_tensor([1.0], device="cuda"),
        lambda t: torch.arange(4, device="cuda:0"),
        lambda t: torch.full((2,), 1.0, device=t.device),
        lambda t: torch.randn(3, device=t.device),
        lambda t: torch.eye(3, device=t.device),
        lambda t: torch.zeros(3).cuda(),
        lambda t: torch.zeros(3).to(t),
        lambda t: torch.zeros(3).to(0),
        lambda t: torch.zeros(3).to(device=0),
        lambda t: torch.zeros(3, device=torch.cuda.current_device()),
        lambda t: torch.cuda.FloatTensor([1.0, 2.0]),
        lambda t: torch.cuda.DoubleTensor(2, 3),
        lambda t: torch.cuda.HalfTensor(t.shape),
        lambda t: torch.zeros(3).type_as(t),
        lambda t: torch.zeros(3).type("torch.cuda.HalfTensor"),
        lambda t: t.type(torch.cuda.DoubleTensor),
        lambda t: t.new([1.0, 2.0]),
        lambda t: t.new(3),
        lambda t: torch.zeros_like(t),
        lambda t: torch.full_like(t, 2.0),
        lambda t: torch.empty_like(t, dtype=torch.float64),
        lambda t: t.new_zeros(3),
        lambda t: t.new_full((2,), 1.0),
        lambda t: t.new_tensor([1.0]),
        lambda t: t.double(),
        lambda t: t.bfloat16(),
        lambda t: t[0],
        lambda t: t.detach(),
        lambda t: t.data,
        lambda t: torch.where(t > 1, t, 0.0),
        lambda t: torch.stack([t.sum(), torch.zeros((), device=t.device)]),
        lambda t: torch.quantile(t, 0.5),
        lambda t: t.max(dim=0).values,
        lambda t: torch.func.vmap(lambda x: x * 2)(t),
        lambda t: copy.deepcopy(t),
        lambda t: pickle.loads(pickle.dumps(t)),
        lambda t: sum([t.sum(), t.sum()]),
        lambda t: torch.tensor(2.0) * t,
        lambda t: to_simulated(torch.ones(3, dtype=torch.float16)).norm(),
        lambda t: torch.cat([to_simulated(torch.empty(0)), t]),
    ],
)
def test_what_is_built_on_the_device_is_there(build: Callable, t: torch.Tensor) -> None:
    made = build(t)
    assert (is_simulated(made), made.device) == (True, CUDA)


@pytest.mark.parametrize(
    "build",
    [
        lambda t: t.cpu(),
        lambda t: t.to("cpu"),
        lambda t: t.type_as(torch.zeros(1)),
        lambda t: t.type("torch.FloatTensor"),
        lambda t: t.type(torch.FloatTensor),
        lambda t: torch.zeros(3),
        lambda t: torch.zeros_like(t, device="cpu"),
        lambda t: t.new_zeros(3, device="cpu"),
        lambda t: torch.ones(3).pin_memory(),
        lambda t: torch.empty(3, pin_memory=True),
    ],
)
def test_what_is_built_on_the_host_is_plain(build: Callable, t: torch.Tensor) -> None:
    made = build(t)
    assert (is_simulated(made), made.device.type) == (False, "cpu")


def test_in_place_operators_and_views_share_their_values(t: torch.Tensor) -> None:
    a = t.clone()
    assert a.add_(1) is a
    a.view(3, 1)[0] = 9
    a[1:].mul_(2)
    assert a.tolist() == [9.0, 6.0, 8.0]
    a.copy_(t)
    assert (a.tolist(), t.tolist()) == ([1.0, 2.0, 3.0], [1.0, 2.0, 3.0])
    out = torch.empty_like(t)
    assert torch.add(t, t, out=out) is out
    assert out.tolist() == [2.0, 4.0, 6.0]


def test_foreach_operators_and_torchs_grouping_take_it(t: torch.Tensor) -> None:
    from torch.utils._foreach_utils import _group_tensors_by_device_and_dtype, _has_foreach_support

    assert [norm.dtype for norm in torch._foreach_norm([t, t], 2, dtype=torch.float64)] == [torch.float64] * 2
    grads = [t.clone(), t * 2]
    torch._foreach_mul_(grads, 2.0)
    torch._foreach_add_(grads, grads)
    assert grads[1].tolist() == [8.0, 16.0, 24.0]
    groups = _group_tensors_by_device_and_dtype([[t, t.double()]])
    assert set(groups) == {(CUDA, torch.float32), (CUDA, torch.float64)}
    assert _has_foreach_support([t], t.device)


def test_autograd_runs_through_it(t: torch.Tensor) -> None:
    p = nn.Parameter(t.clone())
    assert isinstance(p, nn.Parameter)
    (p**3).sum().backward()
    assert (is_simulated(p.grad), p.grad.tolist()) == (True, [3.0, 12.0, 27.0])
    with torch.no_grad():
        assert not (p * 2).requires_grad


def test_torchs_own_clipping_and_optimizers_run_on_it(t: torch.Tensor) -> None:
    parameters = [nn.Parameter(t.clone()) for _ in range(3)]
    for parameter in parameters:
        parameter.grad = t.clone()
    assert nn.utils.clip_grad_norm_(parameters, 1.0).item() == pytest.approx(42**0.5)
    nn.utils.clip_grad_norm_(parameters, 1.0, foreach=True)
    nn.utils.clip_grad_value_(parameters, 0.1)
    torch.optim.Adam(parameters).step()
    torch.optim.SGD(parameters, lr=0.1, momentum=0.9).step()
    assert all(parameter.is_cuda for parameter in parameters)


def test_sparse_gradients_keep_their_layout() -> None:
    embedding = nn.Embedding(5, 3, sparse=True)
    embedding(torch.tensor([1, 1, 2])).sum().backward()
    grad = to_simulated(embedding.weight.grad)
    assert (grad.is_sparse, grad.is_cuda, grad.layout) == (True, True, torch.sparse_coo)
    assert grad.coalesce().values().tolist() == [[2.0] * 3, [1.0] * 3]
    assert is_simulated(grad.to_dense())


def test_streams_and_events_exist(t: torch.Tensor) -> None:
    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream):
        doubled = t * 2
    doubled.record_stream(stream)
    torch.cuda.current_stream().wait_stream(stream)
    event = torch.cuda.Event(enable_timing=True)
    event.record()
    assert event.query()
    assert torch.cuda.Event().elapsed_time(event) >= 0.0
    with torch.cuda.nvtx.range("norms"), torch.cuda.device(0):
        assert torch.cuda.current_stream().cuda_stream == 0
    with torch.autocast("cuda", dtype=torch.bfloat16):
        assert (doubled + 1).tolist() == [3.0, 5.0, 7.0]
