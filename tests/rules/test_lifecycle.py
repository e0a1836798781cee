"""The transition table, cell by cell."""

from __future__ import annotations

import itertools

import pytest

from auditkit.model.ticket import FINISHED, Status
from auditkit.rules.lifecycle import CHAIN, DECISIONS, check_transition, needs_reason, next_statuses, reopens


def test_a_finding_is_mended_one_step_at_a_time() -> None:
    for old, new in itertools.pairwise(CHAIN):
        assert check_transition(old, new, "why").is_allowed
    assert check_transition(Status.OPEN, Status.INVESTIGATING).is_allowed


@pytest.mark.parametrize("new", [Status.FIX_IN_PROGRESS, Status.IN_REVIEW, Status.FIXED, Status.CLOSED])
def test_steps_are_not_skipped_even_with_a_reason(new: Status) -> None:
    verdict = check_transition(Status.OPEN, new, "why")
    assert verdict.problem == f"a ticket does not go from open to {new}"
    assert "investigating" in verdict.hint


@pytest.mark.parametrize("old", list(Status))
@pytest.mark.parametrize("new", sorted(DECISIONS))
def test_people_may_decide_at_any_time_with_a_reason_only(old: Status, new: Status) -> None:
    assert not check_transition(old, new).is_allowed
    assert not check_transition(old, new, "  ").is_allowed
    assert check_transition(old, new, "seen").is_allowed


@pytest.mark.parametrize("old", sorted(FINISHED))
def test_a_finished_ticket_opens_again_with_a_reason_only(old: Status) -> None:
    assert check_transition(old, Status.OPEN).problem == f"{old} to open needs a reason"
    assert check_transition(old, Status.OPEN, "it is back").is_allowed
    assert not check_transition(old, Status.INVESTIGATING, "it is back").is_allowed


def test_fixed_says_what_mended_it() -> None:
    assert not check_transition(Status.IN_REVIEW, Status.FIXED).is_allowed
    assert check_transition(Status.IN_REVIEW, Status.FIXED, "scaled sum").is_allowed


def test_work_may_be_put_back_and_deferred_work_taken_up() -> None:
    assert check_transition(Status.IN_REVIEW, Status.FIX_IN_PROGRESS).is_allowed
    assert check_transition(Status.INVESTIGATING, Status.OPEN).is_allowed
    assert check_transition(Status.DEFERRED, Status.OPEN).is_allowed
    assert not needs_reason(Status.DEFERRED, Status.OPEN)


def test_next_statuses_are_those_that_the_table_allows() -> None:
    for old in Status:
        allowed = [new for new in Status if new is not old and check_transition(old, new, "why").is_allowed]
        assert list(next_statuses(old)) == allowed


def test_only_what_was_mended_opens_again_by_itself() -> None:
    assert [status.value for status in Status if reopens(status)] == ["fixed", "closed", "already-fixed"]
    assert not reopens(None)
