"""Record what reaches the optimizer: each step with its gradients, and every backward and clip before it.

torch's global optimizer hooks see the step; Python's profiler sees `backward`, clipping functions and GradScaler's
methods, under any name. Gradients are kept as float64 copies by name.
"""

import contextlib
import inspect
import sys
from types import CodeType, FrameType
from typing import Any, Callable, Dict, Iterator, List, NamedTuple, Optional, Set, Tuple

import torch
from torch.nn.modules import module as modules
from torch.optim import optimizer as optimizers

from ..base.frames import Site, SourceRoots
from ..base.lines import profiled
from ..measure.selfcheck import expect

Grads = Dict[str, torch.Tensor]


class Micro(NamedTuple):
    """One backward pass: the gradients before it, and those that it added."""

    site: Optional[Site]
    before: Grads
    added: Grads


class Clip(NamedTuple):
    """One call of a torch function that limits gradients, and the number of backward passes before it."""

    site: Optional[Site]
    after_micros: int
    limit: float
    is_by_value: bool
    before: Grads
    after: Grads


class Step(NamedTuple):
    """One call of an optimizer's step: its gradients, their history, and the parameters before and after.

    With a closure, `grads` are those after the closure's first call, and `closure_calls` counts its calls.
    """

    site: Optional[Site]
    grads: Grads
    micros: List[Micro]
    clips: List[Clip]
    optimizer: int
    closure_calls: int
    is_inside_backward: bool
    parameters_before: Grads
    parameters_after: Grads
    state_is_finite: bool
    scale: float

    @property
    def is_finite(self) -> bool:
        return all(bool(each.isfinite().all()) for each in self.grads.values())


