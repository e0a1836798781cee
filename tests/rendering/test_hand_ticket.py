"""A hand-made ticket says what was given, and reads back as that."""

from __future__ import annotations

import dataclasses
import datetime

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from auditkit.model.enums import Severity
from auditkit.model.runs.probe import CATEGORIES
from auditkit.model.text import inert_line
from auditkit.model.tickets.ids import parse_ticket_id
from auditkit.model.tickets.ticket import Ticket
from auditkit.rendering.hand_ticket import Draft, read_spans, render_draft, ticket_of_draft
from auditkit.store.markdown.document import Document
from auditkit.store.reading.reader import read_ticket
from tests.filing_helpers import TODAY, make_finding
from tests.rendering.hostile import HOSTILE

ID = parse_ticket_id("B7-PT-01")
SPANS = st.tuples(st.integers(1, 10**6), st.integers(0, 99)).map(lambda pair: (pair[0], sum(pair)))
NAMES = st.lists(HOSTILE, max_size=3)
DRAFTS = st.builds(
    Draft,
    title=HOSTILE.map(lambda text: f"t{text}"),
    severity=st.sampled_from(Severity),
    files=NAMES,
    lines=st.lists(SPANS, max_size=3),
    function=HOSTILE,
    domains=NAMES,
    categories=st.lists(st.sampled_from([*CATEGORIES, "forged"]), max_size=4),
    summary=HOSTILE,
    description=HOSTILE,
    fix=HOSTILE,
    verification=NAMES,
    report=HOSTILE,
)


def comparable(ticket: Ticket) -> Ticket:
    """Without what only a reader knows: places of boxes, and what an empty Resolution is."""
    return dataclasses.replace(ticket, verification=(), resolution=None, reports=(), description="", recommended_fix="")


@settings(max_examples=60, deadline=None)
@given(DRAFTS, st.dates())
def test_what_is_rendered_reads_back(draft: Draft, today: datetime.date) -> None:
    expected = ticket_of_draft(draft, ID, today)
    data = render_draft(draft, ID, today)
    ticket = read_ticket(data, expected.path)
    assert comparable(ticket) == expected
    assert [item.is_done for item in ticket.verification] == [False] * sum(
        bool(inert_line(item)) for item in draft.verification
    )
    titles = [heading.text for heading in Document.parse(data).scan.headings if heading.level <= 2]
    assert titles[0] == f"Finding Ticket: {expected.title}"
    assert titles[1:] == [
        "Ticket Metadata", "Location", "Summary", "Detailed Description", "Recommended Fix", "Verification",
        "Related Findings", "Cross-Review (DRL Specialist)", "Cross-Review (PyTorch Specialist)",
        "Cross-Review (Code Review Specialist)", "Resolution", "Appendix",
    ]  # fmt: skip


def test_nothing_of_a_probe_is_in_it() -> None:
    draft = Draft("norm overflows", Severity.P1, ["src/a.py"], [(3, 5)], "norm()", verification=["1e20 is finite"])
    text = render_draft(draft, ID, TODAY).decode()
    assert text.startswith("# Finding Ticket: norm overflows\n\n---\n\n## Ticket Metadata\n")
    assert "auditkit:evidence" not in text
    assert "\n\n\n" not in text
    assert "---\n\n---" not in text
    assert "**One-line summary:** norm overflows\n" in text
    assert "- [ ] 1e20 is finite\n" in text
    assert text.endswith("### Original Report Reference\n\nWritten by hand.\n")
    assert make_finding().probe.motivation not in text


@pytest.mark.parametrize(("text", "spans"), [("10-12, 40", ((10, 12), (40, 40))), ("", ()), ("7", ((7, 7),))])
def test_lines_are_read(text: str, spans: tuple[tuple[int, int], ...]) -> None:
    assert read_spans(text) == spans


@pytest.mark.parametrize("text", ["12-10", "0", "a", "1-", "1 2", "-3"])
def test_what_is_no_line_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="not lines"):
        read_spans(text)
