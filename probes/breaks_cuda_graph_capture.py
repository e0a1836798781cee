#!/usr/bin/env python3
"""Can the collecting step be captured in a CUDA graph, and does the replay say what a call would?"""

PROBE = {
    "id": "breaks_cuda_graph_capture",
    "version": 1,
    "title": "The collection cannot be captured in a CUDA graph",
    "contracts": ["grad_norm", "grad_stats", "dual_stats", "monitor"],
    "categories": ["Performance bottleneck", "API design / contract violation"],
    "agent": "PT",
    "breaks": "cost",
    "occurs": "rare",
    "lifecycle": "stable",
    "instrument": "graph_capture",
    "devices": ["cuda"],
    "motivation": "A training step that is captured in a CUDA graph is replayed without Python: one read, one copy "
    "from pageable memory or one branch on a value inside the collector ends the capture of the whole step, or is "
    "frozen into it, so that every later step reports the first one's number.",
    "method": "The collecting step, without the one that finishes its answer, is warmed up on a side stream and "
    "captured "
    "by torch.cuda.graph. New values are copied into the same gradients, the graph is replayed, and its finished "
    "answer must be bit by bit that of an ordinary call on the new values.",
    "limits": "Needs a CUDA device: a synchronisation that is seen without one is a reason why a capture would fail, "
    "not a capture that failed. A collector that answers Python numbers in one step reads inside it and promises no "
    "capture: not applicable. One whose ordinary answers differ from call to call cannot be compared. Captures that "
    "torch.compile makes of its own are not tried.",
    "remediation": "Return device tensors from the collecting step and read them in another one. Branch with "
    "torch.where instead of if, and make no tensor from Python data inside the step.",
    "remediation_code": "remedies/collect_norm_async.py",
    "verification": [
        "the collecting step is captured, and its replay on new values equals an ordinary call bit by bit"
    ],
    "measurements": {"captured": "truth", "unequal_fields": "count"},
}

_TENSORS, _ELEMENTS = 8, 128


def measure(ctx):
    """Yield whether the capture succeeds, and how many fields of the replayed answer differ."""
    replay = ctx.replay(ctx.gradients(_TENSORS, _ELEMENTS), ctx.gradients(_TENSORS, _ELEMENTS, magnitude=3.0))
    if ctx.unequal_fields(replay.ordinary, replay.repeated):
        raise ctx.NotApplicable("two ordinary calls on the same gradients give answers that are not bit by bit equal")
    case = {"tensors": _TENSORS, "elements": _TENSORS * _ELEMENTS}
    if replay.error is not None:
        error = "{}: {}".format(type(replay.error).__name__, " ".join(str(replay.error).split())[:200])
        yield ctx.measurement("captured", False, "truth", error=error, **case)
        yield ctx.location(ctx.where_raised(replay.error))
        return
    yield ctx.measurement("captured", True, "truth", **case)
    unequal = ctx.unequal_fields(replay.ordinary, replay.replayed)
    for path in unequal[:1]:
        case.update(field=path, replayed=str(replay.replayed.get(path)), ordinary=str(replay.ordinary.get(path)))
    yield ctx.measurement("unequal_fields", len(unequal), "count", **case)
    if unequal:
        yield ctx.location(ctx.definition())


def judge(measurements, policy):
    """Reproduced where the capture fails, or where the replay says something else than a call."""
    captured = next(m for m in measurements if m.name == "captured")
    if not captured.value:
        return {
            "outcome": "reproduced",
            "message": "the collecting step cannot be captured: {}".format(captured.case["error"]),
        }
    unequal = next(m for m in measurements if m.name == "unequal_fields")
    if unequal.value:
        message = "captured, but the replay says {} = {} where a call says {} ({} fields differ)".format(
            unequal.case["field"] or "answer", unequal.case["replayed"], unequal.case["ordinary"], unequal.value
        )
        return {"outcome": "reproduced", "breaks": "wrong_answer", "message": message}
    return {"outcome": "not_reproduced", "message": "captured, and the replay on new values equals a call bit by bit"}


if __name__ == "__main__":
    from _alone import run_alone

    run_alone(__file__)
