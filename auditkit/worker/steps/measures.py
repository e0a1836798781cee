"""Measurements for the probes of training steps: each result is numbers, and the loop's line that they concern."""

import ast
import functools
import itertools
import linecache
import os
import re
from typing import Dict, List, Optional, Sequence, Tuple

import torch
from torch.amp import grad_scaler

from ..base.frames import Site, most_common
from ..base.refusals import NotApplicable, TargetRaised
from ..feed.signatures import source_of
from ..feed.stub import raised_at
from ..measure.syncs import count_syncs
from . import readings
from .host import INITIAL_SCALE
from .readings import Accumulated, AfterNan, Limited, Line, Mixed, Moved, Owned, Scaled, Shares, effective
from .runs import ALL, FIXED, OPTION, Run, StepRuns
from .seam import Grads, Trace, added_up, cosine, norm_of
from .toy_model import FROZEN, TOKEN_TASKS, Batch, ToyModel, joined, make_batches, true_gradient, uneven_counts
from .values import NO_LIMIT, Case

_IGNORES = re.compile(
    r"ignore|-100\b|pad(d|_|s\b)|attention_mask|num_items|\*\*\w|\blabels=|[\"']labels[\"']", re.IGNORECASE
)
_HAS_TO_WAIT = re.compile(r"isfinite|isnan|isinf|found_inf|scaler|\.step\(|one_hot\([^()]+,", re.IGNORECASE)
_GUARDS = re.compile(
    r"isfinite|isnan|isinf|\bnan\b|found_inf|error_if_nonfinite|inf_or_nan|overflow\w*\(", re.IGNORECASE
)
_LOGS = re.compile(r"logg(ing|er)|debug", re.IGNORECASE)


