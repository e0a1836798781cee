#!/usr/bin/env python3
"""Does torch.compile compile the call as one graph, up to the read that its result needs?"""

from forms import counted, run_alone, verdict

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
    "limits": "Dynamo only: no code is generated, and recompilations are not seen. A function under "
    "torch.compiler.disable is not applicable.",
    "remediation": "Keep every statistic a tensor and read once, after the last operator. Use torch.where instead of "
    "if, and keep print, logging and clocks outside.",
    "remediation_code": "remedies/gradient_statistics.py",
    "measurements": {
        "graph_count": "count",
        "break_count": "count",
        "breaks_before_end": "count",
        "operators_outside_graphs": "count",
        "break_law": "per tensor",
        "operators_outside_law": "per tensor",
        "judged_break_count": "count",
        "fullgraph_failures": "count",
        "compile_errors": "count",
    },
}

_TENSOR_COUNTS = (2, 4, 8)
_ELEMENTS = 128


def measure(ctx):
    """Yield the compiled and the other operators at every number of tensors, and the line of the first break."""
    whole = not ctx.has_finish
    reads = whole and ctx.returns_host_numbers()
    traces = {}
    for tensors in _TENSOR_COUNTS:
        traces[tensors] = trace = ctx.graphs(ctx.gradients(tensors, _ELEMENTS), whole)
        if trace.error:
            yield ctx.measurement("compile_errors", 1, "count", tensors=tensors, error=trace.error)
            continue
        for name in ("graph_count", "break_count", "breaks_before_end"):
            yield ctx.measurement(name, getattr(trace, name), "count", tensors=tensors)
        yield ctx.measurement("operators_outside_graphs", trace.operators_outside, "count", tensors=tensors)
    last = traces[_TENSOR_COUNTS[-1]]
    if not (last.graph_count or last.operators_outside or last.error):
        raise ctx.NotApplicable("it runs no torch operator that could be compiled")
    breaks = {tensors: trace.breaks_before_end if reads else trace.break_count for tensors, trace in traces.items()}
    yield ctx.law("break_law", breaks)
    yield ctx.law("operators_outside_law", {tensors: trace.operators_outside for tensors, trace in traces.items()})
    refused = ctx.fullgraph_failure(ctx.gradients(2, _ELEMENTS), whole)
    case = {"tensors": 2, "reason": refused.reason if refused else ""}
    yield ctx.measurement("fullgraph_failures", int(refused is not None), "count", **case)
    stop = last.first_stop or refused
    case = {"tensors": _TENSOR_COUNTS[-1], "reads_at_end": reads, "reason": stop.reason if stop else ""}
    yield ctx.measurement("judged_break_count", breaks[_TENSOR_COUNTS[-1]], "count", **case)
    if stop is not None:
        yield ctx.location(stop.site or ctx.definition())


def judge(measurements, policy):
    """Reproduced if the graph breaks before the last operator, or at all if the call needs no read."""
    by_name = {m.name: m for m in measurements}
    if "compile_errors" in by_name:
        message = "it raises under torch.compile: " + by_name["compile_errors"].case["error"]
        return verdict(True, message, breaks="stops")
    judged, law = by_name["judged_break_count"], by_name["break_law"].case["law"]
    reads_at_end, refused = judged.case["reads_at_end"], by_name["fullgraph_failures"]
    graphs = counted(by_name["graph_count"].value, "graph")
    if judged.value:
        times = "once" if law == "1" else law + " times"
        where = " before its last operator" if reads_at_end else ", and its result needs no read"
        outside = counted(by_name["operators_outside_graphs"].value, "operator")
        message = "under torch.compile the call breaks {}{}: {reason} (at {tensors} tensors {} and {} outside)"
        return verdict(True, message.format(times, where, graphs, outside, **judged.case), law=law)
    if refused.value and not reads_at_end:
        return verdict(True, "torch.compile(fullgraph=True) refuses it: " + refused.case["reason"])
    at_end = ", and breaks only at the read at the end" if by_name["break_count"].value else ""
    return verdict(False, "torch.compile runs every operator in {}{}".format(graphs, at_end), law=law)


if __name__ == "__main__":
    run_alone(__file__)
