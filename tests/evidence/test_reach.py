"""The lists by hand of what there is to find: how candidates meet them."""

from __future__ import annotations

import pytest

from benchmarks.reach_lists import compare

NORM = {"file": "a.py", "line": 3, "function": "norm", "kind": "norm", "form": "function", "contract": "grad_norm"}
BLOCK = {**NORM, "line": 12, "last_line": 15, "function": "main", "form": "block"}
CALL = {**NORM, "line": 20, "function": "main", "form": "library_call"}
MONITOR = {**NORM, "function": "Watch.__exit__", "contract": "monitor"}


def candidate(call: str, line: int = 3, **other: object) -> dict[str, object]:
    plain = {"call": call, "file": "a.py", "line": line, "last_line": None, "places": [], "contract": "grad_norm"}
    return {**plain, "asked": False, "rung": "", "why_not": "", **other}


@pytest.mark.parametrize(
    ("place", "found", "is_found"),
    [
        (NORM, candidate("a:norm"), True),
        (NORM, candidate("package:public_name"), True),
        (NORM, candidate("a:other", 9), False),
        (NORM, candidate("b:norm", file="b.py"), False),
        (BLOCK, candidate("a.py:main#total_norm", 10, last_line=14), True),
        (BLOCK, candidate("a.py:main#total_norm", 15, last_line=18), True),
        (BLOCK, candidate("a.py:main#total_norm", 16, last_line=18), False),
        (BLOCK, candidate("a.py:other#total_norm", 10, last_line=14), False),
        (CALL, candidate("a:main", 1), False),
        (CALL, candidate("torch.nn.utils:clip_grad_norm_", places=["a.py:20 in main"]), True),
        (CALL, candidate("torch.nn.utils:clip_grad_norm_", places=["a.py:200 in main"]), False),
        (MONITOR, candidate("a:Watch.report", 30), True),
    ],
)
def test_a_candidate_is_a_place_of_its_function_its_span_or_its_call(
    place: dict[str, object], found: dict[str, object], is_found: bool
) -> None:
    reach = compare("a", [place], {"processor_s": 1.0, "candidates": [found]})
    assert reach.count("found") == is_found
    assert len(reach.false) == (not is_found)
