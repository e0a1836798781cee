"""The results of a training step: the gradients its optimizer receives and the numbers it returns, with references.

A reference is computed in float64 and does not come from the code under test: the gradient of the mean loss over all
targets of a step, limited as the step limits it, its norms, and the losses of its micro-batches.
"""

from typing import Any, Dict, Iterator, List, NamedTuple, Optional, Sequence, Tuple

import torch

from ..answers.answers import flatten
from ..base.refusals import NotApplicable, TargetRaised
from .measures import uneven_counts
from .readings import distance, effective
from .runs import ALL, FIXED, OPTION, Run, StepRuns
from .seam import Grads, Step, cosine, norm_of
from .toy_model import TOKEN_TASKS, Batch, ToyModel, joined, loss_of, make_batches, true_gradient
from .values import NO_LIMIT, Case

_STEPS = 2
_SMALL = 0.01
"""A gain that keeps gradients far below every limit of a step's own."""
_SAME_GRADIENT = 0.01
"""How far a gradient may be from its reference: bfloat16 rounds each element by up to 0.004."""
_SAME_NUMBER = 1e-3
_SAME_DIRECTION, _SAME_SIZE = 0.999, 0.02
_CLIPS_FROM = 4.0
"""The gradients that meet a limit of the step's own have at least so many times its norm."""


class Result(NamedTuple):
    """One number of a case: a parameter's gradient or a part of the return value; whether it equals its reference."""

    case: Dict[str, Any]
    field: str
    value: Any
    is_reference: bool


