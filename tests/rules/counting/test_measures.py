"""What the words of a summary page count, and words that stay unclear."""

from __future__ import annotations

import pytest

from auditkit.rules.counting.measures import Measure, Vocabulary, count_of
from auditkit.rules.counting.statistics import Facet
from tests.rules.counting.test_statistics import TICKETS

VOCABULARY = Vocabulary.of(TICKETS)


@pytest.mark.parametrize(
    ("words", "subject", "described"),
    [
        ("P1", "", "P1 tickets"),
        ("P0-P2", "Priority", "P0/P1/P2 tickets"),
        ("P3/P4", "", "P3/P4 tickets"),
        ("P1 (Correctness)", "Severity", "P1 tickets"),
        ("Soon (P0-P1)", "", "P0/P1 tickets"),
        ("Open (P2)", "", "open, P2 tickets"),
        ("P0-P1 issues", "", "P0/P1 tickets"),
        ("open P1 tickets", "", "open, P1 tickets"),
        ("Won't-fix", "Status", None),
        ("wont fix", "Status", "wont-fix tickets"),
        ("Code Review", "Agent", "codereview tickets"),
        ("PyTorch", "Agent/Reviewer Type", "pytorch tickets"),
        ("Batch 3", "", "batch 3 tickets"),
        ("3", "Batch", "batch 3 tickets"),
        ("3", "", None),
        ("Total Issue Tickets", "Metric", "tickets"),
        ("Batches", "Metric", "batches"),
        ("ENDORSE", "Verdict", "ENDORSE votes"),
        ("unanimous", "", "unanimous tickets"),
        ("Dead code / unwired", "", "Dead code / unwired functionality tickets"),
        ("Documentation", "Category (Issue Type)", "Documentation / naming tickets"),
        ("Documentation", "", None),
        ("correctness bugs", "", "Correctness bug tickets"),
        ("loop", "Domain", "loop tickets"),
        ("P1", "Agent", None),
        ("Summary Reports", "Metric", None),
        ("Documentation and API issues", "", None),
        ("stale P1 tickets", "", None),
        ("", "", None),
    ],
)
def test_what_words_count(words: str, subject: str, described: str | None) -> None:
    measure = VOCABULARY.measure(words, subject)
    assert (measure.describe() if measure else None) == described


@pytest.mark.parametrize(
    ("words", "count"),
    [
        ("P1", 2),
        ("open P1", 2),
        ("P0-P1", 2),
        ("wont-fix P1", 0),
        ("batches", 2),
        ("total", 3),
        ("OBJECT", 1),
        ("loop", 2),
    ],
)
def test_how_many_tickets_that_is(words: str, count: int) -> None:
    measure = VOCABULARY.measure(words)
    assert measure is not None
    assert count_of(measure, TICKETS) == count


def test_votes_are_counted_of_the_tickets_that_fit() -> None:
    objections = VOCABULARY.measure("OBJECT")
    finished = Measure(((Facet.STATUS, frozenset({"wont-fix"})),))
    assert objections is not None
    assert count_of(finished.also(objections), TICKETS) == 0
