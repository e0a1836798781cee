"""How torch.compile splits a call into graphs: the instrument watches the compiled call while it runs.

Dynamo's own numbers are not enough. Its count of breaks is 0 for a break after the last operator and -1 if it skips a
frame, a skipped frame has no reason, and `fullgraph=True` compiles a plain `.item()` in newer releases (2.13, not 2.9).
So the instrument counts the graphs as they run, and a dispatch mode that Dynamo ignores sees every operator outside
them. The backend runs the traced graph as it is (it generates no code), so it needs neither a C++ compiler nor a GPU;
what Inductor would do with a graph is not measured.
"""

import contextlib
import logging
import platform
import sys
import warnings
from typing import Any, Callable, Iterator, List, NamedTuple, Optional
from unittest import mock

import torch
from torch._compile import _disable_dynamo
from torch.utils._python_dispatch import TorchDispatchMode

from ..base.frames import Site, SourceRoots
from ..simulated.operators import computes
from .selfcheck import SelfCheckError, expect, toy

_GRAPH, _OPERATOR, _READ = "graph", "operator", "read"
_SKIPPED = "Dynamo skips the frame and names no reason"
_BRANCH = "Data-dependent branching"


class Stop(NamedTuple):
    """Why tracing stopped, in Dynamo's words, and the checkout's line."""

    reason: str
    site: Optional[Site]


class Trace(NamedTuple):
    """One compiled call. At a break, the call leaves a graph for another one or for eager operators.

    `breaks_before_end` excludes a break after which no operator runs. `first_stop` is the first break; `error` is an
    error that occurs only under torch.compile.
    """

    graph_count: int
    break_count: int
    breaks_before_end: int
    operators_outside: int
    first_stop: Optional[Stop]
    error: str = ""


class _Event(NamedTuple):
    kind: str
    site: Optional[Site]
    stop: Optional[Stop] = None


def trace(call: Callable[[], Any], roots: SourceRoots) -> Trace:
    """Compile `call`, which must run eagerly on tensors of the CPU or of CUDA, and run it once.

    Dynamo does not trace the simulated device.
    """
    with _fresh_dynamo() as counters:
        timeline = _Timeline(roots)
        try:
            with timeline:
                torch.compile(call, backend=timeline.backend)()
        except Exception as error:
            if _runs_unwatched(call):
                raise
            return Trace(0, 0, 0, 0, _stop_of_error(error, roots), _named_error(error))
        named = [_first_line(reason) for reason in counters["graph_break"]]
    return _summary(timeline.events, named)


def _runs_unwatched(call: Callable[[], Any]) -> bool:
    """Return whether the compiled call raises only because of the instrument."""
    try:
        torch.compile(call, backend=_run_as_traced)()
    except Exception:
        return False
    return True


def fullgraph_failure(call: Callable[[], Any], roots: SourceRoots) -> Optional[Stop]:
    """Return why `torch.compile(fullgraph=True)` rejects `call`; None if it compiles."""
    with _fresh_dynamo():
        try:
            torch.compile(call, backend=_run_as_traced, fullgraph=True)()
        except Exception as error:
            return _stop_of_error(error, roots)
    return None


def is_declared_eager(function: Callable) -> bool:
    """Return whether the author excludes `function` from compiled code by `torch.compiler.disable`."""
    return bool(getattr(function, "_torchdynamo_disable", False))


@contextlib.contextmanager
def _fresh_dynamo() -> Iterator[Any]:
    """Run Dynamo silently and without cached compilations; yield its counters."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        import torch._dynamo
        from torch._dynamo import guards
        from torch._dynamo.utils import counters

        logger = logging.getLogger("torch._dynamo")
        level = logger.level
        torch._dynamo.reset()
        counters.clear()
        logger.setLevel(logging.CRITICAL + 1)
        # Dynamo flushes the processor's caches to time its guards, for an unused log: 32 ms per graph.
        untimed = mock.patch.object(guards, "profile_guard_manager", return_value=0.0, create=True)
        try:
            with untimed:
                yield counters
        finally:
            logger.setLevel(level)
            torch._dynamo.reset()


def _run_as_traced(module: Any, inputs: Any) -> Any:
    return module.forward


class _Timeline(TorchDispatchMode):
    """Graphs and operators of one compiled call in the order in which they run."""

    def __init__(self, roots: SourceRoots) -> None:
        super().__init__()
        self.roots = roots
        self.events: List[_Event] = []
        self._inside: Optional[List[Any]] = None

    @classmethod
    def ignore_compile_internals(cls) -> bool:
        """Let Dynamo compile although a dispatch mode is active."""
        return True

    def backend(self, module: Any, inputs: Any) -> Callable[..., Any]:
        """Return a function that runs a traced graph as it is, and records it if it launches any kernel."""
        stop = _stop_of_graph(module, self.roots)

        def run(*args: Any) -> Any:
            outer, self._inside = self._inside, []
            try:
                return module.forward(*args)
            finally:
                operators, self._inside = self._inside, outer
                if operators:
                    self.events.append(_Event(_GRAPH, None, stop))

        return run

    # Dynamo of torch 2.9 would compile the handler itself.
    @_disable_dynamo
    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        is_read = func.overloadpacket.__name__ == "_local_scalar_dense"
        if is_read or computes(func):
            if self._inside is not None:
                self._inside.append(func)
            else:
                kind = _READ if is_read else _OPERATOR
                self.events.append(_Event(kind, self.roots.innermost(sys._getframe(1))))
        return func(*args, **(kwargs or {}))


def _stop_of_graph(module: Any, roots: SourceRoots) -> Optional[Stop]:
    """Return the break that ended a graph; None if it ends with the function's return."""
    reason = getattr(module, "compile_subgraph_reason", None)
    if reason is None or not reason.graph_break:
        return None
    text = _first_line(reason.reason)
    return Stop(_BRANCH if text.startswith("generic_jump") else text, _innermost(reason.user_stack, roots))


