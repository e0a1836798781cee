#!/usr/bin/env python3
"""Do sparse gradients raise, or count an element twice?"""

import math

from forms import run_alone

PROBE = {
    "version": 2,
    "title": "Sparse gradients raise or are counted twice",
    "categories": ["Correctness bug", "Defensive programming violation"],
    "breaks": "wrong_norm",
    "occurs": "rare",
    "only_if_written": "sparse *= *True|SparseAdam|to_sparse|sparse_(coo|cs[rc]|bs[rc])|is_sparse|coalesce",
    "motivation": "nn.Embedding(sparse=True) leaves an uncoalesced gradient: a row that was looked up twice is stored "
    "twice. view() and norms with a dtype raise on it, and a norm of its stored values is wrong.",
    "method": "The gradient of a small embedding is given dense, coalesced, and uncoalesced with one row stored twice. "
    "Norm, NaN and Inf counts must be the same, and nothing else may turn non-finite. A refusal that names sparse "
    "gradients passes.",
    "limits": "Zero counts and fractions are shown, not judged. Other norms than the total are compared only between "
    "the two sparse forms. CSR and CSC are not tried.",
    "remediation": "Use g.coalesce().values() for sparse gradients, or refuse them in words. coalesce() of a CUDA "
    "gradient synchronizes.",
    "remediation_code": "remedies/total_norm.py",
    "measurements": {"sound": "truth", "norm": "norm", "zeros": "count or fraction"},
}

_TOLERANCE = 1e-4
_AFTERWARDS = "the gradients' norm afterwards"
# One of them moves a norm, a count of zeros or of what is not finite.
_OTHERS = (64.0, 0.0, float("nan"))
_PLANTED = {"nan": float("nan"), "inf": float("inf")}


def measure(ctx):
    """Yield for each form whether it is answered rightly, and the norm and the zeros that each reads."""
    dense = _ask(ctx, "dense")
    if not _is_read(ctx, dense):
        raise ctx.NotApplicable("its answer does not follow the embedding's gradient, dense as it may be")
    answers = {"dense": dense}
    yield from _shown(ctx, "dense", dense)
    for form in ("coalesced", "uncoalesced"):
        how, kind, site = _what_is_wrong(ctx, form, answers)
        yield ctx.measurement("sound", kind in ("", "refuses"), "truth", form=form, kind=kind, how=how)
        if form in answers:
            yield from _shown(ctx, form, answers[form])
        if kind not in ("", "refuses") and not ctx.located:
            yield ctx.location(site)


def _is_read(ctx, dense):
    """Whether the answer follows the embedding's gradient where it is dense."""
    try:
        return any(ctx.differences(dense, _ask(ctx, "dense", special)) for special in _OTHERS)
    except ctx.TargetRaised:
        return True


def _ask(ctx, form, special=1.0):
    """The answer, and for a target that writes what it made of the gradients: their values may be a copy."""
    grads = ctx.sparse(form, special)
    answer = ctx.answer(grads)
    if ctx.writes_gradients:
        answer[_AFTERWARDS] = ctx.exact_norm(grads)
    return answer


def _what_is_wrong(ctx, form, answers):
    """(words, kind, site) of what `form` breaks: it raises, refuses, or differs; empty words for nothing."""
    try:
        answers[form] = _ask(ctx, form)
        wrong = _wrong_fields(ctx, form, answers) + _wrong_counts(ctx, form)
    except ctx.TargetRaised as error:
        refuses = error.deliberate and "sparse" in str(error).lower()
        return str(error).split(". ")[0][:160], "refuses" if refuses else "raises", error.site
    if not wrong:
        return "", "", None
    both = ctx.sparse("uncoalesced"), ctx.sparse("coalesced")
    site = ctx.where_different(*both) if form == "uncoalesced" else ctx.definition()
    return ", ".join(wrong), "differs", site


def _wrong_fields(ctx, form, answers):
    answer, dense = answers[form], answers["dense"]
    lost = ctx.lost_fields(dense, answer)
    if lost:
        return [lost]
    wrong = [
        "{} turns {}".format(path or "the answer", value)
        for path, value in answer.items()
        if isinstance(value, float) and not math.isfinite(value) and math.isfinite(dense.get(path, math.nan))
    ]
    known = answers.get("coalesced", dense) if form == "uncoalesced" else dense
    judged = [ctx.role("norm").path] if "norm" in ctx.roles else []
    if form == "coalesced" and judged and not _ignores_elements(ctx, dense[judged[0]]):
        return wrong
    judged += [_AFTERWARDS] if _AFTERWARDS in dense else []
    for path in judged:
        if not wrong and _far(answer.get(path), known.get(path)):
            wrong.append("{} {:.6g} instead of {:.6g}".format(path or "the norm", answer.get(path), known[path]))
    return wrong


def _ignores_elements(ctx, norm):
    """Whether the norm is the total, or the total for each tensor: not divided by a number of elements."""
    grads = ctx.sparse("dense")
    exact, degree = ctx.exact_norm(grads), ctx.role("norm").degree
    return any(not _far(norm, known) for known in (exact**degree, exact**degree / len(grads)))


def _wrong_counts(ctx, form):
    """NaN and Inf counts that differ from the dense gradient's; fractions depend on what counts as an element."""
    wrong = []
    for kind, special in _PLANTED.items():
        role = ctx.roles.get(kind)
        if role is None or role.kind != "count":
            continue
        expected = ctx.answer(ctx.sparse("dense", special)).get(role.path)
        read = ctx.answer(ctx.sparse(form, special)).get(role.path)
        if read != expected:
            wrong.append("{} {} instead of {}".format(role.path, read, expected))
    return wrong


def _far(value, expected):
    if value is None or expected is None:
        return value is not expected
    return abs(value - expected) > _TOLERANCE * max(abs(value), abs(expected))


def _shown(ctx, form, answer):
    for name, role in (("norm", "norm"), ("zeros", "zero")):
        if role in ctx.roles:
            unit = PROBE["measurements"][name]
            yield ctx.measurement(name, answer.get(ctx.role(role).path), unit, form=form)


def judge(measurements, policy):
    """Reproduced where a form raised or differed."""
    forms = [m for m in measurements if m.name == "sound"]
    broken = [m for m in forms if not m.value]
    if not broken:
        refused = next((m.case["how"] for m in forms if m.case["kind"] == "refuses"), "")
        message = "it refuses sparse gradients in words: " + refused
        if not refused:
            compared = any(m.name != "sound" for m in measurements)
            what = "read as their dense values" if compared else "give an answer, without a norm or count to compare"
            message = "coalesced and uncoalesced gradients " + what
        return {"outcome": "not_reproduced", "message": message}
    silent = [m for m in broken if m.case["kind"] == "differs"]
    message = "; ".join(
        "{} gradients: {}{}".format(m.case["form"], "" if m in silent else "raises ", m.case["how"]) for m in broken
    )
    if len(broken) == 2 and len({m.case["how"] for m in broken}) == 1:
        message = "sparse gradients: {}{}".format("" if silent else "raises ", broken[0].case["how"])
    verdict = {"outcome": "reproduced", "message": message}
    # Dense clipping refuses them everywhere, torch's own too; who trains with them is told at the first call.
    return verdict if silent else verdict | {"breaks": "stops", "occurs": "extreme"}


if __name__ == "__main__":
    run_alone(__file__)
