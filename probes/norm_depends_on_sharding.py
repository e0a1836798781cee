#!/usr/bin/env python3
"""Is the norm of sharded gradients the norm of one process, on every rank?"""

import math

PROBE = {
    "id": "norm_depends_on_sharding",
    "version": 4,
    "title": "The norm of sharded gradients is not that of one process",
    "contracts": ["grad_norm", "grad_stats", "dual_stats", "monitor"],
    "categories": ["Correctness bug", "Race condition / concurrency"],
    "agent": "PT",
    "breaks": "wrong_norm",
    "occurs": "ordinary",
    "lifecycle": "stable",
    "instrument": "ranks",
    "devices": ["cuda", "cpu"],
    "motivation": "A rank that takes the norm of its own shard logs a number that shrinks as ranks are added, and "
    "clips by another factor than its neighbours; one that sums squares over all ranks counts replicated shards as "
    "often as there are replicas. Both look plausible (pytorch/torchtitan 766 and 2318, verl 3655, VeOmni 184, "
    "LlamaFactory 10640, torchtune 2420).",
    "method": "Real ranks, 2 and 4, over gloo, or NCCL where there is a GPU for each. A small model's gradients come "
    "from a backward pass with the same inputs in one process and in ranks: FSDP2 (fully_shard on a mesh), HSDP (two "
    "replicas of shards), tensor parallel (parallelize_module with a sequence-parallel norm), and as unreduced "
    "summands (Partial). fully_shard wraps the root alone, its submodules alone, and both: all three give the same "
    "gradients, and only a wrapped root is an FSDPModule; a target that takes a module is handed that one. Reported "
    "norms, and for a clipping target the factor by which it scales the whole gradients, of every rank are compared "
    "with one process. A number that comes back as a DTensor counts as a whole. Plain "
    "tensors are given once replicated, as after DDP, and once in shards, as ZeRO and FSDP1 keep them: nothing in "
    "them tells the two apart, so a target passes that is right on one. A refusal in the target's own words passes.",
    "limits": "It is asked only where code of the target's package deals with sharded gradients (imports "
    "torch.distributed.fsdp or .tensor, calls full_tensor or to_local, reduces a norm over ranks), whoever asks; of "
    "plain tensors alone where it shards them by itself. "
    "Meshes of two kinds in one model are asked about by norm_depends_on_mesh; FullyShardedDataParallel, FSDP's first "
    "version, is not fed.",
    "remediation": "Reduce DTensors by torch's own operators and read the number with full_tensor(): it knows which "
    "ranks hold which shard, whatever was wrapped. Whether the model is an FSDPModule does not tell: submodules may be "
    "sharded alone. Reduce what is not reduced yet (Partial, as the norms of sequence-parallel layers are) before its "
    "norm: torch 2.9 reads 2 to 11% too much there.",
    "remediation_code": "remedies/norm_of_shards.py",
    "verification": [
        "every rank reports the norm of one process under FSDP2 (root, submodules, both), HSDP and tensor parallel"
    ],
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
    # Code that shards by itself, over groups of its own, never meets a DTensor.
    placements = _PLACEMENTS if ctx.deals_with_dtensors else _PLAIN
    asked_on = ctx.device
    for number in ctx.reported_by_one().numbers("one_process_"):
        yield ctx.measurement(*number)
    sites = []
    for ranks in _RANKS:
        for placement, reports in ctx.reported_by_ranks(ranks, placements).items():
            for rank, report in enumerate(reports):
                case = {"placement": placement, "ranks": ranks, "rank": rank}
                for number in report.numbers():
                    yield ctx.measurement(*number, **case)
                if report.raised:
                    refused = report.raised.startswith("refuses: ")
                    name = "refused" if refused else "raised"
                    yield ctx.measurement(name, True, "truth", how=report.raised.split(". ")[0][:160], **case)
                    if not refused and placement not in _PLAIN:
                        sites.append(report.site)
    if ctx.device != asked_on:
        yield ctx.note("NCCL wants a GPU for each rank: the ranks met over gloo, on the CPU")
    yield ctx.location(ctx.most_common(sites))


def judge(measurements, policy):
    """Reproduced where a rank's number is another one, or it raises, in a placement that tells itself."""
    off, raised = {}, {}
    expected = {m.name[len("one_process_") :]: m.value for m in measurements if m.name.startswith("one_process_")}
    for m in measurements:
        if m.name in expected and _relative(m.value, expected[m.name]) > policy["tolerance"]:
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
        figures = [_figures(measurements, off[each], expected) for each in _PLACEMENTS if each in broken - set(_PLAIN)]
        message = "another number under " + ", ".join(sorted(broken))
        return {"outcome": "reproduced", "message": "; ".join([message, *figures[: len(_WRAPPINGS)]])}
    return _stops_or_passes(measurements, raised)


def _relative(value, expected):
    if math.isfinite(value) and math.isfinite(expected):
        return abs(value - expected) / max(abs(expected), 1e-30)
    return math.inf


def _figures(measurements, first, expected):
    """What all ranks report where one of them was seen to be off."""
    where = (first.name, first.case["placement"], first.case["ranks"])
    values = [
        "{:.6g}".format(m.value)
        for m in measurements
        if "rank" in m.case and (m.name, m.case["placement"], m.case["ranks"]) == where
    ]
    text = "the {} of {} ranks under {} reads {} instead of {:.6g}"
    of, ranks = first.name.replace("_", " "), first.case["ranks"]
    return text.format(of, ranks, first.case["placement"], ", ".join(dict.fromkeys(values)), expected[first.name])


def _stops_or_passes(measurements, raised):
    if raised:
        placement = sorted(raised)[0]
        message = "raises under {}: {}".format(", ".join(sorted(raised)), raised[placement])
        # Sums that were not reduced yet are a placement of few.
        occurs = "rare" if set(raised) <= {"partial"} else "ordinary"
        return {"outcome": "reproduced", "breaks": "stops", "occurs": occurs, "message": message}
    message = "every rank reports what one process does, on 2 and 4 ranks"
    refused = sorted({m.case["placement"] for m in measurements if m.name == "refused"})
    if refused:
        message += "; it refuses in words: " + ", ".join(refused)
    return {"outcome": "not_reproduced", "message": message}


if __name__ == "__main__":
    from _alone import run_alone

    run_alone(__file__)
