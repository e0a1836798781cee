"""What the probes of training steps ask: each answer is numbers, and the loop's line that they are about."""

import itertools
import linecache
import os
import re
from typing import Any, Dict, List, Optional, Sequence, Tuple

import torch
from torch.amp import grad_scaler

from ..base.frames import Site, most_common
from ..base.refusals import NotApplicable, TargetRaised
from ..feeding.stub import raised_at
from ..instruments.syncs import count_syncs
from . import readings
from .adapters import adapter_of
from .host import INITIAL_SCALE
from .readings import SAME_SIZE, Accumulated, AfterNan, Limited, Line, Mixed, Moved, Owned, Scaled, Shares, effective
from .runs import ALL, FIXED, OPTION, Run, StepRuns, source_of
from .seam import Grads, Step, Trace, added_up, cosine, norm_of
from .statements import looks_for_nan, statement_at
from .toy_model import FROZEN, Batch, ToyModel, joined, make_batches, true_gradient
from .values import NO_LIMIT, Case

_SAME_LOSS = 0.999
_MOST_ELEMENTS = 150_000
_IGNORES = re.compile(
    r"ignore|-100\b|pad(d|_|s\b)|attention_mask|num_items|\*\*\w|\blabels=|[\"']labels[\"']", re.IGNORECASE
)
_HAS_TO_WAIT = re.compile(r"isfinite|isnan|isinf|found_inf|scaler|\.step\(|one_hot\([^()]+,", re.IGNORECASE)


