"""The order of a training step: unscale, clip, step, zero, each where it has its effect."""

from __future__ import annotations

import ast
import itertools
from collections.abc import Iterator, Sequence

from auditkit.probing.patching.local_names import names_of
from auditkit.probing.patching.rewrites.edits import Edit, Rewrite, rewrite_of
from auditkit.probing.patching.rewrites.function_text import FunctionText
from auditkit.probing.patching.rewrites.step_text import (
    Step,
    StepText,
    calls,
    is_clip,
    is_unscale,
    is_zero,
    looks_for_nan,
    step_texts,
)

_LOST = frozenset({"gradients_lost_or_stale"})


def unscaled_before_clip(functions: Sequence[FunctionText]) -> Iterator[Rewrite]:
    """`scaler.unscale_(optimizer)` above what clips."""
    for text in step_texts(functions):
        edits, lines = [], []
        for clip in text.calling(is_clip):
            step = text.next_step(clip)
            if step is not None and step.scaler:
                found = _unscaled(text, clip, step)
                edits += found
                lines += [clip.lineno] if found else []
        told = "the scaler's factor is taken out of the gradients before they are clipped"
        yield from rewrite_of("unscaled_before_clip", {"clip_on_scaled_gradients"}, edits, told, lines)


def _unscaled(text: StepText, clip: ast.stmt, step: Step) -> list[Edit]:
    wanted = f"{step.scaler}.unscale_({step.optimizer})"
    suite, around = text.places[clip]
    for other in text.calling(is_unscale):
        if ast.unparse(other) != wanted:
            continue
        if other.lineno < clip.lineno:
            return []
        if text.places[other][0] is suite and (cut := text.cut(other)) is not None:
            return [cut, text.above(clip, text.text(other))]
    conditions = [one for one in text.places[step.statement][1] if one not in around]
    match conditions:
        case []:
            return [text.above(clip, wanted)]
        case [ast.If(test=test, body=body)] if step.statement in body and not any(calls(step.statement, is_clip)):
            return [text.above(clip, f"if {text.function.text(test)}:\n{text.function.step}{wanted}")]
    return []


def clipped_before_step(functions: Sequence[FunctionText]) -> Iterator[Rewrite]:
    """What clips, with what unscales for it, directly above the step."""
    for text in step_texts(functions):
        for clip in text.calling(is_clip):
            yield from _clipped(text, clip)


def _clipped(text: StepText, clip: ast.stmt) -> Iterator[Rewrite]:
    suite, around = text.places[clip]
    while len(suite) == 1 and around and isinstance(around[-1], ast.If) and not around[-1].orelse:
        clip = around[-1]  # `if max_norm > 0: clip(...)`
        suite, around = text.places[clip]
    same = [step for step in text.steps if text.places[step.statement][0] is suite]
    step = same[-1] if same else text.next_step(clip)
    if step is None or not text.function.has_own_lines(clip):
        return
    place = suite.index(clip)
    moved = [clip]
    if place and any(calls(suite[place - 1], is_unscale)):
        moved = [suite[place - 1], clip]
    cuts = [text.cut(one) for one in moved]
    if suite[place + 1 :][:1] == [step.statement] or len(suite) == len(moved) or None in cuts:
        return
    lines = "\n".join(text.text(one) for one in moved)
    edits = [*filter(None, cuts), text.above(step.statement, lines)]
    told = f"clipped directly before the step of line {step.statement.lineno}"
    yield from rewrite_of("clipped_before_step", {"clip_misses_the_step"}, edits, told, [clip.lineno])


def zeroed_once(functions: Sequence[FunctionText]) -> Iterator[Rewrite]:
    """`zero_grad` once for every step."""
    for text in step_texts(functions):
        zeros = text.calling(is_zero)
        if not zeros:
            edits = [text.below(step.statement, f"{step.optimizer}.zero_grad()") for step in text.steps]
            lines = [step.statement.lineno for step in text.steps]
            yield from rewrite_of("zeroed_after_step", _LOST, edits, "the gradients are zeroed after the step", lines)
        for zero in zeros:
            yield from _zeroed_for_step(text, zero)
            yield from _zeroed_when_left_out(text, zero)


