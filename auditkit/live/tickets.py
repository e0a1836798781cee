"""Tickets for the findings of a watched run; the next run of the same program finds them by law, file and function."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from auditkit.live.watch import Watched, catalog, identity
from auditkit.model.enums import Outcome
from auditkit.model.runs.run import Finding, ProbeResult
from auditkit.probing.source.excerpts import cut_excerpt
from auditkit.probing.source.modules import source_bytes
from auditkit.probing.source.statements import unit_of
from auditkit.tickets.filing import FilingOptions, file_findings
from auditkit.tickets.store import TicketFolder

_NO_FIX = "auditkit watched the program and changed nothing"


def file_tickets(watched: Watched, folder: TicketFolder, command: Sequence[str], options: FilingOptions) -> Watched:
    """Return the run with its findings' tickets. Raises StoreConflictError if the folder cannot be written.

    Each finding has a ticket of its own: two laws that name one line, such as a backward, have different causes.
    """
    root, run = watched.recording.root, watched.run
    probes = catalog()
    groups = [
        (
            Finding(
                probes[result.probe],
                _with_code(result, root),
                run.environment,
                run.id,
                no_fix=_NO_FIX,
                reproduction=f"    auditkit run -- {_from_root(command, root)}",
            ),
        )
        for result in watched.findings
    ]
    options = replace(options, source=lambda file: source_bytes(root / file).decode("utf-8", "replace") or None)
    done, notes = file_findings(folder, groups, _absent(watched, folder), options, run.environment)
    results = tuple(
        replace(result, ticket=filed.id, ticket_action=filed.action.value)
        if (filed := done.get(result.fingerprint))
        else result
        for result in run.results
    )
    return replace(watched, run=replace(run, results=results, notes=(*run.notes, *notes)))


def _with_code(result: ProbeResult, root: Path) -> ProbeResult:
    """The finding with its lines of code, and with its function as its target."""
    place = result.location
    if place is None:
        return result
    unit = unit_of(root, place)
    return replace(
        result,
        target=identity(place),
        excerpt=cut_excerpt(root, place),
        statement=unit.statement if unit is not None else None,
    )


def _from_root(command: Sequence[str], root: Path) -> str:
    """The command without paths of this machine: those below the project's root from there, a program by its name."""
    words = []
    for number, word in enumerate(command):
        path = Path(word)
        if path.is_absolute():
            is_below = path.is_relative_to(root)
            word = path.relative_to(root).as_posix() if is_below else word if number else path.name
        words.append(word)
    return shlex.join(words)


def _absent(watched: Watched, folder: TicketFolder) -> dict[str, ProbeResult]:
    """The findings of open tickets whose law held in this run, if the run stepped in their file."""
    held = {each.probe: each for each in watched.run.results if each.outcome is Outcome.NOT_REPRODUCED}
    root = watched.recording.root
    stepped = {turn["at"][0] for process in watched.recording.trained for turn in process.turns}
    files = {Path(file).relative_to(root).as_posix() for file in stepped if Path(file).is_relative_to(root)}
    if not folder.folder.is_dir():
        return {}
    names = (name for ticket in folder.listing().tickets for name in ticket.findings)
    found = {}
    for name in names:
        law, _, place = name.partition("/")
        target = place.partition("/")[2]
        if law in held and any(target == f"run:{file}" or target.startswith(f"run:{file}:") for file in files):
            found[name] = replace(held[law], fingerprint=name)
    return found
