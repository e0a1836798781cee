#!/usr/bin/env python3
"""How far is the alignment of singular directions from the best assignment, over gap and noise?"""

from forms import rows, run_alone, verdict

PROBE = {
    "title": "The alignment of singular directions is not the best one",
    "contracts": ["aligned_svd"],
    "categories": ["Correctness bug", "Numerical stability"],
    "breaks": "wrong_answer",
    "occurs": "rare",
    "devices": ["cuda", "cpu"],
    "motivation": "Noise swaps neighbouring singular directions between replicas. Greedy matching cannot undo an early "
    "wrong match, so echoes come out too low.",
    "method": "Replicas of a known matrix plus noise, for three gaps between singular values and five noise levels. "
    "The score |<u, u_ref>||<v, v_ref>| of the result is compared with the best assignment of the same directions.",
    "limits": "The reference is the first replica, the mean gradient or that of the first half, whichever fits best. "
    "Signs are not judged.",
    "remediation": "Assign with scipy.optimize.linear_sum_assignment on the similarity to the reference.",
    "remediation_code": "remedies/aligned_svds.py",
    "measurements": {
        "alignment_score": "score",
        "optimal_score": "score",
        "relative_shortfall": "ratio",
        "breaking_noise": "noise",
    },
    "policy": {"shortfall": 0.001},
}

_SIZES = (6, 16, 12)
_GAPS = (0.5, 0.1, 0.02)
_NOISES = (0.03, 0.1, 0.3, 1.0, 3.0)


def measure(ctx):
    """Yield score and optimum for each gap and noise, against the reference that the results fit best."""
    cases = {}
    for gap in _GAPS:
        for noise in _NOISES:
            cases[gap, noise] = ctx.alignment_scores(ctx.matrices("replicas", *_SIZES, gap=gap, noise=noise))
    names = next(iter(cases.values()))
    reference = max(names, key=lambda name: sum(scores[name][0] / scores[name][1] for scores in cases.values()))
    for (gap, noise), scores in cases.items():
        score, optimum = scores[reference]
        case = {"gap": gap, "noise": noise, "reference": reference}
        shortfall = max(0.0, 1 - score / optimum)
        yield from rows(ctx, PROBE, case, alignment_score=score, optimal_score=optimum, relative_shortfall=shortfall)
    shortfalls = {case: 1 - scores[reference][0] / scores[reference][1] for case, scores in cases.items()}
    for gap in _GAPS:
        breaking = [noise for noise in _NOISES if shortfalls[gap, noise] > PROBE["policy"]["shortfall"]]
        yield ctx.measurement("breaking_noise", min(breaking, default=None), "noise", gap=gap)
    yield ctx.location(ctx.definition())


def judge(measurements, policy):
    """Reproduced if a case falls short of its optimum by more than the policy allows."""
    shortfalls = [m for m in measurements if m.name == "relative_shortfall"]
    worst = max(shortfalls, key=lambda m: m.value)
    scores = {m.name: m.value for m in measurements if m.case == worst.case}
    breaking = {m.case["gap"]: m.value for m in measurements if m.name == "breaking_noise"}
    law = "; ".join("gap {:g}: from noise {:g}".format(gap, noise) for gap, noise in breaking.items() if noise)
    if worst.value <= policy["shortfall"]:
        message = "the best assignment to {} in all {} cases of gap and noise"
        return verdict(False, message.format(worst.case["reference"], len(shortfalls)), law="optimal")
    message = "score {alignment_score:.3f} where {optimal_score:.3f} can be had (gap {gap:g}, noise {noise:g}), "
    message += "{:.1%} less, aligned to {reference}"
    occurs = "common" if worst.value > 0.25 else "rare"
    return verdict(True, message.format(worst.value, **scores, **worst.case), occurs=occurs, law=law)


if __name__ == "__main__":
    run_alone(__file__)
