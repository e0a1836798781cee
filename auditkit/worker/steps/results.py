"""The results of a training step: the gradients its optimizer receives and the numbers it returns, with references.

A reference is computed in float64 and does not come from the code under test: the gradient of the mean loss over all
targets of a step, limited as the step limits it, its norms, and the losses of its micro-batches.
"""

import itertools
from typing import Any, Dict, Iterator, List, NamedTuple, Optional, Sequence, Tuple

import torch

from ..answers.answers import flatten
from ..base.refusals import TargetRaised
from .readings import distance, effective, is_mean_loss
from .runs import ALL, FIXED, OPTION, Run, StepRuns
from .seam import Grads, Step, norm_of
from .toy_model import TOKEN_TASKS, Batch, ToyModel, joined, loss_of, make_batches, true_gradient
from .values import NO_LIMIT, Case

_STEPS = 2
_SMALL: Dict[str, Any] = {"gain": 0.01}
"""A gain that keeps gradients far below every limit of a step's own."""
_SAME_GRADIENT = 0.01
"""How far a gradient may be from its reference: bfloat16 rounds each element by up to 0.004."""
_SAME_NUMBER = 1e-3


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
        """Yield every number of every case. Raises what the step raises in the first case."""
        counts = (1, 4) if self._feed.accumulates in (OPTION, ALL) else (self._feed.fixed_count,)
        reached = self._runs.limit_that_clips(self._runs.windows(_STEPS, counts[0]), counts[0])
        settings: Dict[str, Dict[str, Any]] = {"none": _SMALL}
        if reached is not None:
            settings["reached"] = {"limit": reached[0], "gain": reached[1]}
        scaled = self._tried(self._runs.case(_STEPS, counts[0], scales=True, **_SMALL))
        if scaled is not None and any(step.scale != 1.0 for step in scaled.trace.steps):
            settings |= {name + ", scaled loss": {**options, "scales": True} for name, options in settings.items()}
        uneven = (False, True) if self._feed.task in TOKEN_TASKS else (False,)
        for (limit, options), is_uneven, count in itertools.product(settings.items(), uneven, counts):
            told = {"limit": limit, "targets": "unequal" if is_uneven else "equal", "micro_batches": count}
            yield from self._results(self._runs.case(_STEPS, count, is_uneven, **options), told)

    def _tried(self, case: Case) -> Optional[Run]:
        try:
            return self._runs.checked(case)
        except TargetRaised:
            return None

    def _results(self, case: Case, told: Dict[str, Any]) -> Iterator[Result]:
        try:
            run = self._runs.checked(case)
        except TargetRaised as error:
            yield Result({**told, "of": "steps"}, "raises", str(error).partition(":")[0], False)
            return
        steps = run.trace.steps
        yield Result({**told, "of": "steps"}, "count", len(steps), len(steps) == _STEPS)
        batches, count = run.values.case.batches, run.values.case.accumulate
        windows = [[batches[(start + index) % len(batches)] for index in range(count)] for start in (0, count)]
        references = self._references(run, windows, told)
        for number, step in enumerate(steps):
            reference = references[number] if number < len(references) else None
            is_known = reference is not None and norm_of(reference) > 0
            is_same = is_known and distance(step.grads, reference or {}) < _SAME_GRADIENT
            for name, grad in step.grads.items():
                weights = torch.linspace(1, 2, grad.numel(), dtype=grad.dtype)
                size = norm_of({name: grad.reshape(-1) * weights})
                if size > 0:
                    yield Result({**told, "of": "step {}".format(number + 1)}, "gradient of " + name, size, is_same)
        numbers = self._numbers(run, windows, references)
        for field, value in flatten(run.values.returned).items():
            yield Result({**told, "of": "the return value"}, field, value, _is_among(value, numbers))

    def _references(self, run: Run, windows: Sequence[Sequence[Batch]], told: Dict[str, Any]) -> List[Optional[Grads]]:
        """Return what the optimizer should receive in each step; None if nothing independent of the step is known."""
        steps, count = run.trace.steps, told["micro_batches"]
        if len({step.optimizer for step in steps}) != 1:
            return []
        found: List[Optional[Grads]] = []
        for number, (step, window) in enumerate(zip(steps, windows, strict=False)):
            reference: Optional[Grads] = None
            if self._knows_loss(run.values.case.gain):
                reference = true_gradient(self._model_before(run, step), joined(window))
            elif number == 0 and self._feed.accumulates != FIXED and (count > 1 or told["limit"] != "none"):
                reference = self._of_one_batch(window, told["targets"] == "unequal", run.values.case.gain)
            found.append(None if reference is None else _limited(reference, run))
        return found

    def _model_before(self, run: Run, step: Step) -> ToyModel:
        """Return the model as it is before a step, in float64."""
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
        own = self._of_one_batch(batches, False, gain)
        return is_mean_loss(own or {}, true_gradient(ToyModel(self._feed.returns, gain), joined(batches)), count)

    def _of_one_batch(self, window: Sequence[Batch], is_uneven: bool, gain: float) -> Optional[Grads]:
        """Return what the step itself makes of one batch of all samples, or of its fixed number, without a limit."""
        key = len(window), is_uneven, gain
        if key not in self._own:
            is_fixed = self._feed.accumulates == FIXED
            batches = list(window) if is_fixed else [joined(window)]
            run = self._tried(Case(batches, accumulate=len(batches), gain=gain))
            self._own[key] = effective(run.trace.steps[0]) if run is not None and run.trace.steps else None
        return self._own[key]

    def _numbers(
        self, run: Run, windows: Sequence[Sequence[Batch]], references: Sequence[Optional[Grads]]
    ) -> List[float]:
        """Return what a step may return: norms of its gradients with and without the limit, losses and their means."""
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
    """Limit a gradient as the run limits it: each element, or the norm of all."""
    limit = run.values.case.limit
    if run.trace.clips and limit == NO_LIMIT:
        limit = run.trace.clips[0].limit
    if any(clip.is_by_value for clip in run.trace.clips):
        return {name: each.clamp(-limit, limit) for name, each in reference.items()}
    factor = min(1.0, limit / (norm_of(reference) + 1e-6)) if limit > 0 else 1.0
    return {name: each * factor for name, each in reference.items()}


def _is_among(value: Any, numbers: Sequence[float]) -> bool:
    return isinstance(value, float) and any(abs(value - each) <= _SAME_NUMBER * abs(each) for each in numbers)