def _stop_of_error(error: Exception, roots: SourceRoots) -> Stop:
    site = _innermost(getattr(error, "real_stack", None) or (), roots) or roots.of_traceback(error.__traceback__)
    return Stop(_named_error(error), site)


def _named_error(error: Exception) -> str:
    return "{}: {}".format(type(error).__name__, _first_line(error))


def _innermost(stack: Any, roots: SourceRoots) -> Optional[Site]:
    """Return the innermost frame of a stack summary that belongs to the checkout."""
    for frame in reversed(list(stack)):
        relative = roots.relative(frame.filename)
        if relative is not None:
            return Site(relative, frame.lineno, _plain_name(frame.name))
    return None


def _plain_name(name: str) -> str:
    """Return `norm` for `torch_dynamo_resume_in_norm_at_12`, Dynamo's name of the rest of a function after a break."""
    prefix = "torch_dynamo_resume_in_"
    return name[len(prefix) :].rsplit("_at_", 1)[0] if name.startswith(prefix) else name


def _first_line(text: Any) -> str:
    lines = str(text).strip().splitlines()
    return lines[0].strip()[:200] if lines else type(text).__name__


def _summary(events: List[_Event], named: List[str]) -> Trace:
    before_end = _breaks_before_end(events)
    work = [event for event in events if event.kind != _READ]
    ends_with_break = bool(work) and work[-1].stop is not None
    return Trace(
        graph_count=sum(event.kind == _GRAPH for event in work),
        break_count=before_end + ends_with_break,
        breaks_before_end=before_end,
        operators_outside=sum(event.kind == _OPERATOR for event in work),
        first_stop=_first_stop(events, named) if before_end or ends_with_break else None,
    )


def _breaks_before_end(events: List[_Event]) -> int:
    """Count runs of operators outside graphs, which reads divide, and graphs that directly follow a graph."""
    breaks, previous, was_read = 0, "", False
    for event in events:
        if event.kind == _READ:
            was_read = True
            continue
        if event.kind == _GRAPH:
            breaks += previous == _GRAPH
        else:
            breaks += previous != _OPERATOR or was_read
        previous, was_read = event.kind, False
    return breaks


def _first_stop(events: List[_Event], named: List[str]) -> Stop:
    """Return the first break: of the first graph, or of the frame that runs outside all graphs."""
    by_graph = next((event.stop for event in events if event.stop is not None), None)
    if by_graph is not None and events[0].kind == _GRAPH:
        return by_graph
    sites = [event.site for kind in (_READ, _OPERATOR) for event in events if event.kind == kind]
    site = next((site for site in sites if site is not None), None)
    return by_graph or Stop(named[0] if named else _SKIPPED, site)


def self_check(device: str, roots: SourceRoots) -> None:
    """Check that the toy has two graphs with a break between them."""
    from torch._dynamo import graph_break
    from torch._dynamo.eval_frame import is_dynamo_supported

    if not is_dynamo_supported():
        raise SelfCheckError("torch.compile does not run on this Python ({})".format(platform.python_version()))
    values = toy("cuda" if device == "cuda" else "cpu")

    def one_break() -> Any:
        doubled = values * 2
        graph_break()
        return doubled.sum()

    broken = trace(one_break, SourceRoots(__file__, (__file__,)))
    expect("graph counter", broken[:4], (2, 1, 1, 0), "two graphs with one break between them")
    stop, line = broken.first_stop, one_break.__code__.co_firstlineno + 2
    expect("line of a break", stop.site.line if stop is not None and stop.site is not None else 0, line, "the same")
