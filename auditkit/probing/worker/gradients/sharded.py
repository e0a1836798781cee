"""The gradients of one small model as trainers shard them: replicated, in plain shards, FSDP2, HSDP, tensor parallel.

FSDP2 wraps the root, its submodules, or both: only a wrapped root is an FSDPModule.

The sharded ones come from a real backward pass through `fully_shard` or `parallelize_module`, with the same
inputs on every rank, so that they are the gradients of the one-process model.
"""

import warnings
from typing import Any, Callable, Dict, List, Sequence

import torch

_BATCH, _TOKENS, _INPUTS, _HIDDEN, _OUTPUTS = 2, 4, 6, 12, 3


class Sharded(List[Any]):
    """The gradients of a module that torch has sharded, which targets that take a module are handed as it is."""

    def __init__(self, module: torch.nn.Module) -> None:
        super().__init__(parameter.grad for parameter in module.parameters())
        vars(module)["aliases"] = {}
        self.module = module


def _model(device: str) -> torch.nn.Module:
    """Sizes that two and four ranks do not share out evenly: 3 rows leave the fourth rank nothing."""
    torch.manual_seed(0)
    layers = (torch.nn.Linear(_INPUTS, _HIDDEN), torch.nn.LayerNorm(_HIDDEN), torch.nn.Linear(_HIDDEN, _OUTPUTS))
    return torch.nn.Sequential(*layers).to(device)


def backward(model: torch.nn.Module, device: str) -> torch.nn.Module:
    """The same model, whose parameters have gradients now."""
    generator = torch.Generator().manual_seed(1)
    inputs = torch.randn(_BATCH, _TOKENS, _INPUTS, generator=generator).to(device)
    model(inputs).square().sum().backward()
    return model


def one_process(device: str = "cpu") -> List[Any]:
    """The gradients as a run without ranks has them."""
    return [parameter.grad for parameter in backward(_model(device), device).parameters()]


def placed(placement: str, rank: int, world_size: int, device: str = "cpu") -> List[Any]:
    """This rank's gradients in a placement. Needs the default process group, except for the plain ones."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of the model, which is nobody's finding
        return _MAKERS[placement](rank, world_size, device)


def _replicated(rank: int, world_size: int, device: str) -> List[Any]:
    return one_process(device)


def _plain_shards(rank: int, world_size: int, device: str) -> List[Any]:
    """Each flat gradient cut into equal pieces, as ZeRO and FSDP1 keep them; a rank may have none of a small one."""
    pieces = [grad.flatten().tensor_split(world_size)[rank].clone() for grad in one_process(device)]
    return [piece for piece in pieces if piece.numel()]


def _fsdp2(*wraps: str) -> Callable[[int, int, str], List[Any]]:
    """Sharded over all ranks, where `wraps` says what is wrapped: submodules, root."""

    def make(rank: int, world_size: int, device: str) -> List[Any]:
        from torch.distributed.device_mesh import init_device_mesh

        return _fully_sharded(init_device_mesh(device, (world_size,)), device, wraps)

    return make


def _hsdp(rank: int, world_size: int, device: str) -> List[Any]:
    """Two replicas of a sharded model."""
    from torch.distributed.device_mesh import init_device_mesh

    shape = (2, world_size // 2)
    return _fully_sharded(init_device_mesh(device, shape, mesh_dim_names=("replicate", "shard")), device, ["root"])


def _fully_sharded(mesh: Any, device: str, wraps: Sequence[str]) -> List[Any]:
    from torch.distributed.fsdp import fully_shard

    model = _model(device)
    for module in [*(model.children() if "submodules" in wraps else ()), *([model] if "root" in wraps else ())]:
        fully_shard(module, mesh=mesh)
    return Sharded(backward(model, device))


def _tensor_parallel(rank: int, world_size: int, device: str) -> List[Any]:
    from torch.distributed.device_mesh import init_device_mesh

    return Sharded(backward(tensor_parallel_model(init_device_mesh(device, (world_size,)), device), device))


def tensor_parallel_model(mesh: Any, device: str) -> Any:
    """Columns, then rows; the norm between them works on parts of the sequence, with replicated weights."""
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
    """Each rank holds a summand of every gradient, not reduced yet."""
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.tensor import DTensor, Partial

    mesh = init_device_mesh(device, (world_size,))
    # The weights of the summands add to 1 and are not equal.
    weight = 2 * (rank + 1) / (world_size * (world_size + 1))
    grads = one_process(device)
    return [DTensor.from_local(grad * weight, mesh, [Partial()], run_check=False) for grad in grads]


_MAKERS: Dict[str, Callable[[int, int, str], List[Any]]] = {
    "replicated": _replicated,
    "plain_shards": _plain_shards,
    "fsdp2_root": _fsdp2("root"),
    "fsdp2_submodules": _fsdp2("submodules"),
    "fsdp2_root_and_submodules": _fsdp2("submodules", "root"),
    "hsdp": _hsdp,
    "tensor_parallel": _tensor_parallel,
    "partial": _partial,
}


def whole(grads: Sequence[Any]) -> List[torch.Tensor]:
    """Sharded tensors in full, on the host; every rank of their mesh must ask."""
    full = [grad.full_tensor() if hasattr(grad, "full_tensor") else grad for grad in grads if grad is not None]
    return [grad.detach().cpu() for grad in full]
