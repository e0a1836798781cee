"""Bring the replicas of a parameter from all ranks to the rank that owns it."""

import torch
import torch.distributed as dist
from torch import Tensor

CHUNK_BYTES = 16 * 2**20
"""What one rank sends at a time. Besides the stack, an owner needs up to two of these for each rank: its own buffer and
the backend's."""


@torch.no_grad()
def gather_replicas(
    local_RNM: Tensor, owner: int, group: "dist.ProcessGroup | None" = None, *, chunk_bytes: int = CHUNK_BYTES
) -> Tensor | None:
    """Return the replicas of all ranks on `owner`, rank after rank, and None on the other ranks.

    Every rank of `group` calls this for the same parameters in the same order, with at least one replica each. The
    ranks may hold different numbers of replicas of one shape and dtype. The replicas travel as bytes, on the device
    of `local_RNM`, which the group's backend must support. `owner` is a rank of `group`.
    """
    rank, ranks = dist.get_rank(group), dist.get_world_size(group)
    count = torch.tensor([local_RNM.shape[0]], device=local_RNM.device)
    counts = [torch.empty_like(count) for _ in range(ranks)]
    dist.all_gather(counts, count, group=group)
    sizes = [int(each) * local_RNM[0].nbytes for each in counts]
    all_RNM = local_RNM.new_empty((sum(map(int, counts)), *local_RNM.shape[1:])) if rank == owner else None
    places = torch.split(_bytes_of(all_RNM), sizes) if all_RNM is not None else ()
    outgoing = _bytes_of(local_RNM)
    for start in range(0, max(sizes), chunk_bytes):
        length = min(chunk_bytes, max(sizes) - start)
        sent = outgoing[start : start + length]
        # All ranks of a collective send the same size.
        sent = torch.nn.functional.pad(sent, (0, length - len(sent)))
        landings = [sent.new_empty(length) for _ in places]
        dist.gather(sent, landings or None, group=group, group_dst=owner)
        for place, landing in zip(places, landings, strict=True):
            part = place[start : start + length]
            part.copy_(landing[: len(part)])
    return all_RNM


def _bytes_of(stack: Tensor) -> Tensor:
    return stack.contiguous().view(-1).view(torch.uint8)