class StepResults:
    """Results of two steps for one and four micro-batches, equal and unequal targets, without and with a limit."""

    def __init__(self, runs: StepRuns) -> None:
        self._runs = runs
        self._feed = runs.feed
        self._own: Dict[Tuple[int, bool, float], Optional[Grads]] = {}

    def all(self) -> Iterator[Result]:
        """Every number of every case. Raises what the step raises in the first case."""
        counts = (1, 4) if self._feed.accumulates in (OPTION, ALL) else (self._feed.fixed_count,)
        plain = self._run(self._case(counts[0], False, NO_LIMIT, _SMALL, False))
        if not plain.trace.steps:
            raise NotApplicable("it makes no step of {} batches".format(counts[0] * _STEPS))
        if any(step.closure_calls > 1 or step.is_inside_backward for step in plain.trace.steps):
            raise NotApplicable("its optimizer goes backward itself, or steps inside of backward")
        settings = {"none": (NO_LIMIT, _SMALL, False)}
        reached = self._limit_that_clips(counts[0])
        if reached is not None:
            settings["reached"] = (*reached, False)
        if _scales(self._tried(self._case(counts[0], False, NO_LIMIT, _SMALL, True))):
            settings |= {name + ", scaled loss": (limit, gain, True) for name, (limit, gain, _) in settings.items()}
        for limit, setting in settings.items():
            for is_uneven in (False, True) if self._feed.task in TOKEN_TASKS else (False,):
                for count in counts:
                    told = {"limit": limit, "targets": "unequal" if is_uneven else "equal", "micro_batches": count}
                    yield from self._results(self._case(count, is_uneven, *setting), told)

    def _case(self, count: int, is_uneven: bool, limit: float, gain: float, scales: bool) -> Case:
        steps = 1 if self._feed.accumulates == ALL else _STEPS
        valid = uneven_counts(count * steps) if is_uneven else None
        batches = make_batches(count * steps, self._feed.task, valid)
        calls = _STEPS if self._feed.accumulates == ALL else 1
        return Case(batches, accumulate=count, limit=limit, gain=gain, calls=calls, scales=scales)

    def _run(self, case: Case) -> Run:
        run = self._runs.run(case)
        if run.raised is not None:
            raise run.raised
        return run

    def _tried(self, case: Case) -> Optional[Run]:
        try:
            return self._run(case)
        except TargetRaised:
            return None

    def _limit_that_clips(self, count: int) -> Optional[Tuple[float, float]]:
        """A limit below the gradients' norm, and the gain of the model there; None where the step sets no limit."""
        usual = self._run(self._case(count, False, NO_LIMIT, 1.0, False))
        if not usual.trace.steps or not (self._feed.sets_limit or usual.trace.clips):
            return None
        norm = norm_of(effective(usual.trace.steps[0]))
        if self._feed.sets_limit:
            return 0.1 * norm, 1.0
        limit, gain = usual.trace.clips[0].limit, 1.0
        while norm < _CLIPS_FROM * limit and gain < 1e6:
            gain *= 10
            norm = norm_of(self._unlimited(self._case(count, False, NO_LIMIT, gain, False)))
        return limit, gain

    def _unlimited(self, case: Case) -> Grads:
        steps = self._run(case).trace.steps
        return effective(steps[0]) if steps else {}

    # --- one case ------------------------------------------------------------------------------------

    def _results(self, case: Case, told: Dict[str, Any]) -> Iterator[Result]:
        try:
            run = self._run(case)
        except TargetRaised as error:
            yield Result({**told, "of": "steps"}, "raises", str(error).partition(":")[0], False)
            return
        steps = run.trace.steps
        yield Result({**told, "of": "steps"}, "count", len(steps), len(steps) == _STEPS)
        windows = self._windows(run)
        references = self._references(run, windows, told)
        for number, step in enumerate(steps):
            reference = references[number] if number < len(references) else None
            is_same = reference is not None and _is_same(step.grads, reference)
            for name, grad in step.grads.items():
                size = norm_of({name: _weighed(grad)})
                if size > 0:
                    yield Result({**told, "of": "step {}".format(number + 1)}, "gradient of " + name, size, is_same)
        numbers = self._numbers(run, windows, references)
        for field, value in flatten(run.values.returned).items():
            yield Result({**told, "of": "the return value"}, field, value, _is_among(value, numbers))

    def _windows(self, run: Run) -> List[List[Batch]]:
        """The micro-batches of each step."""
        batches, count = run.values.case.batches, run.values.case.accumulate
        return [[batches[(start + index) % len(batches)] for index in range(count)] for start in (0, count)]

    def _references(self, run: Run, windows: Sequence[Sequence[Batch]], told: Dict[str, Any]) -> List[Optional[Grads]]:
        """What the optimizer should receive in each step; None where nothing independent of the step is known."""
        steps = run.trace.steps
        if len({step.optimizer for step in steps}) != 1:
            return []
        found: List[Optional[Grads]] = []
        for number, (step, window) in enumerate(zip(steps, windows, strict=False)):
            reference: Optional[Grads] = None
            if self._knows_loss(run.values.case.gain):
                reference = true_gradient(self._model_before(run, step), joined(window))
            elif number == 0 and (told["micro_batches"] > 1 or told["limit"] != "none"):
                reference = self._of_one_batch(window, told["targets"] == "unequal", run.values.case.gain)
            found.append(None if reference is None else _limited(reference, run))
        return found

    def _model_before(self, run: Run, step: Step) -> ToyModel:
        """The model as it is before a step, in float64."""
        model = ToyModel(self._feed.returns, run.values.case.gain).double()
        with torch.no_grad():
            for name, parameter in model.named_parameters():
                if name in step.parameters_before:
                    parameter.copy_(step.parameters_before[name])
        return model

    def _knows_loss(self, gain: float) -> bool:
        """Whether the step's gradient of one batch is that of the mean loss over its targets."""
        count = self._feed.fixed_count if self._feed.accumulates == FIXED else 1
        batches = make_batches(count, self._feed.task)
        if self._feed.accumulates == FIXED:
            own: Optional[Grads] = self._unlimited(Case(batches, accumulate=count, gain=gain))
        else:
            own = self._of_one_batch(batches, False, gain)
        true = true_gradient(ToyModel(self._feed.returns, gain), joined(batches))
        if not own or cosine(own, true) < _SAME_DIRECTION:
            return False
        ratio = norm_of(own) / norm_of(true)
        return any(abs(ratio * each - 1) < _SAME_SIZE for each in (1.0, float(count), 1.0 / count))

    def _of_one_batch(self, window: Sequence[Batch], is_uneven: bool, gain: float) -> Optional[Grads]:
        """What the step itself makes of one batch of all samples, without a limit."""
        if self._feed.accumulates == FIXED:
            return None
        key = len(window), is_uneven, gain
        if key not in self._own:
            run = self._tried(Case([joined(window)], accumulate=1, gain=gain))
            self._own[key] = effective(run.trace.steps[0]) if run is not None and run.trace.steps else None
        return self._own[key]

    def _numbers(
        self, run: Run, windows: Sequence[Sequence[Batch]], references: Sequence[Optional[Grads]]
    ) -> List[float]:
        """What a step may return: norms of its gradients with and without the limit, losses and their means."""
        found: List[float] = []
        losses: List[float] = []
        for step, window, reference in zip(run.trace.steps, windows, references, strict=False):
            if reference is None or not self._knows_loss(run.values.case.gain):
                continue
            model = self._model_before(run, step)
            found += [norm_of(reference), norm_of(true_gradient(model, joined(window)))]
            with torch.no_grad():
                of_window = [_loss(model, batch) for batch in window]
                found += [_loss(model, joined(window)), sum(of_window) / len(of_window), sum(of_window), *of_window]
            losses += of_window
        return [*found, sum(losses), sum(losses) / len(losses)] if losses else found


def _loss(model: ToyModel, batch: Batch) -> float:
    targets = batch.targets.double() if batch.targets.is_floating_point() else batch.targets
    return float(loss_of(model.scores(batch.inputs), targets))


def _limited(reference: Grads, run: Run) -> Grads:
    """A gradient limited as the run limits it: each element, or the norm of all."""
    limit = run.values.case.limit
    if run.trace.clips and limit == NO_LIMIT:
        limit = run.trace.clips[0].limit
    if any(clip.is_by_value for clip in run.trace.clips):
        return {name: each.clamp(-limit, limit) for name, each in reference.items()}
    factor = min(1.0, limit / (norm_of(reference) + 1e-6)) if limit > 0 else 1.0
    return {name: each * factor for name, each in reference.items()}


def _is_same(grads: Grads, reference: Grads) -> bool:
    return norm_of(reference) > 0 and distance(grads, reference, 1.0) < _SAME_GRADIENT


def _is_among(value: Any, numbers: Sequence[float]) -> bool:
    if isinstance(value, bool) or not isinstance(value, float):
        return False
    return any(abs(value - each) <= _SAME_NUMBER * abs(each) for each in numbers)


def _scales(run: Optional[Run]) -> bool:
    return run is not None and any(step.scale != 1.0 for step in run.trace.steps)


def _weighed(grad: torch.Tensor) -> torch.Tensor:
    return grad.reshape(-1) * torch.linspace(1, 2, grad.numel(), dtype=grad.dtype)