def _zeroed_for_step(text: StepText, zero: ast.stmt) -> Iterator[Rewrite]:
    """A zero_grad of every micro-batch, moved out of their loop, or under the condition of the step."""
    loop, step = text.loop_of(zero), text.next_step(zero)
    cut, line = text.cut(zero), text.text(zero)
    if loop is None or step is None or cut is None:
        return
    edits = [cut]
    if names_of(zero).loads.isdisjoint(names_of(loop).stores):
        edits.append(text.above(loop, line))
    around = text.places[step.statement][1]
    if loop in around and around[-1] is not loop:
        edits.append(text.below(step.statement, line))
    told = "the gradients are zeroed once for a step, not for every micro-batch"
    yield from rewrite_of("zeroed_once", _LOST, edits if len(edits) > 1 else [], told, [zero.lineno])


def _zeroed_when_left_out(text: StepText, zero: ast.stmt) -> Iterator[Rewrite]:
    """Zeroed as well where a step is left out for what is not finite."""
    told = "the gradients are zeroed also where the step is left out"
    suite, around = text.places[zero]
    asked, cut = (around[-1] if around else zero), text.cut(zero)
    if looks_for_nan(asked) and cut is not None and any(one.statement in suite for one in text.steps):
        edits = [cut, text.function.line_after(asked, text.text(zero))]
        yield from rewrite_of("zeroed_when_left_out", _LOST, edits, told, [zero.lineno])
    for statement, (body, outside) in text.places.items():
        leaves = isinstance(statement, ast.Continue | ast.Return) and text.function.has_own_lines(statement)
        is_asked = bool(outside) and looks_for_nan(outside[-1]) and zero not in body
        if leaves and is_asked and statement.lineno > min([one.lineno for one in text.backward], default=0):
            edits = [text.above(statement, text.text(zero))]
            yield from rewrite_of("zeroed_when_left_out", _LOST, edits, told, [statement.lineno])


def stepped_once(functions: Sequence[FunctionText]) -> Iterator[Rewrite]:
    """The second of two equal steps, one behind the other, taken out."""
    for text in step_texts(functions):
        for one, other in itertools.pairwise(step.statement for step in text.steps):
            suite = text.places[other][0]
            is_again = suite[suite.index(other) - 1] is one and ast.dump(one) == ast.dump(other)
            edits = [cut for cut in [text.cut(other)] if cut is not None and is_again]
            yield from rewrite_of("stepped_once", _LOST, edits, "one step of these gradients", [other.lineno])


def left_out_if_nonfinite(functions: Sequence[FunctionText]) -> Iterator[Rewrite]:
    """A step only of finite gradients: by the norm that clipping gives, else by asking each."""
    for text in step_texts(functions):
        for step in text.steps:
            if not step.scaler and text.function.has_own_lines(step.statement):
                told = "the step is left out where a gradient is not finite"
                edits = _left_out(text, step)
                line = step.statement.lineno
                yield from rewrite_of("left_out_if_nonfinite", {"nonfinite_step_is_applied"}, edits, told, [line])


def _left_out(text: StepText, step: Step) -> list[Edit]:
    function, suite = text.function, text.places[step.statement][0]
    edits: list[Edit] = []
    norm = above = ""
    for other in suite[: suite.index(step.statement)]:
        match other:
            case ast.Assign(targets=[ast.Name(id=name)], value=ast.Call() as call) if is_clip(call):
                norm, edits = name, []
            case ast.Expr(value=ast.Call() as call) if is_clip(call):
                norm = function.fresh("norm")
                edits = [Edit(function.first(other), function.first(other), f"{norm} = ")]
    test = f"{norm}.isfinite()"
    if not norm:
        grads, each = function.fresh("gradients"), function.fresh("g")
        held = f'for group in {step.optimizer}.param_groups for p in group["params"]'
        above = f"{grads} = [p.grad {held} if p.grad is not None]\n"
        test = f"{function.torch}.stack([{each}.isfinite().all() for {each} in {grads}]).all()"
    first, blanks = function.first(step.statement), function.indentation(step.statement)
    opened = "".join(f"{line}\n{blanks}" for line in f"{above}if {test}:".split("\n"))
    return [*edits, Edit(first, first, opened + function.step)]
