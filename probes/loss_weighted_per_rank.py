#!/usr/bin/env python3
"""Does a step over several ranks use the gradient of the mean over the targets of all ranks?"""

from forms import compared_steps, ratio_law, rows, run_alone, verdict

PROBE = {
    "title": "Ranks with few targets weigh as much as ranks with many",
    "contracts": ["train_step"],
    "categories": ["Correctness bug", "Race condition / concurrency"],
    "breaks": "wrong_step",
    "occurs": "common",
    "instrument": "ranks",
    "devices": ["cpu"],
    "motivation": "DDP and FSDP average over ranks. A loss divided by each rank's own number of tokens gives the "
    "tokens of small ranks too much weight (torchtitan 1842 and 2206, prime-rl 1960, transformers 34242).",
    "method": "Real ranks, 2 and 4, over gloo, with 2 to 20 targets each, run your step on a small model: plain, under "
    "DDP, under fully_shard. The gradient at the optimizer is compared with that of the mean over all targets.",
    "limits": "A step is judged only where its code counts targets in a package that has ranks, or ignores some and "
    "reduces over ranks. Ranks without targets and libraries' trainers are not tried.",
    "remediation": "Divide the sum of the losses by the number of targets over all ranks, and multiply by the number "
    "of ranks.",
    "remediation_code": "remedies/training_step.py",
    "measurements": {
        "norm_ratio": "ratio",
        "cosine": "ratio",
        "reduces_over_ranks": "truth",
        "counts_targets": "truth",
        "ignores_targets": "truth",
        "package_has_ranks": "truth",
        "raised": "truth",
    },
    "policy": {"allowed_ratio": 0.02, "least_cosine": 0.999},
}

_RANKS = (2, 4)


def measure(ctx):
    """Yield norm ratio and cosine of every rank's gradient, by wrapper."""
    steps = ctx.rank_steps
    says = steps.alone()
    found = {"reduces_over_ranks": says.reduces, "counts_targets": says.counts, "ignores_targets": says.ignores}
    yield from rows(ctx, PROBE, {}, **found, package_has_ranks=says.package_has_ranks)
    for ranks in _RANKS:
        for wrapping, found in steps.reached(ranks).items():
            for rank, one in enumerate(found):
                case = {"wrapping": wrapping, "ranks": ranks, "rank": rank}
                if one.raised:
                    yield ctx.measurement("raised", True, "truth", how=one.raised[:160], **case)
                else:
                    yield from rows(ctx, PROBE, case, norm_ratio=one.ratio, cosine=one.cosine)
    yield ctx.location(says.site)


def judge(measurements, policy):
    """Reproduced if a gradient is wrong under a wrapper that the step is for, and its code handles ranks."""
    says = {m.name: m.value for m in measurements if "rank" not in m.case}
    found, wrong = compared_steps(measurements, policy, "wrapping", "ranks", "rank")
    alone = [row for row in found if row[0][0] == "none"]
    judged = alone if _agree(alone) else [row for row in found if row[0][0] != "none"]
    if not judged:
        raised = next((m.case["how"] for m in measurements if m.name == "raised"), "no rank takes a step")
        return verdict("not_applicable", "it takes no step in ranks: " + raised)
    wrong = [row for row in judged if row in wrong]
    is_scaled = all(cosine > 0.999 for _, _, cosine in judged)  # the direction is right
    law = ratio_law([(key[1], ratio) for key, ratio, _ in judged], "ranks") if is_scaled else ""
    if not wrong:
        message = "every target has the same weight on {} ranks".format(max(row[0][1] for row in judged))
        return verdict(False, message, law=law)
    message = _said(wrong)
    if says["counts_targets"] and (says["reduces_over_ranks"] or says["package_has_ranks"]):
        return verdict(True, message, law=law)
    if says["ignores_targets"] and says["reduces_over_ranks"]:
        return verdict(True, message, occurs="rare", law=law)
    reason = "its code does not handle ranks with different numbers of targets; with them, " + message
    return verdict("not_applicable", reason)


def _agree(rows):
    """Return whether the ranks, whose batches differ, have the same gradient."""
    of_two = [row for row in rows if row[0][1] == _RANKS[0]]
    return len(of_two) > 1 and all(abs(row[1] / of_two[0][1] - 1) < 1e-3 for row in of_two[1:])


def _said(wrong):
    """Return the measurements of the largest number of ranks, and their wrappers."""
    names, last = {"none": "its own reduction", "ddp": "DDP", "fsdp2": "FSDP2"}, {}
    for (wrapping, ranks, _), ratio, cosine in wrong:
        last[names[wrapping]] = (ranks, "{:.3g}".format(ratio), "{:.3f}".format(cosine))
    text = "{} ranks with 2 to 20 targets give {} times the norm of the mean over all targets, at cosine {}, under {}"
    found = {}
    for name, numbers in last.items():
        found.setdefault(numbers, []).append(name)
    return "; ".join(text.format(*numbers, " and ".join(of)) for numbers, of in found.items())


if __name__ == "__main__":
    run_alone(__file__)
