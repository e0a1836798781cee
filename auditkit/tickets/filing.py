"""From findings to tickets: one ticket for each cause, refreshed only where a result changed."""

from __future__ import annotations

import functools
import hashlib
import json
import math
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

import msgspec

from auditkit.errors import BadInputError
from auditkit.model.enums import Outcome, Severity
from auditkit.model.runs.fix import Fix
from auditkit.model.runs.run import Environment, Finding, ProbeResult
from auditkit.model.text import inert_line
from auditkit.model.ticket import AGENT_NAMES, REOPENING, Evidence, Status, Ticket, agent_code
from auditkit.model.units import TIME_UNITS
from auditkit.tickets import body
from auditkit.tickets.baseline import tickets_by_fingerprint
from auditkit.tickets.document import FIX, Document, new_document
from auditkit.tickets.lifecycle import function_digest, reopened, today
from auditkit.tickets.store import TicketFolder

_TOLERANCE = 0.1
"""Two measurements of one thing on different machines differ by less; counts are exact."""
_EXACT_UNITS = frozenset(("count", "line", "bool", "text"))


class FilingAction(StrEnum):
    """What filing did for a finding."""

    CREATED = "created"
    JOINED = "joined"
    REFRESHED = "refreshed"
    UNCHANGED = "unchanged"
    REOPENED = "reopened"


@dataclass(frozen=True)
class Filed:
    """The ticket of a finding, and what was done."""

    action: FilingAction
    id: str


@dataclass(frozen=True)
class FilingOptions:
    """How new tickets are numbered, and which findings get one.

    `agent` is a name or a code, None for that of the probe; `ticket_from` the least severity of a new ticket. `source`
    returns a file of the checkout, None if there is no such file.
    """

    batch: int = 1
    agent: str | None = None
    agents: Mapping[str, str] = field(default_factory=lambda: dict(AGENT_NAMES))
    ticket_from: Severity = Severity.P3
    source: Callable[[str], str | None] = lambda _: None


def file_findings(
    folder: TicketFolder,
    groups: Sequence[Sequence[Finding]],
    absent: Mapping[str, ProbeResult],
    options: FilingOptions,
    environment: Environment,
) -> tuple[dict[str, Filed], list[str]]:
    """Give each finding its ticket under one lock; return what was done by fingerprint, and notes.

    `groups` have the findings of one cause each, the worst first; `absent` the results that did not reproduce, by
    fingerprint. A finding that a ticket has refreshes it. A new one joins an open ticket of its group, else all new
    ones of the group share a new ticket. `fixed`, `closed` and `already-fixed` tickets are reopened; decisions stay.
    """
    for fingerprint in (finding.result.fingerprint for group in groups for finding in group):
        if not fingerprint or fingerprint != inert_line(fingerprint):
            raise BadInputError(f"{fingerprint!r} is not a fingerprint")
    done: dict[str, Filed] = {}
    notes: list[str] = []
    with folder.writing():
        known = _known(folder, notes)
        _follow_renamed(folder, groups, known, options, notes)
        touched: dict[str, list[Finding]] = {}
        for group in groups:
            homes = [(known[one.result.fingerprint], one) for one in group if one.result.fingerprint in known]
            for ticket, one in homes:
                touched.setdefault(ticket.id, []).append(one)
            rest = [one for one in group if one.result.fingerprint not in known]
            home = next((ticket for ticket, _ in homes if rest and _takes(ticket, rest)), None)
            if home is not None:
                touched.setdefault(home.id, []).extend(rest)
                done |= {one.result.fingerprint: Filed(FilingAction.JOINED, home.id) for one in rest}
            elif rest and rest[0].severity.at_least(options.ticket_from):
                ticket_id = _create(folder, rest, options)
                done[rest[0].result.fingerprint] = Filed(FilingAction.CREATED, ticket_id)
                done |= {one.result.fingerprint: Filed(FilingAction.JOINED, ticket_id) for one in rest[1:]}
        for ticket_id, findings in touched.items():
            action = _refresh(folder, ticket_id, findings, options)
            for one in findings:
                done.setdefault(one.result.fingerprint, Filed(action, ticket_id))
        notes += _note_absent(folder, known, absent, environment)
    return done, notes


