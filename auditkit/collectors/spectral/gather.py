"""The replicas of every parameter, brought from all ranks to the one that owns it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import torch
import torch.distributed as dist
from torch import Tensor

from .collected import ReplicaGradients
from .peers import Peers

CHUNK_BYTES = 16 * 2**20
"""What one rank sends at a time. An owner needs up to two of these for each rank beside the stack: its own, for what
it cannot receive in place, and gloo's."""


@dataclass(frozen=True, slots=True)
class Link:
    """How bytes travel: the process group, the device its backend moves them on, and who watches over it."""

    group: dist.ProcessGroup
    peers: Peers
    device: torch.device
    chunk_bytes: int = CHUNK_BYTES


def transport_device(group: dist.ProcessGroup) -> torch.device:
    """Return the device that the group's backend sends from: the current GPU for NCCL, the CPU else."""
    if dist.get_backend(group) == "nccl":
        return torch.device("cuda", torch.cuda.current_device())
    return torch.device("cpu")


def gather_stacks(
    replicas: ReplicaGradients, owners: Mapping[str, int], counts: Mapping[str, Sequence[int]], link: Link
) -> dict[str, Tensor]:
    """Return what this rank owns: for each of its keys all replicas on the CPU, rank after rank, shape (R, N, M).

    `counts` says how many replicas of a key each rank holds; `owners` and `counts` are the same on every rank.
    What was sent is forgotten in `replicas`: a rank holds its share of the sum of all stacks, one stack of its
    own, and chunks. Raises RankLostError.
    """
    mine = {}
    for key in sorted(owners):
        stack = gather_stack(key, replicas.take(key), owners[key], counts[key], link)
        if stack is not None:
            mine[key] = stack
    return mine


def gather_stack(key: str, local_RNM: Tensor, owner: int, counts: Sequence[int], link: Link) -> Tensor | None:
    """Return the replicas of one key on its owner, None on the other ranks. Raises RankLostError.

    They travel as bytes, whatever their dtype, `link.chunk_bytes` from each rank at a time.
    """
    is_owner = link.peers.rank == owner
    matrix_bytes = local_RNM[0].nbytes
    all_RNM = local_RNM.new_empty((sum(counts), *local_RNM.shape[1:]), device="cpu") if is_owner else None
    places = torch.split(_bytes_of(all_RNM), [count * matrix_bytes for count in counts]) if all_RNM is not None else ()
    outgoing = _bytes_of(local_RNM)
    longest = max(counts) * matrix_bytes
    for start in range(0, longest, link.chunk_bytes):
        stop = min(start + link.chunk_bytes, longest)
        landing_places = [place[start:stop] for place in places]
        _gather_chunk(f"gather of {key!r}", outgoing[start:stop], landing_places, stop - start, owner, link)
    return all_RNM


def _bytes_of(stack: Tensor) -> Tensor:
    return stack.contiguous().view(-1).view(torch.uint8)


def _gather_chunk(what: str, outgoing: Tensor, places: Sequence[Tensor], size: int, owner: int, link: Link) -> None:
    """Gather `size` bytes of each rank into `places`, received where they belong if they fit there as they are."""
    sent = outgoing.to(link.device)
    if len(sent) < size:  # this rank has fewer replicas, and all ranks of a collective send the same size
        sent = torch.nn.functional.pad(sent, (0, size - len(sent)))
    landings = [
        place if len(place) == size and place.device == link.device else sent.new_empty(size) for place in places
    ]
    try:
        work = dist.gather(sent, landings or None, dst=owner, group=link.group, async_op=True)
    except RuntimeError as error:
        link.peers.explain(error, what)
    link.peers.finish(work, what)
    for place, landing in zip(places, landings, strict=True):
        if landing is not place:
            place.copy_(landing[: len(place)])
