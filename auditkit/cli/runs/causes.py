"""The entry of one cause in the report of a run: its place, what is wrong, what each probe says, who meets it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from auditkit.model.runs.run import ProbeResult
from auditkit.model.runs.target import short_target
from auditkit.model.text import counted, inert_line, listed
from auditkit.reports.causes import Cause

_WORDS = {"created": "new", "reopened": "open again", "joined": "known, this is new in it", "refreshed": "known"}
"""What was done to a ticket, said of the ticket; the first that fits where a run did several of them."""
_MOST = 3


def cause_lines(cause: Cause, in_full: bool) -> Iterator[str]:
    """Severity, place, what is wrong, the number of the worst probe, and who meets it; `in_full` of every probe."""
    worst = cause.worst
    results = cause.results if in_full else cause.telling
    done = ", ".join(f"{ticket} ({action})" for ticket, action in tickets_of(results).items())
    yield f"{worst.severity}  {place_of(cause)}{_functions(cause, results, in_full)}{f'  {done}' if done else ''}"
    yield f"    {worst.probe.title}: {worst.result.why}" if worst.result.why else f"    {worst.probe.title}"
    probes = list(dict.fromkeys(one.probe for one in results))
    for probe in probes if in_full else probes[:1]:
        found = [one for one in results if one.probe == probe]
        severity = f"{found[0].severity} " if found[0].severity != worst.severity else ""
        evidence = "" if found[0].evidence in (None, "measured", "read") else f" ({found[0].evidence})"
        messages = list(dict.fromkeys(map(words_of, found)))
        most = len(messages) if in_full else _MOST if worst.is_of_module else 1
        yield from (f"    {severity}{probe}{evidence}: {message}" for message in messages[:most])
        if messages[most:]:
            yield f"      and {len(messages) - most} more like it (-v)"
    if probes[1:] and not in_full:
        yield f"    also {', '.join(probes[1:])} (-v)"
    met_by = worst.result.met_by
    if met_by is not None and (met_by.callers or met_by.entry_points) and not worst.is_of_module:
        yield f"    Met by: {met_by.sentence()}"


def _functions(cause: Cause, results: Sequence[ProbeResult], in_full: bool) -> str:
    """The function of the statement, and the targets that met it there."""
    location = cause.worst.result.location
    inside = location.function if location and not cause.worst.is_of_module else ""
    targets = dict.fromkeys(short_target(one.target) for one in results if not one.is_of_source)
    others = [target for target in targets if target != inside]
    through = f" through {listed(others, len(others) if in_full else _MOST)}" if others else ""
    return (f" in {inside}" if inside else "") + through


def place_of(cause: Cause) -> str:
    """`src/stats.py:18`, the target if no line is known; of whole modules the first place and how many others."""
    others = len({each.location for each in cause.results}) - 1 if cause.worst.is_of_module else 0
    return cause.worst.result.place + (f" and {counted(others, 'more place')}" if others else "")


def tickets_of(findings: Iterable[ProbeResult]) -> dict[str, str]:
    """The tickets of some findings, each with what became of it in this run."""
    actions: dict[str, set[str]] = {}
    for result in findings:
        if result.ticket:
            actions.setdefault(result.ticket, set()).add(result.ticket_action)
    return {
        ticket: next((word for action, word in _WORDS.items() if action in done), "unchanged")
        for ticket, done in actions.items()
    }


def words_of(result: ProbeResult) -> str:
    """What the probe says; of source with what it speaks of, where the place does not say that."""
    inside = result.location.function if result.location else ""
    about = f"{result.target}: " if result.is_of_source and short_target(result.target) != inside else ""
    return inert_line(about + result.message)
