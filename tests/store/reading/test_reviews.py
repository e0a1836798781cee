"""Every way in which people write a cross-review down, in documents of our own."""

from __future__ import annotations

import pytest

from auditkit.model.enums import Severity
from auditkit.model.tickets.review import Review, ReviewForm, Verdict, read_reviewer, read_verdict
from auditkit.store.markdown.document import Document
from auditkit.store.reading.reviews import read_reviews

FIELD_VALUE = """## Cross-Review (PyTorch Specialist)

| Field | Value |
|-------|-------|
| **Reviewer** | `pytorch` |
| **Severity** | `P3` |
| **Verdict** | `OBJECT` |
| **Date** | 2026-02-03 |
| **Judged** | `0123456789ab` |

**Evaluation:** A `.to()` that changes nothing is free.
"""
ONE_TABLE = """## Cross-Review

| Agent | Verdict | Evaluation |
|-------|---------|------------|
| **PyTorch** | NEUTRAL | `a | b` is one cell |
| **DRL** | ENDORSE | yes |
"""
VERDICT_FIRST = """## Cross-Review

| Verdict | Reviewer | Domain |
|---------|----------|--------|
| **OBJECT** | DRL Specialist | Deep RL |
| **ENDORSE** | Code Review Specialist | Python |

**Code Review Evaluation:** fine.
Second line.

**DRL Evaluation:** not a bug.
"""
IN_HEADER = """## Cross-Review: DRL Specialist

| Verdict | **NEUTRAL** (with caveat) |
|---------|---------------------------|
| **Evaluation** | text |
"""
BOLD = """## Cross-Review (Code Quality)

**Verdict:** ENDORSE

The reason stands
on two lines.

---
"""
STRAY = """## Cross-Review

| DRL Specialist | **OBJECT** | 2026-02-03 |

**DRL Evaluation:** no.
"""
BY_H3 = """## Cross-Review

### PyTorch Specialist

**Verdict:** ENDORSE

first

### DRL Specialist

**Verdict: OBJECT**

second
"""


def reviews(text: str) -> list[Review]:
    return [found.review for found in read_reviews(Document.parse(text.encode()))]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (FIELD_VALUE, [("pytorch", "OBJECT", "field-value", 7, "A `.to()` that changes nothing is free.")]),
        (
            ONE_TABLE,
            [("pytorch", "NEUTRAL", "table", 5, "`a | b` is one cell"), ("drl", "ENDORSE", "table", 6, "yes")],
        ),
        (
            VERDICT_FIRST,
            [("drl", "OBJECT", "table", 5, "not a bug."), ("codereview", "ENDORSE", "table", 6, "fine.\nSecond line.")],
        ),
        (IN_HEADER, [("drl", "NEUTRAL", "verdict-in-header", 3, "text")]),
        (BOLD, [("codereview", "ENDORSE", "bold-paragraph", 3, "The reason stands\non two lines.")]),
        (STRAY, [("drl", "OBJECT", "stray-row", 3, "no.")]),
        (
            BY_H3,
            [("pytorch", "ENDORSE", "bold-paragraph", 5, "first"), ("drl", "OBJECT", "bold-paragraph", 11, "second")],
        ),
    ],
)
def test_a_review_is_read_in_every_form(text: str, expected: list[tuple[object, ...]]) -> None:
    found = [(one.reviewer, one.verdict, one.form, one.line, one.evaluation) for one in reviews(text)]
    assert found == expected


def test_what_a_review_judged_and_asks_for_is_read() -> None:
    (review,) = reviews(FIELD_VALUE)
    assert (review.severity, review.judged, review.date) == (Severity.P3, "0123456789ab", "2026-02-03")
    assert reviews(STRAY)[0].date == "2026-02-03"
    assert reviews(IN_HEADER)[0].extra == "(with caveat)"


@pytest.mark.parametrize(
    "text",
    [
        FIELD_VALUE.replace("`OBJECT`", ""),
        "## Cross-Review\n\n| Reviewer | Verdict |\n|---|---|\n| DRL | |\n",
        "## Verdict\n\n**Verdict:** ENDORSE\n",
        "## Detailed Description\n\n### Verdict\n\n| Verdict | ENDORSE |\n|---|---|\n",
        "## Cross-Review (DRL)\n\n```\n| Verdict | ENDORSE |\n|---|---|\n**Verdict:** OBJECT\n```\n",
        "## Cross-Review (DRL)\n\n<!--\n**Verdict:** OBJECT\n-->\n",
        "## Related Cross-Reviews of others\n\n**Verdict:** OBJECT\n",
    ],
)
def test_what_is_no_review_is_not_read_as_one(text: str) -> None:
    assert reviews(text) == []


def test_a_word_that_is_no_verdict_is_kept_as_written() -> None:
    (review,) = reviews(FIELD_VALUE.replace("`OBJECT`", "`maybe later`"))
    assert (review.verdict, review.verdict_written, review.form) == (None, "maybe later", ReviewForm.FIELD_VALUE)


@pytest.mark.parametrize("newline", ["\r\n", "\n"])
def test_places_are_those_of_the_file(newline: str) -> None:
    data = VERDICT_FIRST.replace("\n", newline).encode()
    for found in read_reviews(Document.parse(data)):
        cell = data[found.verdict.start : found.verdict.end].decode()
        assert found.review.verdict_written in cell
        assert cell.strip(" *") == found.review.verdict_written


@pytest.mark.parametrize(
    ("text", "verdict", "extra"),
    [
        ("**NEUTRAL** (with caveat)", Verdict.NEUTRAL, "(with caveat)"),
        ("`ENDORSED`", Verdict.ENDORSE, ""),
        ("Objects", Verdict.OBJECT, ""),
        ("approve", Verdict.ENDORSE, ""),
        ("ENDORSE (Option B)", Verdict.ENDORSE, "(Option B)"),
        ("endorsement pending", None, "endorsement pending"),
        ("", None, ""),
    ],
)
def test_a_verdict_and_what_stands_beside_it(text: str, verdict: Verdict | None, extra: str) -> None:
    assert read_verdict(text) == (verdict, extra)


@pytest.mark.parametrize(
    ("text", "agent"),
    [
        ("`code-review`", "codereview"),
        ("**CodeReview**", "codereview"),
        ("Code Quality Specialist", "codereview"),
        ("drl_specialist", "drl"),
        ("Deep-RL expert", "drl"),
        ("PyTorch Engineering Specialist", "pytorch"),
        ("PT", "pytorch"),
        ("cross-review-agent", ""),
        ("Cross-Review (PyTorch)", "pytorch"),
        ("somebody", ""),
        ("PyTorch Specialist (second pass)", "pytorch"),
        ("drl-expert", "drl"),
        ("drl-bob", ""),
        ("DRL Bob", ""),
        ("drlbob", ""),
        ("pytorch.ann", ""),
    ],
)
def test_a_reviewers_name_means_an_agent_or_none(text: str, agent: str) -> None:
    assert read_reviewer(text) == agent
