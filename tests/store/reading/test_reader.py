"""From bytes to a ticket: every field, and files that are none."""

from __future__ import annotations

import json
from pathlib import Path, PurePath
from typing import Any

import pytest

from auditkit.model.enums import Severity
from auditkit.model.tickets.review import Review
from auditkit.model.tickets.ticket import LineRange, Status, Ticket
from auditkit.store.markdown.document import BrokenFileError, Document
from auditkit.store.reading.reader import is_other_page, read_ticket, ticket_of
from tests.filing_helpers import PATH, corpus_folder, ticket_text

CORPUS = corpus_folder()


def test_every_field_is_read() -> None:
    ticket = read_ticket(ticket_text(fingerprint="p/1/t").encode(), PATH)
    assert ticket.to_json() == {
        "id": "B7-PT-01",
        "title": "sum of squares overflows",
        "severity": "P2",
        "severity_written": "P2",
        "status": "open",
        "status_written": "open",
        "batch": 7,
        "agent": "pytorch",
        "domains": ["train/telemetry"],
        "assignee": "",
        "created": "2026-01-02",
        "updated": "2026-01-02",
        "files": ["src/train/norms.py", "src/train/loop.py"],
        "lines": [
            {"file": "norms.py", "first": 10, "last": 12},
            {"file": "loop.py", "first": 7, "last": 7},
            {"file": "loop.py", "first": 9, "last": 9},
        ],
        "lines_written": "norms.py: `10-12`, loop.py: `7`, `9`",
        "function": "`total_norm()`",
        "summary": "squares of `x | y` overflow.",
        "categories": ["Correctness bug", "Numerical stability"],
        "description": "```python\n# Lines 10-12\n## Ticket Metadata\n| **Status** | `fixed` |\n"
        "<!-- auditkit:evidence -->\n```\n\n- a list item with its own fence:\n\n"
        "    ```\n    # not a heading\n    ```",
        "recommended_fix": "",
        "evidence": [
            {
                "fingerprint": "p/1/t",
                "message": "told",
                "line": 55,
                "history": [],
                **dict.fromkeys(("probe", "target", "outcome", "evidence", "revision", "device", "torch"), ""),
                "version": 0,
                "is_dirty": False,
                "severity": "",
                "was_found": False,
                "python": "",
                "law": "",
                "checks": [],
                "measurements": [
                    {
                        "name": "norm",
                        "value": "inf",
                        "text": "inf",
                        "unit": "value",
                        "case": {"n": "4"},
                        "evidence": "measured",
                    }
                ],
                "measurements_at_fix": [],
            }
        ],
        "fingerprints": ["p/1/t"],
        "reviews": [],
        "related": [],
        "verification": [{"is_done": False, "text": "a test", "probe": "", "condition": "", "line": 70}],
        "resolution": None,
        "reports": [],
        "path": "batch7/B7-PT-01.md",
    }


@pytest.mark.parametrize("newline", ["\n", "\r\n"])
@pytest.mark.parametrize("mark", ["", "\ufeff"])
def test_line_ends_and_byte_order_marks_change_nothing(newline: str, mark: str) -> None:
    text = mark + ticket_text().replace("\n", newline)
    assert read_ticket(text.encode(), PATH) == read_ticket(ticket_text().encode(), PATH)


def test_words_nobody_knows_are_kept_as_written() -> None:
    ticket = read_ticket(ticket_text(status="`brewing`", severity="high").encode(), PATH)
    assert (ticket.status, ticket.status_written) == (None, "brewing")
    assert (ticket.severity, ticket.severity_written) == (None, "high")


def test_severity_and_status_are_read_beside_prose() -> None:
    ticket = read_ticket(ticket_text(status="wontfix", severity="**P3** (was P1)").encode(), PATH)
    assert (ticket.severity, ticket.status, ticket.status_written) == (Severity.P3, Status.WONT_FIX, "wontfix")


def test_a_closed_ticket_was_closed_as_its_resolution_row_says() -> None:
    text = ticket_text(status="`closed`").replace(
        "| **Batch** | 7 |", "| **Resolution** | `won't fix` |\n| **Batch** | 7 |"
    )
    ticket = read_ticket(text.encode(), PATH)
    assert (ticket.status, ticket.decision) == (Status.CLOSED, Status.WONT_FIX)


@pytest.mark.parametrize(
    ("cell", "ranges"),
    [
        ("`12`", [("", 12, 12)]),
        ("`12-14`, `20`", [("", 12, 14), ("", 20, 20)]),
        ("`12-14, 20` (and others)", [("", 12, 14), ("", 20, 20)]),
        ("`src/a.py:3-4`", [("src/a.py", 3, 4)]),
        ("a.py: various, b.py: 9", [("b.py", 9, 9)]),
        ("N/A (everywhere)", []),
    ],
)
def test_line_cells(cell: str, ranges: list[tuple[str, int, int]]) -> None:
    text = ticket_text().replace("norms.py: `10-12`, loop.py: `7`, `9`", cell)
    ticket = read_ticket(text.encode(), PATH)
    assert ticket.lines == tuple(LineRange(*span) for span in ranges)
    assert ticket.lines_written == cell


