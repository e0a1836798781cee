"""The pages of a batch and of all tickets: counted by hand here, and checked against the tickets."""

from __future__ import annotations

from dataclasses import replace

import pytest

from auditkit.model.enums import Severity
from auditkit.model.text import counted
from auditkit.model.tickets.ids import parse_ticket_id
from auditkit.model.tickets.relation import Relation, RelationKind
from auditkit.model.tickets.review import Verdict
from auditkit.model.tickets.ticket import Status, Ticket
from auditkit.rules.reports.batch import batch_report, batches_of, first_step
from auditkit.rules.reports.summary import summary_report
from auditkit.rules.reports.words import Horizon, listed
from tests.rules.reviews import review, ticket


def numbered(name: str, *reviews: object, **others: object) -> Ticket:
    id_ = parse_ticket_id(name)
    return ticket(*reviews, id=id_, batch=int(name[1]), title=f"title of {name}", **others)  # type: ignore[arg-type]


def related(name: str, kind: RelationKind | None) -> Relation:
    return Relation(parse_ticket_id(name), kind, "", "a note", "table", 3)


OBJECTIONS = (review("drl", Verdict.OBJECT), review("pytorch", Verdict.OBJECT, line=2))
WORST = numbered(
    "B2-PT-01", *OBJECTIONS, severity=Severity.P0, files=("a.py", "b.py"), categories=("Correctness bug",),
    related=(related("B2-PT-02", RelationKind.BLOCKS), related("B1-PT-01", None)),
)  # fmt: skip
TICKETS = (
    numbered("B1-PT-01", severity=Severity.P3, status=Status.WONT_FIX, files=("a.py",)),
    WORST,
    numbered(
        "B2-PT-02", severity=Severity.P2, files=("b.py",), categories=("Correctness bug",), status=Status.FIXED,
        related=(related("B2-PT-01", RelationKind.BLOCKED_BY),),
    ),
    numbered("B2-CR-01", review(), severity=Severity.P2, agent="codereview", status=Status.DEFERRED),
    numbered("B2-PT-03", severity=None),
)  # fmt: skip


def ids(tickets: object) -> list[str]:
    return [str(one.id) for one in tickets]  # type: ignore[attr-defined]


def test_a_batch_file_by_file() -> None:
    made = batch_report(TICKETS, 2, "2026-03-04")
    assert [(one.file, ids(one.tickets)) for one in made.files] == [
        ("a.py", ["B2-PT-01"]),
        ("b.py", ["B2-PT-02"]),
        ("", ["B2-CR-01", "B2-PT-03"]),
    ]
    assert {level.value: ids(found) for level, found in made.key_findings.items()} == {
        "P0": ["B2-PT-01"],
        "P1": [],
        "P2": ["B2-PT-02", "B2-CR-01"],
    }


def test_what_cuts_across_files() -> None:
    """A pair that both tickets name in inverse words is one link."""
    made = batch_report(TICKETS, 2, "2026-03-04")
    assert ids(made.across) == ["B2-PT-01"]
    assert [(one.category, one.files, ids(one.tickets)) for one in made.shared] == [
        ("Correctness bug", 2, ["B2-PT-01", "B2-PT-02"])
    ]
    assert [(one.first, one.kind, one.second) for one in made.links] == [
        ("B2-PT-01", "blocks", "B2-PT-02"),
        ("B2-PT-01", "", "B1-PT-01"),
    ]


def test_what_the_reviewers_say() -> None:
    made = batch_report(TICKETS, 2, "2026-03-04")
    assert [(str(one.ticket.id), one.consensus.kind.value) for one in made.reviews] == [
        ("B2-PT-01", "unanimous"),
        ("B2-CR-01", "partial"),
    ]
    assert [(str(one.ticket.id), one.what) for one in made.waiting] == [("B2-PT-01", "2 of 2 reviewers object")]
    assert made.assessment == (
        "The worst severity is CRITICAL (P0).",
        "Left and immediate: B2-PT-01.",
        "Without a review: 2.",
        "Reviews that wait: B2-PT-01.",
    )


def test_what_is_due_in_a_batch_leaves_out_what_is_finished() -> None:
    due = batch_report(TICKETS, 2, "2026-03-04").due
    assert {horizon.value: ids(found) for horizon, found in due.items()} == {
        "Immediate": ["B2-PT-01"],
        "Short-Term": ["B2-CR-01"],
        "Long-Term": [],
    }


def test_one_agents_tickets_of_a_batch() -> None:
    made = batch_report(TICKETS, 2, "2026-03-04", "codereview")
    assert (ids(made.tickets), made.statistics.total) == (["B2-CR-01"], 1)
    assert made.assessment == (
        "The worst severity is MEDIUM (P2).",
        "What is left holds nothing immediate (P0 or P1).",
        "Every ticket was reviewed.",
        "No review waits for an answer.",
    )


def test_a_finished_batch_says_so() -> None:
    made = batch_report(TICKETS, 1, "2026-03-04")
    assert made.assessment[1:] == ("Nothing of it is left to do.", "No ticket was reviewed.")
    assert batches_of(TICKETS) == [1, 2]


@pytest.mark.parametrize(
    ("fix", "step"),
    [
        ("", ""),
        ("### Option A: Stack the norms\n\n```python\nx\n```\n", "Option A: Stack the norms"),
        ("Either:\n- **Remove the field**\n- or set it\n", "Either: Remove the field"),
        ("```python\nx = 1\n```\n", "code of its own"),
        ("Stack the norms and read once:\n\nthen more", "Stack the norms and read once"),
        ("word " * 100, f"{('word ' * 100)[:200].rstrip()}..."),
    ],
)
def test_the_first_step_of_a_fix(fix: str, step: str) -> None:
    assert first_step(replace(WORST, recommended_fix=fix)) == step


def test_the_summary() -> None:
    made = summary_report(TICKETS, "2026-03-04")
    assert made.statistics.total == 5
    assert dict(made.by_agent) == {
        ("P0", "pytorch"): 1,
        ("P2", "codereview"): 1,
        ("P2", "pytorch"): 1,
        ("P3", "pytorch"): 1,
        ("unknown", "pytorch"): 1,
    }
    assert made.by_batch["2", "deferred"] == 1
    assert [(part.horizon, part.count, part.percent, ids(part.unfinished)) for part in made.triage] == [
        (Horizon.IMMEDIATE, 1, 20.0, ["B2-PT-01"]),
        (Horizon.SHORT_TERM, 2, 40.0, ["B2-CR-01"]),
        (Horizon.LONG_TERM, 1, 20.0, []),
    ]
    assert [(str(one.ticket.id), one.what) for one in made.waiting] == [("B2-PT-01", "2 of 2 reviewers object")]


def test_words() -> None:
    assert [counted(1, "test"), counted(0, "test"), counted(2, "class", "classes")] == [
        "1 test",
        "0 tests",
        "2 classes",
    ]
    assert [listed([]), listed(["a"]), listed(["a", "b", "c"]), listed("abcd", 2)] == [
        "", "a", "a, b and c", "a, b and 2 more"
    ]  # fmt: skip
