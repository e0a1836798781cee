#!/usr/bin/env python3
"""Do the ranks share out the keys exactly, each key to one rank, the same way every time?"""

import collections

from forms import rows, run_alone, verdict

PROBE = {
    "title": "Shards overlap, or miss keys",
    "contracts": ["shard_plan"],
    "categories": ["Correctness bug", "Race condition / concurrency"],
    "breaks": "wrong_answer",
    "occurs": "ordinary",
    "devices": ["cpu"],
    "motivation": "A parameter that two ranks own is written twice; one without an owner is missing. Sets order texts "
    "by a hash that differs in every process, so a plan that walks a set differs from rank to rank.",
    "method": "The plan of every rank for 1 to 9 ranks and 1 to 50 keys: keys without an owner, with several, and "
    "unknown ones. Then with keys of equal text and another hash. The busiest rank's work is shown.",
    "limits": "Equal work is not judged. A plan that reads its keys from elsewhere cannot be called.",
    "remediation": "Walk a list in one fixed order and give key i to rank i mod world size.",
    "remediation_code": "remedies/shard_keys.py",
    "measurements": {
        "missing_keys": "count",
        "shared_keys": "count",
        "unknown_keys": "count",
        "moved_keys": "count",
        "busiest_over_mean_work": "ratio",
    },
}

_RANKS, _REAL_RANKS = (1, 2, 3, 4, 8, 9), (2, 4)
_KEYS = (1, 3, 8, 13, 50)
_SALTS = (0, 1, 2, 3)
_SHOWN = {"ranks": 4, "keys": 50}


def measure(ctx):
    """Yield what is missing, shared and unknown over all cases, what moves with the hash, and the balance."""
    for ranks in _RANKS if ctx.plan_names_ranks else _REAL_RANKS:
        for keys in _KEYS:
            if ctx.plan_names_ranks:
                shares = [ctx.share(keys, rank, ranks) for rank in range(ranks)]
            else:
                shares = ctx.shares_of_ranks(keys, ranks)
            yield from _rows(ctx, shares, {"ranks": ranks, "keys": keys})
    if ctx.plan_names_ranks:
        yield from _moved(ctx)
    yield ctx.location(ctx.definition())


def _rows(ctx, shares, case):
    owned = collections.Counter(key for share in shares for key in share)
    keys = range(case["keys"])
    unknown = sum(count for key, count in owned.items() if key not in keys)
    missing, shared = (sum(is_so(owned[key]) for key in keys) for is_so in (lambda n: n == 0, lambda n: n > 1))
    yield from rows(ctx, PROBE, case, missing_keys=missing, shared_keys=shared, unknown_keys=unknown)
    if case == _SHOWN and not unknown:
        work = [ctx.work_of(share) for share in shares]
        yield ctx.measurement("busiest_over_mean_work", max(work) * len(work) / max(1, sum(work)), "ratio", **case)


def _moved(ctx):
    """Return the keys whose owner differs for equal keys with another hash."""
    owners = [
        {key: rank for rank in range(_SHOWN["ranks"]) for key in ctx.share(_SHOWN["keys"], rank, _SHOWN["ranks"], salt)}
        for salt in _SALTS
    ]
    moved = {key for other in owners for key in owners[0].keys() | other.keys() if owners[0].get(key) != other.get(key)}
    yield ctx.measurement("moved_keys", len(moved), "count", **_SHOWN)


def judge(measurements, policy):
    """Reproduced if a key has no owner, several, or another one in another process."""
    said = []
    for name, words in (
        ("missing_keys", "have no owner"),
        ("shared_keys", "belong to several ranks"),
        ("unknown_keys", "were not in the input"),
        ("moved_keys", "change their owner with the hash of the process"),
    ):
        broken = [m for m in measurements if m.name == name and m.value]
        if broken:
            worst = max(broken, key=lambda m: m.value)
            said.append("{} of {keys} keys {} ({ranks} ranks)".format(worst.value, words, **worst.case))
    if said:
        return verdict(True, "; ".join(said))
    balance = [m for m in measurements if m.name == "busiest_over_mean_work"]
    message = "every key has one owner, the same in every process"
    if balance:
        text = "; the busiest of {ranks} ranks has {:.3g}x the mean work"
        message += text.format(balance[0].value, **balance[0].case)
    return verdict(False, message)


if __name__ == "__main__":
    run_alone(__file__)
