"""A comparison is read again as it was written; anything else is refused with what is wrong."""

from __future__ import annotations

import copy
import json
import math
from typing import Any

import pytest

from auditkit.model.codec import ABSENT
from auditkit.model.revisions.comparison import Agreement, Comparison
from tests.compared_results import OVERFLOW, answers, comparison


@pytest.fixture
def document() -> dict[str, Any]:
    """With what JSON has no numbers for, and with numbers that one side lacks."""
    found = comparison(values=(answers(math.inf, math.nan), answers(10.0, math.nan)[:-1]))
    loaded: dict[str, Any] = json.loads(json.dumps(found.to_json(), allow_nan=False))
    return loaded


def test_a_saved_comparison_says_the_same_again(document: dict[str, Any]) -> None:
    read = Comparison.from_json(document)
    assert read.to_json() == document
    (target,) = read.targets
    assert (target.answers[0].base, target.answers[0].agreement) == (math.inf, Agreement.DIFFERS)
    assert (target.answers[1].head, target.answers[1].agreement) == (ABSENT, Agreement.ONLY_BASE)
    overflow = next(one for one in read.contrasts if one.probe == OVERFLOW)
    assert overflow.severity == "P1"


@pytest.mark.parametrize("key", ["checkout", "base", "targets", "source", "changes", "notes"])
def test_a_part_that_is_missing_is_named(document: dict[str, Any], key: str) -> None:
    del document[key]
    with pytest.raises(ValueError, match=f"^'{key}' is missing$"):
        Comparison.from_json(document)


@pytest.mark.parametrize(
    ("place", "value", "said"),
    [
        (("schema_version",), 2, "schema_version is 2, not 1"),
        (("targets",), 3, "a part of it is of the wrong type"),
        (("targets", 0, "state"), "lost", "'lost' is not a valid MatchState"),
        (("targets", 0, "contrasts", 0, "change"), "gone", "'gone' is not a valid Change"),
        (("changes", "files"), {"path": 1}, "a part of it is of the wrong type"),
    ],
    ids=str,
)
def test_a_wrong_part_is_refused(document: dict[str, Any], place: tuple[Any, ...], value: object, said: str) -> None:
    inner: Any = copy.deepcopy(document)
    whole = inner
    for step in place[:-1]:
        inner = inner[step]
    inner[place[-1]] = value
    with pytest.raises(ValueError, match=said):
        Comparison.from_json(whole)


def test_what_is_no_document_is_refused() -> None:
    for wrong in ([], None, "text", 3):
        with pytest.raises(ValueError, match="it is no JSON object"):
            Comparison.from_json(wrong)
