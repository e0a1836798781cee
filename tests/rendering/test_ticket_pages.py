"""The pages that are counted from tickets, as Markdown: bars, tables, and text that stays what it is."""

from __future__ import annotations

from dataclasses import replace
from pathlib import PurePosixPath

import pytest
from markdown_it import MarkdownIt

from auditkit.model.tickets.ticket import BrokenTicket
from auditkit.rendering.batch_report import render_batch_report
from auditkit.rendering.summary_report import bars, render_summary_report
from auditkit.rules.counting.figures import PageCheck, check_figures
from auditkit.rules.counting.statistics import Count
from auditkit.rules.reports.batch import batch_report
from auditkit.rules.reports.summary import summary_report
from auditkit.store.reading.summary import read_figures
from tests.rendering.hostile import HOSTILE_TEXTS
from tests.rules.reports.test_report_pages import TICKETS

MARKDOWN = MarkdownIt("commonmark").enable("table")
BROKEN = BrokenTicket(PurePosixPath("batch2/B2-PT-09.md"), 3, 1, "no id | here")


def summary(tickets=TICKETS, broken=()) -> str:  # type: ignore[no-untyped-def]
    return render_summary_report(summary_report(tickets, "2026-03-04"), "tickets", broken).decode()


def batch(tickets=TICKETS, broken=()) -> str:  # type: ignore[no-untyped-def]
    return render_batch_report(batch_report(tickets, 2, "2026-03-04"), "tickets", broken).decode()


def checked(page: str, name: str, tickets=TICKETS) -> PageCheck:  # type: ignore[no-untyped-def]
    return check_figures(read_figures(page.encode()), tickets, name)


def headings(text: str) -> list[str]:
    tokens = MARKDOWN.parse(text)
    return [tokens[at + 1].content for at, token in enumerate(tokens) if token.type == "heading_open"]


def test_bars_are_as_long_as_the_counts() -> None:
    counts = (Count("P1", 1, 1.0), Count("P10", 100, 99.0), Count("P2", 50, 1.0), Count("P3", 0, 0.0))
    assert bars(counts) == f"P1  █ 1\nP10 {'█' * 50} 100\nP2  {'█' * 25} 50"


def test_our_own_pages_are_right() -> None:
    """What `ticket stats --against` says of them; one count changed by hand is found."""
    page = summary()
    check = checked(page, "SUMMARY.md")
    assert (check.right > 40, check.wrong, check.contradictions) == (True, (), ())
    assert [one.message for one in check.unchecked] == ["1: it is not clear which tickets are 'unknown'"]  # a bar
    wrong = checked(page.replace("| **P2** | 2 |", "| **P2** | 3 |"), "SUMMARY.md").wrong
    assert [one.message for one in wrong] == ["says 3, is 2: P2 tickets"]
    check = checked(batch(), "batch2.md")
    assert (check.right > 15, check.wrong, check.contradictions, check.unchecked) == (True, (), (), ())


def test_agents_that_only_a_project_knows_are_counted() -> None:
    tickets = (*TICKETS, replace(TICKETS[1], agent="security"))
    check = checked(summary(tickets), "SUMMARY.md", tickets)
    assert (check.wrong, check.contradictions) == ((), ())
    wrong = summary(tickets).replace("| **security** | 1 |", "| **security** | 2 |")
    assert "says 2, is 1: security tickets" in [one.message for one in checked(wrong, "SUMMARY.md", tickets).wrong]


def test_parts_of_the_summary() -> None:
    page = summary()
    for line in (
        "| **Total Tickets** | **5** |",
        "| **P2** | 2 | 40.0% | Medium-high: fix before the next experiments |",
        "| **unknown** | 1 | 20.0% | Not a severity |",
        "| Severity | pytorch | codereview |",
        "| P2 | 1 | 1 |",
        "| B2-PT-01 | P0 | open | 2 of 2 reviewers object | title of B2-PT-01 |",
        "### Immediate (P0-P1): 1 tickets",
    ):
        assert line in page.splitlines()


def test_parts_of_a_batch() -> None:
    page = batch()
    for line in (
        "# Batch 2: Findings",
        "1. `a.py`",
        "| B2-PT-01 | P0 |  |  | title of B2-PT-01 | open | unanimous |",
        "| B2-PT-01 | P0 | drl OBJECT, pytorch OBJECT | unanimous OBJECT | 2 of 2 reviewers object |",
        "| Correctness bug | 2 | 2 | B2-PT-01, B2-PT-02 |",
        "| B2-PT-01 | blocks | B2-PT-02 | a note |",
    ):
        assert line in page.splitlines()


def test_files_that_cannot_be_read_are_named() -> None:
    told = "- `batch2/B2-PT-09.md`, line 3: no id | here"
    assert told in summary(broken=[BROKEN]).splitlines()
    assert told in batch(broken=[BROKEN]).splitlines()
    assert "Cannot Be Read" not in summary() + batch()


def test_a_folder_without_tickets_has_a_page() -> None:
    page = summary(tickets=())
    assert "| **Total Tickets** | **0** |" in page
    assert checked(page, "SUMMARY.md", ()).wrong == ()


@pytest.mark.parametrize("text", HOSTILE_TEXTS)
def test_hostile_text_changes_no_structure(text: str) -> None:
    """Titles, files, notes and labels of people make no heading, row or HTML; counts stay right."""
    tickets = [
        replace(
            ticket,
            title=text,
            summary=text,
            function=text,
            lines_written=text,
            recommended_fix=text,
            related=tuple(replace(one, note=text) for one in ticket.related),
        )
        for ticket in TICKETS
    ]
    for made, plain, name in ((summary(tickets), summary(), "SUMMARY.md"), (batch(tickets), batch(), "batch2.md")):
        assert headings(made) == headings(plain)
        assert not [token for token in MARKDOWN.parse(made) if token.type == "html_block"]
        rows = [token.type for token in MARKDOWN.parse(made)].count("tr_open")
        assert rows == [token.type for token in MARKDOWN.parse(plain)].count("tr_open")
        assert checked(made, name, tickets).wrong == ()
