#!/usr/bin/env python3
"""Does the collecting step synchronize more often than it promises?"""

from forms import run_alone, verdict

PROBE = {
    "version": 2,
    "title": "The collection synchronizes more often than it promises",
    "categories": ["Performance bottleneck", "API design / contract violation"],
    "breaks": "cost",
    "occurs": "common",
    "statement_does": "waits for the device",
    "instrument": "syncs",
    "motivation": "Callers place an asynchronous collector between kernels because it promises no sync. One hidden "
    "read stalls the stream.",
    "method": "Syncs of the collecting step alone at 4 and 64 tensors, against the promise: a number in the docstring, "
    "none for a name that ends in _async, none where the finishing step reads the result.",
    "limits": "A promise outside the code is not known. In a docstring, only sentences with a number of syncs are "
    "read.",
    "remediation": "Return device tensors and read them once, in the finishing step.",
    "remediation_code": "remedies/collect_norm_async.py",
    "measurements": {"collect_sync_count": "count", "promised_sync_count": "count"},
}

_TENSOR_COUNTS = (4, 64)
_ELEMENTS = 128


def measure(ctx):
    """Yield the promise, the exact count of the collecting step, and the first line that synchronizes too often."""
    promise = ctx.sync_promise
    if promise is None and not ctx.has_finish:
        raise ctx.NotApplicable("no docstring, name or finishing step says how often it synchronizes")
    allowed, words, place, line = promise or (0, "", "a step that finishes its result", 0)
    worst = 0
    for tensors in _TENSOR_COUNTS:
        count = ctx.syncs(ctx.gradients(tensors, _ELEMENTS), whole=False)
        worst = max(worst, count.total)
        yield ctx.measurement("collect_sync_count", count.total, "count", tensors=tensors)
    if promise is None and worst and ctx.syncs(ctx.gradients(tensors, _ELEMENTS)).total == count.total:
        reason = "it is not asynchronous: it has read before it returns, and its second step reads nothing"
        raise ctx.NotApplicable(reason)
    yield ctx.measurement("promised_sync_count", allowed, "count", words=words, place=place, line=line)
    if worst > allowed:
        waits = [site for site in count.sites[allowed:] if site is not None]
        yield ctx.location(waits[0] if waits else ctx.definition())


def judge(measurements, policy):
    """Reproduced if the collecting step synchronizes more often than promised."""
    promised = next(m for m in measurements if m.name == "promised_sync_count")
    worst = max((m for m in measurements if m.name == "collect_sync_count"), key=lambda m: m.value)
    if worst.value <= promised.value:
        times = "once" if worst.value == 1 else "{} times".format(worst.value)
        how = "synchronizes {}, as promised".format(times) if worst.value else "does not synchronize"
        return verdict(False, "the collecting step " + how, law=str(worst.value))
    message = "syncs in the collecting step: {:,} at {} tensors; promised: {}, by {}".format(
        worst.value, worst.case["tensors"], promised.value or "none", promised.case["place"]
    )
    if promised.case["words"]:
        message += ' ("{}", line {})'.format(promised.case["words"], promised.case["line"])
    # One sync per step idles the device for tens of microseconds; one per tensor stalls it hundreds of times.
    occurs = "ordinary" if worst.value - promised.value >= worst.case["tensors"] else "common"
    return verdict(True, message, occurs=occurs)


if __name__ == "__main__":
    run_alone(__file__)
