#!/usr/bin/env python3
"""Do the ranks share out the keys exactly, each key to one rank, the same way every time?"""

PROBE = {
    "id": "shards_overlap_or_miss_keys",
    "version": 1,
    "title": "Shards overlap, or miss keys",
    "contracts": ["shard_plan"],
    "categories": ["Correctness bug", "Race condition / concurrency"],
    "agent": "PT",
    "breaks": "wrong_answer",
    "occurs": "ordinary",
    "lifecycle": "stable",
    "instrument": "numerics",
    "devices": ["cpu"],
    "motivation": "A parameter that two ranks own is gathered twice and written twice; one that nobody owns is missing "
    "from the plots without a word, and a gather to an owner that the other ranks see elsewhere never returns. Sets "
    "order texts by a hash that differs in every process, so a plan that walks a set differs from rank to rank.",
    "method": "The plan of every rank, for 1 to 9 ranks and 1 to 50 keys (fewer keys than ranks, counts that do not "
    "divide), read from sets, lists, slices, indices, mappings or whole plans: keys that nobody owns, that several "
    "own, and that were never handed over. Then again with keys of equal text and another hash, as another process has "
    "them. The work of the busiest rank against the mean is measured and shown.",
    "limits": "Equal work is not judged. A plan that reads the keys from elsewhere (a model, a file) cannot be asked.",
    "remediation": "Walk a list in one fixed order (the model's, or sorted) and give key i to rank i mod world size; "
    "or sort by work and give each key to the rank that has least.",
    "remediation_code": """def shard_keys(keys, rank, world_size):
    if not 0 <= rank < world_size:
        raise ValueError("rank {} of {}".format(rank, world_size))
    return [key for index, key in enumerate(keys) if index % world_size == rank]
""",
    "verification": ["every key has exactly one owner for every number of ranks, in every process"],
    "measurements": {
        "missing_keys": "count",
        "shared_keys": "count",
        "unknown_keys": "count",
        "moved_keys": "count",
        "busiest_over_mean_work": "ratio",
    },
}

_RANKS = (1, 2, 3, 4, 8, 9)
_KEYS = (1, 3, 8, 13, 50)
_SALTS = (0, 1, 2, 3)
_SHOWN = {"ranks": 4, "keys": 50}


def measure(ctx):
    """Yield what is missing, shared and unknown over all cases, what moves with the hash, and the balance."""
    if not ctx.plan_names_ranks:
        yield from _ask_real_ranks(ctx)
        return
    for ranks in _RANKS:
        for keys in _KEYS:
            shares = [ctx.share(keys, rank, ranks) for rank in range(ranks)]
            yield from _rows(ctx, shares, keys, {"ranks": ranks, "keys": keys})
    yield from _moved(ctx)
    yield ctx.location(ctx.definition())


def _ask_real_ranks(ctx):
    for ranks in (2, 4):
        for keys in _KEYS:
            shares = ctx.shares_of_ranks(keys, ranks)
            yield from _rows(ctx, shares, keys, {"ranks": ranks, "keys": keys})
    yield ctx.location(ctx.definition())


def _rows(ctx, shares, keys, case):
    owners = dict.fromkeys(range(keys), 0)
    unknown = []
    for share in shares:
        for key in share:
            if key in owners:
                owners[key] += 1
            else:
                unknown.append(key)
    yield ctx.measurement("missing_keys", sum(count == 0 for count in owners.values()), "count", **case)
    yield ctx.measurement("shared_keys", sum(count > 1 for count in owners.values()), "count", **case)
    yield ctx.measurement("unknown_keys", len(unknown), "count", **case)
    if case == _SHOWN and not unknown:
        work = [ctx.work_of(share) for share in shares]
        yield ctx.measurement("busiest_over_mean_work", max(work) * len(work) / max(1, sum(work)), "ratio", **case)


def _moved(ctx):
    """Keys whose owner is another one for equal keys with another hash."""
    owners = [
        {key: rank for rank in range(_SHOWN["ranks"]) for key in ctx.share(_SHOWN["keys"], rank, _SHOWN["ranks"], salt)}
        for salt in _SALTS
    ]
    moved = {key for other in owners for key in owners[0].keys() | other.keys() if owners[0].get(key) != other.get(key)}
    yield ctx.measurement("moved_keys", len(moved), "count", **_SHOWN)


def judge(measurements, policy):
    """Reproduced where a key has no owner, several, or another one in another process."""
    said = []
    for name, words in (
        ("missing_keys", "belong to nobody"),
        ("shared_keys", "belong to several ranks"),
        ("unknown_keys", "were never handed over"),
        ("moved_keys", "change their owner with the hash of the process"),
    ):
        broken = [m for m in measurements if m.name == name and m.value]
        if broken:
            worst = max(broken, key=lambda m: m.value)
            said.append(
                "{} of {} keys {} ({} ranks)".format(worst.value, worst.case["keys"], words, worst.case["ranks"])
            )
    if said:
        return {"outcome": "reproduced", "message": "; ".join(said)}
    balance = [m for m in measurements if m.name == "busiest_over_mean_work"]
    message = "every key has one owner, the same in every process"
    if balance:
        message += "; the busiest of {} ranks has {:.3g}x the mean work".format(
            balance[0].case["ranks"], balance[0].value
        )
    return {"outcome": "not_reproduced", "message": message}


if __name__ == "__main__":
    from _alone import run_alone

    run_alone(__file__)