class StepMeasures:
    """One training step, asked with batches whose gradients are known."""

    def __init__(self, runs: StepRuns) -> None:
        self._runs = runs
        self.feed = runs.feed

    def windows(self, count: int, micro_batches: int = 4, **case: Any) -> Run:
        """A run of `count` steps of so many micro-batches each, as many as the step takes by itself where it does."""
        asked = self._windows_case(count, micro_batches, **case)
        run = self._checked(self._runs.run(asked))
        if not run.trace.steps:
            raise NotApplicable("it makes no step of {} batches".format(len(asked.batches)))
        return run

    def _windows_case(self, count: int, micro_batches: int = 4, **case: Any) -> Case:
        ways = self.feed.accumulates
        per_step = micro_batches if ways in (OPTION, ALL) else self.feed.fixed_count
        batches = make_batches(per_step if ways == ALL else per_step * count, self.feed.task)
        return Case(batches, accumulate=per_step, calls=count if ways == ALL else 1, **case)

    def _checked(self, run: Run) -> Run:
        if run.raised is not None:
            raise run.raised
        if any(step.closure_calls > 1 for step in run.trace.steps):
            raise NotApplicable("its optimizer goes backward itself, more than once in a step, by a closure")
        if any(step.is_inside_backward for step in run.trace.steps):
            raise NotApplicable("its optimizers make their steps inside of backward, each of a part of the gradients")
        return run

    # --- accumulation --------------------------------------------------------------------------------

    @property
    def weighs_targets(self) -> bool:
        """Whether micro-batches may differ in targets, and the step shares the batches out.

        They may in a step whose own code names targets that are ignored or padded, or hands whole mappings on. The
        trainer of a LightningModule shares its batches out.
        """
        if "tokens" not in self.feed.task or self._is_module:
            return False
        if adapter_of(self._runs.caller.owner) is not None:
            return True
        return any(_IGNORES.search(source_of(code)) for code in self.windows(1).trace.executed)

    @property
    def _is_module(self) -> bool:
        adapter = adapter_of(self._runs.caller.owner)
        return adapter is not None and adapter.needs_object

    def _grows_with_its_batch(self) -> bool:
        batch = make_batches(1, self.feed.task)
        one, two = self._one_step(batch), self._one_step([joined(batch * 2)])
        return abs(norm_of(two) / norm_of(one) - 2) < SAME_SIZE

    def accumulated(self, count: int, is_uneven: bool = False) -> Accumulated:
        """The step's gradient after `count` micro-batches. Raises NotApplicable where it takes one batch a step."""
        ways = self.feed.accumulates
        if not ways:
            raise NotApplicable("it makes a step after every batch: it accumulates nothing")
        if self._is_module and self._grows_with_its_batch():
            raise NotApplicable(
                "its loss is a sum over samples: whether one step has many batches is its trainer's choice"
            )
        count = self.feed.fixed_count if ways == FIXED else count
        batches = make_batches(count, self.feed.task, uneven_counts(count) if is_uneven else None)
        whole = joined(batches)
        step = self._first_step(batches, count)
        found = effective(step)
        reference = self._reference(whole, found, is_uneven)
        size = norm_of(reference)
        site = most_common([micro.site for micro in step.micros]) or step.site
        return Accumulated(count, is_uneven, size, norm_of(found) / size, cosine(found, reference), site)

    def _one_step(self, batch: Sequence[Batch]) -> Grads:
        """The gradient of one batch. Raises NotApplicable where it is another one the next time."""
        one, other = (effective(self._first_step(batch, 1, seed)) for seed in (0, 1))
        if norm_of(one) and readings.distance(other, one, 1.0) > SAME_SIZE:
            raise NotApplicable("its gradient of one batch depends on random numbers")
        return one

    def _first_step(self, batches: Sequence[Batch], count: int, seed: int = 0) -> Step:
        run = self._checked(self._runs.run(Case(list(batches), accumulate=count, seed=seed)))
        if not run.trace.steps:
            raise NotApplicable("no step is made of {} micro-batches".format(count))
        return run.trace.steps[0]

    def _reference(self, whole: Batch, found: Grads, is_uneven: bool) -> Grads:
        """The true gradient where the loss is one that we know; else what the step itself makes of one batch."""
        true = true_gradient(ToyModel(self.feed.returns), whole)
        if self.feed.accumulates == FIXED:
            ratio = norm_of(found) / norm_of(true)
            is_known = any(
                abs(ratio * each - 1) < SAME_SIZE for each in (1.0, self.feed.fixed_count, 1 / self.feed.fixed_count)
            )
            if not is_uneven and (cosine(found, true) < _SAME_LOSS or not is_known):
                raise NotApplicable(
                    "its loss is none whose gradient is known, and its number of micro-batches is fixed"
                )
            return true
        own = self._one_step([whole])
        is_true = cosine(own, true) > _SAME_LOSS and abs(norm_of(own) / norm_of(true) - 1) < SAME_SIZE
        return true if is_true else own

    def copies_error(self, counts: Sequence[int]) -> Tuple[Dict[int, float], Line]:
        """How far the gradient of N equal micro-batches is from that of one, relative, and the accumulating line."""
        if self.feed.accumulates not in (OPTION, ALL):
            raise NotApplicable("the number of its micro-batches cannot be chosen")
        batch = make_batches(1, self.feed.task)
        one = self._one_step(batch)
        if sum(each.numel() for each in one.values()) > _MOST_ELEMENTS:
            raise NotApplicable("its own model is too large for hundreds of micro-batches, each of which is kept")
        found, site = {}, None
        for count in counts:
            step = self._first_step(batch * count, count)
            many = readings.unclipped(step) if cosine(step.grads, one) > 0 else effective(step)
            own = {name: each for name, each in one.items() if name in many}  # what no optimizer has is not summed
            found[count] = min(readings.distance(many, own, factor) for factor in (1.0, count, 1.0 / count))
            site = most_common([micro.site for micro in step.micros]) or step.site
        return found, site

    # --- clipping ------------------------------------------------------------------------------------

    def limited(self) -> List[Limited]:
        """Steps whose gradients are above the limit. Raises NotApplicable where none is set."""
        usual = self.windows(2)
        clips = usual.trace.clips
        limit, gain = 0.1 * norm_of(effective(usual.trace.steps[0])), 1.0
        if not self.feed.sets_limit:
            if not clips:
                raise NotApplicable("it sets no limit to gradients")
            by_norm = [clip.limit for clip in clips if not clip.is_by_value]
            limit = min(by_norm, default=clips[0].limit)
            gain = self._gain_above(4 * limit)
            usual = self.windows(2, gain=0.01)
        run = self.windows(2, limit=limit if self.feed.sets_limit else NO_LIMIT, gain=gain)
        clipped_at = most_common([clip.site for clip in run.trace.clips])
        pairs = zip(run.trace.steps, usual.trace.steps, strict=False)
        return [readings.limited(number, *pair, limit, clipped_at) for number, pair in enumerate(pairs)]

    def _gain_above(self, norm: float) -> float:
        gain = 1.0
        while gain < 1e6 and norm_of(effective(self.windows(1, gain=gain).trace.steps[0])) < norm:
            gain *= 10
        return gain

    def scaled(self) -> Scaled:
        """What the factor of a GradScaler does to clipping and to the step. Raises NotApplicable without one."""
        try:
            run = self.windows(1, scales=True)
        except TargetRaised as error:
            if _is_by_scaler(error.__cause__):
                return Scaled(INITIAL_SCALE, None, 1.0, error.site, str(error.__cause__).split(".")[0])
            # not every operation is there in 16 bits on a host
            raise NotApplicable("with a scaler it raises on this host: {}".format(error)) from error
        if not run.trace.steps or run.trace.steps[0].scale == 1.0:
            raise NotApplicable("it scales no loss")
        step = run.trace.steps[0]
        true = norm_of(added_up(step.micros)) / step.scale
        clips = [clip for clip in step.clips if clip.before]
        at_clip = norm_of(clips[-1].before) / true if clips and true else None
        site = clips[-1].site if clips else step.site
        return Scaled(step.scale, at_clip, norm_of(step.grads) / true if true else 0.0, site)

    # --- parameters ----------------------------------------------------------------------------------

    def owned(self) -> Owned:
        """Which parameters the optimizers hold, and which the models that answered have."""
        trace = self.windows(2).trace
        held = [each for one in trace.optimizers for group in one.param_groups for each in group["params"]]
        ids = [id(each) for each in held]
        named = {place: name for place, (name, _) in trace.known.items()}
        missing = [named[place] for place in trace.reached if place not in ids and trace.known[place][1].requires_grad]
        stale = [named[id(each)] for each in held if each.requires_grad and trace.ran and id(each) not in trace.ran]
        twice = [named[place] for place in dict.fromkeys(ids) if self._is_held_twice(place, trace)]
        made = [trace.made_at.get(id(one)) for one in trace.optimizers]
        site = most_common(made) or trace.steps[0].site
        return Owned(sorted(missing), sorted(set(stale)), sorted(twice), site)

    @staticmethod
    def _is_held_twice(place: int, trace: Trace) -> bool:
        """Whether two groups have a parameter: of one optimizer, or of two that take turns.

        A step that makes its optimizer for each call has several, one after the other.
        """
        holds = {
            id(one): [id(each) for group in one.param_groups for each in group["params"]] for one in trace.optimizers
        }
        if any(held.count(place) > 1 for held in holds.values()):
            return True
        turns = [step.optimizer for step in trace.steps if place in holds.get(step.optimizer, ())]
        return len([one for one, _ in itertools.groupby(turns)]) > len(set(turns))

    def moved(self) -> List[Moved]:
        """Parameters that were frozen, or whose gradient was taken away, and that changed all the same."""
        run = self.windows(3, decays=True)
        found: Dict[str, Moved] = {}
        for step in run.trace.steps:
            added = added_up(step.micros)
            for name, before in step.parameters_before.items():
                after = step.parameters_after.get(name, before)
                is_masked = name in added and name in step.grads and not bool(step.grads[name].any())
                if (name == FROZEN or is_masked) and not torch.equal(before, after):
                    change = float((after - before).abs().max())
                    if name not in found or change > found[name].largest_change:
                        found[name] = Moved(name, change, step.site)
        return list(found.values())

    # --- windows -------------------------------------------------------------------------------------

    def shares(self) -> List[Shares]:
        """What each of three steps is made of. Raises NotApplicable where no gradient stays where torch puts it."""
        run = self.windows(3)
        found = []
        first = 0
        for number, step in enumerate(run.trace.steps):
            last = first + len(step.micros)
            zeroed = [site for site, place in run.trace.zeros if first < place < last]
            if step.micros and step.grads:
                found.append(readings.shares(number, step, zeroed[0] if zeroed else None))
            elif number and readings.is_again(step, run.trace.steps[number - 1]):
                found.append(Shares(number, [], 1.0, None, step.site))
            first = last
        if not found and self._is_never_handed(run.trace):
            steps = run.trace.steps
            found = [
                Shares(number, [0.0] * len(each.micros), 0.0, None, each.site) for number, each in enumerate(steps)
            ]
        if not found:
            raise NotApplicable("what its backwards add is not in the gradients that its optimizer is handed")
        return found

    @staticmethod
    def _is_never_handed(trace: Trace) -> bool:
        """Whether no step has a gradient, although backward gave one to parameters that its optimizer holds."""
        held = {id(each) for one in trace.optimizers for group in one.param_groups for each in group["params"]}
        return bool(held & trace.reached) and not any(norm_of(step.grads) for step in trace.steps)

    def left_over(self) -> Optional[Mixed]:
        """What a step after an epoch has whose last group is not whole; None where a group cannot be left so."""
        ways = self.feed.accumulates
        if ways not in (OPTION, FIXED) or adapter_of(self._runs.caller.owner) is not None:
            return None
        size = 4 if ways == OPTION else self.feed.fixed_count
        batches = make_batches(size + size // 2, self.feed.task)
        run = self._checked(self._runs.run(Case(batches, accumulate=size, calls=2)))
        steps = run.trace.steps
        return readings.mixed("an epoch of {} batches".format(len(batches)), size, steps) if len(steps) > 1 else None

    def after_nan(self) -> List[AfterNan]:
        """A NaN among the losses of the second of four steps: in its first micro-batch, and in its last."""
        usual = self._with_scaler(self.windows(4, decays=True))
        per_step = max(1, len(usual.trace.steps[0].micros))
        return [self._after_nan(usual, per_step, index) for index in dict.fromkeys((per_step, 2 * per_step - 1))]

    def _with_scaler(self, usual: Run) -> Run:
        """The run with its scaler enabled, which looks for NaN; without, where the host has not what it needs."""
        if not usual.trace.has_scaler:
            return usual
        run = self._runs.run(usual.values.case._replace(scales=True))
        return usual if run.raised is not None or not run.trace.steps else run

    def _after_nan(self, usual: Run, per_step: int, index: int) -> AfterNan:
        run = self._runs.run(usual.values.case._replace(poisoned=[index]))
        if run.values.trained is not run.values.model and not run.values.drawn.inputs.is_floating_point():
            raise NotApplicable("its model is its own, and takes token numbers, which cannot be NaN")
        is_guarded = run.trace.scale != 1.0 or any(looks_for_nan(source_of(code)) for code in run.trace.executed)
        stops = run.raised is not None or run.is_ended
        nan = [name for name, each in run.trace.known.values() if not bool(each.isfinite().all())]
        applied = [
            step for step in run.trace.steps if any(not bool(each.isfinite().all()) for each in step.grads.values())
        ]
        moved = [step for step in applied if readings.moves(step)]
        sites = [step.site for step in moved] or [step.site for step in run.trace.steps] or run.trace.skips
        taken = run.values.loader.drawn == usual.values.loader.drawn
        finite_count = len(run.trace.steps) - len(applied)
        recovers = finite_count >= len(usual.trace.steps) - 1 or not taken or stops
        return AfterNan(
            is_guarded,
            stops,
            len(moved),
            len(run.trace.known),
            len(nan),
            recovers,
            readings.mixed("a NaN in the last micro-batch of a step", per_step, run.trace.steps),
            most_common(sites),
        )

    # --- costs ---------------------------------------------------------------------------------------

    def syncs(self, micro_batches: int) -> List[Line]:
        """The lines of the loop that read a device while it takes so many batches, in one step where it can.

        Lines that look for NaN, and steps themselves, have to: they are left out.
        """
        case = Case(make_batches(micro_batches, self.feed.task), accumulate=micro_batches)
        self._checked(self._runs.run(case))  # a run that raises reads nothing
        call = self._runs.ready(self._runs.values(case))
        counted = count_syncs(call, "cpu", self._runs.roots)
        return [site for site in counted.sites if site is not None and not _HAS_TO_WAIT.search(self._text(site))]

    def _text(self, site: Site) -> str:
        roots = self._runs.roots
        lines = linecache.getlines(os.path.join(roots.folder(site.file) or roots.root, site.file))
        return statement_at("".join(lines), site.line)


def _is_by_scaler(error: Optional[BaseException]) -> bool:
    """Whether a GradScaler refuses the order of its calls."""
    return isinstance(error, RuntimeError) and raised_at(error)[0].f_code.co_filename == grad_scaler.__file__


def uneven_counts(count: int) -> List[int]:
    """From 2 to 20 of the 21 tokens of each micro-batch have a target."""
    return [2 + 18 * index // max(1, count - 1) for index in range(count)]
