"""Which findings of a run are known, because a ticket has them, which are new, and which are gone."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace

from auditkit.model.enums import Outcome, Reason, Severity
from auditkit.model.runs.baseline import Baseline, Tracked
from auditkit.model.runs.probe import ProbeInfo
from auditkit.model.runs.run import ProbeResult, Run
from auditkit.model.ticket import REOPENING, Ticket

_ORDINAL = re.compile(r"#\d+$")
_ANSWERED = (Outcome.NOT_REPRODUCED, Outcome.NOT_APPLICABLE)


def baseline_of(
    run: Run, tickets: Sequence[Ticket], empty: Baseline, least: Severity, probes: Mapping[str, ProbeInfo] | None
) -> Baseline:
    """`empty` with the run's findings in it, each once.

    A finding is known where a ticket with its fingerprint is open or accepted (deferred, wont-fix, not-a-bug,
    duplicate). One whose ticket was closed as fixed is new, with a note. Without a ticket it is new from the severity
    `least` on; below that, or in a library's code, it is minor. `probes` are those that ran on all targets; None for a
    run on a part of them, which cannot show that a finding is gone.
    """
    held = tickets_by_fingerprint(tickets)
    torchs = {reading.target.call for reading in run.targets if reading.target.places}
    known, new, minor = [], [], 0
    reproduced = {each.fingerprint: each for each in run.results if each.outcome is Outcome.REPRODUCED}
    for fingerprint, result in reproduced.items():
        ticket = held.get(fingerprint)
        if ticket is not None and ticket.status not in REOPENING:
            known.append(Tracked(fingerprint, ticket.id, ticket.status.value))
        elif ticket is not None:
            why = f"{ticket.id} is {ticket.status.value}, and its finding reproduces again"
            new.append(Tracked(fingerprint, ticket.id, why))
        elif result.owner or result.target in torchs or not (result.severity and result.severity.at_least(least)):
            minor += 1
        else:
            new.append(Tracked(fingerprint))
    answers = {each.fingerprint: each for each in run.results}
    absent: dict[bool, list[Tracked]] = {True: [], False: []}
    unread = _unread(run)
    for fingerprint, ticket in held.items():
        if fingerprint in reproduced or ticket.status.is_finished:
            continue
        why, is_gone = _absence(fingerprint, answers.get(fingerprint), run, probes)
        if unread and is_gone and fingerprint not in answers:
            why, is_gone = f"not checked: {unread}", False
        absent[is_gone].append(Tracked(fingerprint, ticket.id, why))
    gone, unasked = tuple(absent[True]), tuple(absent[False])
    return replace(empty, known=tuple(known), new=tuple(new), gone=gone, unasked=unasked, minor=minor)


def only_new(run: Run) -> Run:
    """The run as its exit code and its report have it: without a baseline as it is, else the new findings alone."""
    if run.baseline is None:
        return run
    new = {one.fingerprint for one in run.baseline.new}
    results = tuple(each if each.fingerprint in new else replace(each, severity=None) for each in run.results)
    arms = tuple(replace(arm, run=only_new(replace(arm.run, baseline=run.baseline))) for arm in run.matrix)
    return replace(run, results=results, matrix=arms)


def tickets_by_fingerprint(tickets: Sequence[Ticket]) -> dict[str, Ticket]:
    """Return the ticket of each finding: an open one, else one with a decision, else the first."""
    ordered = sorted(tickets, key=lambda ticket: (ticket.status in REOPENING, ticket.status.is_finished))
    held: dict[str, Ticket] = {}
    for ticket in ordered:
        for fingerprint in ticket.findings:
            held.setdefault(fingerprint, ticket)
    return held


def _unread(run: Run) -> str:
    """Return why the first file that auditkit could not parse is unread; its code may hold any finding."""
    texts = [each.message for each in run.results if each.reason is Reason.NOT_PARSED]
    texts += [f"{each.file}: {each.why_not}" for each in run.candidates if each.reason is Reason.NOT_PARSED]
    return next(iter(texts), "")


def _absence(
    fingerprint: str, answer: ProbeResult | None, run: Run, probes: Mapping[str, ProbeInfo] | None
) -> tuple[str, bool]:
    """Why a finding of an open ticket is not among those of the run, and whether that means that it is gone."""
    if answer is not None:
        return answer.outcome.value.replace("_", " "), answer.outcome in _ANSWERED
    probe_id, _, rest = fingerprint.partition("/")
    call = _ORDINAL.sub("", rest.partition("/")[2])
    candidate = next((each for each in run.candidates if each.call == call), None)
    if candidate is not None and (candidate.excluded or candidate.why_not):
        return candidate.excluded or candidate.why_not, False
    probe = probes.get(probe_id) if probes is not None else None
    # A source probe reports only what it finds; a runtime probe has a result for every collector that exists.
    if probe is not None and probe.scope == "source":
        return "no longer found in the source", True
    if probe is not None and run.candidates and candidate is None:
        return "the collector no longer exists", True
    return "not checked", False
