"""A loop written for CUDA on the host: devices that it names are the host's, and a GradScaler scales there."""

import contextlib
from typing import Any, Iterator, Optional
from unittest import mock

import torch
from torch.overrides import TorchFunctionMode

from ..base.torch_internals import import_first

INITIAL_SCALE = 1024.0
_HOST = torch.device("cpu")
_OPTIONS = ("init_scale", "growth_factor", "backoff_factor", "growth_interval", "enabled")


class _OnHost(TorchFunctionMode):
    """Every tensor that is asked for on CUDA is made on the host."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = dict(kwargs or {})
        if func is torch.Tensor.cuda:
            return args[0]
        if "device" in kwargs and _is_cuda(kwargs["device"]):
            kwargs["device"] = _HOST
        if func is torch.Tensor.to:
            args = (args[0], *(_HOST if _is_cuda(each) else each for each in args[1:]))
        return func(*args, **kwargs)


def _is_cuda(device: Any) -> bool:
    return isinstance(device, (str, torch.device)) and str(device).startswith("cuda")


@contextlib.contextmanager
def on_host(scales: Optional[bool] = None) -> Iterator[None]:
    """Make CUDA the host, if this machine has no CUDA.

    With `scales`, enable every GradScaler that the code makes, whatever its options, and let it scale by INITIAL_SCALE;
    with False disable it.
    """
    has_cuda = torch.cuda.is_available()
    if not has_cuda:
        # An optimizer's constructor imports it, and fails if one function has several names in torch.
        import_first("torch._dynamo")
    make_scaler = torch.amp.GradScaler.__init__

    def init(self: Any, device: str = "cuda", *args: Any, **kwargs: Any) -> None:
        given = {**dict(zip(_OPTIONS, args, strict=False)), **kwargs}
        if scales is not None:
            given.update(enabled=scales, init_scale=INITIAL_SCALE)
        make_scaler(self, device if has_cuda else "cpu", **given)

    def nothing(*_: Any, **__: Any) -> None:
        return None

    def itself(module: Any, *_: Any, **__: Any) -> Any:
        return module

    with contextlib.ExitStack() as stack:
        stack.enter_context(mock.patch.object(torch.amp.GradScaler, "__init__", init))
        if has_cuda:
            yield
            return
        stack.enter_context(mock.patch.object(torch.nn.Module, "cuda", itself))
        for name in ("synchronize", "reset_peak_memory_stats", "set_device"):
            stack.enter_context(mock.patch.object(torch.cuda, name, nothing))
        for name in ("empty_cache", "reset_peak_memory_stats"):  # asked of whatever module its device is of
            stack.enter_context(mock.patch.object(torch.cpu, name, nothing, create=True))
        stack.enter_context(_OnHost())
        yield
