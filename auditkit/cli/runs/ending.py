"""How the report of a run ends: what to do first and why, what is known and what is new, the next command."""

from __future__ import annotations

import shlex
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path

from auditkit.audit.audit import AuditRequest, load_failures
from auditkit.cli.runs.causes import place_of, tickets_of
from auditkit.model.enums import Contract
from auditkit.model.runs.candidates import not_checked
from auditkit.model.runs.run import Run
from auditkit.model.text import counted
from auditkit.reports.causes import Cause, in_short

_MOST = 3


def first_steps(run: Run, causes: Sequence[Cause]) -> Iterator[str]:
    """Yield the three worst kinds of finding (place and what fixes it), or that there is none."""
    own, is_partial = [cause for cause in causes if cause.is_own], bool(not_checked(run.candidates))
    kinds: dict[str, list[Cause]] = {}
    for cause in own:
        if not cause.is_minor:
            kinds.setdefault(cause.worst.probe.id, []).append(cause)
    if kinds:
        yield "What to do first:"
    elif own:
        subject = "Nothing that was checked" if is_partial else "Nothing here"
        yield f"{subject} breaks training: what reproduced is minor (P4)."
    elif run.baseline is not None:
        yield "Nothing is new."
    elif any(result.owner for result in run.results):
        yield "Every finding belongs to a library: there is nothing to fix in this checkout."
    elif not run.summary["reproduced"]:
        yield f"Nothing {'that was checked ' if is_partial else ''}reproduced."
    for number, (probe, (cause, *others)) in enumerate(list(kinds.items())[:_MOST], start=1):
        remedy = cause.worst.probe.remediation
        tickets = "".join(f"  {ticket}" for ticket in tickets_of(cause.results))
        more = f", and at {counted(len(others), 'more place')}" if others else ""
        yield f"{number}. {place_of(cause)}{tickets}{more}: {f'{in_short(remedy)}.' if remedy else probe}"


def ticket_counts(run: Run, tickets: Path | None) -> Iterator[str]:
    """Yield how many of the tickets are new."""
    filed = [result for result in run.results if result.ticket]
    if tickets is None or not filed:
        return
    done = Counter(tickets_of(filed).values())
    again = f" ({done['open again']} open again)" if done["open again"] else ""
    known = done.total() - done["new"]
    yield f"{counted(done.total(), 'ticket')} in {tickets}: {done['new']} new, {known} known{again}"


def beside_tickets(run: Run) -> Iterator[str]:
    """How many findings the tickets knew before, with those that came back and those that are gone; none unasked."""
    found = run.baseline
    if found is None:
        return
    at = f" at {found.against[:12]}" if found.against else ""
    yield f"{found.in_words()}, by the tickets in {found.tickets}{at}"
    yield from (f"    again: {one.fingerprint}: {one.why}" for one in found.new if one.ticket)
    yield from (f"    gone: {one.fingerprint}: {one.why}, {one.ticket} is open" for one in found.gone)
    yield from (f"    not checked: {one.fingerprint}: {one.why}, {one.ticket} is open" for one in found.unasked)


def nothing_audited(run: Run) -> list[str]:
    """Return that no collector has a result, and why; nothing if one has."""
    failures = [] if run.matrix else load_failures(run)
    if not failures:
        return []
    why = failures[0].message.partition("\n")[0].rstrip(":").removeprefix("nothing was measured: ")
    said = [f"Nothing was audited: {why}."]
    read = [result for result in run.results if result.is_of_source]
    if read and (run.no_target is not None or len(read) < len(run.results)):
        shows = "the findings above come from it" if any(result.severity for result in read) else "it found nothing"
        said.append(f"auditkit only read its source and measured nothing: {shows}.")
    return said


def next_step(run: Run, request: AuditRequest, causes: Sequence[Cause], wants_tickets: bool) -> tuple[str, ...]:
    """Return what a reader of the report needs next, with a command if it is another one; nothing if nothing is."""
    if run.no_target is not None:
        return (f"Next, {_way_to_a_target(run)}",)
    own = [cause for cause in causes if cause.is_own]
    folder = str(request.tickets or (run.baseline.tickets if run.baseline else "tickets"))
    filed = next(iter(tickets_of(result for cause in own for result in cause.results)), "")
    if filed:
        command = shlex.join(["auditkit", "ticket", "show", filed, "--tickets", folder])
        return f"Next, the evidence of {filed} and its fix:", f"  {command}"
    if request.tickets is None and wants_tickets and any(not cause.is_minor for cause in own):
        return (f"Next, add --tickets {folder}: a ticket for each, with its evidence and its fix.",)
    if not causes or any(name.endswith(".py") for name in request.probes):
        return ()
    config = ["--config", str(request.config.path)] if request.config.probes_dir else []
    command = shlex.join(["auditkit", "probe", "show", (own or causes)[0].worst.probe.id, *config])
    return "Next, how the worst is measured and what fixes it:", f"  {command}"


def _way_to_a_target(run: Run) -> str:
    """How a collector is named that was not found, or not enough known of."""
    asked = next((result for result in run.results if not result.is_of_source), None)
    is_import = run.no_target is not None and run.no_target.is_import
    if is_import or (asked and asked.reason is not None and asked.reason.is_not_loaded):
        return "install what is missing, or name the interpreter that has it: --python VENV/bin/python"
    if asked is None:
        return "name a function that measures, clips or logs gradients: --target module:function --contract grad_norm"
    if asked.target in {each.call for each in run.candidates if each.contract is Contract.TRAIN_STEP}:
        return "watch a real run, which shows what the step gets: auditkit run -- python YOUR_SCRIPT.py"
    return f"give the arguments of the likeliest collector: --target {asked.target} --argument NAME=VALUE"
