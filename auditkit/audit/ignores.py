"""Comments that suppress a finding: `# auditkit: ignore[PROBE] reason` on a line of its statement."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator
from dataclasses import replace
from pathlib import Path

from auditkit.errors import meant
from auditkit.model.enums import Outcome
from auditkit.model.runs.run import ProbeResult, Run
from auditkit.model.text import inert_line
from auditkit.probing.source.files import source_files
from auditkit.probing.source.modules import source_bytes
from auditkit.reports.findings import rows_of

_COMMENT = re.compile(r"#\s*auditkit:\s*ignore\b(?:\[([^\]]*)\])?[ \t:]*([^#]*)")


def with_ignores(run: Run, root: Path, known: Collection[str]) -> Run:
    """Move the findings that a comment suppresses from `results` to `ignored`, and note comments that are not valid.

    `known` are the ids of all probes. A comment suppresses one that it names, and needs a reason.
    """
    notes: list[str] = []
    valid: dict[tuple[str, int, str], str] = {}
    for file, line, probe, reason in _comments(root):
        problem = _problem(probe, reason, known)
        if problem:
            notes.append(f"{file}:{line}: # auditkit: ignore[{inert_line(probe)}] {problem}")
        else:
            valid.setdefault((file, line, probe), reason)
    ignored: dict[str, ProbeResult] = {}
    places = {row.result.fingerprint: row.place for row in rows_of(run)}
    for result in run.results if valid else ():
        place = places[result.fingerprint]
        statement = result.statement
        is_inside = statement is not None and statement.file == place.file
        lines = {place.line, *(range(statement.first, statement.last + 1) if statement and is_inside else ())}
        here = [valid[key] for line in lines if (key := (place.file, line, result.probe)) in valid]
        if here and result.outcome is Outcome.REPRODUCED:
            ignored[result.fingerprint] = replace(result, ignored=here[0])
    arms = tuple(replace(arm, run=_without(arm.run, ignored)) for arm in run.matrix)
    run = _without(replace(run, matrix=arms), ignored)
    return replace(run, ignored=tuple(ignored.values()), notes=(*run.notes, *notes))


def _without(run: Run, ignored: Collection[str]) -> Run:
    return replace(run, results=tuple(each for each in run.results if each.fingerprint not in ignored))


def _comments(root: Path) -> Iterator[tuple[str, int, str, str]]:
    """File, line, probe and reason of each comment."""
    for path in source_files(root):
        data = source_bytes(path)
        if b"auditkit:" not in data:
            continue
        file = path.relative_to(root).as_posix()
        for number, line in enumerate(data.decode("utf-8", "replace").splitlines(), start=1):
            for match in _COMMENT.finditer(line):
                for probe in (match[1] or "").split(","):
                    yield file, number, probe.strip(), inert_line(match[2])


def _problem(probe: str, reason: str, known: Collection[str]) -> str:
    if probe not in known:
        write = "write # auditkit: ignore[PROBE] reason"
        return f"names no probe, so auditkit ignores it: {meant(probe, known, write) if probe else write}"
    return "" if reason else "has no reason, so auditkit ignores it: write why behind it"
