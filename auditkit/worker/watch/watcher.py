"""The watcher: counts every optimizer step, inspects some of them, and records facts for the host.

An inspected step is a turn: everything from the end of the previous step to its own end. In a turn, the wrappers of
`patches` report events (backward, clip, zero_grad, ...); at the step, one pass reads gradients and parameters.
"""

from __future__ import annotations

import math
import time
from hashlib import blake2b
from typing import Any, Callable, Optional

import torch
from torch.utils._pytree import tree_leaves

from .checkpoints import Checkpoints
from .places import called_from, frames_of_stack, where
from .program import FEW, Program, growing, live_bytes
from .readings import combined, equal, flat, on_host, plain_number, quietly, read_all, sampled
from .recorder import Recorder
from .syncs import Syncs

FIRST = 5
_MOST_EVENTS = 200
_MOST_TURNS = 400
_SAMPLE = 8
_WARM_UP = 20
_LOADING = ("torch/utils/data", "_tensor_str", "grad_scaler")
_HALF = ("float16", "bfloat16")
_FEW_RANKS = 8


class Watcher:
    """The record of one process. Every public method is called from a wrapper that catches its errors."""

    def __init__(self, config: dict, candidates: str = "") -> None:
        self.every = max(1, int(config.get("every") or 50))
        self.budget = config.get("budget")
        self.limit = config.get("steps")
        self.memory_share = config.get("memory_share") or 0.005
        self.program = Program()
        self.checkpoints = Checkpoints(self.program)
        self.errors: dict = {}
        self.compiles: list = []
        self.stop: Callable[[], None] = lambda: None
        self.stepped: Callable[[], None] = lambda: None
        self.switch: Callable[[bool], None] = lambda _: None
        self.recorder = Recorder(candidates, self)
        self.syncs = Syncs(lambda: self.reading > 0)
        self.reset()

    def reset(self) -> None:
        """Forget every step: this process is new or a fork."""
        self.turns: list = []
        self.recording = True
        self.inside: list = []
        self.count = 0
        self.turn = 0
        self.backwards = 0
        self.cost_s = self.cost_before_s = 0.0
        self.timing = False
        self.inspection_s = 0.0
        self.began_at = time.perf_counter()
        self.first_step_at = 0.0
        self.depth = 0
        self.reading = 0
        self.in_read = self.in_closure = False
        self.trained: set = set()
        self.evaluated: list = []
        self.last_event: Optional[int] = None
        self.usual_loss: Optional[float] = None
        self.final: dict = {}
        self.next_memory = self.began_at + 0.1 / self.memory_share
        self.growing: dict = {}
        self.pending: Optional[tuple] = None
        self.stopped = False
        self.scanned_for = -1
        self._new_turn()

    def _new_turn(self) -> None:
        """Forget what belongs to one turn."""
        self.ran: dict = {}  # by the id of a module that ran: whether autograd was enabled
        self.inputs: list = []
        self.reads: dict = {}
        self.losses: list = []
        self.saw_eval = False
        self.syncs.counts.clear()

    def happened(self, kind: str, place: tuple, before: dict, **more: Any) -> None:
        """Keep an event of the current turns, with the optimizers' gradients before and after it."""
        event = {"kind": kind, "at": place, "before": before, "after": self.gradients(), **more}
        for known in self.program.optimizers:
            if len(known.events) < _MOST_EVENTS:
                known.events.append(event)
            if kind == "clip" and _same(before.get(known.index), known.consumed):
                known.clipped = event["after"].get(known.index)

    def gradients(self) -> dict:
        """Sample the gradients and values of a few parameters of each optimizer, without reading the device."""
        with quietly():
            return {known.index: _few(known) for known in self.program.optimizers[:8] if known.few}

    def backward_begins(self) -> None:
        """Find the program's objects before its first backward."""
        self.syncs.open()  # The first steps began before CUDA was initialized.
        if self.scanned_for != self.program.made:
            self.scanned_for = self.program.made
            self.program.scan()
        for known in self.program.optimizers:
            self.program.refresh(known)
        self.modes()

    def look_at_loss(self, loss: Any) -> None:
        """Inspect this step if its loss jumps or is not finite; only on the CPU, where reading it does not sync."""
        if type(loss) is not torch.Tensor or not loss.is_cpu or loss.numel() != 1:
            return
        value = abs(torch._C.TensorBase.item(loss))  # without auditkit's wrapper
        usual = self.usual_loss
        if usual is not None and not value <= 3 * usual + 1e-6:
            self.watch_next()
        if math.isfinite(value):
            self.usual_loss = value if usual is None else 0.9 * usual + 0.1 * value

    def modes(self) -> None:
        """Record modules with dropout or batch norm that were trained before and are in eval mode in this backward."""
        there = [module for ref in self.program.droppers if (module := ref()) is not None]
        self.trained |= {id(module) for module in there if module.training}
        evaluating = {id(module) for module in there if not module.training} & self.trained & self.ran.keys()
        if evaluating:
            self.evaluated.append([self.count, len(evaluating), list(where())])

    def called(self, module: Any, args: tuple, kwargs: dict) -> None:
        """Record that a module runs in an inspected turn."""
        self.ran[id(module)] = torch.is_grad_enabled() or self.ran.get(id(module), False)
        if self.depth:
            return
        if not module.training:
            self.saw_eval = True
        if torch.is_grad_enabled() and module.training and len(self.inputs) < 8:
            with quietly():
                found = [each for each in tree_leaves((args, kwargs)) if isinstance(each, torch.Tensor)][:16]
                found = [each for each in found if each.numel() and each.device.type != "meta"]
                self.inputs += [torch.hash_tensor(flat(each)) for each in found]

    def read(self, tensor: Any) -> None:
        """Record that Python reads a tensor's value in an inspected turn.

        On the CPU, tensors that would be on a device are those with a graph and floating-point values read between
        forward and step, except in data loading and elements of a larger tensor, which Python may have made of a list.
        """
        if torch.cuda.is_initialized():
            is_computed = tensor.is_cuda
        else:
            is_element = tensor._base is not None and tensor._base.numel() > 1
            is_computed = tensor.requires_grad or (self.ran and tensor.is_floating_point() and not is_element)
        if not is_computed or called_from(*_LOADING):
            return
        if not self.in_closure and (self.inside or called_from("torch/optim/")):
            return
        place = where()
        if place[0]:
            self.reads[place] = self.reads.get(place, 0) + 1

    def weighs(self, loss: Any, valid: int, total: int, factor: int) -> None:
        """Record the gradient that reaches the mean of a `cross_entropy`, beside its number of valid targets."""
        place = where()

        def reached(gradients: tuple) -> None:
            if gradients[0] is not None:
                self.losses.append((*place, valid, total, gradients[0].detach() * factor))

        loss.grad_fn.register_prehook(reached)

    def step_begins(self, optimizer: Any, args: tuple, kwargs: dict) -> Optional[tuple]:
        """Inspect an optimizer before its step; return the step's arguments if its closure was wrapped."""
        known = self._known(optimizer)
        if known is None:
            return None
        closure = args[1] if len(args) > 1 else kwargs.get("closure")
        self.pending = None
        if not callable(closure):
            self._timed(lambda: self._before_update(known))
            return None
        known.has_closure = True

        def watched() -> Any:
            self.in_closure = True
            try:
                value = closure()
            finally:
                self.in_closure = False
            self.guarded("step", lambda: self._timed(lambda: self._before_update(known)))
            return value

        if len(args) > 1:
            return (args[0], watched, *args[2:]), kwargs
        return args, {**kwargs, "closure": watched}

    def _known(self, optimizer: Any) -> Any:
        known = self.program.optimizer(optimizer)
        if self.inside and _running(self.inside[-1].ref()) < 1 + (self.inside[-1] is known):
            self.inside.clear()  # An earlier step raised.
        self.inside.append(known)
        if len(self.inside) > 1:
            return None
        if not self.recording and (known.steps < FIRST and len(self.program.optimizers) <= FEW):
            self.record(True)
        return known if self.recording else None

    def _before_update(self, known: Any) -> None:
        self.program.refresh(known)
        # In a backward, a module of FSDP has other tensors than its optimizer.
        unnamed = not known.steps and not all(each.name for each in known.parameters)
        if not known.few or self.scanned_for < 0 or unnamed:
            self.scanned_for = self.program.made
            self.program.scan()
        for scheduler in self.program.schedulers:
            scheduler.look(known)
        self.checkpoints.compare(known)
        self.modes()
        step = known.steps
        tensors = [each.ref() for each in known.parameters]
        gradients = [tensor.grad if tensor is not None else None for tensor in tensors]
        with quietly():
            read = read_all(gradients)
            before = on_host([sampled(each) if each is not None and each.numel() else None for each in tensors])
            if self.pending is not None:  # In a later call of the closure, the step has already changed values.
                before = self.pending[5]
            marks = [
                sampled(gradient) if gradient is not None and known.parameters[n].dtype in _HALF else None
                for n, gradient in enumerate(gradients)
            ]
        self.pending = (known, step, tensors, gradients, read, before, marks, self.gradients())

    def step_ended(self, optimizer: Any) -> None:
        """Count a step after it ran, and finish its turn if it is inspected."""
        if not self.inside or self.inside[-1].ref() is not optimizer:
            return
        known = self.inside.pop()
        if self.inside:
            return
        if not known.steps:
            known.first_line, known.first_turn = where(), self.turn
            self.first_step_at = self.first_step_at or time.perf_counter()
        pending, self.pending = self.pending, None
        if pending is not None and pending[0] is known:
            self._timed(lambda: self._after_update(pending))
            taken, self.cost_before_s = self.cost_s - self.cost_before_s, self.cost_s
            if pending[1]:  # The first inspection also finds the program's objects.
                self.inspection_s = taken if not self.inspection_s else 0.8 * self.inspection_s + 0.2 * taken
        known.steps += 1
        known.last_turn = self.turn
        self.count = max(self.count, known.steps)
        self.turn += 1
        if self.limit and known.steps >= self.limit and not self.stopped:
            self.stopped = True
            self.stop()
        self.stepped()
        if not self.recording and known.steps % self.every:
            return
        self.record(self._is_due())

    def _is_due(self) -> bool:
        active = [known for known in self.program.optimizers if known.steps and self.turn - known.last_turn <= 2 * FEW]
        if self.stopped:
            return False
        if len(active) > FEW:
            active = [max(active, key=lambda known: known.steps)]
        if any(known.steps < FIRST for known in active):
            return True
        if self.budget and self.inspection_s:
            plain_s = (time.perf_counter() - self.first_step_at - self.cost_s) / self.turn
            self.every = max(1, math.ceil(self.inspection_s / (self.budget * max(plain_s, 1e-6))))
        return any(known.steps % self.every == 0 for known in active)

    def record(self, recording: bool) -> None:
        """Record everything from now on, or nothing until the next inspected step."""
        if recording is not self.recording:
            self.recording = recording
            self.switch(recording)
        if not recording:
            for known in self.program.optimizers:
                known.forget()

    def watch_next(self) -> None:
        """Inspect the next step because of an event; at most one event in `every` steps counts."""
        is_early = self.last_event is not None and self.count - self.last_event < self.every
        if self.count and not self.stopped and not is_early:
            self.last_event = self.count
            self.record(True)

    def ended(self) -> None:
        """Read the parameters once more when the process ends, if its last step was not inspected."""
        for known in self.program.optimizers:
            if not known.steps or not known.inspected or known.last_turn == known.last_inspected:
                continue
            with quietly():
                found = read_all([each.ref() for each in known.parameters])
            for each, now in zip(known.parameters, found):
                if now is not None:
                    each.read(now, known.steps - 1)
            self.final[known.index] = [known.steps - 1, self._replicas(known, [None] * len(known.parameters))]

    def _after_update(self, pending: tuple) -> None:
        known, step, tensors, gradients, read, before, marks, at_step = pending
        rates = known.rates()
        known.always_zero_rate = known.always_zero_rate and all(rate == 0 for rate, _ in rates)
        # With a closure, a line search may choose the step size.
        rate_of = {} if known.has_closure else {id(each): rate for rate, group in rates for each in group}
        with quietly():
            after = read_all(tensors)
        turn: dict = {
            "turn": self.turn, "step": step, "optimizer": known.index, "at": list(where()),
            "whole": known.whole, "eval": self.saw_eval,
        }  # fmt: skip
        for n, each in enumerate(known.parameters):
            tensor, now = tensors[n], after[n]
            if tensor is None:
                continue
            each.seen += 1
            each.requires_grad = tensor.requires_grad
            owner = each.owner() if each.owner is not None else None
            if owner is not None and id(owner) in self.ran:
                each.ran += 1
                each.ran_without_grad += not self.ran[id(owner)]
            if now is None:
                continue
            is_known = each.after is not None and each.kept == known.last_turn
            moved = not equal(before[n], now.sample) or (is_known and each.after != now.kept())
            each.read(now, step)
            each.kept = self.turn
            each.moved = each.moved or moved
            each.changed += moved
            if moved and not tensor.requires_grad and each.frozen_moved is None:
                each.frozen_moved = step
            gradient = read[n]
            if gradient is None:
                continue
            each.with_gradient += 1
            is_finite, rate = gradient.is_finite, rate_of.get(id(tensor), 0.0)
            if is_known and is_finite and gradient.norm and not moved:
                each.stayed += _should_move(each, rate, gradient, now)
            if marks[n] is not None and is_finite and rate:
                asked = marks[n] != 0
                still = (before[n].view(torch.int32) == now.sample.view(torch.int32)) & asked.to(now.sample.device)
                if bool(asked.any()):
                    found_now = (step, round(float(still.sum()) / float(asked.sum()), 3))
                    each.vanished = (*each.vanished[-49:], found_now)
        self._unowned()
        turn["norm"] = combined([each.norm for each in read if each is not None and each.norm == each.norm])
        used = at_step.get(known.index)
        self._clips(turn, known, gradients, read)
        turn["events"] = [_summary(event, known) for event in known.events]
        turn["at_step"] = _state(used)
        turn["edited"] = bool(known.events) and not _same(known.events[-1]["after"].get(known.index), used)
        turn["reads"] = [[*place, count] for place, count in sorted(self.reads.items())]
        turn["syncs"] = [[*place, count] for place, count in sorted(self.syncs.counts.items())]
        turn["syncs_measured"] = self.syncs.shown is not None
        turn["inputs"] = " ".join("%x" % each.item() for each in self.inputs[:16])
        turn["weights"] = [[*entry[:-1], float(entry[-1])] for entry in self.losses[:64] if entry[-1].numel() == 1]
        turn["replicas"] = self._replicas(known, read)
        turn["memory"] = self._memory()
        self.turns.append(turn)
        del self.turns[2 * FIRST : -_MOST_TURNS]
        known.inspected += 1
        known.last_inspected = self.turn
        self.happened("step", tuple(turn["at"]), at_step)
        for each in self.program.optimizers:
            if each is known or not each.whole or self.turn - each.last_turn > 2 * FEW:
                each.events = []
        known.whole, known.consumed, known.clipped = True, used, None
        self._new_turn()

    def _unowned(self) -> None:
        """Record which trainable parameters without optimizer have gradients, and whether their values change."""
        known = [each for each in self.program.parameters if not each.optimizers and each.requires_grad and each.owner]
        there = {each: each.ref() for each in known[:2000] if getattr(each.ref(), "grad", None) is not None}
        with quietly():
            found = read_all([*there.values()])
        for each, now in zip(there, found):
            owner = each.owner()
            # A model that is not in use keeps its last gradients.
            if now is not None and not (self.ran and id(owner) not in self.ran):
                each.seen += 1
                each.with_gradient += 1
                each.owner_eval += owner is not None and not owner.training
                each.read(now, self.count)

    def _clips(self, turn: dict, known: Any, gradients: list, read: list) -> None:
        """Record what each clip of the turn covered and returned, and the norms before it and at the step."""
        ids = {each.index: n for n, each in enumerate(known.parameters) if gradients[n] is not None}
        turn["clips"], covered = [], set()
        for position, event in enumerate(known.events):
            mine = [ids[key] for key in event.get("ids", ()) if key in ids]
            if event["kind"] != "clip" or (event["ids"] and not mine):
                continue
            covered.update(mine)
            parts: dict = {}
            for key, norm in zip(event["ids"], event["norms"]):
                parts.setdefault(self.program.parameters[key].shards, []).append(norm)
            turn["clips"].append({
                "at": list(event["at"]), "limit": event["limit"], "kind": event["norm_type"], "position": position,
                "tensors": len(event["ids"]), "returned": plain_number(event["returned"]),
                "before": combined(event["norms"]), "mine": len(mine),
                "at_step": combined([read[n].norm for n in mine if read[n] is not None]),
                "shards": {key: combined(found) for key, found in parts.items()} if any(parts) else {},
            })  # fmt: skip
        uncovered = [known.parameters[n].index for n in ids.values() if turn["clips"] and n not in covered]
        turn["clips"], turn["uncovered"], turn["uncovered_count"] = turn["clips"][:20], uncovered[:20], len(uncovered)

    def _replicas(self, known: Any, read: list) -> dict:
        """Return for each group of ranks digests of the gradients and values, in total and of each parameter.

        With many ranks, only the first and the last inspected step keep the digests of each parameter.
        """
        if not (torch.distributed.is_available() and torch.distributed.is_initialized()):
            return {}
        rows: dict = {}
        for each, gradient in zip(known.parameters, read):
            if each.replicas and each.after is not None:
                digest = gradient.digest() if gradient is not None else ""
                rows.setdefault(each.replicas, []).append([each.index, digest, each.after[0]])
        found = {key: [_joined_digest(mine, 1), _joined_digest(mine, 2), mine] for key, mine in rows.items()}
        if torch.distributed.get_world_size() > _FEW_RANKS:
            for turn in self.turns[1:]:
                turn["replicas"] = {key: [*digests[:2], []] for key, digests in turn["replicas"].items()}
        return found

    def _memory(self) -> Optional[list]:
        """Return allocated bytes of the device, or bytes and graph nodes of living tensors, from step 20 on."""
        if self.count < _WARM_UP or time.perf_counter() < self.next_memory:
            return None
        began = time.perf_counter()
        on_cuda = torch.cuda.is_initialized()
        found = [torch.cuda.memory_allocated(), 0] if on_cuda else list(live_bytes())
        self.growing = growing(self.growing)
        # This iterates over all of Python's objects: at most 0.5 % of the run.
        self.next_memory = time.perf_counter() + (time.perf_counter() - began) / self.memory_share
        return found

    def to_json(self) -> dict:
        """Return everything that the host needs, as plain values."""
        for known in self.program.optimizers:
            self.program.refresh(known)
        run_s = time.perf_counter() - self.began_at
        holders = [place for place, (_, grew) in self.growing.items() if grew]
        return {
            "steps": self.count, "turns_seen": self.turn, "backwards": self.backwards, "cost_s": self.cost_s,
            "run_s": run_s, "turns": self.turns, "errors": self.errors,
            "optimizers": [known.to_json() for known in self.program.optimizers],
            "parameters": [each.to_json() for each in self.program.parameters],
            "schedulers": [each.to_json() for each in self.program.schedulers],
            "groups": self.program.groups, "unfrozen": self.program.unfrozen,
            "evaluated": self.evaluated[:20], "compiles": self.compiles[:20], "holders": holders[-1:],
            "checkpoints": self.checkpoints.to_json(), "final": self.final, "recorded": self.recorder.to_json(),
        }  # fmt: skip

    def instrument(self, name: str, work: Callable[[], Any]) -> Any:
        """Run an instrument without counting its own reads; torch.compile skips all frames inside."""
        self.reading += 1
        try:
            # Most steps are not inspected, and have no time to measure.
            return self.guarded(name, work if name == "step" else lambda: self._timed(work))
        finally:
            self.reading -= 1

    def _timed(self, work: Callable[[], Any]) -> Any:
        """Count the time of an instrument; nested instruments count once."""
        if self.timing:
            return work()
        self.timing, began = True, time.perf_counter()
        try:
            return work()
        finally:
            self.timing = False
            self.cost_s += time.perf_counter() - began

    def guarded(self, instrument: str, work: Callable[[], Any], default: Any = None) -> Any:
        """Run an instrument; its error is recorded and never reaches the program.

        Nothing runs during the capture of a CUDA graph, which a read would end.
        """
        if torch.cuda.is_initialized() and torch.cuda.is_current_stream_capturing():
            return default
        if self.errors.get(instrument, {}).get("count", 0) >= 3:
            return default
        try:
            return work()
        except Exception as error:
            kept = self.errors.setdefault(instrument, {"count": 0, "reason": ""})
            kept["count"] += 1
            kept["reason"] = "%s: %s" % (type(error).__name__, str(error)[:300])
            return default


