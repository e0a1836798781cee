#!/usr/bin/env python3
"""Can the collecting step be captured in a CUDA graph, and does the replay return what a call returns?"""

from forms import run_alone, verdict

PROBE = {
    "title": "The collection cannot be captured in a CUDA graph",
    "categories": ["Performance bottleneck", "API design / contract violation"],
    "breaks": "cost",
    "occurs": "rare",
    "instrument": "graph_capture",
    "devices": ["cuda"],
    "motivation": "A captured training step is replayed without Python. A read, a copy from pageable memory or a "
    "branch on a value ends the capture of the whole step, or freezes the first step's number into it.",
    "method": "The collecting step is warmed up and captured by torch.cuda.graph. After new values are copied into the "
    "same gradients, the replayed result must equal an ordinary call bit by bit.",
    "limits": "Needs a CUDA device. A collector that returns Python numbers in one step promises no capture: not "
    "applicable.",
    "remediation": "Return device tensors from the collecting step, use torch.where instead of if, and make no tensor "
    "from Python data in it.",
    "remediation_code": "remedies/collect_norm_async.py",
    "measurements": {"captured": "truth", "unequal_fields": "count"},
}

_TENSORS, _ELEMENTS = 8, 128


def measure(ctx):
    """Yield whether the capture succeeds, and how many fields of the replayed result differ."""
    replay = ctx.replay(ctx.gradients(_TENSORS, _ELEMENTS), ctx.gradients(_TENSORS, _ELEMENTS, magnitude=3.0))
    if ctx.unequal_fields(replay.ordinary, replay.repeated):
        raise ctx.NotApplicable("two ordinary calls on the same gradients return results that are not equal bit by bit")
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
    """Reproduced if the capture fails, or the replay returns something else than a call."""
    captured = next(m for m in measurements if m.name == "captured")
    if not captured.value:
        return verdict(True, "the collecting step cannot be captured: {}".format(captured.case["error"]))
    unequal = next(m for m in measurements if m.name == "unequal_fields")
    if unequal.value:
        case = {**unequal.case, "field": unequal.case["field"] or "answer"}
        message = (
            "captured, but the replay returns {field} = {replayed} and a call returns {ordinary} ({} fields differ)"
        )
        return verdict(True, message.format(unequal.value, **case), breaks="wrong_answer")
    return verdict(False, "captured, and the replay on new values equals a call bit by bit")


if __name__ == "__main__":
    run_alone(__file__)
