"""What a review says follows from a comparison: requirements, claims of the commits, issues, and the assessment."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest

from auditkit.model.enums import Outcome, Reason, Severity
from auditkit.model.revisions.implementation_review import Assessment, ClaimState, Requirement
from auditkit.probing.hosts.catalog import load_catalog
from auditkit.rules.comparison.commit_claims import claims_of_commits, sentences
from auditkit.rules.comparison.implementation_review import assess, review_of
from auditkit.rules.comparison.requirements import judge_requirement, outcomes_as_requirements, parse_requirement
from tests.compared_results import (
    LAUNCHES,
    MEMORY,
    MESSAGE,
    OVERFLOW,
    SYNCS,
    after,
    answers,
    before,
    comparison,
    result,
)  # fmt: skip

CONFIRMED, REFUTED, UNTESTED = ClaimState.CONFIRMED, ClaimState.REFUTED, ClaimState.UNTESTED


@pytest.mark.parametrize(
    ("text", "state"),
    [
        (f"{LAUNCHES}: fixed", CONFIRMED),
        (f"{LAUNCHES}: better", CONFIRMED),
        (f"{LAUNCHES} law = O(1)", CONFIRMED),
        (f"{LAUNCHES} law = O(n)", REFUTED),
        (f"{LAUNCHES} law = 5", CONFIRMED),
        (f"{OVERFLOW} law = O(1)", UNTESTED),
        (f"{SYNCS}: fixed", REFUTED),
        (f"{SYNCS}: not-reproduced", CONFIRMED),
        (f"{MEMORY}: not_reproduced", REFUTED),
        (f"{OVERFLOW}: still reproduced", CONFIRMED),
        ("mutates_gradients: fixed", UNTESTED),
        ("answers: same", CONFIRMED),
    ],
)
def test_a_requirement_is_met_refuted_or_untested(text: str, state: ClaimState) -> None:
    assert judge_requirement(parse_requirement(text), comparison()).state is state


@pytest.mark.parametrize(
    ("text", "is_old"),
    [
        (f"{OVERFLOW}: reproduced", True),
        (f"{LAUNCHES}: not_reproduced", False),
        (f"{LAUNCHES} law = O(1)", False),
    ],
)
def test_what_was_met_already_before_is_told_so(text: str, is_old: bool) -> None:
    """A change is no reason for what holds without it."""
    judged = judge_requirement(parse_requirement(text), comparison())
    assert (judged.state, judged.message.startswith("met already before: ")) == (CONFIRMED, is_old)


@pytest.mark.parametrize("text", [f"{SYNCS}: quick", SYNCS, f"{SYNCS} law", "", f"{SYNCS} sync_count = many things"])
def test_a_requirement_that_cannot_be_read_says_why(text: str) -> None:
    with pytest.raises(ValueError, match=r"neither an outcome|a requirement is one of"):
        parse_requirement(text)


def test_an_error_meets_no_requirement() -> None:
    """Not even that it be not reproduced."""
    broken = result(OVERFLOW, Outcome.ERROR, reason=Reason.CRASH)
    found = comparison([before()[3]], [broken])
    assert judge_requirement(parse_requirement(f"{OVERFLOW}: not_reproduced"), found).state is UNTESTED
    assert judge_requirement(parse_requirement(f"{OVERFLOW}: fixed"), found).state is UNTESTED


def test_what_a_commit_claims_is_held_against_what_was_measured() -> None:
    """The syncs were constant before; the launches fell, the memory rose, the overflow stayed."""
    found = comparison()
    claims = {one.text: (one.state, one.message) for one in claims_of_commits(found.changes.commits, found)}
    assert {text: state for text, (state, _) in claims.items()} == {
        "perf: one kernel for all gradients": CONFIRMED,
        "Reduces CUDA syncs from O(n_params) to O(1) per gradient group": REFUTED,
        "Fewer kernel launches": CONFIRMED,
        "Same results as before": CONFIRMED,
        "Cuts peak memory": REFUTED,
        "Fixes the overflow of large norms": REFUTED,
        "Tests pass": UNTESTED,
    }
    assert claims["Reduces CUDA syncs from O(n_params) to O(1) per gradient group"][1] == (
        "it did not grow with the tensors before: still sound: 1 at the base, 1 at the head"
    )


def test_sentences_are_told_apart_from_trailers() -> None:
    said = list(sentences("One line\nand its rest. Another one.\n\n* a point\n  goes on\nSigned-off-by: X <x@y>\n"))
    assert said == ["One line and its rest", "Another one", "a point goes on"]
    assert "Tests pass" in list(sentences(MESSAGE))
    assert not any("nobody wrote" in sentence for sentence in sentences(MESSAGE))


def test_a_claim_about_what_was_not_asked_is_untested() -> None:
    found = comparison([], [])
    assert {one.state for one in claims_of_commits(found.changes.commits, found)} == {UNTESTED, CONFIRMED}


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
            f"{OVERFLOW} was answered at the base and ends in an error at the head: error for n tensors",
        ),
        (
            {"head": before(), "source": (), "values": (answers(10.0), answers(math.inf))},
            Assessment.REJECTED,
            "1 answers of trainer.stats:total_norm are further from the exact norm than before",
        ),
        (
            {"head": before(), "source": (), "values": (answers(3.0), answers(4.0))},
            Assessment.NEEDS_WORK,
            "1 numbers of trainer.stats:total_norm differ, and nothing measured says which is right",
        ),
        (
            {"head": before(), "source": (), "values": (answers(math.inf), answers(10.0))},
            Assessment.APPROVED,
            "0 of 1 answers agree, 1 are nearer the exact norm",
        ),
    ],
)
def test_the_assessment_is_computed_and_says_why(change: dict[str, object], assessment: str, reason: str) -> None:
    found, reasons = assess(comparison(**change), ())  # type: ignore[arg-type]
    assert found is assessment
    assert reason in reasons


def test_a_call_that_raises_on_one_side_is_told_once() -> None:
    """As a call that raises, not as an answer without its fields."""
    error = "RuntimeError: stack expects a non-empty TensorList"
    raises = [replace(one, name="raises", value=error, unit="text") if one.name == "answer" else one
              for one in answers(10.0)]  # fmt: skip
    _, reasons = assess(comparison(head=before(), source=(), values=(answers(10.0), raises)), ())
    assert reasons == ["trainer.stats:total_norm raises at the head alone, in 1 case"]


@pytest.mark.parametrize(
    ("origin", "state", "assessment"),
    [
        ("required", REFUTED, Assessment.NEEDS_WORK),
        ("required", UNTESTED, Assessment.NEEDS_WORK),
        ("required", CONFIRMED, Assessment.APPROVED),
        ("commit message", REFUTED, Assessment.NEEDS_WORK),
        ("commit message", UNTESTED, Assessment.APPROVED),
        ("probe", REFUTED, Assessment.APPROVED),
    ],
)
def test_what_was_required_counts(origin: str, state: ClaimState, assessment: Assessment) -> None:
    """A claim of a commit that nothing measured says nothing against it; a requirement that nothing measured does."""
    wanted = [Requirement("a", origin, state, "b")]
    assert assess(comparison(head=before(), source=()), wanted)[0] is assessment


def test_a_review_names_every_finding_at_the_head() -> None:
    """New ones and those that were there, the worst first, with the remedy that the probe recommends."""
    review = review_of(comparison(), (), load_catalog(), "somebody", "2026-03-04")
    assert [(one.severity, one.probe, one.change) for one in review.issues] == [
        (Severity.P1, OVERFLOW, "there before, same"),
        (Severity.P2, MEMORY, "introduced"),
        (Severity.P4, "private_torch_api_without_fallback", "introduced"),
    ]
    assert all(one.remedy for one in review.issues)
    rows = {(row.figure, row.case): (row.before, row.after, row.evidence) for row in review.performance}
    assert rows[LAUNCHES, "law"] == ("3n+1", "5", "simulated")
    assert rows["sync_count", "tensors=256"] == ("1", "1", "simulated")
    assert rows["launch_count", "tensors=256"] == ("769", "5", "simulated")
    assert [(row.case, row.before, row.after, row.evidence) for row in review.impact] == [
        ("100 tensors", "301", "5", "extrapolated"),
        ("1,000 tensors", "3,001", "5", "extrapolated"),
    ]
    groups = {group.name: (group.asked, group.sound_before, group.sound_after) for group in review.groups}
    assert groups["Performance bottleneck"] == (2, 1, 2)
    assert groups["Memory leak / resource issue"] == (1, 1, 0)


def test_outcomes_are_the_requirements_where_nobody_wrote_any() -> None:
    states = {one.text: one.state for one in outcomes_as_requirements(comparison())}
    assert states[f"{LAUNCHES}: not reproduced"] is CONFIRMED
    assert states[f"{MEMORY}: not reproduced"] is REFUTED
    assert f"{SYNCS}: not reproduced" not in states
