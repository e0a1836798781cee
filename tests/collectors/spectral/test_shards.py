"""Every key has one owner, the same on every rank, and the ranks have about the same work."""

import itertools
import random
from collections.abc import Mapping

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from auditkit.collectors.spectral.ranks import ShardPlan, plan_shards


def is_exact(plan: ShardPlan, work: Mapping[str, int]) -> bool:
    return sorted(itertools.chain(*plan.keys_by_rank)) == sorted(work)


def best_makespan(work: Mapping[str, int], ranks: int) -> int:
    """The least work of the busiest rank, over all partitions."""
    costs = list(work.values())
    choices = itertools.product(range(ranks), repeat=len(costs))
    return min(
        max(sum(cost for cost, owner in zip(costs, owners, strict=True) if owner == rank) for rank in range(ranks))
        for owners in choices
    )


COST = st.integers(0, 2) | st.integers(0, 10**15)  # equal ones, too
WORK = st.dictionaries(st.text(min_size=1, max_size=8), COST, max_size=40)


@given(work=WORK, ranks=st.integers(1, 9), order=st.randoms(use_true_random=False))
def test_every_key_has_one_owner_whatever_the_order(work: dict[str, int], ranks: int, order: random.Random) -> None:
    plan = plan_shards(work, ranks)
    assert is_exact(plan, work)
    assert len(plan.keys_by_rank) == ranks
    assert plan.work_by_rank == tuple(sum(work[key] for key in keys) for keys in plan.keys_by_rank)
    assert plan.owners() == {key: rank for rank, keys in enumerate(plan.keys_by_rank) for key in keys}
    shuffled = list(work.items())
    order.shuffle(shuffled)
    assert plan_shards(dict(shuffled), ranks) == plan


@settings(max_examples=40)
@given(
    st.dictionaries(st.text(min_size=1, max_size=3), st.integers(1, 1000), min_size=1, max_size=7), st.integers(1, 3)
)
def test_the_busiest_rank_stays_within_grahams_bound(work: dict[str, int], ranks: int) -> None:
    """4/3 - 1/(3m) of the best partition, which all partitions were tried for."""
    busiest = max(plan_shards(work, ranks).work_by_rank)
    assert 3 * ranks * busiest <= (4 * ranks - 1) * best_makespan(work, ranks)


@pytest.mark.parametrize(
    ("work", "ranks", "message"),
    [
        ({"a": 1}, 0, "a plan needs at least one rank, not 0"),
        ({"b": -2, "a": -1}, 1, "the work of 'a' is negative: -1"),
    ],
)
def test_bad_plans_are_refused(work: dict[str, int], ranks: int, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        plan_shards(work, ranks)
