"""Comments that suppress a finding: `# auditkit: ignore[PROBE] reason` on a line of its statement."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from auditkit.errors import nearest_names
from auditkit.model.enums import Outcome
from auditkit.model.runs.run import ProbeResult, Run
from auditkit.model.text import inert_line
from auditkit.probing.source.files import source_files
from auditkit.probing.source.modules import source_bytes
from auditkit.reports.findings import rows_of

_COMMENT = re.compile(r"#\s*auditkit:\s*ignore\b(?:\[([^\]]*)\])?[ \t:]*([^#]*)")


@dataclass(frozen=True)
class _Ignore:
    file: str
    line: int
    probe: str
    reason: str


def with_ignores(run: Run, root: Path, known: Collection[str]) -> Run:
    """Move the findings that a comment suppresses from `results` to `ignored`, and note comments that are not valid.

    `known` are the ids of all probes. A comment suppresses one that it names, and needs a reason.
    """
    notes: list[str] = []
    valid: dict[tuple[str, int], list[_Ignore]] = {}
    for one in _comments(root):
        problem = _problem(one, known)
        if problem:
            notes.append(f"{one.file}:{one.line}: # auditkit: ignore[{inert_line(one.probe)}] {problem}")
        else:
            valid.setdefault((one.file, one.line), []).append(one)
    ignored: dict[str, ProbeResult] = {}
    places = {row.result.fingerprint: row.place for row in rows_of(run)}
    for result in run.results if valid else ():
        place = places[result.fingerprint]
        statement = result.statement
        is_inside = statement is not None and statement.file == place.file
        lines = {place.line, *(range(statement.first, statement.last + 1) if statement and is_inside else ())}
        here = [one for line in lines for one in valid.get((place.file, line), ()) if one.probe == result.probe]
        if here and result.outcome is Outcome.REPRODUCED:
            ignored[result.fingerprint] = replace(result, ignored=here[0].reason)
    arms = tuple(replace(arm, run=_without(arm.run, ignored)) for arm in run.matrix)
    run = _without(replace(run, matrix=arms), ignored)
    return replace(run, ignored=tuple(ignored.values()), notes=(*run.notes, *notes))


def _without(run: Run, ignored: Collection[str]) -> Run:
    return replace(run, results=tuple(each for each in run.results if each.fingerprint not in ignored))


def _comments(root: Path) -> Iterator[_Ignore]:
    for path in source_files(root):
        data = source_bytes(path)
        if b"auditkit:" not in data:
            continue
        file = path.relative_to(root).as_posix()
        for number, line in enumerate(data.decode("utf-8", "replace").splitlines(), start=1):
            for match in _COMMENT.finditer(line):
                for probe in (match[1] or "").split(","):
                    yield _Ignore(file, number, probe.strip(), inert_line(match[2]).strip())


def _problem(one: _Ignore, known: Collection[str]) -> str:
    if not one.probe:
        return "names no probe, so auditkit ignores it: write # auditkit: ignore[PROBE] reason"
    if one.probe not in known:
        near = nearest_names(one.probe, known, 1)
        return "names no probe, so auditkit ignores it" + (f": did you mean {near[0]}?" if near else "")
    return "" if one.reason else "has no reason, so auditkit ignores it: write why behind it"
