"""The same gradients on meshes of several kinds at once, on 4 ranks: what is sharded beside what is not.

The whole gradients are those of `sharded.one_process()` in every case, in other shapes where shards are to be uneven.
"""

import warnings
from typing import Any, Callable, Dict, List

import torch

from . import sharded
from .gradients import GradientHolder

RANKS = 4
SHARD_MARK, COPY_MARK = "tensor_model_parallel", "shared"
"""The attributes of parameters by which Megatron-LM and DeepSpeed tell shards, and copies on a second stage."""


def placed(case: str, rank: int, world_size: int, device: str = "cpu") -> List[Any]:
    """This rank's gradients in a case of this file or of `sharded.py`. Needs the default process group."""
    if case not in _MAKERS:
        return sharded.placed(case, rank, world_size, device)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of the meshes, which are nobody's finding
        return _MAKERS[case](rank, device)


def _mesh(device: str, **sizes: int) -> Any:
    """A mesh whose dimensions have the names by which trainers tell them apart."""
    from torch.distributed.device_mesh import init_device_mesh

    return init_device_mesh(device, tuple(sizes.values()), mesh_dim_names=tuple(sizes))


def _as_shards(grad: torch.Tensor, mesh: Any) -> Any:
    from torch.distributed.tensor import Shard, distribute_tensor

    return distribute_tensor(grad, mesh, [Shard(0)])


def _beside(vector: Callable[[torch.Tensor, Any], Any]) -> Callable[[int, str], List[Any]]:
    """The matrices in shards, the vectors as `vector` has them."""

    def make(rank: int, device: str) -> List[Any]:
        mesh, grads = _mesh(device, fsdp=RANKS), sharded.one_process(device)
        return [_as_shards(grad, mesh) if grad.dim() > 1 else vector(grad, mesh) for grad in grads]

    return make


def _replicated(grad: torch.Tensor, mesh: Any) -> Any:
    from torch.distributed.tensor import Replicate, distribute_tensor

    return distribute_tensor(grad, mesh, [Replicate()])


def _uneven_and_empty(rank: int, device: str) -> List[Any]:
    """18 rows on 4 ranks are 5, 5, 5 and 3; of 3 rows the last rank has none."""
    mesh, grads = _mesh(device, fsdp=RANKS), sharded.one_process(device)
    return [_as_shards(grad.reshape(18 if grad.numel() % 18 == 0 else 3, -1), mesh) for grad in grads]


def _fsdp_and_tensor_parallel(rank: int, device: str) -> List[Any]:
    """Real backward: sharded over two ranks, each of which is two that share matrices by columns and rows."""
    from torch.distributed.fsdp import fully_shard

    mesh = _mesh(device, fsdp=2, tp=2)
    model = sharded.tensor_parallel_model(mesh["tp"], device)
    return sharded.Sharded(sharded.backward(fully_shard(model, mesh=mesh["fsdp"]), device))


def _experts(rank: int, device: str) -> List[Any]:
    """The first matrix is of experts: half of them on each rank of a pair, and two pairs hold the same."""
    from torch.distributed.tensor import Replicate, Shard, distribute_tensor

    (experts, *rest), mesh = sharded.one_process(device), _mesh(device, fsdp=RANKS)
    return [
        distribute_tensor(experts, _mesh(device, dp_replicate=2, ep=2), [Replicate(), Shard(0)]),
        *(_as_shards(grad, mesh) for grad in rest),
    ]


def _pipeline(rank: int, device: str) -> List[Any]:
    """Two stages of two ranks each: a rank's mesh is its stage, and it has no parameter of the other one."""
    mesh = _mesh(device, pp=2, fsdp=2)["fsdp"]
    return [_as_shards(grad, mesh) for grad in stage(rank // 2, device)]


def stage(number: int, device: str = "cpu") -> List[torch.Tensor]:
    """The whole gradients of one of the two pipeline stages."""
    return sharded.one_process(device)[3 * number : 3 * number + 3]


def _marked_shards(rank: int, device: str) -> List[Any]:
    """Plain tensors: of matrices this rank's rows, marked as such; vectors in whole on every rank."""
    grads = [grad.tensor_split(RANKS)[rank] if grad.dim() > 1 else grad for grad in sharded.one_process(device)]
    return _marked(grads, lambda index, grad: {SHARD_MARK: grad.dim() > 1})


def _marked_copies(rank: int, device: str) -> List[Any]:
    """Plain tensors of four pipeline stages: the last one has a copy of the first one's matrix, marked as such."""
    first, *rest = sharded.one_process(device)
    grads = [rest[rank], *([first] if rank in (0, 3) else []), *(rest[4:] if rank == 1 else [])]
    return _marked(grads, lambda index, grad: {SHARD_MARK: True, COPY_MARK: rank == 3 and index == 1})


def _marked(grads: List[torch.Tensor], marks: Callable[[int, torch.Tensor], Dict[str, bool]]) -> List[Any]:
    holder = GradientHolder(grads)
    for index, parameter in enumerate(holder.parameters()):
        vars(parameter).update(marks(index, grads[index]))
    return sharded.Sharded(holder)


MARKED = ("marked_shards", "marked_copies")

_MAKERS: Dict[str, Callable[[int, str], List[Any]]] = {
    "sharded_alike": _beside(_as_shards),
    "replicated_beside_sharded": _beside(_replicated),
    "plain_beside_sharded": _beside(lambda grad, mesh: grad),
    "uneven_and_empty": _uneven_and_empty,
    "fsdp_and_tensor_parallel": _fsdp_and_tensor_parallel,
    "experts": _experts,
    "pipeline": _pipeline,
    "marked_shards": _marked_shards,
    "marked_copies": _marked_copies,
}