class Trace:
    """The record of one run: its steps, and other events in order.

    `ran` are the parameters of models that ran, `reached` those that had a gradient after some backward pass, by
    identity; `zeros` has the number of backward passes before gradients were zeroed; `skips` are steps that a scaler
    skipped. `has_scaler` means that some GradScaler, perhaps disabled, received a loss.
    """

    def __init__(self, roots: SourceRoots) -> None:
        self.roots = roots
        self.steps: List[Step] = []
        self.micros: List[Micro] = []
        self.clips: List[Clip] = []
        self.zeros: List[Tuple[Optional[Site], int]] = []
        self.skips: List[Optional[Site]] = []
        self.executed: Set[CodeType] = set()
        self.known: Dict[int, Tuple[str, torch.nn.Parameter]] = {}
        self.ran: Set[int] = set()
        self.reached: Set[int] = set()
        self.optimizers: List[torch.optim.Optimizer] = []
        self.made_at: Dict[int, Optional[Site]] = {}
        self.scale = 1.0
        self.has_scaler = False
        self._steps_started = 0
        self._window: Tuple[int, int] = (0, 0)
        self._depth = self._backward_depth = 0
        self._open: List[Any] = []

    def watch(self, model: torch.nn.Module) -> None:
        """Follow the parameters of a model by their names, without prefixes of wrappers."""
        for name, parameter in model.named_parameters():
            plain = name.replace("_orig_mod.", "").replace("module.", "")
            self.known.setdefault(id(parameter), (plain, parameter))

    @property
    def held(self) -> List[torch.nn.Parameter]:
        """The parameters of all optimizers, as often as a group has them."""
        return [each for one in self.optimizers for group in one.param_groups for each in group["params"]]

    @property
    def gradients(self) -> Grads:
        """The current gradients; if parameters share a name, that of the one that has a gradient."""
        return {
            name: each.grad.detach().double().clone() for name, each in self.known.values() if each.grad is not None
        }

    @contextlib.contextmanager
    def recording(self) -> Iterator[None]:
        """Record everything that the loop does in the block."""
        handles = [
            modules.register_module_forward_pre_hook(self._enter_module),
            modules.register_module_forward_hook(self._leave_module, always_call=True),
            optimizers.register_optimizer_step_pre_hook(self._before_step),
            optimizers.register_optimizer_step_post_hook(self._after_step),
        ]
        try:
            with profiled(self._see):
                yield
        finally:
            for handle in handles:
                handle.remove()

    def _enter_module(self, module: torch.nn.Module, _: Any) -> None:
        self._depth += 1
        if self._depth == 1 and torch.is_grad_enabled():
            self.watch(module)
            self.ran.update(map(id, module.parameters()))

    def _leave_module(self, *_: Any) -> None:
        self._depth -= 1

    def _before_step(self, optimizer: torch.optim.Optimizer, args: Any, kwargs: Any) -> Any:
        if not any(each is optimizer for each in self.optimizers):
            self.optimizers.append(optimizer)
        for group in optimizer.param_groups:
            for parameter in group["params"]:
                self.known.setdefault(id(parameter), ("optimizer.{}".format(len(self.known)), parameter))
        site = self.roots.innermost(sys._getframe(1))
        self._steps_started += 1
        self.steps.append(self._step(optimizer, site, self._parameters()))
        closure = args[1] if len(args) > 1 else kwargs.get("closure")
        if closure is None:
            return None

        def and_look() -> Any:
            answer, before = closure(), self.steps[-1]
            if not before.closure_calls:
                self.steps[-1] = self._step(optimizer, site, before.parameters_before)
            self.steps[-1] = self.steps[-1]._replace(closure_calls=before.closure_calls + 1)
            return answer

        if len(args) > 1:
            return (args[0], and_look, *args[2:]), kwargs
        return args, {**kwargs, "closure": and_look}

    def _step(self, optimizer: torch.optim.Optimizer, site: Optional[Site], parameters: Grads) -> Step:
        owned = [parameter for group in optimizer.param_groups for parameter in group["params"]]
        first_micro, first_clip = self._window
        return Step(
            site=site,
            grads={
                self.known[id(each)][0]: each.grad.detach().double().clone() for each in owned if each.grad is not None
            },
            micros=self.micros[first_micro:],
            clips=[clip for clip in self.clips[first_clip:] if clip.after_micros > first_micro],
            optimizer=id(optimizer),
            closure_calls=0,
            is_inside_backward=self._backward_depth > 0,
            parameters_before=parameters,
            parameters_after={},
            state_is_finite=True,
            scale=self.scale,
        )

    def _after_step(self, optimizer: torch.optim.Optimizer, args: Any, kwargs: Any) -> None:
        held = [value for state in optimizer.state.values() for value in state.values()]
        tensors = [each for each in held if isinstance(each, torch.Tensor) and each.is_floating_point()]
        self.steps[-1] = self.steps[-1]._replace(
            parameters_after=self._parameters(), state_is_finite=all(bool(each.isfinite().all()) for each in tensors)
        )
        self._window = (len(self.micros), len(self.clips))

    def _parameters(self) -> Grads:
        return {name: each.detach().double().clone() for name, each in self.known.values()}

    def _see(self, frame: FrameType, event: str, _: Any) -> None:
        if event not in ("call", "return"):
            return
        code = frame.f_code
        handler = _WATCHED.get(code)
        if handler is not None:
            handler(self, frame, event)
        elif event == "call" and code not in self.executed and self.roots.relative(code.co_filename) is not None:
            self.executed.add(code)

    def _see_backward(self, frame: FrameType, event: str) -> None:
        self._backward_depth += 1 if event == "call" else -1
        if event == "call":
            self._open.append((self.roots.innermost(frame), self.gradients))
        elif self._open:
            site, before = self._open.pop()
            now = self.gradients
            added = {name: each - before[name] if name in before else each for name, each in now.items()}
            self.reached.update(place for place, (_, each) in self.known.items() if each.grad is not None)
            self.micros.append(Micro(site, before, {name: each for name, each in added.items() if bool(each.any())}))

    def _see_clip(self, frame: FrameType, event: str) -> None:
        if event == "call":
            limit = frame.f_locals.get("max_norm", frame.f_locals.get("clip_value", 0.0))
            number = float(limit) if isinstance(limit, (int, float, torch.Tensor)) else 0.0
            self._open.append((self.roots.innermost(frame), number, self.gradients))
        elif self._open:
            site, limit, before = self._open.pop()
            by_value = "clip_value" in frame.f_locals
            self.clips.append(Clip(site, len(self.micros), limit, by_value, before, self.gradients))

    def _see_scale(self, frame: FrameType, event: str) -> None:
        scaler = frame.f_locals.get("self")
        self.has_scaler = True
        if event == "return" and scaler is not None and scaler.is_enabled():
            self.scale = float(scaler.get_scale())

    def _see_zero(self, frame: FrameType, event: str) -> None:
        if event == "call":
            self.zeros.append((self.roots.innermost(frame), len(self.micros)))

    def _see_optimizer(self, frame: FrameType, event: str) -> None:
        if event == "call":
            self.made_at[id(frame.f_locals["self"])] = self.roots.innermost(frame)

    def _see_scaler_step(self, frame: FrameType, event: str) -> None:
        """Note a step that a scaler skips; it ends its window as a real step does."""
        if event == "call":
            self._open.append(self._steps_started)
        elif self._open and self._open.pop() == self._steps_started:
            self.skips.append(self.roots.innermost(frame))
            self._window = (len(self.micros), len(self.clips))


