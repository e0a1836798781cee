#!/usr/bin/env python3
"""Do sparse gradients raise, count an element twice, or stay as they were where the target writes?"""

import math

from forms import AFTERWARDS, compare_forms, is_read, run_alone, verdict, with_norm_afterwards

PROBE = {
    "version": 3,
    "title": "Sparse gradients raise or give a wrong result",
    "categories": ["Correctness bug", "Defensive programming violation"],
    "breaks": "wrong_norm",
    "occurs": "rare",
    "motivation": "nn.Embedding(sparse=True) leaves an uncoalesced gradient: a row that was looked up twice is stored "
    "twice. view() and norms with a dtype raise on it, a norm of its stored values is wrong, and what is written to "
    "its .data is lost.",
    "method": "The gradient of a small embedding is given dense, coalesced, and uncoalesced with one row stored twice. "
    "Norm, NaN and Inf counts must be the same, and nothing else may turn non-finite. A refusal that names sparse "
    "gradients passes.",
    "limits": "Zero counts and fractions are not judged. Other norms than the total are compared only between "
    "the two sparse forms. CSR and CSC are not tried.",
    "remediation": "Read g.coalesce().values() of a sparse gradient and write to the gradient, not to its .data; or "
    "refuse it with a clear error. coalesce() of a CUDA gradient synchronizes.",
    "remediation_code": "remedies/total_norm.py",
    "measurements": {"sound": "truth"},
}

_TOLERANCE = 1e-4
_PLANTED = {"nan": math.nan, "inf": math.inf}


def measure(ctx):
    """Yield for each form whether the target reads it correctly."""
    answers = {"dense": with_norm_afterwards(ctx, ctx.sparse("dense"))}
    if not is_read(ctx, answers["dense"], lambda special: ctx.sparse("dense", special)):
        raise ctx.NotApplicable("its result does not depend on the embedding's gradient, not even a dense one")
    forms = [_form(ctx, form, answers) for form in ("coalesced", "uncoalesced")]
    yield from compare_forms(ctx, forms, lambda error, _: error.deliberate and "sparse" in str(error).lower())


def _form(ctx, form, answers):
    def run():
        grads = ctx.sparse(form)
        answers[form] = with_norm_afterwards(ctx, grads)
        is_kept = not _far(*(ctx.exact_norm(each[1:2]) for each in (grads, ctx.sparse(form))))
        return _wrong_fields(ctx, form, answers, is_kept) + _wrong_counts(ctx, form)

    def where():
        if _far(answers[form].get(AFTERWARDS), answers["dense"].get(AFTERWARDS)):
            return ctx.where_changed(ctx.sparse("dense"))  # the statement that writes
        both = ctx.sparse("uncoalesced"), ctx.sparse("coalesced")
        return ctx.where_different(*both) if form == "uncoalesced" else ctx.definition()

    return {"form": form}, run, where


def _wrong_fields(ctx, form, answers, is_kept):
    answer, dense = answers[form], answers["dense"]
    lost = ctx.lost_fields(dense, answer)
    if lost:
        return [lost]
    wrong = [
        "{} turns {}".format(path or "the result", value)
        for path, value in answer.items()
        if isinstance(value, float) and not math.isfinite(value) and math.isfinite(dense.get(path, math.nan))
    ]
    known = answers.get("coalesced", dense) if form == "uncoalesced" else dense
    judged = [ctx.role("norm").path] if "norm" in ctx.roles else []
    if form == "coalesced" and judged and not _ignores_elements(ctx, dense[judged[0]]):
        judged = []
    for path in judged + ([AFTERWARDS] if AFTERWARDS in dense else []):
        right = dense if path == AFTERWARDS else known
        if not wrong and _far(answer.get(path), right.get(path)):
            text = "{} {:.6g} instead of {:.6g}".format(path or "the norm", answer.get(path), right[path])
            is_lost = path == AFTERWARDS and is_kept
            wrong.append(text + (": what it writes to a sparse gradient is lost" if is_lost else ""))
    return wrong


def _ignores_elements(ctx, norm):
    """Return whether the norm is the total, or the total of each tensor: not divided by a number of elements."""
    grads = ctx.sparse("dense")
    exact, degree = ctx.exact_norm(grads), ctx.role("norm").degree
    return any(not _far(norm, known) for known in (exact**degree, exact**degree / len(grads)))


def _wrong_counts(ctx, form):
    """Return the NaN and Inf counts that differ from the dense gradient's; fractions depend on the element count."""
    wrong = []
    for kind, special in _PLANTED.items():
        role = ctx.roles.get(kind)
        if role is not None and role.kind == "count":
            expected, read = (ctx.answer(ctx.sparse(each, special)).get(role.path) for each in ("dense", form))
            if read != expected:
                wrong.append("{} {} instead of {}".format(role.path, read, expected))
    return wrong


def _far(value, expected):
    if value is None or expected is None:
        return value is not expected
    return abs(value - expected) > _TOLERANCE * max(abs(value), abs(expected))


def judge(measurements, policy):
    """Reproduced if a form raised or differed."""
    broken = [m for m in measurements if not m.value]
    if not broken:
        refused = next((m.case["how"] for m in measurements if m.case["kind"] == "refuses"), "")
        if refused:
            return verdict(False, "it refuses sparse gradients with a clear error: " + refused.partition(": ")[2])
        return verdict(False, "coalesced and uncoalesced gradients are read as their dense values")
    # A lost value is worse than an exception, and gradients that stay wrong make a wrong step.
    broken.sort(key=lambda m: m.case["kind"] != "differs")
    message = "; ".join("{} gradients: {}".format(m.case["form"], m.case["how"]) for m in broken)
    if len(broken) == 2 and len({m.case["how"] for m in broken}) == 1:
        message = "sparse gradients: " + broken[0].case["how"]
    differs = [m for m in broken if m.case["kind"] == "differs"]
    if differs:
        breaks = "wrong_step" if any(AFTERWARDS in m.case["how"] for m in differs) else "wrong_norm"
        return verdict(True, message, breaks=breaks, occurs={"sparse": "rare"})
    # Dense clipping raises for them everywhere at the first call, also torch's own.
    return verdict(True, message, breaks="stops", occurs="extreme")


if __name__ == "__main__":
    run_alone(__file__)
