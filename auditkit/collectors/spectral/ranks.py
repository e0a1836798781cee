"""Share the parameters out to ranks, balanced by the work of their SVDs, and bring the replicas of each to its rank."""

from collections.abc import Mapping
from dataclasses import dataclass

import torch
import torch.distributed as dist
from torch import Tensor

CHUNK_BYTES = 16 * 2**20
"""What one rank sends at a time. Besides the stack, an owner needs up to two of these for each rank: its own buffer and
the backend's."""


def svd_work(replicas: int, rows: int, columns: int) -> int:
    """Return what the SVDs of `replicas` matrices of `rows` x `columns` cost, up to a factor: R * N * M * min(N, M)."""
    return replicas * rows * columns * min(rows, columns)


@dataclass(frozen=True, slots=True)
class ShardPlan:
    """The keys that each rank owns, in order of their names, and the work that comes with them."""

    keys_by_rank: tuple[tuple[str, ...], ...]
    work_by_rank: tuple[int, ...]

    def owners(self) -> dict[str, int]:
        """Return the rank of every key."""
        return {key: rank for rank, keys in enumerate(self.keys_by_rank) for key in keys}


def plan_shards(work: Mapping[str, int], ranks: int) -> ShardPlan:
    """Give every key of `work` to exactly one of `ranks` ranks, so that their sums of work are close.

    The largest key first, each to the rank with the least work so far: no rank gets more than
    4/3 - 1/(3 * ranks) times what the best partition would give its busiest one (Graham 1969, "Bounds on
    multiprocessing timing anomalies"). The plan depends on names and numbers alone, not on the order of `work`,
    so every rank that computes it has the same one.

    Raises ValueError for less than one rank and for negative work.
    """
    if ranks < 1:
        raise ValueError(f"a plan needs at least one rank, not {ranks}")
    negative = sorted(key for key, cost in work.items() if cost < 0)
    if negative:
        raise ValueError(f"the work of {negative[0]!r} is negative: {work[negative[0]]}")
    keys: list[list[str]] = [[] for _ in range(ranks)]
    load = [0] * ranks
    for key in sorted(work, key=lambda key: (-work[key], key)):
        # Among equal loads the rank with fewer keys, so that keys without work are spread as well.
        rank = min(range(ranks), key=lambda rank: (load[rank], len(keys[rank]), rank))
        keys[rank].append(key)
        load[rank] += work[key]
    return ShardPlan(tuple(tuple(sorted(owned)) for owned in keys), tuple(load))


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