def _known(folder: TicketFolder, notes: list[str]) -> dict[str, Ticket]:
    """Return the ticket of each fingerprint; an unfinished one wins. Files that are not valid are noted."""
    if not folder.folder.exists():
        return {}
    listing = folder.listing()
    notes += [f"not a valid ticket: {error.message}" for error in listing.broken]
    return tickets_by_fingerprint(listing.tickets)


def _takes(ticket: Ticket, findings: Sequence[Finding]) -> bool:
    """Return whether new findings may join: the ticket is open, and at least as severe."""
    is_open = not ticket.status.is_finished and ticket.status is not Status.DEFERRED
    return is_open and ticket.severity.at_least(findings[0].severity)


def _create(folder: TicketFolder, findings: Sequence[Finding], options: FilingOptions) -> str:
    code = agent_code(options.agent or findings[0].probe.agent or "PT", options.agents)
    location = body.location_of(findings[0])

    def make(ticket_id: str) -> Document:
        ticket = Ticket(
            id=ticket_id,
            title=body.title_of(findings),
            severity=findings[0].severity,
            location=location,
            function=body.function_of(findings[0]),
            findings=tuple(dict.fromkeys(finding.result.fingerprint for finding in findings)),
            categories=body.categories_of(findings),
            domain=body.domain_of(location),
            batch=options.batch,
            agent=options.agents.get(code, code.lower()),
            created=today(),
        )
        evidence = _evidence_of(ticket_id, findings, options)
        folder.save_evidence(evidence)

        def with_rows(most_rows: int) -> Document:
            sections, boxes = body.body_of(findings, ticket_id, most_rows)
            whole = msgspec.structs.replace(ticket, boxes=boxes)
            return body.with_evidence(new_document(whole, sections, folder.path(ticket_id)), evidence.results, {})

        return body.fitted(with_rows)

    return folder.create(options.batch, code, make).ticket.id


def _evidence_of(ticket_id: str, findings: Sequence[Finding], options: FilingOptions) -> Evidence:
    fixes = {finding.fix.difference: finding.fix.to_json() for finding in findings if finding.fix}
    no_fix = {finding.result.fingerprint: finding.no_fix for finding in findings if finding.no_fix and not finding.fix}
    results = tuple(_result_json(finding, options) for finding in findings)
    return Evidence(ticket=ticket_id, results=results, fixes=tuple(fixes.values()), no_fix=no_fix)


def _result_json(finding: Finding, options: FilingOptions) -> dict[str, Any]:
    result, environment = finding.result, finding.environment
    left_out = ("ticket", "ticket_action", "siblings", "duration_s", "remembered")
    document = {key: value for key, value in result.to_json().items() if key not in left_out}
    further = {"run": {"id": finding.run_id, **environment.to_json()}, "code": code_of(result, options.source)}
    # As text: an argument may be infinite, and JSON has no such number.
    return document | further | {"called": json.dumps(finding.target.to_json()) if finding.target else None}


def code_of(result: ProbeResult, source: Callable[[str], str | None]) -> str:
    """Return the digest of the body of a result's function, by which a renamed one is found again; "" for none."""
    location = result.location
    code = function_digest(source(location.file), location.function) if location and location.function else ""
    return hashlib.sha256(code.encode()).hexdigest()[:16] if code else ""


def moved_findings(
    folder: TicketFolder,
    tickets: Iterable[Ticket],
    found: Collection[str],
    codes: Mapping[str, str],
    source: Callable[[str], str | None],
) -> dict[str, str]:
    """Return the earlier fingerprint of each new finding whose function was renamed or moved.

    `codes` has the digest of the function's body by fingerprint for the findings that no ticket has, `found` all
    fingerprints of the run. A function that `source` still has under its name has not moved. If several functions with
    one body are gone, the name of the target decides.
    """
    gone: dict[tuple[str, str], list[str]] = {}
    for ticket in {ticket.id: ticket for ticket in tickets}.values() if any(codes.values()) else ():
        evidence = folder.evidence(ticket.id) if set(ticket.findings) - set(found) else None
        for result in evidence.results if evidence else ():
            name, is_known = result["fingerprint"], bool(result.get("code"))
            is_gone = is_known and name in ticket.findings and name not in found
            if is_gone and not code_of(ProbeResult.from_json(result), source):
                gone.setdefault((result["probe"], result["code"]), []).append(name)
    moved: dict[str, str] = {}
    for name, code in codes.items():
        same = gone.get((name.partition("/")[0], code), [])
        alike = [old for old in same if old.rpartition(":")[2] == name.rpartition(":")[2]]
        if len(alike or same) == 1:
            moved[name] = (alike or same)[0]
            same.remove(moved[name])
    return moved


