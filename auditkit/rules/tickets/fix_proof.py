"""What the evidence lacks for `fixed`: a run of the same probe, at or after the fix, in which it is gone."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator

from auditkit.model.tickets.ticket import EvidenceSummary, Ticket
from auditkit.rules.tickets.lifecycle import Missing, Step

_ABSENCE = re.compile(
    r"no longer reproduced at revision (?P<revision>[0-9a-f]{40,64}) \(version (?P<version>\d{1,6})\)"
)
_GONE, _THERE = "not_reproduced", "reproduced"


def unproven(ticket: Ticket, is_after_fix: Callable[[str], bool]) -> Iterator[Missing]:
    """For every finding that is not said to be there any more, and every bound box without a run, what is missing.

    A minor finding may stay beside graver ones.
    `is_after_fix` says whether a full commit contains the commits of the ticket's resolution.
    """
    verify = f"auditkit ticket verify {ticket.id}"
    commits = ticket.resolution.commits if ticket.resolution else ()
    for block in ticket.evidence:
        if block.was_found and block.outcome != _THERE and block.fingerprint not in ticket.may_stay:
            problem = _problem(block, is_after_fix)
            if problem:
                at = commits[-1] if commits else "COMMIT"
                yield Missing(f"{problem}: {block.fingerprint}", f"{verify} --at {at}", Step.VERIFY)
    known = {block.fingerprint.partition("/")[0] for block in ticket.evidence}
    for probe in dict.fromkeys(item.probe for item in ticket.verification if item.probe):
        if probe not in known:
            yield Missing(f"a box is bound to {probe}, which has not run", verify, Step.VERIFY)


def absences(block: EvidenceSummary) -> Iterator[tuple[str, int]]:
    """The clean commits at which a run asked for the finding and did not reproduce it, with the probe's version."""
    for check in block.checks:
        if check.role == "fix" and check.outcome == _GONE and check.revision and not check.is_dirty:
            yield check.revision, check.version
    for line in block.history:
        for found in _ABSENCE.finditer(line):
            yield found["revision"], int(found["version"])


def _problem(block: EvidenceSummary, is_after_fix: Callable[[str], bool]) -> str:
    if any(check.role == "base" and check.outcome == _GONE for check in block.checks):
        return "its probe does not reproduce at the base either, so its fix proves nothing"
    runs = list(absences(block))
    if not runs:
        return "no run at a commit says that it is gone"
    version = block.version or max(version for _, version in runs)
    if not any(found == version for _, found in runs):
        return f"it was found with version {version} of its probe, and is gone with another one only"
    if not any(found == version and is_after_fix(revision) for revision, found in runs):
        return "no run at the fix's commit, or after it, says that it is gone"
    return ""
