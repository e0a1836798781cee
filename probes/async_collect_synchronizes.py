#!/usr/bin/env python3
"""Does the collecting step make the host wait more often than it promises?"""

PROBE = {
    "id": "async_collect_synchronizes",
    "version": 2,
    "title": "The collection synchronises more often than it promises",
    "contracts": ["grad_norm", "grad_stats", "dual_stats", "monitor"],
    "categories": ["Performance bottleneck", "API design / contract violation"],
    "agent": "PT",
    "breaks": "cost",
    "occurs": "common",
    "lifecycle": "stable",
    "statement_does": "waits for the device",
    "instrument": "syncs",
    "motivation": "A collector that promises to leave its results on the device is called inside a stream, between "
    "kernels, because of that promise. One hidden read serialises the stream, and nothing in the result shows it.",
    "method": "Synchronisations of the collecting step alone, without the step that finishes it, at 4 and 64 tensors, "
    "against what is promised: a number that the docstring states (no sync, one sync), none where the name ends in "
    "_async, and none where the step that finishes the answer is the one that reads. What is asynchronous is told by "
    "that: it returns before it has read, whatever it is called.",
    "limits": "A promise made only in a document outside the code is not known here; name the finishing step to ask. "
    "Of a docstring only sentences with a number of synchronisations are read; the word asynchronous is none.",
    "remediation": "Return device tensors and read them in the finishing step, once, after the stream has been "
    "waited for.",
    "remediation_code": "remedies/collect_norm_async.py",
    "verification": ["the collecting step synchronises at most as often as promised, at 4 and at 64 tensors"],
    "measurements": {"collect_sync_count": "count", "promised_sync_count": "count"},
}

_TENSOR_COUNTS = (4, 64)
_ELEMENTS = 128


def measure(ctx):
    """Yield what is promised, the exact count of the collecting step, and the first line that waits too often."""
    promise = ctx.sync_promise
    if promise is None and not ctx.has_finish:
        raise ctx.NotApplicable("nothing says how often it synchronises: no docstring, no name, no finishing step")
    if promise is None:
        allowed, case = 0, {"words": "", "place": "a step that finishes its answer", "line": 0}
    else:
        allowed, case = promise.sync_count, {"words": promise.words, "place": promise.place, "line": promise.line}
    worst = 0
    for tensors in _TENSOR_COUNTS:
        count = ctx.syncs(ctx.gradients(tensors, _ELEMENTS), whole=False)
        worst = max(worst, count.total)
        yield ctx.measurement("collect_sync_count", count.total, "count", tensors=tensors)
    if promise is None and worst and ctx.syncs(ctx.gradients(tensors, _ELEMENTS)).total == count.total:
        raise ctx.NotApplicable(
            "it is not asynchronous: it has read before it returns, and its second step reads nothing"
        )
    yield ctx.measurement("promised_sync_count", allowed, "count", **case)
    if worst > allowed:
        waits = [site for site in count.sites[allowed:] if site is not None]
        yield ctx.location(waits[0] if waits else ctx.definition())


def judge(measurements, policy):
    """Reproduced where the collecting step synchronises more often than promised."""
    promised = next(m for m in measurements if m.name == "promised_sync_count")
    worst = max((m for m in measurements if m.name == "collect_sync_count"), key=lambda m: m.value)
    if worst.value <= promised.value:
        return {"outcome": "not_reproduced", "message": _kept(worst.value), "law": "{}".format(worst.value)}
    message = "synchronisations in the collecting step: {:,} at {} tensors; promised: {}, by {}".format(
        worst.value, worst.case["tensors"], promised.value or "none", promised.case["place"]
    )
    if promised.case["words"]:
        message += ' ("{}", line {})'.format(promised.case["words"], promised.case["line"])
    # One wait a step is a few tens of microseconds of an idle device; one a tensor stalls it hundreds of times.
    occurs = "ordinary" if worst.value - promised.value >= worst.case["tensors"] else "common"
    return {"outcome": "reproduced", "occurs": occurs, "message": message}


def _kept(count):
    if not count:
        return "the collecting step performs no synchronisation"
    return "the collecting step synchronises {}, as promised".format("once" if count == 1 else "{} times".format(count))


if __name__ == "__main__":
    from _alone import run_alone

    run_alone(__file__)
