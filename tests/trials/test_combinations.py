"""Which rewrites are tried together: the smallest edits that may end all, and none that was seen to be in vain."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from auditkit.probing.fix.rewrites.rewrite import Rewrite
from auditkit.trials.candidates import RewriteSets


def _rewrite(name: str, probes: str, lines: int) -> Rewrite:
    return Rewrite(name, frozenset(probes), "", lambda draft: draft, (lines, 10))


def tried(claims: Mapping[str, str], wanted: str, left: Mapping[str, str] | None = None) -> list[str]:
    """The sets that are tried, of rewrites that claim to mend probes; `left` are the probes that a set leaves."""
    sets = RewriteSets([_rewrite(name, probes, 1) for name, probes in claims.items()], wanted)
    found = []
    for chosen in sets:
        found.append("".join(one.name for one in chosen))
        for probe in (left or {}).get(found[-1], ""):
            sets.left(probe, chosen)
    return found


@pytest.mark.parametrize(
    ("claims", "expected"),
    [
        ({"a": "xy", "b": "x"}, ["a", "ab"]),
        ({"a": "x", "b": "xy"}, ["b", "ab"]),
        ({"a": "x", "b": "x", "c": "y"}, ["ac", "bc", "abc"]),
        ({"a": "x"}, ["a"]),
        ({}, []),
    ],
)
def test_the_smallest_sets_that_may_mend_all_come_first(claims: Mapping[str, str], expected: list[str]) -> None:
    assert tried(claims, "xy") == expected


def test_what_left_a_finding_is_not_tried_again_without_another_rewrite_for_it() -> None:
    claims = {"a": "x", "b": "x", "c": "y", "d": "y"}
    assert tried(claims, "xy") == ["ac", "ad", "bc", "bd", "abc", "abd", "acd", "bcd"]
    assert tried(claims, "xy", {"ac": "x"}) == ["ac", "bc", "bd", "abc", "abd", "bcd", "abcd"]
    assert tried(claims, "xy", {"ac": "xy", "bd": "x"}) == ["ac", "bd", "abd", "abcd"]


def test_no_more_than_eight_are_tried() -> None:
    assert len(tried(dict.fromkeys("abcdefgh", "x"), "x")) == 8
    assert len(tried(dict.fromkeys("abcdefghijkl", "x"), "x")) == 8


def test_two_words_are_tried_before_a_helper_that_may_end_as_much() -> None:
    """A set of two small rewrites is smaller than one rewrite of eighteen lines."""
    packs, reshape, clamp = _rewrite("packs", "xy", 18), _rewrite("reshape", "x", 2), _rewrite("clamp", "y", 2)
    found = [[one.name for one in chosen] for chosen in RewriteSets([packs, reshape, clamp], "xy")]
    assert found[:2] == [["reshape", "clamp"], ["packs"]]
    assert next(iter(RewriteSets([packs, reshape], "x"))) == (reshape,)
