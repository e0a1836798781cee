"""Wrappers of torch's functions: each records an event in an inspected step, and otherwise only calls the original."""

from __future__ import annotations

import dis
import functools
import importlib.util
import random
import sys
from typing import Any, Callable

import torch
from torch.optim.optimizer import register_optimizer_step_post_hook, register_optimizer_step_pre_hook

from .places import where
from .readings import norms, quietly
from .watcher import Watcher

_READS = ("item", "tolist", "cpu", "numpy", "__float__", "__int__", "__bool__")
_compiles = torch.compiler.is_compiling


class Patches:
    """All wrappers of one watcher; `remove` restores torch."""

    def __init__(self, watcher: Watcher) -> None:
        self.watcher = watcher
        self.undone: list = []
        self.turn_patches: list = []

    def install(self) -> None:
        """Wrap the functions called between steps, and hook the steps."""
        _run_as_it_is(self._before)
        _run_as_it_is(self._after)
        _run_as_it_is(self._event, True)
        _run_as_it_is(self._aside, True)
        watcher = self.watcher
        optim, clips, scaler = torch.optim, torch.nn.utils.clip_grad, torch.amp.grad_scaler.GradScaler
        self._wrap(torch.autograd, "backward", self._backward)
        for name in ("clip_grad_norm_", "clip_grad_value_"):
            wrapped = self._wrap(clips, name, self._clip)
            self._put(torch.nn.utils, name, wrapped)
        self._wrap(optim.Optimizer, "zero_grad", self._zero_grad)
        self._wrap(torch.nn.Module, "zero_grad", self._zero_grad)
        for name in ("__init__", "__setstate__"):
            self._wrap(torch.nn.Module, name, self._made)
        self._wrap(optim.Optimizer, "__init__", self._placed("optimizer"))
        self._wrap(optim.lr_scheduler.LRScheduler, "__init__", self._placed("scheduler"))
        self._wrap(scaler, "unscale_", self._unscale)
        self._wrap(scaler, "step", self._scaler_step)
        self._wrap(torch.nn.functional, "cross_entropy", self._cross_entropy)
        self._wrap(torch, "save", self._saves("obj", "f"))
        self._wrap(torch, "load", self._loads("f"))
        for owner, module in ((torch, torch.random), (torch.cuda, torch.cuda.random)):
            self._put(owner, "set_rng_state", self._wrap(module, "set_rng_state", self._set_random_state))
        self._wrap(random, "setstate", self._set_random_state)
        self._when_imported("numpy.random", lambda numpy: self._wrap(numpy, "set_state", self._set_random_state))
        self._when_imported("safetensors.torch", self._wrap_safetensors)
        self._wrap(torch, "compile", self._compile)
        self._wrap(torch.nn.Module, "eval", self._then_watch_next)
        self._wrap(torch.utils.data.DataLoader, "__iter__", self._then_watch_next)
        hooks = [register_optimizer_step_pre_hook(self._before), register_optimizer_step_post_hook(self._after)]
        self.undone.extend(hook.remove for hook in hooks)
        watcher.switch = self._switch
        self._switch(watcher.recording)

    def remove(self) -> None:
        self._switch(False)
        for undo in reversed(self.undone):
            undo()
        self.undone.clear()

    def take_imported(self) -> None:
        """Replace originals that modules imported by name before the watcher started (in a test or a notebook)."""
        pairs: list = [
            (torch.nn.utils.clip_grad_norm_, "clip_grad_norm_"),
            (torch.nn.utils.clip_grad_value_, "clip_grad_value_"),
            (torch.nn.functional.cross_entropy, "cross_entropy"),
        ]
        for module in list(sys.modules.values()):
            space = getattr(module, "__dict__", {})
            if getattr(module, "__name__", "torch").partition(".")[0] in ("torch", "_auditkit_watch"):
                continue
            for wrapped, name in pairs:
                if space.get(name) is wrapped.__wrapped__:
                    self._put(module, name, wrapped)

    def _wrap_safetensors(self, module: Any) -> None:
        self._wrap(module, "save_file", self._saves("tensors", "filename"))
        self._wrap(module, "load_file", self._loads("filename"))

    def _when_imported(self, name: str, work: Callable[[Any], Any]) -> None:
        if name in sys.modules:
            work(sys.modules[name])
            return
        finder = _AfterImport(name, lambda module: self.watcher.guarded("events", lambda: work(module)))
        sys.meta_path.insert(0, finder)
        self.undone.append(finder.remove)

    def _wrap(self, owner: Any, name: str, make: Callable) -> Any:
        original = getattr(owner, name)
        wrapped = make(original)
        functools.update_wrapper(wrapped, original)
        _run_as_it_is(wrapped)
        self._put(owner, name, wrapped)
        return wrapped

    def _put(self, owner: Any, name: str, value: Any) -> None:
        had, original = name in vars(owner), getattr(owner, name)
        setattr(owner, name, value)

        def undo() -> None:
            if vars(owner).get(name) is value:
                if had:
                    setattr(owner, name, original)
                else:
                    delattr(owner, name)

        self.undone.append(undo)

    # Only in inspected turns, and never in a program that compiles: a compiled function must not contain them.

    def _open(self) -> None:
        if self.turn_patches or self.watcher.compiles:
            return
        count = len(self.undone)
        self._wrap(torch.nn.Module, "__call__", self._call)
        for name in _READS:
            self._wrap(torch.Tensor, name, self._read)
        self.turn_patches, self.undone = self.undone[count:], self.undone[:count]

    def _switch(self, recording: bool) -> None:
        if recording:
            self._open()
            self.watcher.syncs.open()
        else:
            self._close()
            self.watcher.syncs.close()

    def _close(self) -> None:
        for undo in reversed(self.turn_patches):
            undo()
        self.turn_patches = []

    def _call(self, original: Callable) -> Callable:
        watcher = self.watcher

        def __call__(module: Any, *args: Any, **kwargs: Any) -> Any:
            if _compiles():
                return original(module, *args, **kwargs)
            watcher.guarded("modules", lambda: watcher.called(module, args, kwargs))
            watcher.depth += 1
            try:
                return original(module, *args, **kwargs)
            finally:
                watcher.depth -= 1

        return __call__

    def _read(self, original: Callable) -> Callable:
        watcher = self.watcher

        def read(tensor: Any, *args: Any, **kwargs: Any) -> Any:
            if watcher.reading or watcher.in_read or not watcher.recording or _compiles():
                return original(tensor, *args, **kwargs)
            watcher.in_read = True
            try:
                watcher.guarded("reads", lambda: watcher.read(tensor))
                self._look(sys._getframe(1))
                return original(tensor, *args, **kwargs)
            finally:
                watcher.in_read = False

        return read

    def _event(self, work: Callable[[], Any]) -> Any:
        """Run an instrument without counting its own reads."""
        watcher = self.watcher
        watcher.reading += 1
        try:
            return watcher.guarded("events", lambda: watcher._timed(work))
        finally:
            watcher.reading -= 1

    def _aside(self, work: Callable[[], Any]) -> Any:
        """Run an instrument; torch.compile skips all frames inside."""
        return work()

    def _backward(self, original: Callable) -> Callable:
        watcher = self.watcher

        def backward(tensors: Any, *args: Any, **kwargs: Any) -> Any:
            if _compiles():
                return original(tensors, *args, **kwargs)
            watcher.backwards += 1
            watcher.guarded("loss", lambda: watcher.look_at_loss(tensors))
            begun = self._event(lambda: watcher.backward_begins(tensors)) if watcher.recording else None
            if begun is not None and watcher.recorder is not None:
                watcher.guarded("recorded calls", watcher.recorder.find)
                self._look(sys._getframe(1))
            result = original(tensors, *args, **kwargs)
            if begun is not None:
                place = where()
                self._event(lambda: watcher.backward_ended(begun, place))
            return result

        return backward

    def _look(self, frame: Any, is_step: bool = False) -> None:
        """Record the candidates of an audit that are on the stack."""
        recorder = self.watcher.recorder
        if recorder is not None and not recorder.is_inside:
            self.watcher.guarded("recorded calls", lambda: recorder.look(frame, is_step))

    def _clip(self, original: Callable) -> Callable:
        watcher = self.watcher

        def clip(parameters: Any, limit: Any, *args: Any, **kwargs: Any) -> Any:
            if _compiles() or not watcher.recording:
                return original(parameters, limit, *args, **kwargs)
            if not isinstance(parameters, (torch.Tensor, list, tuple)):
                parameters = list(parameters)
            self._look(sys._getframe(1))
            begun = self._event(lambda: self._clip_begins(parameters, limit, original, args, kwargs))
            result = original(parameters, limit, *args, **kwargs)
            if begun is not None:
                self._event(lambda: watcher.happened("clip", returned=result, **begun))
            return result

        return clip

    def _clip_begins(self, parameters: Any, limit: Any, original: Callable, args: tuple, kwargs: dict) -> dict:
        tensors = [parameters] if isinstance(parameters, torch.Tensor) else list(parameters)
        tensors = [tensor for tensor in tensors if tensor.grad is not None] or tensors
        gradients = [tensor.grad for tensor in tensors if tensor.grad is not None]
        norm_type = kwargs.get("norm_type", args[0] if args else 2.0)
        with quietly():
            found = norms(gradients)
        return {
            "place": where(), "before": self.watcher.gradients(), "norms": found, "limit": float(limit),
            "norm_type": float(norm_type) if original.__name__ == "clip_grad_norm_" else "value",
            "ids": [self.watcher.program.parameter(tensor).index for tensor in tensors], "scale": self.watcher.scale,
        }  # fmt: skip

    def _zero_grad(self, original: Callable) -> Callable:
        watcher = self.watcher

        def zero_grad(owner: Any, *args: Any, **kwargs: Any) -> Any:
            if _compiles() or not watcher.recording:
                return original(owner, *args, **kwargs)
            before, place = self._event(watcher.gradients), where()
            result = original(owner, *args, **kwargs)
            if before is not None:
                self._event(lambda: watcher.happened("zero_grad", place, before))
            return result

        return zero_grad

    def _made(self, original: Callable) -> Callable:
        program = self.watcher.program

        def made(module: Any, *args: Any, **kwargs: Any) -> None:
            original(module, *args, **kwargs)
            if not _compiles():
                program.made(module)

        return made

    def _placed(self, kind: str) -> Callable:
        program, watcher = self.watcher.program, self.watcher

        def make(original: Callable) -> Callable:
            def __init__(self: Any, *args: Any, **kwargs: Any) -> None:
                original(self, *args, **kwargs)
                if not _compiles():
                    place = where()
                    watcher.guarded("objects", lambda: getattr(program, kind)(self, place))
                    program.placed.append(kind)
                    if watcher.recorder is not None:
                        watcher.guarded("recorded calls", lambda: watcher._timed(watcher.recorder.find))

            return __init__

        return make

    def _unscale(self, original: Callable) -> Callable:
        watcher = self.watcher

        def unscale_(scaler: Any, optimizer: Any) -> Any:
            if not watcher.recording or not scaler.is_enabled():
                return original(scaler, optimizer)
            before, place = self._event(watcher.gradients), where()
            result = original(scaler, optimizer)
            if before is not None:
                self._event(lambda: watcher.happened("unscale", place, before))
            return result

        return unscale_

    def _scaler_step(self, original: Callable) -> Callable:
        watcher = self.watcher

        def step(scaler: Any, optimizer: Any, *args: Any, **kwargs: Any) -> Any:
            if not scaler.is_enabled():
                return original(scaler, optimizer, *args, **kwargs)
            known = watcher.guarded("scaler", lambda: watcher.program.optimizer(optimizer))
            steps = known.steps if known is not None else 0
            watcher.scale = (
                scaler.get_scale() if watcher.recording and getattr(scaler, "_device", "") == "cpu" else watcher.scale
            )
            result = original(scaler, optimizer, *args, **kwargs)
            if known is not None:
                known.attempts += 1
                if known.steps == steps:
                    watcher.skipped_by_scaler += 1
                    self._event(watcher.watch_next)
                    if watcher.recording:
                        self._event(lambda: watcher.happened("skipped", where(), watcher.gradients()))
            return result

        return step

    def _cross_entropy(self, original: Callable) -> Callable:
        watcher = self.watcher

        def cross_entropy(input: Any, target: Any, *args: Any, **kwargs: Any) -> Any:
            loss = original(input, target, *args, **kwargs)
            if _compiles() or not watcher.recording:
                return loss
            self._event(lambda: self._weigh(loss, target, args, kwargs))
            return loss

        return cross_entropy

    def _weigh(self, loss: Any, target: Any, args: tuple, kwargs: dict) -> None:
        if (
            not isinstance(loss, torch.Tensor)
            or loss.grad_fn is None
            or loss.numel() != 1
            or target.is_floating_point()
        ):
            return
        ignored = kwargs.get("ignore_index", args[2] if len(args) > 2 else -100)
        reduction = kwargs.get("reduction", args[4] if len(args) > 4 else "mean")
        weight = kwargs.get("weight", args[0] if args else None)
        if weight is not None or reduction not in ("mean", "sum"):
            return
        with quietly():
            valid = int((target != ignored).sum())
        loss.grad_fn.register_prehook(self.watcher.weighs(where(), valid, target.numel(), reduction == "mean"))

    def _saves(self, content: str, file: str) -> Callable:
        """Return a wrapper of a function whose first parameters have these names."""
        watcher = self.watcher

        def make(original: Callable) -> Callable:
            def save(*args: Any, **kwargs: Any) -> Any:
                result = original(*args, **kwargs)
                given = {**dict(zip((content, file), args)), **kwargs}
                self._event(lambda: watcher.checkpoints.saved(given[content], given[file], watcher.count))
                self._event(watcher.watch_next)
                return result

            return save

        return make

    def _loads(self, file: str) -> Callable:
        watcher = self.watcher

        def make(original: Callable) -> Callable:
            def load(*args: Any, **kwargs: Any) -> Any:
                result = original(*args, **kwargs)
                path = args[0] if args else kwargs[file]
                self._event(lambda: watcher.checkpoints.loaded(result, path))
                self._event(watcher.watch_next)
                return result

            return load

        return make

    def _set_random_state(self, original: Callable) -> Callable:
        watcher = self.watcher

        def set_state(*args: Any, **kwargs: Any) -> Any:
            result = original(*args, **kwargs)
            if watcher.checkpoints.waiting and not _compiles():
                self._event(lambda: watcher.checkpoints.random_state_set([*args, *kwargs.values()][0]))
            return result

        return set_state

    def _then_watch_next(self, original: Callable) -> Callable:
        """Inspect the step after an evaluation or the start of an epoch."""
        watcher = self.watcher

        def call(owner: Any, *args: Any, **kwargs: Any) -> Any:
            if watcher.count and not _compiles():
                self._event(watcher.watch_next)
            result = original(owner, *args, **kwargs)
            if watcher.recorder is not None and not _compiles():
                watcher.guarded("recorded calls", lambda: watcher.recorder.iterates(owner, result))
            return result

        return call

    def _compile(self, original: Callable) -> Callable:
        watcher = self.watcher

        def compile_(*args: Any, **kwargs: Any) -> Any:
            target = args[0] if args else kwargs.get("model")
            owner = getattr(target, "__self__", None)
            if isinstance(owner, torch.optim.Optimizer):
                what = "optimizer"
                known = watcher.program.optimizer(owner)
                known.compiled = True
            elif watcher.guarded("events", lambda: _trains(target), False):
                what = "training step"
            else:
                what = "module" if isinstance(target, torch.nn.Module) else "function"
            watcher.compiles.append([what, *where()])
            if watcher.recorder is not None:
                watcher.guarded("recorded calls", watcher.recorder.remove)
            if what == "training step":
                self.remove()  # A wrapper called by compiled code is a graph break.
            self._close()
            return original(*args, **kwargs)

        return compile_

    # A compiled step traces these functions, and sees only a constant.

    def _before(self, optimizer: Any, args: tuple, kwargs: dict) -> Any:
        if _compiles():
            return None
        watcher = self.watcher
        if watcher.recording:
            self._look(sys._getframe(1), is_step=True)
        watcher.reading += 1
        try:
            return self._aside(lambda: watcher.guarded("step", lambda: watcher.step_begins(optimizer, args, kwargs)))
        finally:
            watcher.reading -= 1

    def _after(self, optimizer: Any, args: tuple, kwargs: dict) -> None:
        if _compiles():
            return
        watcher = self.watcher
        watcher.reading += 1
        try:
            self._aside(lambda: watcher.guarded("step", lambda: watcher.step_ended(optimizer)))
        finally:
            watcher.reading -= 1