def _follow_renamed(
    folder: TicketFolder,
    groups: Sequence[Sequence[Finding]],
    known: dict[str, Ticket],
    options: FilingOptions,
    notes: list[str],
) -> None:
    """Give a finding of a renamed or moved function to the ticket of its old name.

    A finding of a probe is gone, another of the same probe is new, and the bodies of their functions are equal.
    """
    found = {finding.result.fingerprint: finding for group in groups for finding in group}
    new = [finding for fingerprint, finding in found.items() if fingerprint not in known]
    if not new:
        return
    codes = {finding.result.fingerprint: code_of(finding.result, options.source) for finding in new}
    for name, old in moved_findings(folder, known.values(), found, codes, options.source).items():
        ticket_id = known[old].id
        document = folder.read(ticket_id)
        findings = tuple(name if one == old else one for one in document.ticket.findings)
        folder.save(document.edited(findings=findings), document)
        known |= {name: msgspec.structs.replace(known.pop(old), findings=findings)}
        notes.append(f"{ticket_id}: {old} is now {name}")


def _refresh(folder: TicketFolder, ticket_id: str, findings: Sequence[Finding], options: FilingOptions) -> FilingAction:
    document = before = folder.read(ticket_id)
    evidence = folder.evidence(ticket_id) or Evidence(ticket=ticket_id)
    old = {result["fingerprint"]: result for result in evidence.results}
    new = {finding.result.fingerprint: _result_json(finding, options) for finding in findings}
    changed = {name for name, result in new.items() if name not in old or not say_the_same(old[name], result)}
    returned = {name for name in new if name in evidence.gone}
    document = _with_place(document, findings)
    if changed or returned:
        names = tuple(dict.fromkeys((*document.ticket.findings, *new)))
        document = document.edited(findings=names, severity=_severity(document.ticket, old, new))
        merged = old | {name: new[name] for name in changed}
        results = tuple(merged[name] for name in names if name in merged)
        gone = {name: where for name, where in evidence.gone.items() if name not in new}
        further = _evidence_of(ticket_id, [one for one in findings if one.result.fingerprint in changed], options)
        evidence = msgspec.structs.replace(
            evidence,
            results=results,
            gone=gone,
            fixes=evidence.fixes or further.fixes,
            no_fix={**further.no_fix, **evidence.no_fix},
            proof=None if returned else evidence.proof,
        )
        folder.save_evidence(evidence)
        document = body.with_evidence(document, results, gone)
    found = dict.fromkeys(finding.fix for finding in findings if finding.fix is not None)
    if found and not evidence.fixes:
        document = _with_fixes(folder, document, evidence, list(found))
    if document.ticket.status in REOPENING and any(one.severity is not Severity.P4 for one in findings):
        folder.save(reopened(document, findings[0].environment.revision), before)
        folder.save_evidence(msgspec.structs.replace(folder.evidence(ticket_id) or evidence, proof=None))
        return FilingAction.REOPENED
    folder.save(document, before)
    return FilingAction.UNCHANGED if document.text == before.text else FilingAction.REFRESHED


def record_fix(folder: TicketFolder, ticket_id: str, fix: Fix) -> None:
    """Write a fix that was run into a ticket's evidence, in the place of an earlier one, and into its section Fix."""
    with folder.writing():
        document = folder.read(ticket_id)
        evidence = folder.evidence(ticket_id) or Evidence(ticket=ticket_id)
        folder.save(_with_fixes(folder, document, evidence, [fix]), document)


