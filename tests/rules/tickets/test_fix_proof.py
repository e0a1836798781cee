"""What the evidence lacks for `fixed`: red, then gone, with the same probe, at or after the fix."""

from __future__ import annotations

import dataclasses

import pytest

from auditkit.model.tickets.ticket import CheckedRun, EvidenceSummary
from auditkit.rules.tickets.fix_proof import unproven
from auditkit.store.reading.reader import read_ticket
from tests.filing_helpers import PATH, ticket_text

OLD, FIX, LATER = "a" * 40, "b" * 40, "c" * 40
PRINT = "p/1/t"


def block(*checks: CheckedRun, history: tuple[str, ...] = (), **more: object) -> EvidenceSummary:
    fields: dict[str, object] = {"outcome": "not_reproduced", "was_found": True, "version": 2, **more}
    return EvidenceSummary(
        PRINT, "p", "t", evidence="", message="", revision=OLD, device="", torch="", history=history, line=1,
        checks=checks, **fields,  # type: ignore[arg-type]
    )  # fmt: skip


def run(role: str, outcome: str, revision: str, dirty: bool = False, version: int = 2) -> CheckedRun:
    return CheckedRun(role, outcome, revision, dirty, version)


def problems(*blocks: EvidenceSummary, box: str = "a test") -> list[str]:
    ticket = read_ticket(ticket_text().replace("- [ ] a test", f"- [ ] {box}").encode(), PATH)
    ticket = dataclasses.replace(ticket, evidence=blocks)
    return [one.problem for one in unproven(ticket, lambda revision: revision in (FIX, LATER))]


GONE = "no longer reproduced at revision"
NO_RUN = f"no run at a commit says that it is gone: {PRINT}"
NOT_AFTER = f"no run at the fix's commit, or after it, says that it is gone: {PRINT}"


@pytest.mark.parametrize(
    ("found", "problem"),
    [
        (block(run("fix", "not_reproduced", FIX)), ""),
        (block(run("base", "reproduced", OLD), run("fix", "not_reproduced", LATER)), ""),
        (block(history=(f"2026-03-04: {GONE} {LATER} (version 2)",)), ""),
        (block(history=(f"2026-03-04: {GONE} {LATER} (version 2); it reproduces at aaa",)), ""),
        (block(version=0, history=(f"2026-03-04: {GONE} {LATER} (version 2)",)), ""),
        (block(outcome="reproduced"), ""),  # said by another line
        (block(was_found=False), ""),  # never a finding
        (block(), NO_RUN),
        (block(history=(f"2026-03-04: {GONE} {LATER}",)), NO_RUN),
        (block(history=(f"2026-03-04: {GONE} {FIX} with uncommitted changes (version 2)",)), NO_RUN),
        (block(run("fix", "not_reproduced", FIX, dirty=True)), NO_RUN),
        (block(run("fix", "unavailable", FIX)), NO_RUN),
        (block(run("fix", "error", FIX)), NO_RUN),
        (block(run("fix", "not_reproduced", OLD)), NOT_AFTER),
        (
            block(run("fix", "not_reproduced", FIX, version=3)),
            f"it was found with version 2 of its probe, and is gone with another one only: {PRINT}",
        ),
        (
            block(run("base", "not_reproduced", OLD), run("fix", "not_reproduced", FIX)),
            f"its probe does not reproduce at the base either, so its fix proves nothing: {PRINT}",
        ),
    ],
)
def test_a_finding_is_gone_where_a_run_at_the_fix_says_so(found: EvidenceSummary, problem: str) -> None:
    assert problems(found) == ([problem] if problem else [])


def test_a_box_that_was_never_asked_is_missing() -> None:
    bound = "a test <!-- probe: q -->"
    assert problems(box=bound) == ["a box is bound to q, which has not run"]
    gone = block(run("fix", "not_reproduced", FIX))
    assert problems(gone, box="a test <!-- probe: p -->") == []
