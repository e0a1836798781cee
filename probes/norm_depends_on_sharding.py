#!/usr/bin/env python3
"""Is the norm of sharded gradients the norm of one process, on every rank?"""

from forms import is_off, rank_figures, rank_rows, run_alone, verdict

PROBE = {
    "version": 4,
    "title": "The norm of sharded gradients is not that of one process",
    "categories": ["Correctness bug", "Race condition / concurrency"],
    "breaks": "wrong_norm",
    "occurs": "ordinary",
    "instrument": "ranks",
    "devices": ["cuda", "cpu"],
    "motivation": "A rank that takes the norm of its own shard logs a number that shrinks as ranks are added and clips "
    "by another factor; a sum over all ranks counts replicas twice (torchtitan 766 and 2318, verl 3655, LlamaFactory "
    "10640).",
    "method": "Real ranks, 2 and 4, over gloo or NCCL. The gradients of a small model under FSDP2 (root, submodules, "
    "both), HSDP, tensor parallel and Partial. Norms and clip factors of every rank are compared with one process. "
    "Plain tensors are given replicated and in shards; a target that is right on one passes. So does a refusal.",
    "limits": "Applies only to packages that deal with sharded gradients; code that shards by itself gets plain "
    "tensors only. FullyShardedDataParallel is not tried.",
    "remediation": "Reduce DTensors with torch's own operators and read the number with full_tensor(). Reduce Partial "
    "gradients before their norm: torch 2.9 reads 2 to 11% too much there.",
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

_RANKS = (2, 4)
_PLAIN = ("replicated", "plain_shards")
_WRAPPINGS = ("fsdp2_root", "fsdp2_submodules", "fsdp2_root_and_submodules", "hsdp")
_PLACEMENTS = (*_PLAIN, *_WRAPPINGS, "tensor_parallel", "partial")


def measure(ctx):
    """Yield what every rank reports in every placement, and what one process does."""
    if "norm" not in ctx.roles and not ctx.plan.clips:
        raise ctx.NotApplicable("it reports no norm and clips nothing")
    if not ctx.deals_with_shards:
        raise ctx.NotApplicable("no code of its package deals with sharded gradients")
    # Code that shards tensors over its own groups never gets a DTensor.
    placements = _PLACEMENTS if ctx.deals_with_dtensors else _PLAIN
    for number in ctx.reported_by_one().numbers("one_process_"):
        yield ctx.measurement(*number)
    sites = []
    for ranks in _RANKS:
        for placement, reports in ctx.reported_by_ranks(ranks, placements).items():
            raised = yield from rank_rows(ctx, reports, placement=placement, ranks=ranks)
            sites += [] if placement in _PLAIN else raised
    yield ctx.location(ctx.most_common(sites))


def judge(measurements, policy):
    """Reproduced if a rank reports another number or raises; the plain placements count only if all of them fail."""
    off, raised = {}, {}
    expected = {m.name[len("one_process_") :]: m.value for m in measurements if m.name.startswith("one_process_")}
    for m in measurements:
        if m.name in expected and is_off(m.value, [expected[m.name]], policy["tolerance"]):
            off.setdefault(m.case["placement"], m)
        elif m.name == "raised":
            raised.setdefault(m.case["placement"], m.case["how"])
    broken = set(off)
    if set(_PLAIN) <= broken | set(raised):
        broken |= set(_PLAIN) - set(raised)
    else:
        broken -= set(_PLAIN)
        raised = {placement: how for placement, how in raised.items() if placement not in _PLAIN}
    if broken:
        shown = [off[each] for each in _PLACEMENTS if each in broken - set(_PLAIN)]
        figures = [rank_figures(measurements, m, expected[m.name], "placement", "ranks") for m in shown]
        message = "another number under " + ", ".join(sorted(broken))
        return verdict(True, "; ".join([message, *figures[: len(_WRAPPINGS)]]), occurs=_who(broken, "extreme"))
    if raised:
        placement = sorted(raised)[0]
        message = "raises under {}: {}".format(", ".join(sorted(raised)), raised[placement])
        return verdict(True, message, breaks="stops", occurs=_who(set(raised), "rare"))
    message = "every rank reports what one process does, on 2 and 4 ranks"
    refused = sorted({m.case["placement"] for m in measurements if m.name == "refused"})
    if refused:
        message += "; it refuses with a clear error: " + ", ".join(refused)
    return verdict(False, message)


def _who(placements, with_partial):
    """Return who meets it, by the placements; few code has sums that are not reduced yet."""
    return {"" if placements & set(_PLAIN) else "dtensor": with_partial if placements <= {"partial"} else "ordinary"}


if __name__ == "__main__":
    run_alone(__file__)