def _few(known: Any) -> tuple:
    """Return gradients (None if absent) and values: a few elements of a few parameters."""
    tensors = [each.ref() for each in known.few]
    return tuple(
        [sampled(each, _SAMPLE) if each is not None and flat(each).numel() else None for each in found]
        for found in ([tensor.grad if tensor is not None else None for tensor in tensors], tensors)
    )


def _state(found: Optional[tuple]) -> list:
    """Return how many of the sampled gradients exist and are not zero, and how many were sampled."""
    if found is None:
        return [0, 0]
    pieces = found[0]
    return [sum(piece is not None and bool((piece != 0).any()) for piece in pieces), len(pieces)]


def _same(one: Optional[tuple], other: Optional[tuple]) -> bool:
    if one is None or other is None or len(one[0]) != len(other[0]):
        return False
    return all((a is None) == (b is None) and (a is None or b is None or equal(a, b)) for a, b in zip(one[0], other[0]))


def _summary(event: dict, known: Any) -> dict:
    """Return what an event did to the gradients of one optimizer."""
    before, after = (event[when].get(known.index) for when in ("before", "after"))
    found = {"kind": event["kind"], "at": list(event["at"]), "before": _state(before), "after": _state(after)}
    found["changed"] = before is not None and not _same(before, after)
    found["stale"] = _same(before, known.consumed) or _same(before, known.clipped)
    # A number that changes when the sampled parameters do.
    found["values"] = hash(tuple(tuple(piece.tolist()) for piece in after[1] if piece is not None)) if after else 0
    return found


def _joined_digest(rows: list, column: int) -> str:
    return blake2b("".join(row[column] for row in rows).encode(), digest_size=6).hexdigest()


def _should_move(each: Any, rate: float, gradient: Any, value: Any) -> bool:
    """Return whether a step with this rate is large enough to change a value of this size and dtype."""
    if not rate or rate != rate or each.dtype in _HALF:
        return False
    size = (value.norm / math.sqrt(max(1, each.numel))) or 1e-8
    change = rate * min(1.0, gradient.norm / math.sqrt(max(1, each.numel)))
    return change > 1e-6 * size


def _running(optimizer: Any) -> int:
    """Count the steps of this optimizer on the stack: an overridden `step` that calls its parent's is two."""
    frames = (frame for frame in frames_of_stack() if frame.f_code.co_name == "wrapper")
    return sum(frame.f_locals.get("self") is optimizer for frame in frames)
