"""A process group of one rank, for targets that reduce over ranks: real gloo, on the loopback device alone."""

import contextlib
import enum
import functools
import importlib
import inspect
import os
import sys
from traceback import walk_tb
from types import FrameType, FunctionType, ModuleType
from typing import Any, Dict, Iterator, List, Optional

from ..base.namespaces import replace_held
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


def backend() -> Any:
    """What a wrapper of torch.distributed may hold as its backend, of this process alone."""
    world()
    return Backend()


def mesh() -> Any:
    """A device mesh of all ranks on the host."""
    from torch.distributed.device_mesh import init_device_mesh

    return init_device_mesh("cpu", (world().size(),))


def _raising_frame(error: BaseException) -> Optional[FrameType]:
    frames = [frame for frame, _ in walk_tb(error.__traceback__)]
    return frames[-1] if frames else None


def asks_for(error: BaseException, attribute: str) -> bool:
    """Whether the function that raised names an attribute as text, as `hasattr` does."""
    frame = _raising_frame(error)
    return frame is not None and attribute in frame.f_code.co_consts


def looked_for(error: BaseException, owner: Any) -> Iterator[str]:
    """The attributes that a method of `owner` asks `hasattr` for and raises where there is none."""
    frame = _raising_frame(error) if owner is not None else None
    if frame is not None and "hasattr" in frame.f_code.co_names and frame.f_locals.get("self") is owner:
        names = (each for each in frame.f_code.co_consts if isinstance(each, str) and each.isidentifier())
        yield from (name for name in names if name not in vars(owner))


def backend_missing(error: BaseException) -> str:
    """The variable of a wrapper of torch.distributed that lacks its backend where that made a function raise."""
    import torch.distributed as dist

    frame = _raising_frame(error)
    if frame is None:
        return ""
    names = frame.f_code.co_names
    held = [frame.f_globals.get(name) for name in names]
    asked = [getattr(each, name, None) for each in held if isinstance(each, ModuleType) for name in names]
    functions = [inspect.unwrap(each) for each in asked if isinstance(each, FunctionType)]
    reads = [*((each.__code__, each.__globals__) for each in functions), (frame.f_code, frame.f_globals)]
    for code, space in reads:
        if any(hasattr(dist, name) for name in code.co_names) and not str(space["__name__"]).startswith("torch."):
            for name in code.co_names:
                if space.get(name, "") is None:
                    return "{}.{}".format(space["__name__"], name)
    return ""


class Backend:
    """torch.distributed as the backend of a wrapper, whose own reductions are known by their names."""

    def __getattr__(self, name: str) -> Any:
        import torch.distributed as dist

        if name == "get_world_group":
            return world
        found = getattr(dist, name)
        return functools.partial(_with_own_reductions, found) if isinstance(found, FunctionType) else found


def _with_own_reductions(function: Any, *values: Any, **named: Any) -> Any:
    import torch.distributed as dist

    def own(value: Any) -> Any:
        return getattr(dist.ReduceOp, value.name, value) if isinstance(value, enum.Enum) else value

    return function(*map(own, values), **{name: own(value) for name, value in named.items()})


def global_without_group(error: BaseException) -> str:
    """The variable of a module that lacks its group where that made a function raise; "" for none."""
    frame = _raising_frame(error)
    if frame is None:
        return ""
    for name in frame.f_code.co_names:
        found = known(name) if frame.f_globals.get(name, "") is None else None
        if found is not None and found.value == GROUP:
            return "{}.{}".format(frame.f_globals["__name__"], name)
    return ""


def is_global(path: str) -> bool:
    """Whether a path names a variable of a module that is loaded."""
    module, _, name = path.rpartition(".")
    if module not in sys.modules and module.partition(".")[0] in sys.modules:
        with contextlib.suppress(Exception):  # what was cut out of its file imports it when it is called
            importlib.import_module(module)
    return module in sys.modules and name in vars(sys.modules[module])


def put_global(path: str, group: Any) -> None:
    """Let a variable of a module hold a group or a backend, until nobody asks any more."""
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

        _forget_copies()
        _ours.clear()
        for name in _environment:
            os.environ.pop(name, None)
        _environment.clear()
        dist.destroy_process_group()


def _forget_copies() -> None:
    """Let modules that keep a group which they made beside ours make another: this one answers no rank."""
    import torch.distributed as dist

    replace_held(dist.ProcessGroup, lambda _: None)
