"""The page of fixes that stand in a clone says what its results do."""

from __future__ import annotations

from benchmarks.evidence import fill, page_of, results_of
from benchmarks.fixes import NAME, blocks, total_row

TICKET = {
    "id": "B1-PT-01",
    "severity": "P2",
    "probes": ["syncs_grow_with_tensors"],
    "is_read": False,
    "words": 500,
    "visible_lines": 80,
    "without": "",
    "applies": True,
    "verified": "proven",
}
REFUSED = {**TICKET, "applies": False, "verified": ""}
LEFT = {**TICKET, "verified": "reproduced", "words": 700}
READ = {**TICKET, "is_read": True, "without": "No fix stands here: not tried.", "applies": False, "verified": ""}


def test_the_page_is_that_of_the_stored_results() -> None:
    page = page_of(NAME).read_text(encoding="utf-8")
    assert fill(page, NAME, blocks(results_of(NAME))) == page


def test_only_what_applies_and_is_proven_counts() -> None:
    """Each kind of failure is counted as what it is."""
    found = {"revision": "6de1b57", "seconds": 30, "fix_time_s": 120, "tickets": [TICKET, REFUSED, LEFT, READ]}
    assert total_row("norms", found) == ["norms", "6de1b57", 4, 3, 3, 2, 1, "30 of 120", "500, 700", "80, 80"]
