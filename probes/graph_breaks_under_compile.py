#!/usr/bin/env python3
"""Does torch.compile take the call as one graph, up to the read that its answer needs?"""

from forms import run_alone, verdict

PROBE = {
    "title": "The graph breaks under torch.compile",
    "categories": ["torch.compile compatibility"],
    "breaks": "cost",
    "occurs": "rare",
    "statement_does": "stops the compiler",
    "instrument": "graphs",
    "motivation": "A collector inside a compiled training step is traced with it. A graph break ends fusion there, "
    "adds guards, and runs operators eagerly; a read costs a sync as well.",
    "method": "The call is compiled inside a caller at 2, 4 and 8 tensors. Graphs, breaks and operators outside graphs "
    "are counted in one run. A result of Python numbers needs a read at the end, which is not judged; otherwise every "
    "break and a failure with fullgraph=True counts.",
    "limits": "Dynamo only: no code is generated. Recompilations are shown, not judged. A function under "
    "torch.compiler.disable is not applicable.",
    "remediation": "Keep every statistic a tensor and read once, after the last operator. Use torch.where instead of "
    "if, and keep print, logging and clocks outside.",
    "remediation_code": "remedies/gradient_statistics.py",
    "measurements": {
        "graph_count": "count",
        "break_count": "count",
        "breaks_before_end": "count",
        "operators_outside_graphs": "count",
        "skipped_frames": "count",
        "break_law": "per tensor",
        "operators_outside_law": "per tensor",
        "judged_break_count": "count",
        "fullgraph_failures": "count",
        "compile_errors": "count",
        "recompiled_graphs": "count",
    },
}

_TENSOR_COUNTS = (2, 4, 8)
_ELEMENTS = 128


def measure(ctx):
    """Yield what was compiled and what was not at every number of tensors, and the line of the first break."""
    whole = not ctx.has_finish
    reads = whole and ctx.returns_host_numbers()
    traces = {}
    for tensors in _TENSOR_COUNTS:
        traces[tensors] = ctx.graphs(ctx.gradients(tensors, _ELEMENTS), whole)
        yield from _counts(ctx, traces[tensors], tensors)
    last = traces[_TENSOR_COUNTS[-1]]
    if not (last.graph_count or last.operators_outside or last.error):
        raise ctx.NotApplicable("it runs no torch operator that could be compiled")
    before_end = {tensors: trace.breaks_before_end for tensors, trace in traces.items()}
    every = {tensors: trace.break_count for tensors, trace in traces.items()}
    yield ctx.law("break_law", before_end if reads else every)
    yield ctx.law("operators_outside_law", {tensors: trace.operators_outside for tensors, trace in traces.items()})
    refused = ctx.fullgraph_failure(ctx.gradients(2, _ELEMENTS), whole)
    yield ctx.measurement(
        "fullgraph_failures", int(refused is not None), "count", tensors=2, reason=refused.reason if refused else ""
    )
    judged = (before_end if reads else every)[_TENSOR_COUNTS[-1]]
    stop = last.first_stop or refused
    yield ctx.measurement(
        "judged_break_count",
        judged,
        "count",
        tensors=_TENSOR_COUNTS[-1],
        reads_at_end=reads,
        reason=stop.reason if stop else "",
    )
    if not last.error:
        yield from _recompilations(ctx, whole)
    if stop is not None:
        yield ctx.location(stop.site or ctx.definition())


def _counts(ctx, trace, tensors):
    counted = {
        "graph_count": trace.graph_count,
        "break_count": trace.break_count,
        "breaks_before_end": trace.breaks_before_end,
        "operators_outside_graphs": trace.operators_outside,
        "skipped_frames": trace.skipped_frames,
    }
    if trace.error:
        yield ctx.measurement("compile_errors", 1, "count", tensors=tensors, error=trace.error)
        return
    for name, value in counted.items():
        yield ctx.measurement(name, value, "count", tensors=tensors)


def _recompilations(ctx, whole):
    """Two calls settle what Dynamo first takes for constant; the third and fourth should compile nothing new."""
    cases = [ctx.gradients(2, _ELEMENTS, magnitude=magnitude) for magnitude in (1.0, 2.0, 4.0)]
    compiled = ctx.compilations([*cases, ctx.gradients(3, _ELEMENTS)], whole)
    yield ctx.measurement("recompiled_graphs", compiled[2], "count", after="other values of the same shapes")
    yield ctx.measurement("recompiled_graphs", compiled[3], "count", after="another number of tensors")


def judge(measurements, policy):
    """Reproduced where the call is cut before its last operator, or at all where it needs no read."""
    by_name = {m.name: m for m in measurements}
    if "compile_errors" in by_name:
        error = by_name["compile_errors"].case["error"]
        return verdict(True, "it raises under torch.compile: " + error, breaks="stops")
    if by_name["judged_break_count"].value:
        return _broken(by_name)
    law, refused = by_name["break_law"].case["law"], by_name["fullgraph_failures"]
    if refused.value and not by_name["judged_break_count"].case["reads_at_end"]:
        text = "torch.compile(fullgraph=True) refuses it: " + refused.case["reason"]
        return verdict(True, text)
    message = "torch.compile runs every operator in {}{}".format(
        _counted(by_name["graph_count"].value, "graph"),
        ", and breaks only at the read at the end" if by_name["break_count"].value else "",
    )
    return verdict(False, message, law=law)


def _broken(by_name):
    judged, law = by_name["judged_break_count"], by_name["break_law"]
    message = "under torch.compile the call breaks {}{}: {} (at {} tensors {} and {} outside)".format(
        "once" if law.case["law"] == "1" else law.case["law"] + " times",
        " before its last operator" if judged.case["reads_at_end"] else ", and its answer needs no read",
        judged.case["reason"],
        judged.case["tensors"],
        _counted(by_name["graph_count"].value, "graph"),
        _counted(by_name["operators_outside_graphs"].value, "operator"),
    )
    return verdict(True, message, law=law.case["law"])


def _counted(number, noun):
    return "{} {}{}".format(number, noun, "" if number == 1 else "s")


if __name__ == "__main__":
    run_alone(__file__)
