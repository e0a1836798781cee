"""Which rewrites are asked together: each alone first, then the smallest sets that may mend all."""

from __future__ import annotations

import itertools
from collections.abc import Mapping

import pytest

from auditkit.workflows.fixes.combinations import sufficient_sets


def asked_until_first(mends: Mapping[str, set[str]], wanted: set[str]) -> tuple[list[str], str]:
    """The sets that were asked until the first that mends all of `wanted`, and that one; a set mends what its do."""
    asked: list[str] = []

    def mended(chosen: tuple[str, ...]) -> frozenset[str]:
        asked.append("".join(chosen))
        return frozenset().union(*(mends[one] for one in chosen))

    found = next(iter(sufficient_sets(list(mends), frozenset(wanted), mended)), ())
    return asked, "".join(found)


@pytest.mark.parametrize(
    ("mends", "asked", "found"),
    [
        ({"a": {"x", "y"}, "b": {"x"}}, ["a"], "a"),
        ({"a": {"x"}, "b": {"x", "y"}}, ["a", "b"], "b"),
        ({"a": {"x"}, "b": {"x"}, "c": {"y"}}, ["a", "b", "c", "ac"], "ac"),
        ({"a": {"x"}, "b": set()}, ["a", "b", "ab"], ""),
        ({"a": {"x"}}, ["a"], ""),
        ({}, [], ""),
    ],
)
def test_the_smallest_set_is_found_first(mends: dict[str, set[str]], asked: list[str], found: str) -> None:
    assert asked_until_first(mends, {"x", "y"}) == (asked, found)


def test_what_none_mends_is_given_up_with_all_of_them_together() -> None:
    asked, found = asked_until_first({name: set() for name in "abcdefgh"}, {"x"})
    assert found == ""
    assert asked[:8] == list("abcdefgh")
    assert asked[8:15] == ["".join(pair) for pair in itertools.islice(itertools.combinations("abcdefgh", 2), 7)]
    assert asked[15:] == ["abcdefgh"]
