"""A page of figures against three tickets: each error of it is found, and nothing that is right is called wrong."""

from __future__ import annotations

import pytest

from auditkit.rules.counting.figures import PageCheck, check_figures
from auditkit.store.reading.summary import read_figures
from tests.rules.counting.test_statistics import TICKETS

RIGHT = """| Metric | Count |
|---|---|
| **Total tickets** | 3 |
| Batches | 2 |

| Severity | Count | % |
|---|---|---|
| P0 | 0 | 0% |
| P1 | 2 | 66.7% |

| Agent | Count | Share |
|---|---|---|
| Code Review | 2 | ~67% |
| PyTorch | 1 | 33% |

| Severity | open | wont-fix |
|---|---|---|
| P1 | 2 | 0 |

P1  ██ 2

## Urgent (P0-P1): 2 tickets

The 3 tickets hold 2 "test coverage gaps" (66.7%); 1 PyTorch finding. 66.7% are P1.
"""


def check(page: str, name: str = "SUMMARY.md") -> PageCheck:
    return check_figures(read_figures(page.encode()), TICKETS, name)


def told(page: str, name: str = "SUMMARY.md") -> list[str]:
    result = check(page, name)
    assert result.contradictions == ()
    return [f"{one.line}:{one.column}: {one.message}" for one in result.wrong]


def clashes(page: str) -> list[str]:
    return [f"{one.line}: {one.message}" for one in check(page).contradictions]


def test_a_page_that_is_right() -> None:
    result = check(RIGHT)
    assert (result.wrong, result.unchecked) == ((), ())
    # One ticket's severity is a word that nobody knows, so the two levels do not make three.
    assert [one.message for one in result.contradictions] == ["the counts by severity sum up to 2, the total says 3"]
    assert result.right == 19


@pytest.mark.parametrize(
    ("page", "wrong"),
    [
        ("| Severity | Count |\n|---|---|\n| **P1** | 4 |", ["3:12: says 4, is 2: P1 tickets"]),
        ("| Severity | % |\n|---|---|\n| P1 | 50% |", ["3:8: says 50%, is 66.7% (2 of 3): P1 tickets"]),
        ("| Severity | % |\n|---|---|\n| P1 | 66.6% |", ["3:8: says 66.6%, is 66.7% (2 of 3): P1 tickets"]),
        ("~66% are P1 issues.", []),
        ("~65% are P1 issues.", ["1:2: says ~65%, is 66.7% (2 of 3): P1 tickets"]),
        ("P1  ███ 3", ["1:9: says 3, is 2: P1 tickets"]),
        ("```\nP1  ███ 3\n```", ["2:9: says 3, is 2: P1 tickets"]),
        ("### Urgent (P0-P1): 5 tickets", ["1:21: says 5, is 2: P0/P1 tickets"]),
        ("All 4 tickets are known.", ["1:5: says 4, is 3: tickets"]),
        ("2 open P1 tickets, 1 wont-fix ticket, 3 open tickets", ["1:39: says 3, is 2: open tickets"]),
        (
            "| Agent | P1 |\n|---|---|\n| Code Review | 2 |\n| PyTorch | 1 |",
            ["4:13: says 1, is 0: pytorch, P1 tickets"],
        ),
        (
            "| Verdict | % |\n|---|---|\n| OBJECT | 50% |",
            ["3:12: says 50%, is 100.0% (1 of 1): OBJECT votes"],
        ),
        ("## Batch 10\n\n1 P1 issue, 2 open tickets", ["3:13: says 2, is 1: batch 10, open tickets"]),
        ("# P1 (Soon) - None found", ["1:15: says 0, is 2: P1 tickets"]),
    ],
)
def test_what_is_wrong(page: str, wrong: list[str]) -> None:
    assert told(page) == wrong


def test_a_report_of_one_batch_and_agent_counts_these_tickets_only() -> None:
    page = "- **1 P1** issue\n- **0 P2** issues\n"
    assert told(page, "batch10-codereview.md") == []
    assert told(page, "batch1-pytorch.md") == ["1:5: says 1, is 0: batch 1, pytorch, P1 tickets"]


@pytest.mark.parametrize(
    ("page", "clash"),
    [
        ("All 3 tickets.\n\nThe total of 4 tickets.", ["3: says 4, line 1 says 3: tickets"]),
        (
            "| Severity | Count |\n|---|---|\n| P1 | 2 |\n| P2 | 5 |\n\n8 P1-P2 issues",
            ["6: says 8, its parts sum up to 7: P1/P2 tickets"],
        ),
        (
            "| Severity | Count | % |\n|---|---|---|\n| P1 | 1 | 50% |\n| P2 | 3 | 75% |",
            ["3: says 50%, but 1 of 4 is 25.0%: P1 tickets"],
        ),
        (
            "| Agent | Count |\n|---|---|\n| DRL | 4 |\n| PyTorch | 5 |\n\nAll 10 tickets.",
            ["3: the counts by agent sum up to 9, the total says 10"],
        ),
        # Of the sum or of the total: both are ways to count.
        ("All 10 tickets.\n\n| Agent | Count | % |\n|---|---|---|\n| DRL | 4 | 40% |\n| PyTorch | 6 | 60% |", []),
        # A ticket may have several categories, so their sum says nothing.
        ("All 3 tickets.\n\n| Category | Count |\n|---|---|\n| Test coverage gap | 2 |\n| Documentation | 2 |", []),
    ],
)
def test_where_a_page_contradicts_itself(page: str, clash: list[str]) -> None:
    assert clashes(page) == clash


@pytest.mark.parametrize(
    ("page", "reason"),
    [
        ("| Domain | Mentions |\n|---|---|\n| loop | 7 |", "7: counts mentions, not tickets"),
        (
            "| Metric | Count |\n|---|---|\n| Reports | 30 (3 a batch) |",
            "30: it is not clear which tickets are 'Reports'",
        ),
        ("We closed 12 tickets.", "12: it is not clear which tickets are 'some tickets'"),
        ("Naming and API issues dominate (57%).", "57%: it is not clear what it is a share of"),
    ],
)
def test_what_cannot_be_checked_is_named(page: str, reason: str) -> None:
    result = check(page)
    assert (result.right, result.wrong) == (0, ())
    assert [one.message for one in result.unchecked] == [reason]
