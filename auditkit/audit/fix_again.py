"""Search again for the fix of one ticket: `auditkit ticket fix`."""

from __future__ import annotations

from auditkit.audit.audit import AuditRequest, audit
from auditkit.model.ticket import Evidence
from auditkit.probing.checkout.checkout import CheckoutSpec
from auditkit.probing.fix.file_change import changes_of, prefix_of
from auditkit.probing.fix.patches import CannotComplete
from auditkit.tickets.filing import record_fix
from auditkit.tickets.store import TicketFolder
from auditkit.trials.no_fix import was_not_searched
from auditkit.trials.verify import RECOMMENDED, VerifyRequest, codes_of

_FIX_TIME_S = 120.0


def look_for_fix(folder: TicketFolder, request: VerifyRequest) -> None:
    """Search for the fix of a ticket without an earlier search, or whose diff no longer applies; write it.

    Without one the ticket stays as it is.
    """
    document = folder.read(request.ticket)
    evidence = folder.evidence(document.ticket.id)
    if evidence is None or (codes_of(document, RECOMMENDED) and not evidence.fixes):
        return
    findings = {*document.ticket.findings}
    if evidence.fixes:
        is_needed = not _applies(evidence, request.spec())
    else:
        is_needed = any(was_not_searched(evidence.no_fix.get(name, "")) for name in findings)
    bound = request.questions(document.ticket, evidence) if is_needed else ()
    targets = {one.target.call: one.target for one in bound if one.probe.scope == "target"}
    if not targets:
        return
    probes = tuple(dict.fromkeys(one.probe.id for one in bound))
    asked = AuditRequest(request.checkout, (request.options,), tuple(targets.values()), probes, fix_time_s=_FIX_TIME_S)
    found = next((fix for fix in audit(asked).fixes if findings.intersection(fix.mends)), None)
    if found is not None:
        record_fix(folder, document.ticket.id, found)


def _applies(evidence: Evidence, spec: CheckoutSpec) -> bool:
    """Return whether the diffs of a ticket apply to the files as they are; those of a revision are not looked at."""
    if spec.revision:
        return True
    try:
        for fix in evidence.fixes:
            changes_of(str(fix.get("difference", "")), spec.directory, prefix_of(spec))
    except CannotComplete:
        return False
    return True
