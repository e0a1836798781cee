"""Counts of tickets by hand, and what must hold of counts whatever the tickets are."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from auditkit.model.enums import Severity
from auditkit.model.tickets.review import Verdict
from auditkit.model.tickets.ticket import Status, Ticket
from auditkit.rules.counting.statistics import UNKNOWN, Count, Facet, percent_of, statistics_of
from tests.rules.reviews import review, ticket

TICKETS = (
    ticket(review("drl", Verdict.OBJECT), severity=Severity.P1, agent="code-review", domains=("loop/inner", "loop")),
    ticket(severity=Severity.P1, agent="CR", batch=10, domains=("data", "loop"), categories=("Test coverage gap",)),
    ticket(severity=None, status=Status.WONT_FIX, categories=("Test coverage gap", "Documentation / naming")),
)


@pytest.mark.parametrize(
    ("facet", "counts"),
    [
        (Facet.SEVERITY, [("P1", 2, 66.7), (UNKNOWN, 1, 33.3)]),
        (Facet.STATUS, [("open", 2, 66.7), ("wont-fix", 1, 33.3)]),
        (Facet.AGENT, [("codereview", 2, 66.7), ("pytorch", 1, 33.3)]),
        (Facet.BATCH, [("1", 2, 66.7), ("10", 1, 33.3)]),
        (Facet.DOMAIN, [("loop", 2, 66.7), ("data", 1, 33.3)]),
        (Facet.CATEGORY, [("Test coverage gap", 2, 66.7), ("Documentation / naming", 1, 33.3)]),
        (Facet.VERDICT, [("OBJECT", 1, 100.0)]),
        (Facet.CONSENSUS, [("partial", 1, 33.3), ("none", 2, 66.7)]),
    ],
)
def test_counts(facet: Facet, counts: list[tuple[str, int, float]]) -> None:
    assert statistics_of(TICKETS).by[facet] == tuple(Count(*one) for one in counts)


def test_severity_by_status() -> None:
    assert dict(statistics_of(TICKETS).cross) == {("P1", "open"): 2, (UNKNOWN, "wont-fix"): 1}


def test_nothing_has_no_share() -> None:
    assert statistics_of(()).by[Facet.SEVERITY] == ()
    assert percent_of(0, 0) == 0.0


_TICKETS = st.lists(
    st.builds(
        ticket,
        severity=st.sampled_from([*Severity, None]),
        status=st.sampled_from(Status),
        agent=st.sampled_from(["PT", "pytorch", "code review", "security"]),
        batch=st.integers(0, 12),
        domains=st.lists(st.sampled_from(["loop", "loop/inner", "data"]), max_size=3).map(tuple),
    ),
    max_size=12,
)


@given(tickets=_TICKETS)
def test_what_always_holds(tickets: list[Ticket]) -> None:
    statistics = statistics_of(tickets)
    for facet, counts in statistics.by.items():
        if facet.is_single:
            assert sum(one.count for one in counts) == len(tickets)
        assert all(0 < one.count <= max(len(tickets), statistics.votes) for one in counts)
    assert sum(statistics.cross.values()) == len(tickets)
    assert statistics_of(reversed(tickets)) == statistics
