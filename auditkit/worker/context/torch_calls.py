"""Which of torch's own functions for gradients a target calls: seen while it runs, under any name."""

import contextlib
import inspect
from types import FrameType
from typing import Any, Dict, Iterable, Iterator, List, Optional

import torch

from ..base.frames import Site, SourceRoots
from ..base.lines import profiled
from ..base.refusals import NotApplicable, TargetRaised
from ..feed.caller import Caller
from ..feed.plan import Plan
from ..simulated.device import on_device
from .calls import Calls

_NAMES = ("clip_grad_norm_", "get_total_norm", "clip_grads_with_norm_", "clip_grad_value_")
# Arguments that change the result. A user who passes `foreach` or `error_if_nonfinite` owns the consequences.
_ARGUMENTS = ("max_norm", "norm_type", "clip_value")


def torch_calls(plan: Plan, caller: Caller, roots: SourceRoots) -> Dict[str, Any]:
    """Return `functions` of torch with their arguments, and the `lines` of the checkout that call them.

    The lines include the target's definition, the location if no line is to blame. The result is empty for a target
    that calls none of them, whose result does not follow from them, or that is one of them.
    """
    known = {function.__code__: name for name, function in _functions().items()}
    if plan.feed.forms or getattr(inspect.unwrap(caller.function), "__code__", None) in known:
        return {}
    functions: Dict[str, Dict[str, Any]] = {}
    sites: List[Optional[Site]] = []

    def watch(frame: FrameType, event: str, _: Any) -> None:
        name = known.get(frame.f_code) if event == "call" else None
        if name is not None and not _is_inside(frame.f_back, known):
            given = {each: frame.f_locals.get(each) for each in _ARGUMENTS}
            numbers = {each: float(value) for each, value in given.items() if isinstance(value, (int, float))}
            functions.setdefault(name, numbers)
            sites.append(roots.innermost(frame))

    calls = Calls(plan, caller, plan.device, roots)
    with contextlib.suppress(Exception), on_device(plan.device):
        call = calls.prepared(calls.cases.benign())
        with profiled(watch):
            call()
    lines = {(site.file, site.line) for site in (*sites, calls.definition()) if site is not None}
    return {"functions": functions, "lines": sorted(lines)} if functions and _follows(calls) else {}


def _functions() -> Dict[str, Any]:
    """Return torch's plain functions: an alias and a decorated one share their code."""
    found = {name: getattr(torch.nn.utils, name, None) for name in _NAMES}
    return {name: inspect.unwrap(function) for name, function in found.items() if function is not None}


def _follows(calls: Calls) -> bool:
    """Return whether the result changes if torch's functions do nothing and return a constant.

    The gradients are so large that they exceed any limit.
    """

    def answer() -> str:
        return repr(calls.answer([grad * 2.0**30 for grad in calls.cases.benign()]))

    try:
        with_torch = answer()
        with _replaced(_functions().values()):
            return answer() != with_torch
    except (TargetRaised, NotApplicable):
        return True


@contextlib.contextmanager
def _replaced(functions: Iterable[Any]) -> Iterator[None]:
    before = [(function, function.__code__, function.__defaults__) for function in functions]
    try:
        for function, _, _ in before:
            function.__code__, function.__defaults__ = _constant.__code__, None
        yield
    finally:
        for function, code, defaults in before:
            function.__code__, function.__defaults__ = code, defaults


def _constant(*_: Any, **__: Any) -> torch.Tensor:
    """Replace torch's functions; it runs with their module's names, so only `torch` is known."""
    return torch.tensor(0.5)


def _is_inside(frame: Optional[FrameType], codes: Dict[Any, str]) -> bool:
    """Return whether one of the functions is on the stack."""
    while frame is not None:
        if frame.f_code in codes:
            return True
        frame = frame.f_back
    return False
