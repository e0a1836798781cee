"""The gradients of one small model as trainers shard them: replicated, in shards, on meshes of one kind or several.

The sharded ones come from a real backward pass through `fully_shard` or `parallelize_module`, with the same inputs on
every rank, so that they are the gradients of the one-process model. FSDP2 wraps the root, its submodules, or both: only
a wrapped root is an FSDPModule. Placements for `RANKS` ranks mix sharded with unsharded gradients; together they are
those of `one_process()`, in other shapes if shards are uneven.
"""

import warnings
from typing import Any, Callable, Dict, List, Sequence

import torch

RANKS = 4
_BATCH, _TOKENS, _INPUTS, _HIDDEN, _OUTPUTS = 2, 4, 6, 12, 3


class Sharded(List[Any]):
    """The gradients of a module that torch has sharded; targets that take a module get that module."""

    def __init__(self, module: torch.nn.Module) -> None:
        super().__init__(parameter.grad for parameter in module.parameters())
        vars(module)["aliases"] = {}
        self.module = module


def _model(device: str) -> torch.nn.Module:
    """Return a model whose sizes two and four ranks cannot divide evenly: the fourth rank gets none of 3 rows."""
    torch.manual_seed(0)
    layers = (torch.nn.Linear(_INPUTS, _HIDDEN), torch.nn.LayerNorm(_HIDDEN), torch.nn.Linear(_HIDDEN, _OUTPUTS))
    return torch.nn.Sequential(*layers).to(device)


def _backward(model: torch.nn.Module, device: str) -> torch.nn.Module:
    """Return the same model, with gradients."""
    generator = torch.Generator().manual_seed(1)
    inputs = torch.randn(_BATCH, _TOKENS, _INPUTS, generator=generator).to(device)
    model(inputs).square().sum().backward()
    return model


def one_process(device: str = "cpu") -> List[Any]:
    """Return the gradients of a run without ranks."""
    return [parameter.grad for parameter in _backward(_model(device), device).parameters()]


def stage(number: int, device: str = "cpu") -> List[torch.Tensor]:
    """Return the whole gradients of one of the two pipeline stages."""
    return one_process(device)[3 * number : 3 * number + 3]


