"""A ticket that opens again: earlier reviews and sign-offs stay, dated, and count no more."""

from __future__ import annotations

import datetime
from pathlib import Path

import pytest

from auditkit.model.tickets.ticket import Status
from auditkit.rules.tickets.lifecycle import is_signed_off, missing_for_fixed
from auditkit.store.edits.boxes import unticked
from auditkit.store.edits.reopening import reopened
from auditkit.store.edits.status import with_status
from auditkit.store.folder.filing import FilingAction
from auditkit.store.folder.repository import Repository
from auditkit.store.markdown.document import Document
from auditkit.store.reading.reader import ticket_of
from tests.filing_helpers import NEW_REVISION, PATH, file_plain, put, ticket_text

TODAY = datetime.date(2026, 3, 9)
REVIEW = "Cross-Review (PyTorch Specialist)"
PRINT = "norm_overflows_on_finite_grads/1/train.norms:total_norm"
OLD = """
## Cross-Review (PyTorch Specialist)

| Field | Value |
|-------|-------|
| **Verdict** | `ENDORSE` |
| **Reviewer** | PyTorch Specialist |

---

## Cross-Review (DRL Specialist)

| Field | Value |
|-------|-------|
| **Verdict** | |
| **Reviewer** | |

---

## Resolution

| Field | Value |
|-------|-------|
| **Fixed By** | ada |
| **Fixed Date** | 2026-03-01 |
| **Commit** | `3f2a9c1` |

### Final Fix Description

Scaled the sum.

**Sign-off:** Approved by `pytorch` on 2026-03-02

### Status Changes

- 2026-03-02: in-review to fixed: commit 3f2a9c1

---

## Appendix

by hand
"""


def again(text: str) -> Document:
    return reopened(Document.parse(text.encode(), PATH), TODAY)


@pytest.mark.parametrize("newline", ["\n", "\r\n"])
def test_what_was_reviewed_and_resolved_is_kept_under_other_titles(newline: str) -> None:
    text = ticket_text(status="`fixed`", extra=OLD)
    expected = (
        text.replace("## Cross-Review (PyTorch Specialist)", f"## Earlier {REVIEW}, until 2026-03-09")
        .replace("\n\n### Status Changes\n\n- 2026-03-02: in-review to fixed: commit 3f2a9c1", "")
        .replace(
            "## Resolution\n",
            "## Resolution\n\n| Field | Value |\n|-------|-------|\n| **Fixed By** | |\n| **Fixed Date** | |\n"
            "| **Commit** | |\n\n### Status Changes\n\n- 2026-03-02: in-review to fixed: commit 3f2a9c1\n\n---\n\n"
            "## Earlier Resolution, until 2026-03-09\n",
        )
    )  # fmt: skip
    document = again(text.replace("\n", newline))
    assert document.data.decode() == expected.replace("\n", newline)


def test_an_old_sign_off_closes_nothing_and_new_reviews_are_asked_for() -> None:
    text = ticket_text(status="`fixed`", extra=OLD)
    before = ticket_of(Document.parse(text.encode(), PATH))
    assert (is_signed_off(before), len(before.reviews), before.reopened) == (True, 1, "")
    ticket = ticket_of(with_status(again(text), Status.OPEN, "it overflows again", TODAY))
    assert (is_signed_off(ticket), ticket.reviews, ticket.reopened) == (False, (), "2026-03-09")
    assert ticket.resolution is not None
    assert (ticket.resolution.commits, ticket.resolution.dates) == ((), ())
    told = [one.problem for one in missing_for_fixed(ticket, (), ())]
    assert "no review since it was opened again on 2026-03-09" in told
    assert "no sign-off by pytorch" in told
    assert "no review since" not in str(missing_for_fixed(before, (), ()))


def test_a_form_that_nobody_filled_in_stays() -> None:
    text = ticket_text(status="`closed`", extra="\n## Resolution\n\n| Field | Value |\n|---|---|\n| **Fixed By** | |\n")
    assert again(text).data == text.encode()


def test_it_opens_again_twice() -> None:
    first = again(ticket_text(status="`fixed`", extra=OLD))
    filled = first.data.decode().replace("| **Fixed By** | |", "| **Fixed By** | ben |", 1)
    text = reopened(Document.parse(filled.encode(), PATH), datetime.date(2026, 4, 1)).data.decode()
    titles = [line for line in text.splitlines() if line.startswith("## ") and "Resolution" in line]
    assert titles == [
        "## Resolution", "## Earlier Resolution, until 2026-04-01", "## Earlier Resolution, until 2026-03-09",
    ]  # fmt: skip


def test_an_audit_that_finds_it_again_opens_it_so(tmp_path: Path) -> None:
    """The tick of its box goes, the status change says why and at which commit, and the sign-off counts no more."""
    boxes = (
        "- [x] no overflow <!-- probe: norm_overflows_on_finite_grads -->\n"
        "- [x] `auditkit probe run norm_overflows_on_finite_grads --target train.norms:other` "
        "<!-- probe: norm_overflows_on_finite_grads -->\n- [x] by hand\n"
    )
    text = ticket_text(fingerprint=PRINT, status="`fixed`", extra=boxes + OLD)
    put(tmp_path, "fixed/B7-PT-01.md", text)
    assert file_plain(Repository(tmp_path), PRINT).action is FilingAction.REOPENED
    ticket = Repository(tmp_path).find("B7-PT-01").ticket
    assert [box.is_done for box in ticket.verification] == [False, False, True, True]
    assert (ticket.status, is_signed_off(ticket), ticket.reviews) == (Status.OPEN, False, ())
    written = (tmp_path / "batch7" / "B7-PT-01.md").read_text()
    assert f"- 2026-03-04: fixed to open: {PRINT} returned at revision {NEW_REVISION}\n" in written
    assert unticked(Document.parse(text.encode(), PATH), "other/1/a:b").data == text.encode()


def test_a_sign_off_from_before_counts_no_more_wherever_it_stands() -> None:
    """A ticket that an earlier version opened again, or a person who left everything in place."""
    changes = "- 2026-03-02: in-review to fixed: commit 3f2a9c1"
    text = ticket_text(extra=OLD.replace(changes, f"{changes}\n- 2026-03-05: fixed to open: it is back"))
    assert not is_signed_off(ticket_of(Document.parse(text.encode(), PATH)))
    again = text.replace("on 2026-03-02", "on 2026-03-05")
    assert is_signed_off(ticket_of(Document.parse(again.encode(), PATH)))
