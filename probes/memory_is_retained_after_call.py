#!/usr/bin/env python3
"""What does a target still hold when its call is over, and does that grow with the calls?"""

PROBE = {
    "id": "memory_is_retained_after_call",
    "version": 2,
    "title": "Memory is retained after the call",
    "contracts": ["grad_norm", "grad_stats", "dual_stats", "monitor"],
    "categories": ["Memory leak / resource issue"],
    "agent": "PT",
    "breaks": "stops",
    "occurs": "ordinary",
    "lifecycle": "stable",
    "statement_does": "makes what outlives the call",
    "instrument": "memory",
    "motivation": "A collector is called at every step. A history of tensors, or a statistic that still hangs on the "
    "autograd graph, keeps the gradients of every step alive: a run that fits in memory ends after some tens of steps, "
    "in a place that has nothing to do with the cause.",
    "method": "One instance is called 64 times, each time with new gradients (1 MiB in four float32 tensors) that are "
    "dropped afterwards. What still lives is read from the allocator's own events, and from tracemalloc for NumPy and "
    "Python, after gc.collect(). The growth from 16 to 64 calls is a law in the number of calls; what is "
    "held without growing is judged apart. Then, with gradients that carry a graph (as create_graph=True leaves "
    "them), it is called 8 times, and one answer is kept while everything else is dropped: what each holds is counted. "
    "What is held for such gradients only is said so.",
    "limits": "A history that is longer than 64 calls before it is cut counts as growing. Memory that a library takes "
    "without the allocator or tracemalloc stays unseen. The pending answer of an asynchronous step is finished before "
    "it is looked at.",
    "remediation": "Keep numbers, not tensors: .detach() what is stored, read it with .item() when it is reported, "
    "bound every history (deque(maxlen=...)), and collect under torch.no_grad().",
    "remediation_code": """import torch


@torch.no_grad()
def gradient_norms(parameters):
    grads = [p.grad for p in parameters if p.grad is not None]
    grads = [g.coalesce().values() if g.is_sparse else g for g in grads]
    if not grads:
        return {"grad_norm": 0.0, "largest_norm": 0.0}
    norms = torch._foreach_norm(grads, 2, dtype=torch.float64)
    norms = torch.stack([norm.to(norms[0].device) for norm in norms])
    total, largest = torch.stack([torch.linalg.vector_norm(norms), norms.max()]).tolist()
    return {"grad_norm": total, "largest_norm": largest}
""",
    "verification": ["64 calls hold no more than 16", "no tensor of the answer has a grad_fn"],
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
# Growth is read between the last two: caches and lazy initialisation are over by then.
_CALLS = (1, 4, 16, 64)
# tracemalloc follows every Python object: fewer calls show what doubles.
_PYTHON_CALLS = (1, 4, 8, 16)
_GRAPH_CALLS = (4, 8)
_GRAPHS = "graphs"
_ONLY = ", only where gradients carry a graph (create_graph=True)"
_WORTH_A_LINE = _GRADIENT_BYTES // 100


def measure(ctx):
    """Yield held bytes after growing numbers of calls, their law, and what an answer with a graph keeps alive."""
    ctx.answer(_plain(ctx))
    for memory, held in (
        ("tensors", ctx.held_bytes(lambda: _plain(ctx), _CALLS)),
        ("NumPy and Python", ctx.python_held_bytes(lambda: _plain(ctx), _PYTHON_CALLS)),
    ):
        yield from _law(ctx, memory, held)
        if held[max(held)] > _WORTH_A_LINE and not ctx.located:
            yield ctx.location(ctx.where_retained(lambda: _plain(ctx)))
    yield from _answer(ctx, "plain", _plain)
    try:
        held = ctx.held_bytes(lambda: _with_graph(ctx), _GRAPH_CALLS)
        yield from _law(ctx, _GRAPHS, held)
        if held[max(held)] > _WORTH_A_LINE and not ctx.located:
            yield ctx.location(ctx.where_retained(lambda: _with_graph(ctx)))
        yield from _answer(ctx, "with graph", _with_graph)
    except ctx.TargetRaised as error:
        yield ctx.note("gradients that carry a graph were not judged: {}".format(error))


def _plain(ctx):
    return ctx.gradients(_TENSORS, _ELEMENTS)


def _with_graph(ctx):
    """Gradients that autograd can go back through; every leaf is as large as its gradient."""
    return [grad.requires_grad_().exp() for grad in _plain(ctx)]


def _law(ctx, memory, held):
    for calls, count in held.items():
        yield ctx.measurement("held_bytes", count, "bytes", calls=calls, memory=memory)
    *_, middle, last = sorted(held)
    growth = (held[last] - held[middle]) / (last - middle)
    # What a growing history holds is growth; the rest is a buffer, a cache, or nothing.
    constant = max(0.0, held[last] - growth * last)
    yield ctx.measurement("growth_per_call", growth, "bytes per call", memory=memory, law=_text(growth, constant))
    yield ctx.measurement("growth_share", growth / _GRADIENT_BYTES, "ratio", memory=memory)
    yield ctx.measurement("constant_share", constant / _GRADIENT_BYTES, "ratio", memory=memory)


def _text(growth, constant):
    return "{:,.0f} bytes a call + {:,.0f}".format(growth, constant)


def _answer(ctx, name, make):
    kept = ctx.kept_by_answer(lambda: make(ctx))
    yield ctx.measurement("kept_by_answer", kept.held / _GRADIENT_BYTES, "ratio", gradients=name)
    case = {"gradients": name, "fields": ", ".join(path or "the answer" for path in kept.paths[:5])}
    yield ctx.measurement("graph_tensors", len(kept.paths), "count", **case)
    if kept.paths and not ctx.located:
        yield ctx.location(ctx.where_retained(lambda: make(ctx), with_graph=True))


def judge(measurements, policy):
    """Reproduced where calls accumulate, where a fixed store is too large, or where the answer holds the graph."""
    every = _above(measurements, "growth_share", policy["growth_share"])
    plain = [m for m in every if m.case["memory"] != _GRAPHS]
    growing = plain or every
    stored = _above(measurements, "constant_share", policy["constant_share"])
    kind = growing[-1].case["memory"] if growing else "tensors"
    law = next(m.case["law"] for m in measurements if m.name == "growth_per_call" and m.case["memory"] == kind)
    parts = ["every call leaves {:.3g}x the gradients' bytes{}".format(m.value, _where(m)) for m in growing]
    parts += [
        "{:.3g}x the gradients' bytes stay{} for good".format(m.value, _where(m))
        for m in stored
        if m.case["memory"] != _GRAPHS
    ]
    parts += _graph_in_answer(measurements)
    if not parts:
        message = "nothing that counts is held after the call ({})".format(law)
        return {"outcome": "not_reproduced", "message": message, "law": law}
    verdict = {"outcome": "reproduced", "message": "; ".join(parts), "law": law}
    if plain:
        return verdict
    # What stays once costs memory; what only gradients of gradients hold, almost nobody has.
    is_plain = bool(stored) or any(
        m.case["gradients"] == "plain" for m in measurements if m.name == "graph_tensors" and m.value
    )
    return verdict | {"breaks": "cost", "occurs": "common" if is_plain else "extreme"}


def _above(measurements, name, limit):
    return [m for m in measurements if m.name == name and m.value > limit]


def _where(measured):
    memory = measured.case["memory"]
    return _ONLY if memory == _GRAPHS else " in " + memory


def _graph_in_answer(measurements):
    """What the answer holds of a graph; it says so where only gradients that carry one show it."""
    tensors = {m.case["gradients"]: m for m in measurements if m.name == "graph_tensors" and m.value}
    if not tensors:
        return []
    kind, when = ("plain", "") if "plain" in tensors else ("with graph", _ONLY)
    kept = next(m for m in measurements if m.name == "kept_by_answer" and m.case["gradients"] == kind)
    text = "the answer keeps the autograd graph alive ({}): {:.3g}x the gradients' bytes{}"
    return [text.format(tensors[kind].case["fields"], kept.value, when)]


if __name__ == "__main__":
    from _alone import run_alone

    run_alone(__file__)
