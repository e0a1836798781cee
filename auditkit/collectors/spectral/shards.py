"""Which rank analyses which parameter: an exact partition of the keys, balanced by the work of their SVDs."""

from collections.abc import Mapping
from dataclasses import dataclass


def svd_work(replicas: int, rows: int, columns: int) -> int:
    """Return what the SVDs of `replicas` matrices of `rows` x `columns` cost, up to a factor: R * N * M * min(N, M)."""
    return replicas * rows * columns * min(rows, columns)


@dataclass(frozen=True, slots=True)
class ShardPlan:
    """The keys that each rank owns, in order of their names, and the work that comes with them."""

    keys_by_rank: tuple[tuple[str, ...], ...]
    work_by_rank: tuple[int, ...]

    def owners(self) -> dict[str, int]:
        """Return the rank of every key."""
        return {key: rank for rank, keys in enumerate(self.keys_by_rank) for key in keys}


def plan_shards(work: Mapping[str, int], ranks: int) -> ShardPlan:
    """Give every key of `work` to exactly one of `ranks` ranks, so that their sums of work are close.

    The largest key first, each to the rank with the least work so far: no rank gets more than
    4/3 - 1/(3 * ranks) times what the best partition would give its busiest one (Graham 1969, "Bounds on
    multiprocessing timing anomalies"). The plan depends on names and numbers alone, not on the order of `work`,
    so every rank that computes it has the same one.

    Raises ValueError for less than one rank and for negative work.
    """
    if ranks < 1:
        raise ValueError(f"a plan needs at least one rank, not {ranks}")
    negative = sorted(key for key, cost in work.items() if cost < 0)
    if negative:
        raise ValueError(f"the work of {negative[0]!r} is negative: {work[negative[0]]}")
    keys: list[list[str]] = [[] for _ in range(ranks)]
    load = [0] * ranks
    for key in sorted(work, key=lambda key: (-work[key], key)):
        # Among equal loads the rank with fewer keys, so that keys without work are spread as well.
        rank = min(range(ranks), key=lambda rank: (load[rank], len(keys[rank]), rank))
        keys[rank].append(key)
        load[rank] += work[key]
    return ShardPlan(tuple(tuple(sorted(owned)) for owned in keys), tuple(load))
