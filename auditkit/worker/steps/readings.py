"""What recorded steps show: their intended gradient, the effect of a limit, and their composition."""

from typing import List, NamedTuple, Optional, Sequence

import torch

from ..base.frames import Site
from ..base.refusals import NotApplicable
from .seam import Grads, Step, added_up, cosine, norm_of

_SAME_DIRECTION = 0.9999
_SAME_LOSS, SAME_SIZE = 0.999, 0.02
Line = Optional[Site]


class Accumulated(NamedTuple):
    """The gradient of several micro-batches against that of one joined batch: ratio of norms and cosine."""

    micro_batches: int
    true_norm: float
    ratio: float
    cosine: float
    site: Line


class Limited(NamedTuple):
    """One step under a limit: the resulting norm (or largest element), the norm without limit, and the direction."""

    step: int
    limit: float
    reached: float
    unlimited: float
    cosine: float
    usual_cosine: float
    clip_count: int
    site: Line


class Scaled(NamedTuple):
    """The factor of the gradients when they were clipped (None: they were not), and when they were used.

    `refused` is the scaler's error about the order of its calls.
    """

    scale: float
    at_clip: Optional[float]
    at_step: float
    site: Line
    refused: str = ""


class Owned(NamedTuple):
    """Parameters by name: with a gradient but no optimizer, with an optimizer but no model, in two groups."""

    missing: List[str]
    stale: List[str]
    twice: List[str]
    site: Line


class Shares(NamedTuple):
    """The shares of each micro-batch and of the earlier gradients in a step's gradient; the largest is 1."""

    step: int
    micro: List[float]
    leftover: float
    zeroed_at: Line
    site: Line


class Mixed(NamedTuple):
    """The number of micro-batches of the largest step after an unusual event; `usual` is the normal number."""

    after: str
    usual: int
    handed: int
    site: Line


class AfterNan(NamedTuple):
    """The effects of one NaN among the losses; `is_guarded` means that the loop checks for NaN."""

    is_guarded: bool
    stops: bool
    steps_applied: int
    parameters: int
    nan_parameters: int
    recovers: bool
    mixed: Mixed
    site: Line


class Moved(NamedTuple):
    """A parameter that no gradient trains, and how much an optimizer changed it at most."""

    name: str
    largest_change: float
    site: Line


def is_mean_loss(found: Grads, true: Grads, count: int = 1) -> bool:
    """Return whether a gradient is that of the mean loss, or `count` or 1 / `count` times it."""
    if not found or cosine(found, true) < _SAME_LOSS:
        return False
    ratio = norm_of(found) / norm_of(true)
    return any(abs(ratio * each - 1) < SAME_SIZE for each in (1.0, count, 1.0 / count))


def effective(step: Step) -> Grads:
    """Return the intended gradient of a step: without the effect of clipping and of a scaler's factor.

    If the optimizer gets another direction than the sum of its backward passes, return that sum.
    """
    added, handed = added_up(step.micros), step.grads
    if not added or not handed:
        return handed or added
    is_other = cosine(added, handed) < _SAME_DIRECTION
    found = added if is_other else unclipped(step)
    is_scaled = step.scale > 1 and abs(norm_of(found) / norm_of(added) - 1) < SAME_SIZE
    return {name: each / step.scale for name, each in found.items()} if is_other or is_scaled else found


def unclipped(step: Step) -> Grads:
    """Return the gradient that the optimizer got, without the effect of clipping."""
    factor = 1.0
    for clip in step.clips:
        before = norm_of(clip.before)
        if before > 0 and cosine(clip.before, clip.after) > _SAME_DIRECTION:
            factor *= norm_of(clip.after) / before
    return {name: each / factor for name, each in step.grads.items()}


def limited(number: int, step: Step, usual: Step, limit: float, clipped_at: Line) -> Limited:
    """Return the effect of a limit on a step, compared with the same step without it."""
    by_value = bool(step.clips) and all(clip.is_by_value for clip in step.clips)
    size = _largest if by_value else norm_of
    straight, before = (cosine(each.grads, added_up(each.micros)) for each in (step, usual))
    reached, unlimited = size(step.grads), size(effective(step))
    cosines = (1.0, 1.0) if by_value else (straight, before)
    return Limited(number, limit, reached, unlimited, *cosines, len(step.clips), clipped_at or step.site)


def _largest(grads: Grads) -> float:
    return max((float(each.abs().max()) for each in grads.values()), default=0.0)


def shares(number: int, step: Step, zeroed: Line) -> Shares:
    """Return the composition of a step's gradient, by least squares over the parameters that have one.

    Non-finite gradients have no share in a finite step. Raises NotApplicable if the step itself is not finite.
    """
    names = [name for name, each in step.grads.items() if bool(each.any())]
    if not names:
        return Shares(number, [0.0] * len(step.micros), 0.0, zeroed, step.site)
    before = step.micros[0].before

    def column(grads: Grads) -> torch.Tensor:
        return torch.cat([grads.get(name, torch.zeros_like(step.grads[name])).reshape(-1) for name in names])

    if not bool(column(step.grads).isfinite().all()):
        raise NotApplicable("its gradients of ordinary batches are not finite")
    columns = [column(each).nan_to_num(0, 0, 0) for each in (before, *(micro.added for micro in step.micros))]
    matrix = torch.stack(columns, dim=1)
    solved = torch.linalg.lstsq(matrix, column(step.grads)[:, None], driver="gelsd").solution[:, 0].abs()
    largest = float(solved[1:].max())
    found = [float(each) / largest if largest > 0 else 0.0 for each in solved]
    return Shares(number, found[1:], found[0] if norm_of(before) > 0 else 0.0, zeroed, step.site)


def mixed(after: str, usual: int, steps: Sequence[Step]) -> Mixed:
    """Return the step with the most micro-batches, after the event `after`."""
    found = [Mixed(after, usual, usual, None)]
    for number, step in enumerate(steps):
        if step.is_finite and len(step.micros) > usual:
            found.append(Mixed(after, usual, sum(each > 0.5 for each in shares(number, step, None).micro), step.site))
    return max(found, key=lambda each: each.handed)


def is_again(step: Step, before: Step) -> bool:
    """Return whether an optimizer gets the same gradients as in the step before, without a backward pass between."""
    is_same = step.optimizer == before.optimizer and not step.micros and norm_of(step.grads) > 0
    return is_same and all(torch.equal(each, before.grads[name]) for name, each in step.grads.items())


def moves(step: Step) -> bool:
    """Return whether a step changed a parameter, or left its optimizer with a non-finite state."""
    pairs = ((before, step.parameters_after.get(name, before)) for name, before in step.parameters_before.items())
    return not step.state_is_finite or any(not torch.equal(before, after) for before, after in pairs)


def distance(many: Grads, one: Grads, factor: float = 1.0) -> float:
    """Return the relative distance of `many` from `factor` times `one`."""
    zero = torch.zeros(()).double()
    names = {*many, *one}
    off = sum(float((many.get(name, zero) - factor * one.get(name, zero)).square().sum()) for name in names)
    return float(off**0.5) / (factor * norm_of(one))