class StepMeasures:
    """One training step, run on batches whose gradients are known."""

    def __init__(self, runs: StepRuns) -> None:
        self._runs = runs
        self.feed = runs.feed

    @property
    def weighs_targets(self) -> bool:
        """Whether micro-batches may differ in targets, and the step distributes the batches itself.

        They may if the step's own code names ignored or padded targets, or passes whole mappings.
        """
        if self.feed.task not in TOKEN_TASKS:
            return False
        return any(_IGNORES.search(source_of(code)) for code in self._runs.windows(1).trace.executed)

    def accumulated(self, count: int, is_uneven: bool = False) -> Accumulated:
        """Return the step's gradient after `count` micro-batches.

        Raises NotApplicable if it steps after every batch.
        """
        ways = self.feed.accumulates
        if not ways:
            raise NotApplicable("it makes a step after every batch: it accumulates nothing")
        count = self.feed.fixed_count if ways == FIXED else count
        batches = make_batches(count, self.feed.task, uneven_counts(count) if is_uneven else None)
        step = self._runs.first_step(batches, count)
        found = effective(step)
        reference = self._reference(joined(batches), found, is_uneven)
        size = norm_of(reference)
        site = most_common([micro.site for micro in step.micros]) or step.site
        return Accumulated(count, size, norm_of(found) / size, cosine(found, reference), site)

    def _reference(self, whole: Batch, found: Grads, is_uneven: bool) -> Grads:
        """Return the true gradient if the loss is a known one; else the step's own gradient of one batch."""
        true = true_gradient(ToyModel(self.feed.returns), whole)
        if self.feed.accumulates == FIXED:
            if not is_uneven and not readings.is_mean_loss(found, true, self.feed.fixed_count):
                raise NotApplicable(
                    "auditkit does not know its loss's gradient, and its number of micro-batches is fixed"
                )
            return true
        own = effective(self._runs.first_step([whole], 1))
        return true if readings.is_mean_loss(own, true) else own

    def copies_error(self, counts: Sequence[int]) -> Tuple[Dict[int, float], Line]:
        """Return the relative error of the gradient of N equal micro-batches against that of one, and the line."""
        if self.feed.accumulates not in (OPTION, ALL):
            raise NotApplicable("the number of its micro-batches cannot be chosen")
        batch = make_batches(1, self.feed.task)
        one = effective(self._runs.first_step(batch, 1))
        found, site = {}, None
        for count in counts:
            step = self._runs.first_step(batch * count, count)
            many = readings.unclipped(step) if cosine(step.grads, one) > 0 else effective(step)
            own = {
                name: each for name, each in one.items() if name in many
            }  # parameters without an optimizer are not accumulated
            found[count] = min(readings.distance(many, own, factor) for factor in (1.0, count, 1.0 / count))
            site = most_common([micro.site for micro in step.micros]) or step.site
        return found, site

    def limited(self) -> List[Limited]:
        """Return steps whose gradients are above the limit. Raises NotApplicable if the step sets none."""
        usual = self._runs.windows(2)
        found = self._runs.limit_that_clips(usual)
        if found is None:
            raise NotApplicable("it sets no limit to gradients")
        limit, gain = found
        if not self.feed.sets_limit:
            usual = self._runs.windows(2, gain=0.01)
        run = self._runs.windows(2, limit=limit if self.feed.sets_limit else NO_LIMIT, gain=gain)
        clipped_at = most_common([clip.site for clip in run.trace.clips])
        pairs = zip(run.trace.steps, usual.trace.steps, strict=False)
        return [readings.limited(number, *pair, limit, clipped_at) for number, pair in enumerate(pairs)]

    def scaled(self) -> Scaled:
        """Return the effect of a GradScaler's factor on clipping and on the step. Raises NotApplicable without one."""
        try:
            run = self._runs.windows(1, scales=True)
        except TargetRaised as error:
            cause = error.__cause__
            # A GradScaler rejects the order of its calls.
            if isinstance(cause, RuntimeError) and raised_at(cause)[0].f_code.co_filename == grad_scaler.__file__:
                return Scaled(INITIAL_SCALE, None, 1.0, error.site, str(cause).split(".")[0])
            # Not every operation exists in 16 bits on a host.
            raise NotApplicable("with a scaler it raises on this host: {}".format(error)) from error
        step = run.trace.steps[0]
        if step.scale == 1.0:
            raise NotApplicable("it scales no loss")
        true = norm_of(added_up(step.micros)) / step.scale
        clips = [clip for clip in step.clips if clip.before]
        at_clip = norm_of(clips[-1].before) / true if clips and true else None
        site = clips[-1].site if clips else step.site
        return Scaled(step.scale, at_clip, norm_of(step.grads) / true if true else 0.0, site)

    def owned(self) -> Owned:
        """Return which parameters the optimizers have, and which the models that ran have."""
        if self.feed.recorded:  # A critic of another function's optimizer gets gradients here, too.
            raise NotApplicable("it is one call of a recorded training, which auditkit run checks as a whole")
        trace = self._runs.windows(2).trace
        ids = [id(each) for each in trace.held]
        named = {place: name for place, (name, _) in trace.known.items()}
        missing = [named[place] for place in trace.reached if place not in ids and trace.known[place][1].requires_grad]
        stale = {named[id(one)] for one in trace.held if one.requires_grad and trace.ran and id(one) not in trace.ran}
        twice = [named[place] for place in dict.fromkeys(ids) if self._is_held_twice(place, trace)]
        site = most_common([trace.made_at.get(id(one)) for one in trace.optimizers]) or trace.steps[0].site
        return Owned(sorted(missing), sorted(stale), sorted(twice), site)

    @staticmethod
    def _is_held_twice(place: int, trace: Trace) -> bool:
        """Return whether a group has a parameter twice, of which torch only warns, or two optimizers that alternate.

        A step that creates its optimizer in each call has several, one after the other.
        """
        holds = {
            id(one): [id(each) for group in one.param_groups for each in group["params"]] for one in trace.optimizers
        }
        if any(held.count(place) > 1 for held in holds.values()):
            return True
        turns = [step.optimizer for step in trace.steps if place in holds.get(step.optimizer, ())]
        return len([one for one, _ in itertools.groupby(turns)]) > len(set(turns))

    def moved(self) -> List[Moved]:
        """Return parameters that changed although they were frozen, or their gradient was removed."""
        found: Dict[str, Moved] = {}
        for step in self._runs.windows(3, decays=True).trace.steps:
            added = added_up(step.micros)
            for name, before in step.parameters_before.items():
                after = step.parameters_after.get(name, before)
                is_masked = name in added and name in step.grads and not bool(step.grads[name].any())
                if (name == FROZEN or is_masked) and not torch.equal(before, after):
                    change = float((after - before).abs().max())
                    if name not in found or change > found[name].largest_change:
                        found[name] = Moved(name, change, step.site)
        return list(found.values())

    def shares(self) -> List[Shares]:
        """Return the composition of three steps' gradients. Raises NotApplicable if no gradient is in `.grad`."""
        trace = self._runs.windows(3).trace
        found = []
        first = 0
        for number, step in enumerate(trace.steps):
            last = first + len(step.micros)
            zeroed = [site for site, place in trace.zeros if first < place < last]
            if step.micros and step.grads:
                found.append(readings.shares(number, step, zeroed[0] if zeroed else None))
            elif number and readings.is_again(step, trace.steps[number - 1]):
                found.append(Shares(number, [], 1.0, None, step.site))
            first = last
        # No step has a gradient, although backward computed some for its optimizer's parameters.
        reaches = not trace.reached.isdisjoint(map(id, trace.held))
        if not found and reaches and not any(norm_of(step.grads) for step in trace.steps):
            steps = enumerate(trace.steps)
            found = [Shares(number, [0.0] * len(each.micros), 0.0, None, each.site) for number, each in steps]
        if not found:
            raise NotApplicable("the gradients of its backward passes do not reach its optimizer")
        return found

    def left_over(self) -> Optional[Mixed]:
        """Return the first steps after an epoch that ends within a group; None if a group cannot end so."""
        ways = self.feed.accumulates
        if ways not in (OPTION, FIXED) or not getattr(self._runs.caller.function, "has_epochs", True):
            return None
        size = 4 if ways == OPTION else self.feed.fixed_count
        batches = make_batches(size + size // 2, self.feed.task)
        steps = self._runs.checked(Case(batches, accumulate=size, calls=2)).trace.steps
        return readings.mixed("an epoch of {} batches".format(len(batches)), size, steps) if len(steps) > 1 else None

    def after_nan(self) -> List[AfterNan]:
        """Return the effects of a NaN in the second of four steps: in its first micro-batch, and in its last."""
        usual = self._runs.windows(4, decays=True)
        per_step = max(1, len(usual.trace.steps[0].micros))
        if usual.trace.has_scaler:
            # An enabled scaler looks for NaN; the host may lack operations that it needs.
            scaled = self._runs.run(usual.values.case._replace(scales=True))
            usual = usual if scaled.raised is not None or not scaled.trace.steps else scaled
        return [self._after_nan(usual, per_step, index) for index in dict.fromkeys((per_step, 2 * per_step - 1))]

    def _after_nan(self, usual: Run, per_step: int, index: int) -> AfterNan:
        run = self._runs.run(usual.values.case._replace(poisoned=[index]))
        trace = run.trace
        stops = run.raised is not None or run.is_ended
        applied = [step for step in trace.steps if not step.is_finite]
        moved = [step for step in applied if readings.moves(step)]
        sites = [step.site for step in moved] or [step.site for step in trace.steps] or trace.skips
        taken = run.values.loader.drawn == usual.values.loader.drawn
        recovers = len(trace.steps) - len(applied) >= len(usual.trace.steps) - 1 or not taken or stops
        return AfterNan(
            is_guarded=trace.scale != 1.0 or any(_looks_for_nan(source_of(code)) for code in trace.executed),
            stops=stops,
            steps_applied=len(moved),
            parameters=len(trace.known),
            nan_parameters=sum(not bool(each.isfinite().all()) for _, each in trace.known.values()),
            recovers=recovers,
            mixed=readings.mixed("a NaN in the last micro-batch of a step", per_step, trace.steps),
            site=most_common(sites),
        )

    def syncs(self, micro_batches: int) -> List[Line]:
        """Return the lines of the loop that read a device during the batches, in one step if possible.

        Lines that check for NaN, and steps themselves, have to read it, so they are left out.
        """
        case = Case(make_batches(micro_batches, self.feed.task), accumulate=micro_batches)
        self._runs.checked(case)  # An exception would hide later reads.
        call = self._runs.ready(self._runs.values(case))
        counted = count_syncs(call, "cpu", self._runs.roots)
        return [site for site in counted.sites if site is not None and not _HAS_TO_WAIT.search(self._text(site))]

    def _text(self, site: Site) -> str:
        """Return the text of the shortest statement at a line (of a compound one its condition), or ""."""
        roots = self._runs.roots
        lines = linecache.getlines(os.path.join(roots.folder(site.file) or roots.root, site.file))
        statements = _statements("".join(lines))
        around = [(last - first, text) for first, last, text in statements if first <= site.line <= last]
        return min(around, default=(0, ""))[1]


def _looks_for_nan(source: str) -> bool:
    """Return whether a function checks for non-finite values, other than for a log or a debugger."""
    return any(_GUARDS.search(text) and not _LOGS.search(text) for _, _, text in _statements(source))


@functools.lru_cache(maxsize=None)
def _statements(source: str) -> List[Tuple[int, int, str]]:
    """Return first line, last line and text of what each statement itself evaluates, without its body."""
    try:
        tree = ast.parse(source)
    except SyntaxError:  # a method whose text has lines that begin further left
        return []
    found = []
    for node in ast.walk(tree):
        own = getattr(node, "test", getattr(node, "iter", None)) if hasattr(node, "body") else node
        is_text = isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
        if isinstance(node, ast.stmt) and isinstance(own, (ast.stmt, ast.expr)) and not is_text:
            found.append((node.lineno, own.end_lineno or own.lineno, ast.unparse(own)))
    return found
