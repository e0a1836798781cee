"""Required arguments that nobody gave are guessed, told, and asked about with a second value."""

from __future__ import annotations

import pytest

from auditkit.model.enums import Outcome
from auditkit.model.runs.target import Target
from tests.probing_helpers import ACCURACY, CACHED, HEALTH, MISSING, SYNCS, TARGETS, by_probe, run_probes

pytestmark = pytest.mark.process
FOLDER = TARGETS / "guessed"


@pytest.mark.parametrize(
    ("call", "name", "value"),
    [("guessed:checked", "error_if_nonfinite", False), ("guessed:checked_by_kind", "check", None)],
)
def test_a_finding_that_a_second_value_makes_go_away_is_none(call: str, name: str, value: bool | None) -> None:
    """The control is the same target with the argument given: then it is a finding."""
    guessed = by_probe(run_probes(FOLDER, call, [HEALTH]))[HEALTH]
    assert (guessed.outcome, guessed.severity, guessed.location) == (Outcome.NOT_REPRODUCED, None, None)
    assert guessed.message.startswith("not counted: ")
    assert f"found with {name}={value}, a guess, and not with {name}=True" in guessed.message
    given = Target(call, arguments={name: value})
    assert by_probe(run_probes(FOLDER, given, [HEALTH]))[HEALTH].outcome is Outcome.REPRODUCED


def test_a_finding_that_stays_says_what_was_guessed() -> None:
    run = run_probes(FOLDER, "guessed:at_a_step", [SYNCS])
    result = by_probe(run)[SYNCS]
    assert result.outcome is Outcome.REPRODUCED
    assert result.notes == ("called with step=0, a guess", "reproduced with step=100 as well")
    assert run.notes == ["given step=0; other values: --argument NAME=VALUE"]


def test_what_is_made_for_one_call_is_asked_about_that_call_alone() -> None:
    """Pairs of a parameter and its gradient: handed over twice the second answer would be the first one's.

    Nor does it count as a defect that the maker of the pairs, which is us, left gradients that are None in them.
    """
    results = by_probe(run_probes(FOLDER, "guessed:Wrapper.norm_of_pairs", [CACHED, MISSING, ACCURACY]))
    assert (results[CACHED].outcome, results[CACHED].message) == (
        Outcome.NOT_APPLICABLE,
        "a later call would get param_gradient_pairs of the first one",
    )
    assert [results[probe].outcome for probe in (MISSING, ACCURACY)] == [Outcome.NOT_REPRODUCED] * 2
    held = by_probe(run_probes(FOLDER, "guessed:Held.norm", [CACHED]))[CACHED]
    assert held.outcome is Outcome.NOT_REPRODUCED  # The list that it was made of has the later call's gradients.
