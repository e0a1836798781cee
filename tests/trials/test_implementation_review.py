"""What a review says follows from a comparison: requirements, issues, and the assessment."""

from __future__ import annotations

import math

import pytest

from auditkit.model.enums import Outcome
from auditkit.reports.review import Assessment, State, judge_requirement, review_of
from tests.compared_results import (
    LAUNCHES,
    MEMORY,
    OVERFLOW,
    SYNCS,
    after,
    answers,
    before,
    comparison,
    result,
)  # fmt: skip

MET, NOT_MET, NOT_MEASURABLE = State.MET, State.NOT_MET, State.NOT_MEASURABLE


@pytest.mark.parametrize(
    ("text", "state"),
    [
        (f"{LAUNCHES}: fixed", MET),
        (f"{LAUNCHES}: better", MET),
        (f"{LAUNCHES} law = O(1)", MET),
        (f"{LAUNCHES} law = O(n)", NOT_MET),
        (f"{LAUNCHES} law = 5", MET),
        (f"{OVERFLOW} law = O(1)", NOT_MEASURABLE),
        (f"{SYNCS}: fixed", NOT_MET),
        (f"{SYNCS}: not-reproduced", MET),
        (f"{MEMORY}: not_reproduced", NOT_MET),
        (f"{OVERFLOW}: still reproduced", MET),
        ("mutates_gradients: fixed", NOT_MEASURABLE),
        ("answers: same", MET),
    ],
)
def test_a_requirement_is_met_refuted_or_untested(text: str, state: State) -> None:
    assert judge_requirement(text, comparison()).state is state


@pytest.mark.parametrize("text", [f"{SYNCS}: quick", SYNCS, f"{SYNCS} law", "", f"{SYNCS} sync_count = many things"])
def test_a_requirement_that_cannot_be_read_says_why(text: str) -> None:
    found = judge_requirement(text, comparison())
    assert (found.state, ": " in found.message) == (NOT_MEASURABLE, True)


@pytest.mark.parametrize(
    ("change", "assessment", "reason"),
    [
        ({"head": before(), "source": ()}, Assessment.APPROVED, "nothing was introduced and nothing got worse"),
        ({"source": ()}, Assessment.NEEDS_WORK, f"P2 introduced: {MEMORY} on trainer.stats:total_norm"),
        (
            {"base": after()[:2], "head": [*after()[:1], *before()[1:2]], "source": ()},
            Assessment.NEEDS_WORK,
            f"P2 introduced: {LAUNCHES} on trainer.stats:total_norm",
        ),
        (
            {"base": [result(OVERFLOW, Outcome.NOT_REPRODUCED)], "head": before()[3:], "source": ()},
            Assessment.REJECTED,
            f"P1 introduced: {OVERFLOW} on trainer.stats:total_norm",
        ),
        (
            {"base": before()[3:], "head": [result(OVERFLOW, Outcome.ERROR)], "source": ()},
            Assessment.REJECTED,
            f"{OVERFLOW} returned a result at the base and ends in an error at the head: error for n tensors",
        ),
        (
            {"head": before(), "source": (), "values": (answers(10.0), answers(math.inf))},
            Assessment.REJECTED,
            "1 numbers of trainer.stats:total_norm are further from the exact norm than before",
        ),
        (
            {"head": before(), "source": (), "values": (answers(3.0), answers(4.0))},
            Assessment.NEEDS_WORK,
            "1 numbers of trainer.stats:total_norm differ, and no measurement shows which is right",
        ),
        (
            {"head": before(), "source": (), "values": (answers(math.inf), answers(10.0))},
            Assessment.APPROVED,
            "nothing was introduced and nothing got worse",
        ),
    ],
)
def test_the_assessment_is_computed_and_says_why(change: dict[str, object], assessment: str, reason: str) -> None:
    review = review_of(comparison(**change), ())  # type: ignore[arg-type]
    assert review.assessment is assessment
    assert reason in review.reasons
