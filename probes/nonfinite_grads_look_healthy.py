#!/usr/bin/env python3
"""Does a NaN or Inf gradient leave the result finite, or its health untouched?"""

import math
import re

from forms import attempt, run_alone, verdict

PROBE = {
    "version": 4,
    "title": "Non-finite gradients look healthy",
    "categories": ["Correctness bug", "Numerical stability"],
    "breaks": "wrong_answer",
    "occurs": "ordinary",
    "motivation": "Every comparison with NaN is false: a health score made of 'norm < low' and 'norm > high' stays "
    "perfect when all gradients are NaN.",
    "method": "One NaN or Inf is planted in a matrix, a vector, a 3-D tensor, and in the 14th of 24 gradients. It is "
    "visible if a count rises, a flag, text or health value changes, a number becomes None, the norm turns negative, "
    "or the target raises. Without a health value, a non-finite number is enough.",
    "limits": "A flag is a truth value, or 0.0 or 1.0; a health value is known by its name. Warnings in logs are not "
    "seen. Results that leave some gradients out are judged only where a flag or health value speaks of all. A check "
    "for NaN is not judged on Inf.",
    "remediation": "Count non-finite elements, or test the total norm with isfinite, before any threshold is compared.",
    "remediation_code": "remedies/gradient_statistics.py",
    "measurements": {"visible": "truth", "health": "value", "health_stays": "truth", "norm": "norm"},
}

_KINDS = (("nan", math.nan), ("inf", math.inf))
_SOUND = 0.5
_DIMENSIONS = (2, 1, 3)
_FEW, _MANY = 3, 24
# (number of gradients, the index of the planted one): each of three, and one that a check of the first or last ten
# misses.
_PLACES = ((_FEW, 0), (_FEW, 1), (_FEW, 2), (_MANY, 13))
_OF_ALL = re.compile("nan|inf|finite|valid|bad", re.IGNORECASE)
_PROMISES = {"nan": "nan(?!c|o)", "inf": "inf(?!o|er|l)"}
# Words for both NaN and Inf, and for alarms.
_PROMISE = re.compile(
    r"(?<!in)finite|valid|bad|health|overflow|corrupt|broken|sane|sanity|skip|may_|should_|can_|(?<![a-z])ok(?![a-z])|"
    "explo|unstable|diverg|anomal",
    re.IGNORECASE,
)


def measure(ctx):
    """Yield for each place of a NaN and of an Inf: is it visible, by what, and what the norm and the health read."""
    if not ctx.plan.fields:
        raise ctx.NotApplicable("it returns nothing, so no value could show a NaN")
    rows, left_out = [], []
    for tensors, index in _PLACES:
        case = {"dimensions": _DIMENSIONS[index % 3], "tensors": tensors}
        found = list(_of_place(ctx, tensors, index, case))
        if any(map(_is_hidden, found)) and not _is_judged(ctx, tensors, index):
            left_out.append(_place(case))
        else:
            rows += found
    if not rows:
        raise ctx.NotApplicable("its result follows none of the gradients that a NaN was planted in")
    if any(map(_is_hidden, rows)) and not ctx.plan.health and all(float(each).is_integer() for each in _moving(ctx)):
        # Truth values, counts, signs and zeros promise only the kinds that they find somewhere or name in words.
        kinds = {row["case"]["kind"] for row in rows if row["name"] == "visible" and row["value"]}
        kinds.update(kind for kind in _PROMISES if _speaks_of(kind, ctx.own_words))
        rows = [row for row in rows if row["case"]["kind"] in kinds]
    if not rows:
        raise ctx.NotApplicable("no number of its result follows the size of the gradients, and it promises no check")
    is_hidden = any(map(_is_hidden, rows))
    if is_hidden and not (set(ctx.roles) or ctx.plan.health or _promises(ctx)):
        raise ctx.NotApplicable("it returns no norm, count, flag or health value, and so promises no check")
    if is_hidden and _is_a_factor(ctx):
        raise ctx.NotApplicable("its result is a factor: it falls as the gradients grow")
    if left_out and not is_hidden:
        message = "NaN and Inf are visible where its result follows the gradients, and it follows nothing of "
        raise ctx.NotApplicable(message + ", ".join(left_out))
    yield from rows
    if is_hidden:
        yield ctx.location(ctx.definition())


