"""Facts about torch's internals: what it imports at a first use, and how it reports that memory ran out."""

import collections
import contextlib
import importlib
import inspect
import sys
from typing import Any, Callable, Dict, Iterator

import torch
from torch.utils._python_dispatch import TorchDispatchMode


class OperatorMode(TorchDispatchMode):
    """A dispatch mode whose handler torch does not wrap in `_disable_dynamo`.

    The wrapper imports torch._dynamo, which takes 1 s of processor time in every worker. If it is already imported, the
    measured code may be compiled: then the handler is wrapped, or it would be traced as well.
    """

    def __enter__(self) -> Any:
        handler = type(self).__dict__.get("__torch_dispatch__")
        if "torch._dynamo" in sys.modules and handler is not None and not hasattr(handler, "__wrapped__"):
            type(self).__torch_dispatch__ = torch._disable_dynamo(handler, recursive=True)  # type: ignore
        return super().__enter__()

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        return False


def import_first(*modules: str) -> None:
    """Import once, before forks, what torch would import later; ignore modules that this torch lacks."""
    for name in modules:
        with contextlib.suppress(ImportError):
            importlib.import_module(name)


@contextlib.contextmanager
def without_compiler(function: Callable[..., Any]) -> Iterator[None]:
    """Keep a function of torch that disables Dynamo from importing it, which takes 3.5 s of processor time.

    torch looks up a replacement on the plain function. If Dynamo is already imported, nothing changes.
    """
    plain = inspect.unwrap(function)
    name = "__dynamo_disable"
    if "torch._dynamo" in sys.modules or hasattr(plain, name):
        yield
        return
    setattr(plain, name, plain)
    try:
        yield
    finally:
        delattr(plain, name)


def raise_if_out_of_memory(error: BaseException) -> None:
    """Turn torch's own errors for a lack of memory into MemoryError."""
    if isinstance(error, torch.cuda.OutOfMemoryError) or "can't allocate memory" in str(error):
        raise MemoryError(" ".join(str(error).split())[:300]) from error


def new_scaler_states() -> Dict[Any, Any]:
    """Return the per-optimizer states of an enabled GradScaler; without its stages if this torch names none."""
    fresh: Any = getattr(torch.amp.grad_scaler, "_refresh_per_optimizer_state", dict)
    return collections.defaultdict(fresh)


_NO_CUDA = ("Torch not compiled with CUDA enabled", "Found no NVIDIA driver", "No CUDA GPUs are available")


def misses_cuda(error: BaseException) -> bool:
    """Return whether torch raised because code uses CUDA on a machine without it."""
    return isinstance(error, (AssertionError, RuntimeError)) and str(error).startswith(_NO_CUDA)
