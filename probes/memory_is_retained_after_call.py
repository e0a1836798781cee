#!/usr/bin/env python3
"""What does a target still hold when its call is over, and does that grow with the calls?"""

from forms import rows, run_alone, verdict

PROBE = {
    "version": 3,
    "title": "Memory is retained after the call",
    "categories": ["Memory leak / resource issue"],
    "breaks": "stops",
    "occurs": "ordinary",
    "statement_does": "makes what outlives the call",
    "instrument": "memory",
    "motivation": "A collector runs at every step. A history of tensors, or a statistic with an autograd graph, keeps "
    "the gradients of every step alive until the run is out of memory.",
    "method": "One instance is called 64 times on new gradients (1 MiB). What still lives is read from the allocator "
    "and tracemalloc; growth from 16 to 64 calls is the law. With gradients that carry a graph, one result is kept and "
    "what it holds is counted.",
    "limits": "A history that is cut after more than 64 calls counts as growing. Memory outside the allocator and "
    "tracemalloc is not seen.",
    "remediation": "Store numbers, not tensors: .detach() them, bound every history (deque(maxlen=...)), and collect "
    "under torch.no_grad().",
    "remediation_code": "remedies/gradient_statistics.py",
    "measurements": {
        "held_bytes": "bytes",
        "growth_per_call": "bytes per call",
        "growth_share": "ratio",
        "constant_share": "ratio",
        "kept_by_answer": "ratio",
        "graph_tensors": "count",
    },
    "policy": {"growth_share": 0.01, "constant_share": 1.0},
}

_TENSORS, _ELEMENTS = 4, 1 << 16
_GRADIENT_BYTES = _TENSORS * _ELEMENTS * 4
# The growth between the last two counts is judged: by then caches and lazy initialization are over.
_CALLS = (1, 4, 16, 64)
# tracemalloc follows every Python object, so fewer calls show a doubling.
_PYTHON_CALLS = (1, 4, 8, 16)
_GRAPH_CALLS = (4, 8)
_GRAPHS = "graphs"
_ONLY = ", only where gradients carry a graph (create_graph=True)"
_WORTH_A_LINE = _GRADIENT_BYTES // 100


def measure(ctx):
    """Yield held bytes after growing numbers of calls, their law, and what a result with a graph keeps alive."""
    ctx.answer(_plain(ctx))
    yield from _held(ctx, "tensors", _plain, _CALLS)
    yield from _held(ctx, "NumPy and Python", _plain, _PYTHON_CALLS, python=True)
    yield from _answer(ctx, "plain", _plain)
    try:
        yield from _held(ctx, _GRAPHS, _with_graph, _GRAPH_CALLS)
        yield from _answer(ctx, "with graph", _with_graph)
    except ctx.TargetRaised as error:
        yield ctx.note("gradients that carry a graph were not judged: {}".format(error))


def _plain(ctx):
    return ctx.gradients(_TENSORS, _ELEMENTS)


def _with_graph(ctx):
    """Return gradients with a graph; every leaf is as large as its gradient."""
    return [grad.requires_grad_().exp() for grad in _plain(ctx)]


def _held(ctx, memory, make, counts, **how):
    held = ctx.held_bytes(lambda: make(ctx), counts, **how)
    for calls, count in held.items():
        yield ctx.measurement("held_bytes", count, "bytes", calls=calls, memory=memory)
    *_, middle, last = sorted(held)
    growth = (held[last] - held[middle]) / (last - middle)
    # A growing history is growth; the rest is a buffer, a cache, or nothing.
    constant = max(0.0, held[last] - growth * last)
    law = "{:,.0f} bytes a call + {:,.0f}".format(growth, constant)
    yield ctx.measurement("growth_per_call", growth, "bytes per call", memory=memory, law=law)
    shares = {"growth_share": growth / _GRADIENT_BYTES, "constant_share": constant / _GRADIENT_BYTES}
    yield from rows(ctx, PROBE, {"memory": memory}, **shares)
    if held[last] > _WORTH_A_LINE and not ctx.located:
        yield ctx.location(ctx.where_retained(lambda: make(ctx)))


def _answer(ctx, name, make):
    kept = ctx.kept_by_answer(lambda: make(ctx))
    yield ctx.measurement("kept_by_answer", kept.held / _GRADIENT_BYTES, "ratio", gradients=name)
    case = {"gradients": name, "fields": ", ".join(path or "the result" for path in kept.paths[:5])}
    yield ctx.measurement("graph_tensors", len(kept.paths), "count", **case)
    if kept.paths and not ctx.located:
        yield ctx.location(ctx.where_retained(lambda: make(ctx), with_graph=True))


def judge(measurements, policy):
    """Reproduced if calls accumulate memory, a fixed store is too large, or the result keeps the graph alive."""
    every = _above(measurements, "growth_share", policy["growth_share"])
    plain = [m for m in every if m.case["memory"] != _GRAPHS]
    growing = plain or every
    constant = _above(measurements, "constant_share", policy["constant_share"])
    stored = [m for m in constant if m.case["memory"] != _GRAPHS]
    kind = growing[-1].case["memory"] if growing else "tensors"
    law = next(m.case["law"] for m in measurements if m.name == "growth_per_call" and m.case["memory"] == kind)
    parts = ["every call leaves {:.3g}x the gradients' bytes{}".format(m.value, _where(m)) for m in growing]
    parts += ["{:.3g}x the gradients' bytes stay{} for good".format(m.value, _where(m)) for m in stored]
    parts += _graph_in_answer(measurements)
    if not parts:
        return verdict(False, "nothing that counts is held after the call ({})".format(law), law=law)
    found = verdict(True, "; ".join(parts), law=law)
    if plain:
        return found
    # A fixed store costs memory; a graph of gradients of gradients exists in few runs.
    graphs = {m.case["gradients"] for m in _above(measurements, "graph_tensors", 0)}
    return found | {"breaks": "cost", "occurs": "common" if stored or "plain" in graphs else "extreme"}


def _above(measurements, name, limit):
    return [m for m in measurements if m.name == name and m.value > limit]


def _where(measured):
    memory = measured.case["memory"]
    return _ONLY if memory == _GRAPHS else " in " + memory


def _graph_in_answer(measurements):
    """Describe how much of a graph the result keeps alive, and whether only gradients with a graph show it."""
    tensors = {m.case["gradients"]: m for m in _above(measurements, "graph_tensors", 0)}
    if not tensors:
        return []
    kind, when = ("plain", "") if "plain" in tensors else ("with graph", _ONLY)
    kept = next(m for m in measurements if m.name == "kept_by_answer" and m.case["gradients"] == kind)
    size = ": {:.3g}x the gradients' bytes".format(kept.value) if kept.value >= 0.01 else ""
    return ["the result keeps the autograd graph alive ({}){}{}".format(tensors[kind].case["fields"], size, when)]


if __name__ == "__main__":
    run_alone(__file__)
