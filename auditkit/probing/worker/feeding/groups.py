"""A process group of one rank, for targets that reduce over ranks: real gloo, on the loopback device alone."""

import os
import sys
from typing import Any, Dict, List

from .guesses import GROUP, known

_ours: List[Any] = []
_global_groups: List[str] = []
# What torchrun tells a rank.
_ALONE = {"RANK": "0", "LOCAL_RANK": "0", "WORLD_SIZE": "1", "LOCAL_WORLD_SIZE": "1"}
_environment: Dict[str, str] = {}


def world() -> Any:
    """The process group of all ranks: the one that runs, or else one of this process alone."""
    import torch.distributed as dist

    if not dist.is_initialized():
        if os.path.isdir("/sys/class/net/lo"):
            os.environ.setdefault("GLOO_SOCKET_IFNAME", "lo")
        store = dist.HashStore()  # type: ignore[attr-defined]
        _environment.update({name: value for name, value in _ALONE.items() if name not in os.environ})
        os.environ.update(_environment)
        dist.init_process_group("gloo", store=store, rank=0, world_size=1)
        _ours.append(store)
    return dist.group.WORLD


def mesh() -> Any:
    """A device mesh of all ranks on the host."""
    from torch.distributed.device_mesh import init_device_mesh

    return init_device_mesh("cpu", (world().size(),))


def global_without_group(error: BaseException) -> str:
    """The variable of a module that lacks its group where that made a function raise; "" for none."""
    traceback = error.__traceback__
    while traceback is not None and traceback.tb_next is not None:
        traceback = traceback.tb_next
    if traceback is None:
        return ""
    frame = traceback.tb_frame
    for name in frame.f_code.co_names:
        found = known(name)
        if found is not None and found.value == GROUP and frame.f_globals.get(name, "") is None:
            return "{}.{}".format(frame.f_globals["__name__"], name)
    return ""


def is_global(path: str) -> bool:
    """Whether a path names a variable of a module that is loaded."""
    module, _, name = path.rpartition(".")
    return module in sys.modules and name in vars(sys.modules[module])


def put_global(path: str, group: Any) -> None:
    """Let a variable of a module hold a group, until nobody asks any more."""
    module, _, name = path.rpartition(".")
    setattr(sys.modules[module], name, group)
    _global_groups.append(path)


def leave() -> None:
    """End the group of this process alone, where there is one: real ranks are about to be forked, or nobody asks."""
    while _global_groups:
        put_back = _global_groups.pop().rpartition(".")
        setattr(sys.modules[put_back[0]], put_back[2], None)
    if _ours:
        import torch.distributed as dist

        _ours.clear()
        for name in _environment:
            os.environ.pop(name, None)
        _environment.clear()
        dist.destroy_process_group()