def _is_hidden(row):
    return (row["name"], row["value"]) in (("visible", False), ("health_stays", True))


def _of_place(ctx, tensors, index, place):
    """Return the measurements of a NaN and of an Inf in the gradient `index`."""

    def read(special, seed=0):
        return [call(ctx.planted(index, special, tensors, seed)) for call in (ctx.answer, ctx.words)]

    sound, texts = read(_SOUND)
    others = ctx.words(ctx.planted(index, _SOUND, tensors, seed=1))
    for kind, special in _KINDS:
        case = {"kind": kind, **place}
        found, error = attempt(ctx, read, special)
        if error is not None:
            yield ctx.measurement("visible", True, "truth", by="raises " + str(error)[:80], **case)
            continue
        answer, said = found
        signals = explicit_signals(ctx, sound, answer)
        # A text that differs between finite gradients, such as a formatted number, is ignored.
        changed = [path for path in {**texts, **said} if said.get(path) != texts.get(path) == others.get(path)]
        signals += ["{}: {}".format(path or "the result", said.get(path, "gone")) for path in changed]
        yield from _rows(ctx, case, signals, sound, answer)


def _rows(ctx, case, signals, sound, answer):
    numbers = [path or "the result" for path, value in answer.items() if isinstance(value, float) and value - value]
    signals = signals + (["the result is empty"] if sound and not answer and not signals else [])
    tells = signals or ([] if ctx.plan.health else numbers)
    yield ctx.measurement("visible", bool(tells), "truth", by=", ".join(tells) or "nothing", **case)
    flags = [path for path, value in sound.items() if isinstance(value, bool) and _speaks_of(case["kind"], path)]
    watched = list(dict.fromkeys([*ctx.plan.health, *flags]))
    for path in watched:
        stays = path in sound and path in answer and (path or "answer") not in signals
        stays = stays and not _is_told_by_a_twin(path, watched, [*signals, *numbers])
        yield ctx.measurement("health", answer.get(path), "value", field=path, **case)
        yield ctx.measurement("health_stays", stays, "truth", field=path, **case)
    if "norm" in ctx.roles:
        yield ctx.measurement("norm", answer.get(ctx.role("norm").path), "norm", **case)


def _is_told_by_a_twin(path, watched, tells):
    """Return whether the same field of another part of the result, such as another model's, covers these gradients."""
    part, _, name = path.rpartition(".")
    twins = {each.rpartition(".")[0] for each in watched if each.rpartition(".")[2] == name}
    told = {each for each in twins if any(tell.startswith(each + "." if each else "") for tell in tells)}
    return bool(told) and part not in told


def _is_judged(ctx, tensors, index):
    """Return whether the result promises something about this gradient.

    It does if it depends on the gradient, if a flag's name says that there is no NaN, or if it depends on no finite
    gradients: then it checks all of them. A health value covers all gradients, also one that it omits because of its
    place; an omission because of the shape may be intended.
    """
    sound = ctx.answer(ctx.planted(index, _SOUND, tensors))
    has_flag = any(isinstance(value, bool) and _OF_ALL.search(path) for path, value in sound.items())
    if has_flag or ctx.reads(index, tensors) or ("" in sound and not _moving(ctx)):
        return True
    return bool(ctx.plan.health) and any(ctx.reads(index, tensors, first) for first in (index, (index + 1) % tensors))


def _speaks_of(kind, words):
    """Return whether a name or a docstring promises something about NaN or Inf."""
    return bool(_PROMISE.search(words) or re.search(_PROMISES[kind], words, re.IGNORECASE))


def _promises(ctx):
    """Return whether the target's own words name NaN or Inf, or a field is a flag or a count."""
    has_count = any(isinstance(value, int) for value in ctx.answer(ctx.benign()).values())
    return has_count or any(_speaks_of(kind, ctx.own_words) for kind, _ in _KINDS)


