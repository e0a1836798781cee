"""Wrappers of torch's functions: each records an event in an inspected step, and otherwise only calls the original."""

from __future__ import annotations

import dis
import functools
import inspect
import random
import sys
from contextlib import suppress
from importlib import import_module
from typing import Any, Callable

import torch
from torch.optim.optimizer import register_optimizer_step_post_hook, register_optimizer_step_pre_hook

from .places import where
from .readings import norms, quietly
from .recorder import put
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
        _run_as_it_is(self._event)
        _run_as_it_is(self.watcher.instrument, True)
        watcher, program = self.watcher, self.watcher.program
        optim, clips, scaler = torch.optim, torch.nn.utils.clip_grad, torch.amp.grad_scaler.GradScaler
        self._wrap(torch.autograd, "backward", self._backward)
        for name in ("clip_grad_norm_", "clip_grad_value_"):
            self._put(torch.nn.utils, name, self._wrap(clips, name, self._clip))
        for owner in (optim.Optimizer, torch.nn.Module):
            self._wrap(owner, "zero_grad", self._zero_grad)
        self._wrap(scaler, "unscale_", self._unscale)
        self._wrap(scaler, "step", self._scaler_step)
        self._wrap(optim.Optimizer, "__init__", self._then(self._made(program.optimizer)))
        self._wrap(optim.lr_scheduler.LRScheduler, "__init__", self._then(self._made(program.scheduler)))
        self._wrap(torch.nn.functional, "cross_entropy", self._then(self._weigh, in_turns=True))
        save, load, set_state = (self._then(each) for each in (self._saved, self._loaded, self._random_state_set))
        self._wrap(torch, "save", save)
        self._wrap(torch, "load", load)
        for package, module in ((torch, torch.random), (torch.cuda, torch.cuda.random)):
            self._put(package, "set_rng_state", self._wrap(module, "set_rng_state", set_state))
        self._wrap(random, "setstate", set_state)
        with suppress(ImportError):
            self._wrap(import_module("numpy.random"), "set_state", set_state)
        with suppress(ImportError):
            safetensors = import_module("safetensors.torch")
            self._wrap(safetensors, "save_file", save)
            self._wrap(safetensors, "load_file", load)
        self._wrap(torch, "compile", self._compile)
        # Inspect the step after an evaluation, and the first one of an epoch.
        self._wrap(torch.nn.Module, "eval", self._then(lambda *_: watcher.watch_next()))
        loader: Any = torch.utils.data.dataloader
        self._wrap(loader.DataLoader, "__iter__", self._then(lambda *_: watcher.watch_next()))
        self._wrap(loader._BaseDataLoaderIter, "__next__", self._then(self._batch, in_turns=True))
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
        functions = ((torch.nn.utils, "clip_grad_norm_"), (torch.nn.utils, "clip_grad_value_"))
        for module in list(sys.modules.values()):
            if getattr(module, "__name__", "torch").partition(".")[0] not in ("torch", "_auditkit_watch"):
                for owner, name in (*functions, (torch.nn.functional, "cross_entropy")):
                    wrapped = getattr(owner, name)
                    if getattr(module, "__dict__", {}).get(name) is wrapped.__wrapped__:
                        self._put(module, name, wrapped)

    def _wrap(self, owner: Any, name: str, around: Callable) -> Any:
        """Replace a function by one that calls `around` with the original and its arguments, unless torch compiles."""
        original = getattr(owner, name)

        @functools.wraps(original)
        def call(*args: Any, **kwargs: Any) -> Any:
            if _compiles():
                return original(*args, **kwargs)
            return around(original, *args, **kwargs)

        _run_as_it_is(call)
        _run_as_it_is(around)
        self._put(owner, name, call)
        return call

    def _put(self, owner: Any, name: str, value: Any) -> None:
        self.undone.append(put(owner, name, value))

    # Only in inspected turns, and never in a program that compiles: a compiled function must not contain them.

    def _switch(self, recording: bool) -> None:
        if not recording:
            self._close()
            self.watcher.syncs.close()
            return
        self.watcher.syncs.open()
        if not self.turn_patches and not self.watcher.compiles:
            count = len(self.undone)
            self._wrap(torch.nn.Module, "__call__", self._call)
            for name in _READS:
                self._wrap(torch.Tensor, name, self._read)
            self.turn_patches, self.undone = self.undone[count:], self.undone[:count]

    def _close(self) -> None:
        for undo in reversed(self.turn_patches):
            undo()
        self.turn_patches = []

    def _call(self, original: Callable, module: Any, /, *args: Any, **kwargs: Any) -> Any:
        watcher = self.watcher
        watcher.guarded("modules", lambda: watcher.called(module, args, kwargs))
        watcher.depth += 1
        try:
            return original(module, *args, **kwargs)
        finally:
            watcher.depth -= 1

    def _read(self, original: Callable, tensor: Any, /, *args: Any, **kwargs: Any) -> Any:
        watcher = self.watcher
        if watcher.reading or watcher.in_read or not watcher.recording:
            return original(tensor, *args, **kwargs)
        watcher.in_read = True
        try:
            watcher.guarded("reads", lambda: watcher.read(tensor))
            self._look()
            return original(tensor, *args, **kwargs)
        finally:
            watcher.in_read = False

    # Events.

    def _event(
        self, kind: str, original: Callable, args: tuple, kwargs: dict, details: Callable[[], dict] = dict
    ) -> Any:
        """Call a function; in an inspected step, record the gradients before and after it."""
        watcher = self.watcher
        if not watcher.recording:
            return original(*args, **kwargs)
        place = where()
        begun = watcher.instrument("events", lambda: {**details(), "before": watcher.gradients()})
        result = original(*args, **kwargs)
        if begun is not None:
            watcher.instrument("events", lambda: watcher.happened(kind, place, returned=result, **begun))
        return result

    def _zero_grad(self, original: Callable, /, *args: Any, **kwargs: Any) -> Any:
        return self._event("zero_grad", original, args, kwargs)

    def _unscale(self, original: Callable, /, *args: Any, **kwargs: Any) -> Any:
        return self._event("unscale", original, args, kwargs)

    def _backward(self, original: Callable, /, tensors: Any, *args: Any, **kwargs: Any) -> Any:
        watcher = self.watcher

        def details() -> dict:
            watcher.guarded("recorded calls", watcher.recorder.find)
            self._look()
            watcher.backward_begins()
            return {}

        watcher.backwards += 1
        watcher.guarded("loss", lambda: watcher.look_at_loss(tensors))
        return self._event("backward", original, (tensors, *args), kwargs, details)

    def _clip(self, original: Callable, /, *args: Any, **kwargs: Any) -> Any:
        if not self.watcher.recording:
            return original(*args, **kwargs)
        given = dict(inspect.signature(original).bind(*args, **kwargs).arguments)
        if not isinstance(given["parameters"], (torch.Tensor, list, tuple)):
            given["parameters"] = list(given["parameters"])

        def details() -> dict:
            self._look()
            parameters = given["parameters"]
            tensors = [parameters] if isinstance(parameters, torch.Tensor) else list(parameters)
            tensors = [tensor for tensor in tensors if tensor.grad is not None] or tensors
            with quietly():
                found = norms([tensor.grad for tensor in tensors if tensor.grad is not None])
            ids = [self.watcher.program.parameter(tensor).index for tensor in tensors]
            kind = float(given.get("norm_type", 2.0)) if "max_norm" in given else "value"
            limit = float(given["max_norm"] if "max_norm" in given else given["clip_value"])
            return {"norms": found, "limit": limit, "norm_type": kind, "ids": ids}

        return self._event("clip", original, (), given, details)

    def _scaler_step(self, original: Callable, scaler: Any, /, optimizer: Any, *args: Any, **kwargs: Any) -> Any:
        watcher = self.watcher
        known = watcher.guarded("scaler", lambda: watcher.program.optimizer(optimizer)) if scaler.is_enabled() else None
        steps = known.steps if known is not None else 0
        result = original(scaler, optimizer, *args, **kwargs)
        if known is not None:
            known.attempts += 1
            if known.steps == steps:
                watcher.instrument("events", lambda: self._skipped(where()))
        return result

    def _skipped(self, place: tuple) -> None:
        self.watcher.watch_next()
        if self.watcher.recording:
            self.watcher.happened("skipped", place, self.watcher.gradients())

    def _look(self, is_step: bool = False) -> None:
        """Record the candidates of an audit that are on the stack."""
        self.watcher.instrument("recorded calls", lambda: self.watcher.recorder.look(is_step))

    # What follows a call.

    def _then(self, work: Callable[[Any, tuple, dict], Any], in_turns: bool = False) -> Callable:
        """Return a wrapper that calls an instrument after a call, always or only in inspected turns."""
        watcher = self.watcher

        def around(original: Callable, /, *args: Any, **kwargs: Any) -> Any:
            result = original(*args, **kwargs)
            if watcher.recording or not in_turns:
                watcher.instrument("events", lambda: work(result, args, kwargs))
            return result

        return around

    def _made(self, keep: Callable[[Any, tuple], Any]) -> Callable:
        watcher = self.watcher

        def work(_: Any, args: tuple, __: dict) -> None:
            keep(args[0], where())
            watcher.program.made += 1
            watcher.guarded("recorded calls", watcher.recorder.find)

        return work

    def _weigh(self, loss: Any, args: tuple, kwargs: dict) -> None:
        """Watch the loss of a `cross_entropy` without weights; a sum is its mean times the valid targets."""
        given = {**dict(zip(("input", "target", "weight", "", "ignore_index", "", "reduction"), args)), **kwargs}
        target, reduction = given["target"], given.get("reduction", "mean")
        if given.get("weight") is not None or target.is_floating_point() or loss.grad_fn is None:
            return
        if reduction in ("mean", "sum"):
            with quietly():
                valid = int((target != given.get("ignore_index", -100)).sum())
            self.watcher.weighs(loss, valid, target.numel(), 1 if reduction == "mean" else valid)

    def _saved(self, _: Any, args: tuple, kwargs: dict) -> None:
        content, file = [*args, *kwargs.values()][:2]
        self.watcher.checkpoints.saved(content, file, self.watcher.count)
        self.watcher.watch_next()

    def _loaded(self, content: Any, args: tuple, kwargs: dict) -> None:
        self.watcher.checkpoints.loaded(content, [*args, *kwargs.values()][0])
        self.watcher.watch_next()

    def _random_state_set(self, _: Any, args: tuple, kwargs: dict) -> None:
        self.watcher.checkpoints.random_state_set([*args, *kwargs.values()][0])

    def _batch(self, batch: Any, args: tuple, _: dict) -> None:
        self.watcher.guarded("recorded calls", lambda: self.watcher.recorder.batch(args[0], batch))

    def _compile(self, original: Callable, /, *args: Any, **kwargs: Any) -> Any:
        watcher = self.watcher
        target = args[0] if args else kwargs.get("model")
        owner = getattr(target, "__self__", None)
        if isinstance(owner, torch.optim.Optimizer):
            what = "optimizer"
        elif watcher.guarded("events", lambda: _trains(target), False):
            what = "training step"
        else:
            what = "module" if isinstance(target, torch.nn.Module) else "function"
        watcher.compiles.append([what, *where()])
        watcher.guarded("recorded calls", watcher.recorder.remove)
        if what == "training step":
            self.remove()  # A wrapper called by compiled code is a graph break.
        self._close()
        return original(*args, **kwargs)

    # A compiled step traces these functions, and sees only a constant.

    def _before(self, optimizer: Any, args: tuple, kwargs: dict) -> Any:
        if _compiles():
            return None
        watcher = self.watcher
        if watcher.recording:
            self._look(is_step=True)
        return watcher.instrument("step", lambda: watcher.step_begins(optimizer, args, kwargs))

    def _after(self, optimizer: Any, args: tuple, kwargs: dict) -> None:
        if not _compiles():
            self.watcher.instrument("step", lambda: self.watcher.step_ended(optimizer))


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
