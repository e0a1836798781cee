"""Two tickets that break no rule, and what rules find on changed ones: for the tests of lint."""

from __future__ import annotations

import datetime
from collections.abc import Iterable, Mapping, Sequence
from pathlib import PurePath

from auditkit.model.tickets.page import Page
from auditkit.rules.lint.catalog import all_rules
from auditkit.rules.lint.rule import LintContext, LintSettings, Problem
from auditkit.store.markdown.document import Document
from auditkit.store.markdown.pages import page_of

SETTINGS = LintSettings(domains=("telemetry", "training"), first_commit=datetime.date(2026, 1, 1))
OPEN_PATH = "batch7/B7-PT-01.md"
FIXED_PATH = "fixed/B7-PT-01.md"

_REVIEW = """
## Cross-Review ({reviewer})

| Field | Value |
|-------|-------|
| **Verdict** | **ENDORSE** |
| **Date** | 2026-03-05 |

**Evaluation:** The squares of 1e20 overflow in float32, as {reviewer} has measured.
"""

OPEN = (
    """# Finding Ticket: The norm overflows

## Ticket Metadata

| Field | Value |
|-------|-------|
| **Ticket ID** | `B7-PT-01` |
| **Severity** | `P1` |
| **Status** | `open` |
| **Batch** | 7 |
| **Agent** | `pytorch` |
| **Domain** | `telemetry` |
| **Assignee** | |
| **Created** | 2026-03-04 |
| **Updated** | 2026-03-04 |

## Location

| Field | Value |
|-------|-------|
| **File(s)** | `src/train/norms.py` |
| **Line(s)** | `10-12` |
| **Function/Class** | `total_norm()` |

## Summary

**One-line summary:** Squares overflow.

**Category:**
- [ ] Correctness bug
- [ ] Race condition / concurrency
- [ ] Memory leak / resource issue
- [ ] Performance bottleneck
- [x] Numerical stability
- [ ] torch.compile compatibility
- [ ] Dead code / unwired functionality
- [ ] API design / contract violation
- [ ] Test coverage gap
- [ ] Documentation / naming
- [ ] Defensive programming violation
- [ ] Legacy code policy violation

## Detailed Description

### What's Wrong

Squares of large gradients are inf.

<!-- auditkit:evidence -->
## Evidence: The norm overflows

| Field | Value |
|-------|-------|
| **Fingerprint** | `norm_overflows/1/train.norms:total_norm` |
| **Outcome** | `reproduced` |
<!-- /auditkit:evidence -->

## Recommended Fix

Accumulate in float64.

## Verification

### How to Verify the Fix

- [ ] gradients of 1e20 give a finite norm <!-- probe: norm_overflows -->
- [ ] the tests pass

## Related Findings

None.
"""
    + "".join(
        _REVIEW.format(reviewer=reviewer)
        for reviewer in ("DRL Specialist", "PyTorch Specialist", "Code Review Specialist")
    )
    + """
## Resolution

| Field | Value |
|-------|-------|
| **Fixed By** | |
| **Commit** | |

## Appendix

### Original Report Reference

**Run:** `20260304-1`
"""
)

FIXED = (
    OPEN.replace("`open`", "`fixed`")
    .replace("| **Outcome** | `reproduced` |", "| **Outcome** | `not_reproduced` |")
    .replace("- [ ] gradients", "- [x] gradients")
    .replace("- [ ] the tests", "- [x] the tests")
    .replace("| **Commit** | |", "| **Commit** | `8e4c59e5` |\n\n**Sign-off:** pytorch, 2026-03-04")
)


def changed(text: str, *changes: tuple[str, str]) -> str:
    """`text` with each first one replaced by the second; each must be there."""
    for old, new in changes:
        assert old in text, f"{old!r} is not in the page"
        text = text.replace(old, new, 1)
    return text


def page(text: str, path: str = OPEN_PATH) -> Page:
    return page_of(Document.parse(text.encode(), PurePath(path)))


def problems(rule: str, one: Page, settings: LintSettings = SETTINGS, others: Iterable[Page] = ()) -> list[Problem]:
    """What a rule finds on a page that lies in a folder with some others."""
    pages: dict[str, list[Page]] = {}
    for other in (one, *others):
        pages.setdefault(other.ticket.id, []).append(other)
    known: Mapping[str, Sequence[Page]] = pages
    return list(all_rules()[rule].check(one, LintContext(settings, known)))  # type: ignore[arg-type]


def text_at(one: Page, problem: Problem) -> str:
    """What stands where a problem is, to the end of the line."""
    return one.lines[problem.line - 1][problem.column - 1 :]
