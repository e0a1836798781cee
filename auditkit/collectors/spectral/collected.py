"""The gradients that this rank's replicas leave behind, one matrix for each parameter and microbatch."""

from collections.abc import Callable, Iterator, Mapping

import torch
from torch import Tensor, nn


class ReplicaGradients:
    """Keeps a copy of the gradients of every microbatch, in the order in which they were added.

    Copies lie on `device`, by default the CPU; a rank with A microbatches keeps A times the bytes of its
    matrices.
    """

    def __init__(self, device: torch.device | str = "cpu") -> None:
        self._device = torch.device(device)
        self._replicas: dict[str, list[Tensor]] = {}
        self._count = 0

    def add(self, gradients: Mapping[str, Tensor]) -> None:
        """Keep a copy of one replica's gradients, by parameter.

        Raises ValueError for a gradient that is not a dense matrix of real floating-point numbers, and where
        the names differ from those of the replicas before.
        """
        self._check_names(gradients)
        checked = {name: _checked(name, gradient) for name, gradient in gradients.items()}
        for name, gradient in checked.items():
            self._replicas.setdefault(name, []).append(gradient.detach().to(self._device, copy=True))
        self._count += 1

    def names(self) -> tuple[str, ...]:
        """Return the parameters whose gradients are still here, in order of their names."""
        return tuple(sorted(self._replicas))

    def shape(self, name: str) -> tuple[int, int, int]:
        """Return how many replicas of `name` there are, their rows and their columns."""
        first = self._replicas[name][0]
        return len(self._replicas[name]), first.shape[0], first.shape[1]

    def dtype(self, name: str) -> str:
        """Return the dtype of the gradients of `name`, such as "bfloat16"."""
        return str(self._replicas[name][0].dtype).removeprefix("torch.")

    def problems(self) -> Iterator[str]:
        """Yield what is wrong with the gradients here: NaN, infinities, replicas of different shapes or dtypes."""
        for name in self.names():
            replicas = self._replicas[name]
            first = replicas[0]
            # One read for all replicas: on a GPU a read for each would wait as often.
            finite_counts = torch.stack([torch.isfinite(replica).count_nonzero() for replica in replicas]).tolist()
            for index, (replica, finite_count) in enumerate(zip(replicas, finite_counts, strict=True)):
                if (replica.shape, replica.dtype) != (first.shape, first.dtype):
                    its, that = (f"{tuple(one.shape)} {one.dtype}" for one in (replica, first))
                    yield f"replica {index} of {name!r} is {its}, replica 0 is {that}"
                if finite_count < replica.numel():
                    unfit = replica.numel() - finite_count
                    yield f"replica {index} of {name!r} holds {unfit} NaN or infinite elements"

    def take(self, name: str) -> Tensor:
        """Return the replicas of `name` as one contiguous tensor (replicas, rows, columns), and forget them."""
        return torch.stack(self._replicas.pop(name))

    def clear(self) -> None:
        """Forget all replicas."""
        self._replicas.clear()
        self._count = 0

    def _check_names(self, gradients: Mapping[str, Tensor]) -> None:
        if self._count and self._replicas.keys() != gradients.keys():
            odd = sorted(self._replicas.keys() ^ gradients.keys())[0]
            where = "only in replica" if odd in gradients else "not in replica"
            raise ValueError(f"the gradient of {odd!r} is {where} {self._count}: replicas need the same parameters")


def _checked(name: str, gradient: Tensor) -> Tensor:
    if hasattr(gradient, "full_tensor"):
        raise ValueError(f"the gradient of {name!r} is a DTensor: add its .full_tensor()")
    if gradient.dim() != 2 or not gradient.numel():
        raise ValueError(f"the gradient of {name!r} has shape {tuple(gradient.shape)}: expected rows x columns")
    if not gradient.is_floating_point() or gradient.itemsize < 2 or gradient.layout != torch.strided:
        found = f"{gradient.dtype}, {gradient.layout}"
        raise ValueError(
            f"the gradient of {name!r} is {found}: expected dense floating-point numbers of 16 bits or more"
        )
    return gradient


def matrix_gradients(model: nn.Module, keep: Callable[[str], bool] | None = None) -> dict[str, Tensor]:
    """Return the gradients of the matrices among the parameters of `model`, by name: all, or where `keep(name)`."""
    return {
        name: parameter.grad
        for name, parameter in model.named_parameters()
        if parameter.grad is not None and parameter.grad.dim() == 2 and (keep is None or keep(name))
    }