def test_the_file_name_is_the_id_where_the_table_has_none() -> None:
    text = ticket_text(ticket_id="tbd")
    assert read_ticket(text.encode(), PATH).id == "B7-PT-01"
    with pytest.raises(BrokenFileError) as caught:
        read_ticket(text.encode(), PurePath("notes.md"))
    broken = caught.value.broken
    assert (broken.line, broken.column) == (9, 20)
    assert broken.source == "| **Ticket ID** | `tbd` |"


@pytest.mark.parametrize(
    ("text", "line", "message"),
    [
        ("", 1, "no '## Ticket Metadata' section"),
        ("# Finding Ticket: x\n", 1, "no '## Ticket Metadata' section"),
        ("# Finding Ticket: x\n\n## Ticket Metadata\n\nnone\n", 3, "no table below '## Ticket Metadata'"),
    ],
)
def test_what_is_no_ticket_says_so(text: str, line: int, message: str) -> None:
    with pytest.raises(BrokenFileError) as caught:
        read_ticket(text.encode(), PATH)
    assert (caught.value.broken.line, caught.value.broken.message) == (line, message)


@pytest.mark.parametrize(
    ("name", "text", "expected"),
    [
        ("PROCESS.md", "# How we work\n", True),
        ("ticket-template.md", ticket_text("B{n}-PT-{nn}").replace("Finding Ticket:", "Finding Ticket Template"), True),
        ("notes.md", "no title at all\n", False),
        ("B7-PT-01.md", "# How we work\n", False),
        ("x.md", "# Finding Ticket: x\n", False),
        ("x.md", ticket_text().replace("# Finding Ticket:", "# Bug:"), False),
    ],
)
def test_other_pages_have_a_title_of_their_own(name: str, text: str, expected: bool) -> None:
    assert is_other_page(Document.parse(text.encode(), PurePath(name))) is expected


@pytest.mark.skipif(CORPUS is None, reason="the corpus of real tickets is not on this machine")
def test_real_tickets_are_read_as_a_person_reads_them_and_edited_in_one_line() -> None:
    assert CORPUS is not None
    expected = json.loads((CORPUS / "expected.json").read_text(encoding="utf-8"))["tickets"]
    assert len(expected) == 152
    for entry in expected:
        _check_real_ticket(CORPUS / "tickets", entry)


def _check_real_ticket(folder: Path, entry: dict[str, Any]) -> None:
    data = (folder / str(entry["path"])).read_bytes()
    document = Document.parse(data, PurePath(str(entry["path"])))
    ticket = ticket_of(document)
    fields = {
        "id": ticket.id,
        "title": ticket.title,
        "severity": ticket.severity,
        "status_raw": ticket.status_written,
        "status": ticket.status,
        "batch": str(ticket.batch),
        "agent": ticket.agent,
        "domains": list(ticket.domains),
        "assignee": ticket.assignee,
        "created": ticket.created,
        "updated": ticket.updated,
        "files": list(ticket.files),
        "lines_raw": ticket.lines_written,
        "line_refs": [[span.file or None, span.first, span.last] for span in ticket.lines],
        "function": ticket.function,
        "summary": ticket.summary,
        "categories": list(ticket.categories),
        "sections": [
            [heading.text, data.count(b"\n", 0, heading.line.start) + 1]
            for heading in document.scan.headings
            if heading.level <= 2
        ],
    }
    assert fields == {name: entry[name] for name in fields}
    assert _read_parts(ticket) == {name: entry[name] for name in _read_parts(ticket)}
    assert [_review(review) for review in ticket.reviews] == [
        {name: given[name] for name in _review(ticket.reviews[0])} for given in entry["reviews"]
    ]
    assert all(review.evaluation for review in ticket.reviews)
    edited = document.set_field("Status", "in-review")
    before, after = data.split(b"\n"), edited.data.split(b"\n")
    assert sum(old != new for old, new in zip(before, after, strict=True)) == 1
    assert edited.set_field("Status", ticket.status_written).data == data


def _read_parts(ticket: Ticket) -> dict[str, object]:
    """Relations, verification, resolution and reports in the words of expected.json."""
    resolution = ticket.resolution
    return {
        "related": [
            {"id": one.id, "rel": one.kind_written or None, "note": one.note, "form": one.form, "line": one.line}
            for one in ticket.related
            if one.id
        ],
        "verification": [[item.is_done, item.text, item.line] for item in ticket.verification],
        "resolution_sections": list(resolution.sections) if resolution else [],
        "res_commits": list(resolution.commits) if resolution else [],
        "signoff": bool(resolution and resolution.sign_offs),
        "report_refs": [
            {"file": report.file, "section": report.section, "line": report.line, "form": "bold"}
            for report in ticket.reports
        ],
    }


def _review(review: Review) -> dict[str, object]:
    columns = f":{'|'.join(review.columns)}" if review.columns else ""
    return {
        "reviewer": review.reviewer or None,
        "verdict": review.verdict,
        "form": f"{review.form}{columns}",
        "section": review.section,
        "line": review.line,
        "date": review.date or None,
    }
