"""Marking numbers as claims: a comment behind them, which is read back, and nothing else changes."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from auditkit.errors import BadInputError
from auditkit.store.edits.claims import mark, unmark
from auditkit.store.markdown.document import Document
from auditkit.store.reading.claim_comments import read_claims
from auditkit.store.reading.reader import ticket_of
from tests.filing_helpers import PATH, ticket_text

CLAIM = "peak_memory_grows_with_params peak_extra_bytes = 400 MB ±10% @ params=100M"
MORE = """
## Memory

It takes 400MB at 100M params, and 4GB at 1B; `24-33x` faster.

| Model Size | Tensor Size |
|-----------|-------------------|
| 100M params | 400MB |
| 1B params | 4GB, twice | x |

- 12 syncs <!-- probe: p -->
- 12 launches

```
400MB in code
```
"""


def parse(text: str) -> Document:
    return Document.parse(text.encode(), PATH)


@pytest.fixture
def document() -> Document:
    return parse(ticket_text(fingerprint="p/1/t", extra=MORE))


@pytest.mark.parametrize("newline", ["\n", "\r\n"], ids=["lf", "crlf"])
@pytest.mark.parametrize(
    ("text", "line", "shown", "beside"),
    [
        ("400MB at 100M params", None, "It takes 400MB at 100M params <!--", "It takes 400MB at 100M params"),
        ("100M params", 78, "| 100M params <!--", "100M params"),
        ("400MB", 78, "| 400MB <!--", "400MB"),
        ("24-33x", None, "`24-33x` <!--", "It takes 400MB at 100M params, and 4GB at 1B; `24-33x`"),
        ("12 syncs", None, "- 12 syncs <!--", "12 syncs"),
        ("4GB, twice", None, "| 4GB, twice <!--", "4GB, twice"),
    ],
)
def test_a_claim_is_marked_read_back_and_taken_out(
    newline: str, text: str, line: int | None, shown: str, beside: str
) -> None:
    document = parse(ticket_text(fingerprint="p/1/t", extra=MORE).replace("\n", newline))
    changed = mark(document, text, f"  {CLAIM} ", line)
    (claim,) = read_claims(changed)
    assert shown in changed.data.decode()
    assert (claim.written, claim.beside, claim.problem) == (CLAIM, beside, "")
    lines = changed.data.decode().split("\n")
    assert lines[claim.line - 1][claim.column - 1 :].startswith(f"<!-- claim: {CLAIM} -->")
    assert {**ticket_of(changed).to_json()} == ticket_of(document).to_json()
    assert unmark(changed, text, line).data == document.data


def test_a_cell_may_hold_several(document: Document) -> None:
    once = mark(document, "4GB, twice", CLAIM)
    twice = mark(once, "4GB", "p n = 2", line=79)
    assert [claim.written for claim in read_claims(twice)] == ["p n = 2", CLAIM]
    assert [claim.beside for claim in read_claims(twice)] == ["4GB", "4GB , twice"]


@pytest.mark.parametrize(
    ("text", "claim", "message", "hint"),
    [
        ("400MB", CLAIM, "stands 2 times", "--line N: 74, 78"),
        ("500MB", CLAIM, "stands nowhere", ""),
        ("squares", CLAIM, "stands nowhere", ""),
        ("2026-01-02", CLAIM, "stands nowhere", ""),
        ("sum of squares overflows", CLAIM, "stands nowhere", ""),
        ("told", CLAIM, "stands nowhere", ""),
        ("in code", CLAIM, "stands nowhere", ""),
        ("probe: p", CLAIM, "stands nowhere", ""),
        ("Memory", CLAIM, "stands nowhere", ""),
        ("", CLAIM, "stands nowhere", ""),
        ("12 syncs", "p", "not of the form", "a claim is PROBE NAME = 400 MB"),
        ("12 syncs", "p n = 3 --> x", "neither", ""),
        ("12 syncs", "p n = a|b", "neither", ""),
        ("12 syncs", f"p n = {'1' * 500}", "not a claim", ""),
    ],
)
def test_what_cannot_be_marked_is_refused(document: Document, text: str, claim: str, message: str, hint: str) -> None:
    with pytest.raises(BadInputError, match=message) as refused:
        mark(document, text, claim)
    assert hint in (refused.value.hint or "")


def test_only_a_claim_is_taken_out(document: Document) -> None:
    with pytest.raises(BadInputError, match="no claim stands behind"):
        unmark(document, "12 syncs")


def test_claims_in_fences_are_text_and_a_line_of_its_own_is_none() -> None:
    mark_ = f"<!-- claim: {CLAIM} -->"
    document = parse(ticket_text(extra=f"\n```\n1 {mark_}\n```\n\n{mark_}\n\n<!-- old\n{mark_}\n"))
    assert [(claim.line, claim.column, claim.beside) for claim in read_claims(document)] == [(64, 1, "")]


@pytest.mark.process
def test_a_claim_and_another_edit_merge_in_git(document: Document, tmp_path: Path) -> None:
    """Two people change one ticket: one marks a number, the other sets a field."""
    ours = mark(document, "400MB at 100M params", CLAIM)
    theirs = document.set_field("Severity", "P1")
    for name, one in (("base", document), ("ours", ours), ("theirs", theirs)):
        (tmp_path / name).write_bytes(one.data)
    command = ["git", "merge-file", "-p", "ours", "base", "theirs"]
    merged = subprocess.run(command, cwd=tmp_path, capture_output=True, check=True).stdout
    assert merged == mark(theirs, "400MB at 100M params", CLAIM).data


@pytest.mark.parametrize(
    "line",
    [
        "<!-- claim: " + " " * 100_000,
        "<!--" * 50_000 + " <!-- claim: p n = 1 -->",
        "- [ ] x <!-- probe: " + "x" * 50_000 + " " + "y" * 50_000,
        "- [ ] x <!-- probe:" + " " * 100_000,
        "<!-- claim: p n" + " " * 300 + "= 1 @" + "a" * 100 + " -->",
    ],
    ids=["blanks", "open comments", "a long probe", "probe blanks", "a long claim"],
)
def test_a_long_hostile_line_takes_no_time_that_grows_with_its_square(line: str) -> None:
    """Each would keep an unbounded pattern busy for minutes."""
    document = parse(ticket_text(extra=f"{line}\n"))
    assert ticket_of(document).id == "B7-PT-01"
    assert len(read_claims(document)) <= 1
