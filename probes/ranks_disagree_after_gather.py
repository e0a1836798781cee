#!/usr/bin/env python3
"""Do ranks that share out the replicas gather what one process has?"""

import math

PROBE = {
    "id": "ranks_disagree_after_gather",
    "version": 1,
    "title": "What the ranks gather is not what one process has",
    "contracts": ["aligned_svd", "spectral_echo"],
    "categories": ["Correctness bug", "Race condition / concurrency"],
    "agent": "PT",
    "breaks": "wrong_answer",
    "occurs": "ordinary",
    "lifecycle": "stable",
    "instrument": "ranks",
    "devices": ["cuda", "cpu"],
    "motivation": "Each rank has the gradients of its own replicas. A gather that leaves out a rank, takes one twice "
    "or loses their order gives a spectrum of another set of replicas, and where only the owner's answer is right the "
    "others log numbers that nobody compares.",
    "method": "Real ranks, 2 and 4, over gloo, or NCCL where there is a GPU for each; every rank hands over four "
    "replicas of its own. Echoes, or the matrices put together again from the factors, of every rank that answers are "
    "compared with one process on all replicas in the ranks' order. Collectives are counted: a target that calls "
    "none answers about its own replicas and does not apply.",
    "limits": "A target that gathers inside a training step (with its own model and data) cannot be asked. Ranks that "
    "return nothing are taken at their word, but one has to answer. All ranks have equally many replicas.",
    "remediation": "Gather every rank's replicas in the order of ranks, on all ranks or on one, and let the others "
    "return nothing.",
    "remediation_code": """import torch
import torch.distributed as dist


def gathered_echoes(grads_RNM):
    if dist.is_available() and dist.is_initialized():
        parts = [torch.empty_like(grads_RNM) for _ in range(dist.get_world_size())]
        dist.all_gather(parts, grads_RNM.contiguous())
        grads_RNM = torch.cat(parts)
    return spectral_echoes(grads_RNM)


@torch.no_grad()
def spectral_echoes(grads_RNM):
    replicas = grads_RNM.shape[0]
    if replicas < 3:
        raise ValueError("an echo needs 3 replicas, not {}".format(replicas))
    u_RND, _, vh_RDM = torch.linalg.svd(grads_RNM.float(), full_matrices=False)
    z_DRR = torch.einsum("and,bnd->dab", u_RND, u_RND) * torch.einsum("adm,bdm->dab", vh_RDM, vh_RDM)
    z_DRR = z_DRR * (1 - torch.eye(replicas, device=z_DRR.device))
    triples_DR = torch.einsum("dap,dpb,dab->dp", z_DRR, z_DRR, z_DRR)
    squares = z_DRR.square()
    pairs_DR = squares.sum((1, 2))[:, None] - 2 * squares.sum(1)
    squared_DR = torch.where(pairs_DR > 1e-10, triples_DR / pairs_DR.clamp_min(1e-10), 0.0)
    return squared_DR.clamp(0, 1).sqrt().mean(1)
""",
    "verification": ["every rank that answers has the answer of one process"],
    "measurements": {
        "collectives": "count",
        "answers": "truth",
        "largest_difference": "ratio",
    },
    "policy": {"tolerance": 0.001},
}

_RANKS = (2, 4)
_PER_RANK, _ROWS, _COLUMNS = 4, 24, 6


def measure(ctx):
    """Yield for every rank whether it answers, and how far its answer is from that of one process."""
    total, asked_on = 0, ctx.device
    for ranks in _RANKS:
        expected, answers, collectives = ctx.gathered(ranks, _PER_RANK, _ROWS, _COLUMNS)
        total += collectives
        yield ctx.measurement("collectives", collectives, "count", ranks=ranks)
        for rank, answer in enumerate(answers):
            case = {"ranks": ranks, "rank": rank}
            yield ctx.measurement("answers", answer is not None, "truth", **case)
            if answer is not None:
                yield ctx.measurement("largest_difference", _difference(answer, expected), "ratio", **case)
    if not total:
        raise ctx.NotApplicable("it calls no collective: it answers about the replicas that it is given")
    if ctx.device != asked_on:
        yield ctx.note("NCCL wants a GPU for each rank: the ranks met over gloo, on the CPU")
    yield ctx.location(ctx.definition())


def _difference(answer, expected):
    """The largest difference relative to the largest expected number; infinite where the shapes differ."""
    mine, theirs = list(_leaves(answer)), list(_leaves(expected))
    if len(mine) != len(theirs) or not all(isinstance(number, float) and math.isfinite(number) for number in mine):
        return math.inf
    scale = max((abs(number) for number in theirs), default=0.0) or 1.0
    return max((abs(one - other) for one, other in zip(mine, theirs, strict=True)), default=0.0) / scale


def _leaves(nested):
    if isinstance(nested, list):
        for item in nested:
            yield from _leaves(item)
    else:
        yield nested


def judge(measurements, policy):
    """Reproduced where no rank answers, or one answers something else than one process."""
    wrong = [m for m in measurements if m.name == "largest_difference" and not m.value <= policy["tolerance"]]
    silent = {
        ranks
        for ranks in {m.case["ranks"] for m in measurements}
        if not any(m.value for m in measurements if m.name == "answers" and m.case["ranks"] == ranks)
    }
    if silent:
        return {"outcome": "reproduced", "message": "no rank of {} answers".format(min(silent))}
    if not wrong:
        return {"outcome": "not_reproduced", "message": "every rank that answers has the answer of one process"}
    who = sorted({(m.case["ranks"], m.case["rank"]) for m in wrong})
    finite = [m.value for m in wrong if math.isfinite(m.value)]
    how = "by up to {:.2g} of the largest number".format(max(finite)) if finite else "in its shape"
    message = "of {} ranks, {} answer something else than one process, {}".format(
        who[-1][0], len([1 for ranks, _ in who if ranks == who[-1][0]]), how
    )
    return {"outcome": "reproduced", "message": message}


if __name__ == "__main__":
    from _alone import run_alone

    run_alone(__file__)
