"""Run a loop written for CUDA on the host: CUDA devices mean the host, and a GradScaler scales there."""

import contextlib
from typing import Any, Iterator, Optional
from unittest import mock

import torch

from ..base.torch_internals import import_first
from ..simulated.tensor import EachFunction

INITIAL_SCALE = 1024.0
_HOST = torch.device("cpu")
_OPTIONS = ("init_scale", "growth_factor", "backoff_factor", "growth_interval", "enabled")


def _call_on_host(func: Any, args: Any, kwargs: Any) -> Any:
    """Create on the host every tensor that a call requests on CUDA."""
    if func is torch.Tensor.cuda:
        return args[0]
    if _is_cuda(kwargs.get("device")):
        kwargs = {**kwargs, "device": _HOST}
    if func is torch.Tensor.to:
        args = (args[0], *(_HOST if _is_cuda(each) else each for each in args[1:]))
    return func(*args, **kwargs)


def _is_cuda(device: Any) -> bool:
    return isinstance(device, (str, torch.device)) and str(device).startswith("cuda")


@contextlib.contextmanager
def on_host(scales: Optional[bool] = None) -> Iterator[None]:
    """Let CUDA mean the host, if this machine has no CUDA.

    `scales` True enables every GradScaler, whatever its options, with the scale INITIAL_SCALE; False disables it.
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
        for name in ("empty_cache", "reset_peak_memory_stats"):  # called on the module of the current device type
            stack.enter_context(mock.patch.object(torch.cpu, name, nothing, create=True))
        stack.enter_context(EachFunction(_call_on_host))
        yield
