"""What the findings of a run are about: their statements, and where else the checkout is written like that."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from auditkit.model.enums import Outcome
from auditkit.model.runs.run import ProbeResult
from auditkit.probing.source.likeness.siblings import find_siblings
from auditkit.probing.source.statements import Sources, Unit


def with_causes(results: Sequence[ProbeResult], root: Path) -> tuple[ProbeResult, ...]:
    """The results; those that reproduced with their statement, its siblings, and the function's name.

    Siblings are those of what a call reproduced: a probe that reads the source has read every place; and of the
    checkout's own statements, not of those of an installed package. The name is read from the source: what a running
    frame says of a comprehension depends on the version of Python.
    """
    sources = Sources(root)
    units = [_unit(result, sources) for result in results]
    own = [unit for result, unit in zip(results, units, strict=True) if unit is not None and _is_called(result)]
    siblings = find_siblings(root, own)
    completed = []
    for result, unit in zip(results, units, strict=True):
        if unit is not None and result.location is not None:
            result = replace(
                result,
                location=replace(result.location, function=unit.function or result.location.function),
                statement=unit.statement,
                siblings=siblings.get(unit.statement) if unit.statement else None,
            )
        completed.append(result)
    return tuple(completed)


def _unit(result: ProbeResult, sources: Sources) -> Unit | None:
    if result.outcome is not Outcome.REPRODUCED or result.location is None:
        return None
    place = result.location
    return sources.unit(place.file, place.line, place.folder)


def _is_called(result: ProbeResult) -> bool:
    """Whether a call into the checkout's own code reproduced it."""
    return not result.is_of_source and result.location is not None and not result.location.folder
