"""Which severity a reviewer asks for: each way to ask beside a sentence that looks like it and does not."""

from __future__ import annotations

import pytest

from auditkit.model.enums import Severity
from auditkit.rules.tickets.severity import severity_wanted
from tests.rules.reviews import review


def asked(text: str) -> list[str]:
    return [level.value for level in severity_wanted(review(evaluation=text))]


@pytest.mark.parametrize(
    ("asks", "levels", "asks_not"),
    [
        ("The loop runs once a day. Downgrade to P4.", ["P4"], "The loop runs once a day. Do not downgrade to P4."),
        ("I would **downgrade to P3**, no more.", ["P3"], "It was downgraded to P3 last spring."),
        ("Should be downgraded to P4 at most.", ["P4"], "It should not be downgraded to P4."),
        ("The severity should be lowered to P3/P4.", ["P3", "P4"], "Severity depends on the batch size (P3 or P4)."),
        ("Lower the severity from P1 to P2.", ["P2"], "Nothing lowers the severity from what it is."),
        ("Consider raising to P1: data is lost.", ["P1"], "Consider raising to P1 if the cache is ever shared."),
        ("Upgrade to P2 since every step pays.", ["P2"], "If every step pays, upgrade to P2."),
        ("Elevate this finding to P0.", ["P0"], "Unless somebody mends the reader, elevate this finding to P0."),
        ("Bump to P2 because it fails if a worker dies.", ["P2"], "Promote to P2 once the second worker is in use."),
        ("This should be P3.", ["P3"], "Should this be P3?"),
        ("Priority should arguably be P1.", ["P1"], "B9-PT-04 should be P1."),
        ("Severity should be P3 not P1: nobody calls it.", ["P3"], "The P1 severity overstates the risk."),
        ("P2 is too high, P3.", ["P3"], "P2 is not too high, and P3 would hide it."),
        ("P2 severity seems overstated - I'd say P4.", ["P4"], "P2 severity seems overstated."),
        ("Consider P2 rather than P1.", ["P2"], "P2 is right."),
        ("A nit (P3/P4), not P1.", ["P3", "P4"], "A nit, not a P2 issue."),
        ("Not P1 but P2.", ["P2"], "Not P1-urgent."),
        ("A P2 correctness question rather than P3 wording.", ["P2"], "A legitimate P2 concern."),
        ("This is P4 documentation at best.", ["P4"], "P4 is correct; a small improvement at best."),
        ("At least P1, with money at stake.", ["P1"], "P1 is warranted."),
        ("P3 would be more fitting.", ["P3"], "P3 seems appropriate."),
        ("It merits P1.", ["P1"], "I agree with P1."),
        ("Clear enough for this P4 issue.", ["P4"], "A better interval is a P4 refinement for another day."),
        ("Duplicate of B9-PT-04, downgrade to P3.", ["P3"], "Duplicate of B9-PT-04, which should be P3."),
        ("Move to `P2`.", ["P2"], 'The comment "downgrade to P2" is two years old.'),
        ("This is not urgent and should be P4.", ["P4"], "I disagree with lowering to P4."),
        ("Not a bug - downgrade to P4/Won't Fix.", ["P4"], "Downgrade to P5 or close it."),
        ("Set to P2.", ["P2"], "Phase P4-6 set the telemetry up."),
    ],
)
def test_what_prose_asks_for(asks: str, levels: list[str], asks_not: str) -> None:
    assert asked(asks) == levels
    assert asked(asks_not) == []


@pytest.mark.parametrize(
    "text", ["Keep as P3 until profiled.", "Accept P2.", "Valid P3 finding.", "Overkill for a P3.", ""]
)
def test_agreement_asks_for_nothing(text: str) -> None:
    assert asked(text) == []


def test_a_row_of_its_own_goes_before_prose() -> None:
    given = review(evaluation="Downgrade to P4.", severity=Severity.P1)
    assert severity_wanted(given) == (Severity.P1,)


def test_all_requests_of_a_review_count_and_are_in_the_order_of_the_enum() -> None:
    assert asked("Should be P3. If shared, raise to P0. At most P2, really.") == ["P2", "P3"]
