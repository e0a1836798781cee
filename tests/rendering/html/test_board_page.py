"""The page of a tickets folder: board, reviews, pictures of the evidence; and that no ticket's text becomes markup."""

from __future__ import annotations

from pathlib import Path

from auditkit.model.text import inert
from auditkit.rendering.html.board_page import board_page
from auditkit.rendering.html.prose import inline, parts_of
from auditkit.rules.reports.ticket_history import FolderHistory, Moment, TicketEvent
from auditkit.store.folder.repository import Repository
from tests.filing_helpers import put, ticket_text
from tests.rendering.html.test_run_page import Parsed
from tests.rendering.injections import INJECTIONS

_REVIEW = """
---

## Cross-Review: DRL Specialist

| Field | Value |
|-------|-------|
| **Verdict** | OBJECT |
| **Reviewer** | `drl` |
| **Date** | 2026-01-03 |

**Evaluation:** {text}
"""
_LAW = "".join(
    f"| `sync_count` | {count:,} | count | tensors={count:,} | measured |\n" for count in (4, 64, 256)
) + "| `sync_count_law` | 1 | per tensor | law=n, constant=0, exact=True | measured |"  # fmt: skip


def test_a_ticket_has_its_law_its_reviews_and_its_line(tmp_path: Path) -> None:
    text = ticket_text(
        fingerprint="syncs_grow_with_tensors/1/m:f", row=_LAW, extra=_REVIEW.format(text="not `so` **bad**")
    )
    put(tmp_path, "B7-PT-01.md", text)
    put(tmp_path, "B7-PT-02.md", ticket_text("B7-PT-02", "`fixed`", "`P1`"))
    events = (
        TicketEvent("2026-01-02T10:00:00+00:00", "filed: P2, open"),
        TicketEvent("2026-01-04T10:00:00+00:00", "status open → fixed"),
    )
    history = FolderHistory(
        (Moment("2026-01-02T10:00:00+00:00", 2, 2), Moment("2026-01-04T10:00:00+00:00", 1, 2)), {"B7-PT-02": events}
    )
    listing = Repository(tmp_path).listing()
    page = board_page(listing.tickets, listing.broken, "tickets", history).decode()
    for said in (
        "1 ticket of 2 unfinished", "waits once per tensor: 256 waits at 256 tensors", "OBJECT",
        "1 of 2 tickets unfinished on 2026-01-04", "B7-PT-02: status open → fixed on 2026-01-04",
        "batch 7 has most P0 and P1: 1", "not <code>so</code> <b>bad</b>",
    ):  # fmt: skip
        assert said in page, said


def test_hostile_tickets_stay_text(tmp_path: Path) -> None:
    lines = [inert(text).replace("\n", " ") for text in INJECTIONS]
    for number, text in enumerate(lines, 1):
        put(
            tmp_path,
            f"B7-PT-{number:02}.md",
            ticket_text(f"B7-PT-{number:02}", title=text, extra=_REVIEW.format(text=text)),
        )
    put(tmp_path, "B7-PT-999.md", "# Finding Ticket: <script>pwned()</script>\n\n| **Ticket ID** | `B7-PT-999` |\n")
    listing = Repository(tmp_path).listing()
    events = {
        str(one.id): (TicketEvent("2026-01-02", text), TicketEvent("2026-01-02", text))
        for one, text in zip(listing.tickets, lines, strict=False)
    }
    page = Parsed(board_page(listing.tickets, listing.broken, INJECTIONS[0], FolderHistory(events=events)))
    page.check()
    shown = "".join(page.texts)
    assert all(text in shown for text in lines)


def test_markdown_is_shown_as_far_as_it_is_safe() -> None:
    text = "# Head\n\nsome `a | b` **bold <b>**\n\n| a | b |\n|---|---|\n| `x` | \\| <i> |\n\n"
    text += "```diff\n-</pre>\n+`\n```\n\n| c | d |\n|---|---|\n| e | |\n"
    parts = parts_of(text)
    assert [part.kind for part in parts] == ["prose", "prose", "table", "diff"]
    assert parts[2].rows == (("a", "b"), ("`x`", "| <i>"))
    assert parts[3].text == "-</pre>\n+`"
    assert inline(parts[1].text) == "some <code>a | b</code> <b>bold &lt;b&gt;</b>"
    for hostile in INJECTIONS:
        tags = {part.partition(">")[0] for part in inline(hostile).split("<")[1:]}
        assert tags <= {"b", "/b", "code", "/code"}
