"""DTensor gradients: the local part, and the process groups over which its squares and counts add up."""

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from torch import Tensor

if TYPE_CHECKING:
    from torch.distributed import ProcessGroup


@dataclass(frozen=True, slots=True)
class LocalPart:
    """What this process holds of a gradient of `element_count` elements in all.

    `shard_groups` are the process groups whose members hold disjoint parts of it: none for a gradient that
    is whole here. `summands` is what this process holds where `tensor` is a sum over processes.
    """

    tensor: Tensor
    element_count: int
    shard_groups: tuple["ProcessGroup", ...] = ()
    summands: Tensor | None = None


def local_part(tensor: Tensor) -> LocalPart:
    """Return the local part of a DTensor, or `tensor` itself.

    Shard placements add over their mesh dimension and Replicate does not. Partial placements hold summands
    of the elements, whose squares do not add: they are reduced first, which communicates the gradient.
    Every rank of the mesh must call this for the same gradients in the same order.
    """
    # A DTensor exists only where its module was imported; importing it here would cost every other user.
    dtensor_module = sys.modules.get("torch.distributed.tensor")
    if dtensor_module is None or not isinstance(tensor, dtensor_module.DTensor):
        return LocalPart(tensor, tensor.numel())
    dtensor: Any = tensor
    placements: Sequence[Any] = dtensor.placements
    summands: Tensor | None = None
    if any(placement.is_partial() for placement in placements):
        summands = dtensor.to_local()
        placements = [dtensor_module.Replicate() if p.is_partial() else p for p in placements]
        dtensor = dtensor.redistribute(placements=placements)
    # Neither Replicate nor Partial: Shard, or the strided shard of FSDP over tensor parallelism, which is
    # no subclass of Shard.
    groups = tuple(
        dtensor.device_mesh.get_group(mesh_dim)
        for mesh_dim, placement in enumerate(placements)
        if not placement.is_replicate()
    )
    return LocalPart(dtensor.to_local(), tensor.numel(), groups, summands)


def gather_records(record_M: Tensor, shard_groups: tuple["ProcessGroup", ...]) -> Tensor:
    """Return the records of all ranks that hold a part, one after the other: shape (ranks * M,).

    Records are gathered, not summed: norms whose squares over- or underflow cannot be added on the device.
    """
    from torch.distributed import all_gather_into_tensor

    for group in shard_groups:
        gathered = record_M.new_empty(record_M.numel() * group.size())
        all_gather_into_tensor(gathered, record_M, group=group)
        record_M = gathered
    return record_M