def _moving(ctx):
    """Return the values of the fields that change with the size of finite gradients."""
    usual, other = ctx.answer(ctx.benign()), ctx.answer([grad * grad.abs() for grad in ctx.benign()])
    return [usual[path] for path in ctx.differences(usual, other)]


def _is_a_factor(ctx):
    """Return whether the result is one number that falls as gradients grow, such as a clip coefficient."""
    usual, larger = ctx.answer(ctx.benign()), ctx.answer([grad * 2.0**10 for grad in ctx.benign()])
    return list(usual) == [""] and isinstance(usual[""], float) and 0 < larger[""] < usual[""]


def explicit_signals(ctx, sound, answer):
    """Return what shows it: a changed flag, a risen count, a dropped health value, a negative norm."""
    found = []
    for path, value in answer.items():
        before = sound.get(path)
        if path in ctx.plan.health and not (isinstance(value, bool) and isinstance(before, bool)):
            changed = before is not None and not value >= before
        elif isinstance(value, float):
            changed = value in (0.0, 1.0) and before in (0.0, 1.0) and value != before
        else:
            changed = isinstance(value, int) and isinstance(before, int) and value != before
        if changed:
            found.append(path or "answer")
    norm = answer.get(ctx.role("norm").path) if "norm" in ctx.roles else None
    if isinstance(norm, (int, float)) and norm < 0:  # a norm is never negative: a code for "not finite"
        found.append("the impossible norm {:g}".format(norm))
    counts = [ctx.role(kind).path for kind in ("nan", "inf") if kind in ctx.roles]
    return found + [path for path in counts if answer.get(path) != sound.get(path) and path not in found]


def judge(measurements, policy):
    """Reproduced if NaN or Inf was not visible."""
    hidden = [m for m in measurements if m.name == "visible" and not m.value]
    stays = [m for m in measurements if m.name == "health_stays" and m.value]
    if hidden:
        return verdict(True, _tell(measurements, hidden))
    if stays:
        fields = ", ".join(sorted({m.case["field"] for m in stays}))
        kinds = " and ".join(sorted({m.case["kind"] for m in stays}, reverse=True))
        message = "{} does not change for a planted {}, but other fields do".format(fields, kinds)
        return verdict(True, message, occurs="common")
    seen = {m.case["kind"]: m.case["by"] for m in reversed(measurements) if m.name == "visible"}
    by = "; ".join("{}: {}".format(kind, seen[kind]) for kind, _ in _KINDS if kind in seen)
    head = "NaN and Inf are" if len(seen) > 1 else "a check for one of NaN and Inf makes it"
    return verdict(False, "{} visible ({})".format(head, by))


def _tell(measurements, hidden):
    """Return where it is hidden, if not everywhere, and what health and norm read in the first such place."""
    kinds = list(dict.fromkeys(m.case["kind"] for m in hidden))
    visible = [m for m in measurements if m.name == "visible" and m.value and m.case["kind"] in kinds]
    places = " or ".join(dict.fromkeys(_place(m.case) for m in hidden))
    cases = [next(m.case for m in hidden if m.case["kind"] == kind) for kind in kinds]
    read = [
        "{} {} for {kind}".format(m.case.get("field", "norm"), m.value, **case)
        for name in ("health", "norm")
        for case in cases
        for m in measurements
        if m.name == name and all(m.case[key] == case[key] for key in ("kind", "dimensions", "tensors"))
    ]
    where, what = " in " + places if visible else "", ", ".join(read) or "the result stays finite"
    return "a planted {}{} is not flagged: {}".format(" and ".join(kinds), where, what)


def _place(case):
    if case["tensors"] == _MANY:
        return "one of {} gradients".format(_MANY)
    return "a gradient of {} dimension{}".format(case["dimensions"], "s" if case["dimensions"] > 1 else "")


if __name__ == "__main__":
    run_alone(__file__)