def _with_fixes(folder: TicketFolder, document: Document, evidence: Evidence, fixes: Sequence[Fix]) -> Document:
    """Save the fixes; return the document that shows them, unless its section Fix was written by hand."""
    ticket_id, old = document.ticket.id, [Fix.from_json(one) for one in evidence.fixes]
    ended = {name for fix in fixes for name in fix.mends}
    left = {name: why for name, why in evidence.no_fix.items() if name not in ended}
    written = msgspec.structs.replace(evidence, fixes=tuple(fix.to_json() for fix in fixes), no_fix=left)
    folder.save_evidence(written)
    shown = (document.section(FIX) or "").split("\n\n")[0]
    if not shown.startswith("No fix was run:") and not body.is_of_fixes(shown, old, ticket_id):
        return document
    minor = [name.partition("/")[0] for name in document.ticket.findings if name not in ended]

    def with_rows(most_rows: int) -> Document:
        text = "\n\n".join([body.fixes_text(fixes, ticket_id, most_rows), *body.minor_left(minor)])
        return body.with_evidence(document.with_section(FIX, text), evidence.results, evidence.gone)

    return body.fitted(with_rows)


def _with_place(document: Document, findings: Sequence[Finding]) -> Document:
    """Update the first place of `location` if the code moved, and the function's name if it was renamed."""
    ticket = document.ticket
    leader = next((one for one in findings if one.result.fingerprint == ticket.findings[0]), None)
    if leader is None or not body.location_of(leader):
        return document
    _, comma, others = ticket.location.partition(", ")
    return document.edited(location=body.location_of(leader) + comma + others, function=body.function_of(leader))


def _severity(ticket: Ticket, old: Mapping[str, Any], new: Mapping[str, Any]) -> Severity:
    """Return the severity of the results, unless another one was set by hand."""

    def worst(results: Iterable[Mapping[str, Any]]) -> str:
        return min((str(one["severity"]) for one in results if one.get("severity")), default=ticket.severity.value)

    return Severity(worst({**old, **new}.values())) if worst(old.values()) == ticket.severity.value else ticket.severity


def say_the_same(old: Mapping[str, Any], new: Mapping[str, Any]) -> bool:
    """Return whether two results of one finding differ at most by time, machine, revision and moved lines."""
    keys = ("outcome", "severity", "law", "target", "owner")
    if any(old.get(key) != new.get(key) for key in keys):
        return False
    first, second = (_values(result) for result in (old, new))
    return first.keys() == second.keys() and all(_alike(first[key], second[key], key[1]) for key in first)


def _values(result: Mapping[str, Any]) -> dict[tuple[str, str, str, int], Any]:
    """Return the measurements by name, unit, case and ordinal, without times and lines."""
    found: dict[tuple[str, str, str, int], Any] = {}
    for one in result.get("measurements", ()):
        if one["unit"] in TIME_UNITS or one["unit"] == "line":
            continue
        case = repr(sorted((key, value) for key, value in one.get("case", {}).items() if key not in ("line", "device")))
        key = (one["name"], one["unit"], case)
        number = sum(known[:3] == key for known in found)
        found[(*key, number)] = one["value"]
    return found


def _alike(old: Any, new: Any, unit: str) -> bool:
    is_number = all(isinstance(one, int | float) and not isinstance(one, bool) for one in (old, new))
    if not is_number or unit in _EXACT_UNITS:
        return bool(old == new)
    return math.isclose(old, new, rel_tol=_TOLERANCE, abs_tol=1e-12)


def _note_absent(
    folder: TicketFolder, known: Mapping[str, Ticket], absent: Mapping[str, ProbeResult], environment: Environment
) -> list[str]:
    """Write into the evidence of open tickets which of their findings the run did not reproduce."""
    by_ticket: dict[str, list[str]] = {}
    for fingerprint, result in absent.items():
        ticket = known.get(fingerprint)
        if ticket is not None and not ticket.status.is_finished and result.outcome is Outcome.NOT_REPRODUCED:
            by_ticket.setdefault(ticket.id, []).append(fingerprint)
    notes = []
    for ticket_id, fingerprints in by_ticket.items():
        evidence = folder.evidence(ticket_id)
        fresh = [one for one in fingerprints if evidence is not None and one not in evidence.gone]
        if evidence is None or not fresh:
            continue
        revision = environment.revision or "an unknown revision"
        evidence = msgspec.structs.replace(evidence, gone={**evidence.gone, **dict.fromkeys(fresh, revision)})
        folder.save_evidence(evidence)
        folder.change(ticket_id, functools.partial(body.with_evidence, results=evidence.results, gone=evidence.gone))
        notes += [f"{ticket_id}: {fingerprint} no longer reproduces" for fingerprint in fresh]
    return notes