def placed(placement: str, rank: int, world_size: int, device: str = "cpu") -> List[Any]:
    """Return this rank's gradients in a placement. All but the plain ones need the default process group."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of the model and the meshes, not of a target
        return _MAKERS[placement](rank, world_size, device)


def whole(grads: Sequence[Any]) -> List[torch.Tensor]:
    """Return sharded tensors in full, on the host; every rank of their mesh must call this."""
    full = [grad.full_tensor() if hasattr(grad, "full_tensor") else grad for grad in grads if grad is not None]
    return [grad.detach().cpu() for grad in full]


def _mesh(device: str, *size: int, **sizes: int) -> Any:
    """Return a mesh of one unnamed dimension, or with dimensions named as trainers name them."""
    from torch.distributed.device_mesh import init_device_mesh

    return init_device_mesh(device, size or tuple(sizes.values()), mesh_dim_names=tuple(sizes) or None)


def _as_shards(grad: torch.Tensor, mesh: Any) -> Any:
    from torch.distributed.tensor import Shard, distribute_tensor

    return distribute_tensor(grad, mesh, [Shard(0)])


def _replicated(grad: torch.Tensor, mesh: Any) -> Any:
    from torch.distributed.tensor import Replicate, distribute_tensor

    return distribute_tensor(grad, mesh, [Replicate()])


def _plain_shards(rank: int, world_size: int, device: str) -> List[Any]:
    """Split each flat gradient equally, as ZeRO and FSDP1 do; a rank may get nothing of a small one."""
    pieces = [grad.flatten().tensor_split(world_size)[rank].clone() for grad in one_process(device)]
    return [piece for piece in pieces if piece.numel()]


def _fsdp2(*wraps: str) -> Callable[[int, int, str], List[Any]]:
    """Shard over all ranks; `wraps` names what is wrapped: submodules, root."""
    return lambda rank, size, device: _fully_sharded(_mesh(device, size), device, wraps)


def _fully_sharded(mesh: Any, device: str, wraps: Sequence[str]) -> List[Any]:
    from torch.distributed.fsdp import fully_shard

    model = _model(device)
    for module in [*(model.children() if "submodules" in wraps else ()), *([model] if "root" in wraps else ())]:
        fully_shard(module, mesh=mesh)
    return Sharded(_backward(model, device))


def _hsdp(rank: int, world_size: int, device: str) -> List[Any]:
    """Return two replicas of a sharded model."""
    return _fully_sharded(_mesh(device, replicate=2, shard=world_size // 2), device, ["root"])


def _tensor_parallel(rank: int, world_size: int, device: str) -> List[Any]:
    return Sharded(_backward(_tensor_parallel_model(_mesh(device, world_size), device), device))


def _tensor_parallel_model(mesh: Any, device: str) -> Any:
    """Split columns, then rows; the norm between them works on parts of the sequence, with replicated weights."""
    from torch.distributed.tensor import Replicate, Shard
    from torch.distributed.tensor.parallel import (
        ColwiseParallel,
        RowwiseParallel,
        SequenceParallel,
        parallelize_module,
    )

    plan = {
        "0": ColwiseParallel(output_layouts=Shard(1)),
        "1": SequenceParallel(),
        "2": RowwiseParallel(input_layouts=Shard(1), output_layouts=Replicate()),
    }
    return parallelize_module(_model(device), mesh, plan)


def _partial(rank: int, world_size: int, device: str) -> List[Any]:
    """Give each rank a summand of every gradient, before any reduction."""
    from torch.distributed.tensor import DTensor, Partial

    mesh = _mesh(device, world_size)
    # The weights of the summands add to 1 and are not equal.
    weight = 2 * (rank + 1) / (world_size * (world_size + 1))
    return [DTensor.from_local(grad * weight, mesh, [Partial()], run_check=False) for grad in one_process(device)]


def _beside(vector: Callable[[torch.Tensor, Any], Any]) -> Callable[[int, int, str], List[Any]]:
    """Shard the matrices, and place the vectors by `vector`."""

    def make(rank: int, world_size: int, device: str) -> List[Any]:
        mesh = _mesh(device, fsdp=RANKS)
        return [(_as_shards if grad.dim() > 1 else vector)(grad, mesh) for grad in one_process(device)]

    return make


def _uneven_and_empty(rank: int, world_size: int, device: str) -> List[Any]:
    """Shard unevenly: 18 rows on 4 ranks are 5, 5, 5 and 3; of 3 rows the last rank has none."""
    mesh, grads = _mesh(device, fsdp=RANKS), one_process(device)
    return [_as_shards(grad.reshape(18 if grad.numel() % 18 == 0 else 3, -1), mesh) for grad in grads]


def _fsdp_and_tensor_parallel(rank: int, world_size: int, device: str) -> List[Any]:
    """Run a real backward pass: sharded over two groups, each of two ranks that split matrices."""
    from torch.distributed.fsdp import fully_shard

    mesh = _mesh(device, fsdp=2, tp=2)
    model = _tensor_parallel_model(mesh["tp"], device)
    return Sharded(_backward(fully_shard(model, mesh=mesh["fsdp"]), device))


def _experts(rank: int, world_size: int, device: str) -> List[Any]:
    """Shard the first matrix by experts: half of them on each rank of a pair, and both pairs have the same."""
    from torch.distributed.tensor import Replicate, Shard, distribute_tensor

    (experts, *rest), mesh = one_process(device), _mesh(device, fsdp=RANKS)
    first = distribute_tensor(experts, _mesh(device, dp_replicate=2, ep=2), [Replicate(), Shard(0)])
    return [first, *(_as_shards(grad, mesh) for grad in rest)]


def _pipeline(rank: int, world_size: int, device: str) -> List[Any]:
    """Make two stages of two ranks each: a rank's mesh is its stage, and it has no parameter of the other one."""
    mesh = _mesh(device, pp=2, fsdp=2)["fsdp"]
    return [_as_shards(grad, mesh) for grad in stage(rank // 2, device)]


_MAKERS: Dict[str, Callable[[int, int, str], List[Any]]] = {
    "replicated": lambda rank, world_size, device: one_process(device),
    "plain_shards": _plain_shards,
    "fsdp2_root": _fsdp2("root"),
    "fsdp2_submodules": _fsdp2("submodules"),
    "fsdp2_root_and_submodules": _fsdp2("submodules", "root"),
    "hsdp": _hsdp,
    "tensor_parallel": _tensor_parallel,
    "partial": _partial,
    "sharded_alike": _beside(_as_shards),
    "replicated_beside_sharded": _beside(_replicated),
    "plain_beside_sharded": _beside(lambda grad, mesh: grad),
    "uneven_and_empty": _uneven_and_empty,
    "fsdp_and_tensor_parallel": _fsdp_and_tensor_parallel,
    "experts": _experts,
    "pipeline": _pipeline,
}
