"""The tickets judged by hand: how verdicts meet tickets, what is missed, and that the page shows what is stored."""

from __future__ import annotations

from benchmarks.evidence import EVIDENCE, fill, results_of
from benchmarks.precision import NAME, NOT_JUDGED, blocks, judge, judged_repositories, repositories

VERDICTS = {
    "peak_memory_grows_with_params a:f": {"accept": "Three copies of the gradients."},
    "sync_in_loop a:g": {"reject": "Runs once."},
    "counts_are_rounded a:h": {"reject": "Nobody has 16 million NaNs."},
}


def ticket(key: str) -> dict[str, object]:
    return {"key": key, "title": key, "severity": "P2", "place": "a.py:1", "message": "what", "findings": 1}


def test_a_verdict_meets_the_ticket_that_opens_with_its_finding() -> None:
    judged = judge("a", VERDICTS, [ticket("peak_memory_grows_with_params a:f")])
    assert [each["verdict"] for each in judged.tickets] == ["accept"]
    assert judged.tickets[0]["reason"] == "Three copies of the gradients."
    assert judged.gone == ("sync_in_loop a:g", "counts_are_rounded a:h")
    assert (judged.accepted, judged.precision, judged.missed) == (1, "100%", [])


def test_a_rejected_ticket_and_one_without_a_verdict_are_not_accepted() -> None:
    """The controls: either alone is enough to miss nine of ten."""
    good, rejected, unknown = map(ticket, ("peak_memory_grows_with_params a:f", "sync_in_loop a:g", "other a:k"))
    assert judge("a", VERDICTS, [good, rejected]).missed == ["1 of 2 tickets accepted"]
    judged = judge("a", VERDICTS, [good, unknown])
    assert judged.tickets[1]["verdict"] == NOT_JUDGED
    assert judged.missed == ["1 of 2 tickets accepted"]


def test_every_verdict_is_one_word_with_a_reason() -> None:
    for repository in repositories().values():
        for key, verdict in (repository.get("verdicts") or {}).items():
            [(word, reason)] = verdict.items()
            assert word in ("accept", "reject"), key
            assert reason.endswith("."), key
            assert len(key.split()) == 2


def test_the_page_shows_the_stored_tickets_and_none_misses() -> None:
    stored = results_of(NAME)
    text = (EVIDENCE / f"{NAME}.md").read_text(encoding="utf-8")
    assert fill(text, blocks(stored)) == text
    assert [(each.name, each.missed) for each in judged_repositories(stored) if each.missed] == []