_HANDLERS: Tuple[Tuple[Any, Callable[[Trace, FrameType, str], None]], ...] = (
    (torch.autograd.backward, Trace._see_backward),
    (torch.amp.GradScaler.scale, Trace._see_scale),
    (torch.amp.GradScaler.step, Trace._see_scaler_step),
    (torch.optim.Optimizer.__init__, Trace._see_optimizer),
    (torch.optim.Optimizer.zero_grad, Trace._see_zero),
    (torch.nn.Module.zero_grad, Trace._see_zero),
    (torch.nn.utils.clip_grad_norm_, Trace._see_clip),
    (torch.nn.utils.clip_grad_value_, Trace._see_clip),
)
_WATCHED = {inspect.unwrap(function).__code__: handler for function, handler in _HANDLERS}


def added_up(micros: List[Micro]) -> Grads:
    """Return the sum of several backward passes, in float64."""
    found: Grads = {}
    for micro in micros:
        for name, each in micro.added.items():
            found[name] = found[name] + each if name in found else each
    return found


def norm_of(grads: Grads) -> float:
    """Return the 2-norm of all gradients together."""
    return float(sum(float(each.square().sum()) for each in grads.values()) ** 0.5)


def cosine(left: Grads, right: Grads) -> float:
    """Return the cosine of the angle between gradients; 0 if either is zero."""
    size = norm_of(left) * norm_of(right)
    product = sum(float((each * right[name]).sum()) for name, each in left.items() if name in right)
    return product / size if size > 0 else 0.0


def self_check(device: str, roots: SourceRoots) -> None:
    """Check the seam: the toy has backward passes of 5 and 10 with the sum 15, clipped to 3."""
    weight = torch.nn.Parameter(torch.zeros(2))
    optimizer = torch.optim.SGD([weight], lr=1.0)

    def one_step() -> None:
        for scale in (1, 2):
            (weight * torch.tensor([3.0, 4.0]) * scale).sum().backward()
        torch.nn.utils.clip_grad_norm_([weight], 3.0)
        optimizer.step()

    trace = Trace(SourceRoots(__file__, (__file__,)))
    trace.known[id(weight)] = ("weight", weight)
    with trace.recording():
        one_step()
    step = trace.steps[0]
    seen = [*(micro.added for micro in step.micros), *(clip.before for clip in step.clips), step.grads]
    norms = [round(norm_of(grads), 3) for grads in seen]
    expect("seam of the optimizer", norms, [5.0, 10.0, 15.0, 3.0], "one step")
    line = one_step.__code__.co_firstlineno + 4
    expect("line of a step", step.site.line if step.site is not None else 0, line, "the same step")
