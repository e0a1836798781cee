"""A process group of one rank, for targets that reduce over ranks: real gloo, on the loopback device."""

import enum
import functools
import inspect
import os
import re
import sys
from traceback import walk_tb
from types import FrameType, FunctionType, ModuleType
from typing import Any, Callable, Dict, List, Optional, Sequence

from ..base.namespaces import replace_held
from .guesses import BACKEND, GROUP, Guess, known

DISTRIBUTED = "torch.distributed"
"""The path of the default process group, used by targets that read their rank or reduce without a group."""
_NO_GROUP = re.compile(
    r"(process group|dist|distributed)\b.* not (yet |been )*initialized|init_process_group|"
    r"(?-i:\b(LOCAL_RANK|RANK|WORLD_SIZE)\b)",
    re.IGNORECASE | re.DOTALL,
)
_NO_BACKEND = re.compile(
    r"'NoneType' object has no attribute '(all_reduce|all_gather|broadcast|barrier|new_group|get_\w+|is_initialized)'"
)

_ours: List[Any] = []
_global_groups: List[str] = []
# Environment variables that torchrun sets for a rank.
_ALONE = {"RANK": "0", "LOCAL_RANK": "0", "WORLD_SIZE": "1", "LOCAL_WORLD_SIZE": "1"}
_environment: Dict[str, str] = {}


def world() -> Any:
    """Return the process group of all ranks: the initialized one, or a new one of this process alone."""
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
    """Return a fake for the backend of a wrapper of torch.distributed."""
    world()
    return Backend()


def _raising_frame(error: BaseException) -> Optional[FrameType]:
    frames = [frame for frame, _ in walk_tb(error.__traceback__)]
    return frames[-1] if frames else None


def constants(error: BaseException) -> List[str]:
    """Return the identifiers among the string constants of the function that raised, as `hasattr` takes them."""
    frame = _raising_frame(error)
    found = [] if frame is None else frame.f_code.co_consts
    return [each for each in found if isinstance(each, str) and each.isidentifier()]


def asks_hasattr(error: BaseException, owner: Any) -> bool:
    """Return whether a method of `owner` raised that calls `hasattr`."""
    frame = _raising_frame(error)
    return frame is not None and "hasattr" in frame.f_code.co_names and frame.f_locals.get("self") is owner


def missing(error: BaseException) -> str:
    """Return what lacks a group or a backend and so raised: a module's variable, or `DISTRIBUTED`; else ""."""
    frame = _raising_frame(error)
    for name in () if frame is None else frame.f_code.co_names:
        if frame.f_globals.get(name, "") is None and known(name) == Guess(GROUP):  # type: ignore[union-attr]
            return "{}.{}".format(frame.f_globals["__name__"], name)  # type: ignore[union-attr]
    if _NO_GROUP.search(str(error)) or _NO_BACKEND.match(str(error)):
        return ("" if frame is None else _without_backend(frame)) or DISTRIBUTED
    return ""


def _without_backend(frame: FrameType) -> str:
    """Return the variable of a wrapper of torch.distributed that lacks its backend; "" for none."""
    import torch.distributed as dist

    names = frame.f_code.co_names
    held = [frame.f_globals.get(name) for name in names]
    called = [getattr(each, name, None) for each in held if isinstance(each, ModuleType) for name in names]
    functions = [inspect.unwrap(each) for each in called if isinstance(each, FunctionType)]
    for code, space in [*((each.__code__, each.__globals__) for each in functions), (frame.f_code, frame.f_globals)]:
        if any(hasattr(dist, name) for name in code.co_names) and not str(space["__name__"]).startswith("torch."):
            for name in code.co_names:
                if space.get(name, "") is None:
                    return "{}.{}".format(space["__name__"], name)
    return ""


def join(paths: Sequence[str], filled: Callable[[str, Guess], Any]) -> None:
    """Create the groups in `paths` that a target reads from its modules."""
    for path in paths:
        module, _, name = path.rpartition(".")
        if path == DISTRIBUTED:
            filled(path, Guess(GROUP))
        elif module in sys.modules and name in vars(sys.modules[module]):
            is_group = known(name) == Guess(GROUP)
            setattr(sys.modules[module], name, filled(path, Guess(GROUP if is_group else BACKEND)))
            _global_groups.append(path)


class Backend:
    """torch.distributed as the backend of a wrapper; the wrapper's own reductions are translated by name."""

    def __getattr__(self, name: str) -> Any:
        import torch.distributed as dist

        found = getattr(dist, name)
        return functools.partial(_with_own_reductions, found) if isinstance(found, FunctionType) else found


def _with_own_reductions(function: Any, *values: Any, **named: Any) -> Any:
    import torch.distributed as dist

    def own(value: Any) -> Any:
        return getattr(dist.ReduceOp, value.name, value) if isinstance(value, enum.Enum) else value

    return function(*map(own, values), **{name: own(value) for name, value in named.items()})


def leave() -> None:
    """End auditkit's group of one rank, before real ranks are forked or after the call."""
    while _global_groups:
        put_back = _global_groups.pop().rpartition(".")
        setattr(sys.modules[put_back[0]], put_back[2], None)
    if _ours:
        import torch.distributed as dist

        replace_held(dist.ProcessGroup, lambda _: None)  # Groups that modules created beside it would match no rank.
        _ours.clear()
        for name in _environment:
            os.environ.pop(name, None)
        _environment.clear()
        dist.destroy_process_group()
