"""The transition table, cell by cell."""

from __future__ import annotations

import itertools

import pytest

from auditkit.model.tickets.ticket import FINISHED, Status
from auditkit.rules.tickets.lifecycle import (
    CHAIN,
    DECISIONS,
    check_transition,
    is_signed_off,
    missing_for_fixed,
    needs_reason,
    next_statuses,
    reopens,
    says_something,
    says_what_was_done,
    steps_to,
)
from auditkit.store.reading.reader import read_ticket
from tests.filing_helpers import PATH, ticket_text


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


def test_the_steps_before_fixed_are_known() -> None:
    assert steps_to(Status.OPEN, Status.FIXED) == CHAIN[1:]
    assert steps_to(Status.IN_REVIEW, Status.FIXED) == (Status.FIXED,)
    assert steps_to(Status.IN_REVIEW, Status.WONT_FIX) == (Status.WONT_FIX,)
    assert steps_to(Status.DEFERRED, Status.FIXED) == ()
    assert steps_to(Status.WONT_FIX, Status.FIXED) == ()


READY = """
## Resolution

### Final Fix Description

Scaled the sum, see `3f2a9c1`.

**Sign-off:** Approved by `pytorch` on 2026-03-04
"""


def problems(text: str, *, git: tuple[str, ...] = (), reproducing: tuple[str, ...] = ()) -> list[str]:
    ticket = read_ticket(text.encode(), PATH)
    return [item.problem for item in missing_for_fixed(ticket, git, reproducing)]


def test_fixed_needs_all_of_it() -> None:
    ready = ticket_text(extra=READY).replace("- [ ] a test", "- [x] a test")
    assert problems(ready) == []
    assert problems(ready, git=("commit 3f2a9c1 is not here",), reproducing=("p/1/t",)) == [
        "commit 3f2a9c1 is not here",
        "the evidence still says reproduced: p/1/t",
    ]
    assert problems(ticket_text()) == [
        "the Resolution does not say what was done",
        "the Resolution names no commit",
        "not verified: a test (line 58)",
        "no sign-off by pytorch",
    ]
    assert problems(ready.replace("`pytorch` on", "`drl` on")) == ["no sign-off by pytorch"]
    assert problems(ready.replace("Scaled the sum", "Scaled (pending)")) == [
        "the Resolution still says (pending) (line 64)"
    ]


@pytest.mark.parametrize(
    ("body", "anything", "what_was_done"),
    [
        ("", False, False),
        ("| Field | Value |\n|---|---|\n| **Commit** | |\n| **Commit** | (pending) |", False, False),
        ("### Final Fix Description\n\n[What was done]\n\n- `abc` - [message]\n- [ ] box\n---", False, False),
        ("**Sign-off:** Approved by `pytorch`", True, False),
        ("### Commits\n\n- `3f2a9c1`\n\n| **Commit** | `3f2a9c1` |", True, False),
        ("Scaled.", True, True),
        ("- Scaled, as in [the report]", True, True),
        ("| **Fixed By** | ada |", True, True),
    ],
)
def test_a_resolution_says_something_beside_its_form(body: str, anything: bool, what_was_done: bool) -> None:
    ticket = read_ticket(ticket_text(extra=f"\n## Resolution\n\n{body}\n").encode(), PATH)
    assert ticket.resolution is not None
    assert says_something(ticket.resolution) is anything
    assert says_what_was_done(ticket.resolution) is what_was_done


def test_an_agent_of_the_projects_own_signs_by_name() -> None:
    text = ticket_text("B7-AUD-01", extra=READY.replace("`pytorch`", "`aud`")).replace("| `pytorch` |", "| `aud` |")
    assert is_signed_off(read_ticket(text.encode(), PATH))
    assert not is_signed_off(read_ticket(text.replace("by `aud`", "by `audrey`").encode(), PATH))