class _AfterImport:
    """A finder that lets the ordinary loader import a module and then calls `work` with it."""

    def __init__(self, name: str, work: Callable[[Any], Any]) -> None:
        self.name, self.work = name, work

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> Any:
        if name != self.name:
            return None
        self.remove()
        spec = importlib.util.find_spec(name)
        if spec is not None and spec.loader is not None:
            loader: Any = spec.loader
            run = loader.exec_module

            def exec_module(module: Any) -> None:
                del loader.exec_module
                run(module)
                self.work(module)

            loader.exec_module = exec_module
        return spec

    def remove(self) -> None:
        if self in sys.meta_path:
            sys.meta_path.remove(self)


def _trains(target: Any) -> bool:
    """Return whether a compiled function itself calls `backward` or a `step`."""
    code = getattr(target, "__code__", None)
    return code is not None and any(
        each.argval in ("backward", "step") and (each.opname == "LOAD_METHOD" or "NULL|self" in each.argrepr)
        for each in dis.get_instructions(code)
    )


def _run_as_it_is(function: Any, with_all_below: bool = False) -> None:
    """Keep Dynamo from compiling a frame of the watcher, which a compiled step calls between two graphs.

    If a compiled function inlines the frame, Dynamo compiles it; there `is_compiling()` is a constant.
    """
    frames = torch._C._dynamo.eval_frame
    below = frames._FrameAction.SKIP if with_all_below else frames._FrameAction.DEFAULT
    frames.set_code_exec_strategy(function.__code__, frames._FrameExecStrategy(frames._FrameAction.SKIP, below))
