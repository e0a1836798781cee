"""What a rank's replicas leave behind is kept as it was, or refused by name."""

import math

import pytest
import torch
from torch import Tensor, nn

from auditkit.collectors.spectral.collected import ReplicaGradients, matrix_gradients


def test_replicas_are_copies_in_the_order_they_came() -> None:
    """The gradient's memory is used again by the next backward."""
    replicas = ReplicaGradients()
    gradient = torch.zeros(2, 3, dtype=torch.bfloat16)
    for index in range(3):
        gradient.fill_(index)
        replicas.add({"w": gradient.T})
    assert (replicas.names(), replicas.shape("w"), replicas.dtype("w")) == (("w",), (3, 3, 2), "bfloat16")
    assert list(replicas.problems()) == []
    taken = replicas.take("w")
    assert taken.is_contiguous()
    assert taken[:, 0, 0].tolist() == [0, 1, 2]
    assert replicas.names() == ()


def test_matrices_of_a_model_are_found_by_name() -> None:
    model = nn.Sequential(nn.Linear(3, 2), nn.LayerNorm(2), nn.Linear(2, 2))
    model(torch.ones(1, 3)).sum().backward()
    model[2].weight.grad = None
    assert list(matrix_gradients(model)) == ["0.weight"]
    assert matrix_gradients(model)["0.weight"] is model[0].weight.grad
    assert matrix_gradients(model, keep=lambda name: name.startswith("2.")) == {}


def test_problems_are_named_and_not_raised() -> None:
    """All ranks hear of them first."""
    replicas = ReplicaGradients()
    for w in (torch.ones(2, 3), torch.tensor([[math.nan, 1, 2], [math.inf, 0, 0]]), torch.ones(3, 2)):
        replicas.add({"v": torch.ones(1, 1), "w": w})
    assert list(replicas.problems()) == [
        "replica 1 of 'w' holds 2 NaN or infinite elements",
        "replica 2 of 'w' is (3, 2) torch.float32, replica 0 is (2, 3) torch.float32",
    ]


class PretendDTensor(Tensor):
    def full_tensor(self) -> Tensor:
        return self


@pytest.mark.parametrize(
    ("gradient", "message"),
    [
        (torch.ones(2), r"the gradient of 'w' has shape \(2,\): expected rows x columns"),
        (torch.ones(0, 2), r"has shape \(0, 2\)"),
        (torch.ones(2, 2, dtype=torch.int32), "is torch.int32, torch.strided: expected dense floating-point"),
        (torch.ones(2, 2, dtype=torch.complex64), "is torch.complex64"),
        (torch.ones(2, 2).to_sparse(), "is torch.float32, torch.sparse_coo"),
        (torch.ones(2, 2).to(torch.float8_e5m2), "is torch.float8_e5m2"),
        (torch.ones(2, 2).as_subclass(PretendDTensor), r"is a DTensor: add its \.full_tensor\(\)"),
    ],
)
def test_what_is_no_dense_matrix_is_refused(gradient: Tensor, message: str) -> None:
    replicas = ReplicaGradients()
    with pytest.raises(ValueError, match=message):
        replicas.add({"v": torch.ones(1, 1), "w": gradient})
    assert replicas.names() == ()  # not even the part of it that was fit


def test_replicas_of_other_parameters_are_refused() -> None:
    replicas = ReplicaGradients()
    replicas.add({"v": torch.ones(1, 1), "w": torch.ones(1, 1)})
    with pytest.raises(ValueError, match="the gradient of 'w' is not in replica 1: replicas need the same parameters"):
        replicas.add({"v": torch.ones(1, 1)})
    with pytest.raises(ValueError, match="the gradient of 'x' is only in replica 1"):
        replicas.add({"v": torch.ones(1, 1), "w": torch.ones(1, 1), "x": torch.ones(1, 1)})
