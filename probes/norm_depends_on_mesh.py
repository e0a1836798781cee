#!/usr/bin/env python3
"""Is the norm of gradients on meshes of several kinds the norm of one process, on every rank?"""

from forms import is_off, rank_figures, rank_rows, run_alone, verdict

PROBE = {
    "title": "The norm of gradients on several meshes is not that of one process",
    "categories": ["Correctness bug", "Race condition / concurrency"],
    "breaks": "wrong_norm",
    "occurs": "common",
    "instrument": "ranks",
    "devices": ["cuda", "cpu"],
    "motivation": "A norm that is right where all parameters are sharded alike can count others twice or never: biases "
    "beside sharded matrices, experts on their own mesh, a tied copy on the last pipeline stage (Megatron-LM 5916, "
    "7227 and 7452, NeMo RL 3788, DeepSpeed 8469 and 8478).",
    "method": "Four real ranks over gloo or NCCL. The same gradients are sharded alike, replicated or plain beside "
    "shards, uneven, FSDP2 with tensor parallel, experts on a second mesh, and two pipeline stages. Norms and clip "
    "factors are compared with one process.",
    "limits": "Applies only to packages that deal with torch's shards. A stage's own "
    "norm passes. An exception for plain tensors beside DTensors, or on two meshes, passes. Ranks without gradients "
    "are not tried.",
    "remediation": "Take the norm of each DTensor by itself, read it with full_tensor(), and add up plain numbers.",
    "remediation_code": "remedies/norm_of_shards.py",
    "measurements": {
        "one_process_norm": "norm",
        "norm": "norm",
        "one_process_clip_coefficient": "ratio",
        "clip_coefficient": "ratio",
        "raised": "truth",
        "refused": "truth",
    },
    "policy": {"tolerance": 0.0005},
}

_RANKS = 4
_ALIKE = "sharded_alike"
_MIXED = ("plain_beside_sharded", "experts")
_OF_DTENSORS = (
    *(_ALIKE, "replicated_beside_sharded", "plain_beside_sharded", "uneven_and_empty"),
    *("fsdp_and_tensor_parallel", "experts", "pipeline"),
)


def measure(ctx):
    """Yield what every rank reports on every mesh, and what one process does, of each pipeline stage too."""
    if "norm" not in ctx.roles and not ctx.plan.clips:
        raise ctx.NotApplicable("it reports no norm and clips nothing")
    if not ctx.deals_with_dtensors:
        raise ctx.NotApplicable("no code of its package deals with shards that can be told from copies")
    for number in ctx.reported_by_one().numbers("one_process_"):
        yield ctx.measurement(*number)
    for stage in (0, 1):
        for number in ctx.reported_by_one(stage).numbers("one_process_"):
            yield ctx.measurement(*number, mesh="pipeline", stage=stage)
    sites = []
    for mesh, reports in ctx.reported_by_ranks(_RANKS, _OF_DTENSORS).items():
        sites += yield from rank_rows(ctx, reports, mesh in _MIXED, mesh=mesh)
    yield ctx.location(ctx.most_common(sites))


def judge(measurements, policy):
    """Reproduced if a mesh gives a rank another number than one process, and `sharded_alike` does not."""
    ranks = [m for m in measurements if "rank" in m.case]
    wrong = {}
    for m in ranks:
        expected = _expected(m, measurements)
        if m.name in ("norm", "clip_coefficient") and expected and is_off(m.value, expected, policy["tolerance"]):
            wrong.setdefault(m.case["mesh"], m)
    raised = {m.case["mesh"]: m.case["how"] for m in ranks if m.name == "raised"}
    refused = {m.case["mesh"]: m.case["how"] for m in ranks if m.name == "refused"}
    answers = [m for m in ranks if m.name in ("norm", "clip_coefficient")]
    if not ranks:
        return verdict("not_applicable", "its ranks exchange nothing: its caller may add up")
    if {_ALIKE} & {*wrong, *raised, *refused} or not answers:
        reason = "its result is wrong even if all is sharded alike, see norm_depends_on_sharding"
        return verdict("not_applicable", reason)
    passed = [mesh for mesh in dict.fromkeys(m.case["mesh"] for m in answers) if mesh not in wrong]
    tail = ["right under " + ", ".join(passed)] * bool(passed) + _stops("it stops", refused)
    if wrong:
        figures = [rank_figures(measurements, m, _expected(m, measurements)[0], "mesh") for m in wrong.values()]
        return verdict(True, "; ".join([*figures, *tail]))
    if raised:
        message = "; ".join([*_stops("raises", raised), *tail])
        return verdict(True, message, breaks="stops", occurs="rare")
    return verdict(False, "; ".join(["every rank reports what one process does", *tail]))


def _stops(verb, found):
    """Describe where it raises, with the first of its texts; empty if it does not."""
    return ["{} under {}: {}".format(verb, ", ".join(found), how) for how in list(found.values())[:1]]


def _expected(measured, measurements):
    """Return what one process reports; for a pipeline stage also the stage's own number."""
    found = [m for m in measurements if m.name == "one_process_" + measured.name]
    stage = measured.case["rank"] // 2 if measured.case["mesh"] == "pipeline" else None
    return [m.value for m in found if m.case.get("stage") in (None, stage)]


if __name__ == "__main__":
    run_alone(__file__)
