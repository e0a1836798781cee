"""A process group of one rank, for targets that reduce over ranks: real gloo, on the loopback device alone."""

import os
from typing import Any, List

_ours: List[Any] = []


def world() -> Any:
    """The process group of all ranks: the one that runs, or else one of this process alone."""
    import torch.distributed as dist

    if not dist.is_initialized():
        if os.path.isdir("/sys/class/net/lo"):
            os.environ.setdefault("GLOO_SOCKET_IFNAME", "lo")
        store = dist.HashStore()  # type: ignore[attr-defined]
        dist.init_process_group("gloo", store=store, rank=0, world_size=1)
        _ours.append(store)
    return dist.group.WORLD


def mesh() -> Any:
    """A device mesh of all ranks on the host."""
    from torch.distributed.device_mesh import init_device_mesh

    return init_device_mesh("cpu", (world().size(),))


def leave() -> None:
    """End the group of this process alone, where there is one: real ranks are about to be forked, or nobody asks."""
    if _ours:
        import torch.distributed as dist

        _ours.clear()
        dist.destroy_process_group()
