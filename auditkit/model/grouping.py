"""Which findings of a run have one cause and share a ticket, and which tickets are about the same code."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from auditkit.model.runs.cause import Statement
from auditkit.model.runs.run import Finding

_Key = Statement | tuple[Statement | str, str] | str


def group_by_cause(findings: Iterable[Finding]) -> list[tuple[Finding, ...]]:
    """The findings of a run in groups of one cause, the worst finding of each and the worst group first.

    One statement is one cause. What reading the source found in one of its lines belongs to it only where it is the
    same kind of defect, that is, shares a category: a private function can overflow, but being private is not why. What
    one probe read in whole modules is one decision for all of them, and a defect of a library's function is one defect
    for all its callers. A finding that is only known to be in a function stands alone, unless targets that lead to one
    statement have the same result: then the same code causes it. A fingerprint counts once.
    """
    once: dict[str, Finding] = {}
    for finding in findings:
        once.setdefault(finding.result.fingerprint, finding)
    ordered = sorted(once.values(), key=lambda finding: finding.severity.value)
    categories: dict[Statement, set[str]] = {}
    for finding in ordered:
        if finding.result.statement is not None and finding.probe.scope == "target" and not finding.result.owner:
            categories.setdefault(finding.result.statement, set()).update(finding.probe.categories)
    origins = _origins(ordered)
    groups: dict[_Key, list[Finding]] = {}
    for finding in ordered:
        groups.setdefault(_cause(finding, categories, origins), []).append(finding)
    return [tuple(group) for group in groups.values()]


def _origins(findings: Sequence[Finding]) -> dict[str, str]:
    """Of each target the first one that it leads to: all that probes blame in one of the two, they blame in the other.

    A helper that two targets share is no wrapper of either: each has statements of its own beside it.
    """
    blamed: dict[str, set[tuple[str, Statement]]] = {}
    for finding in findings:
        statement = finding.result.statement
        if statement is not None and finding.probe.scope == "target" and not finding.result.owner:
            blamed.setdefault(finding.result.target, set()).add((finding.probe.id, statement))
    return {
        target: next(other for other, others in blamed.items() if others <= own or own <= others)
        for target, own in blamed.items()
    }


def _cause(finding: Finding, categories: dict[Statement, set[str]], origins: dict[str, str]) -> _Key:
    if finding.is_of_module:
        return finding.probe.id
    if finding.result.owner:
        return finding.result.owner, finding.probe.id
    statement = finding.result.statement
    if statement is None:
        origin = origins.get(finding.result.target)
        return (finding.probe.id, f"{origin} {finding.result.message}") if origin else finding.result.fingerprint
    if finding.probe.scope == "target":
        return finding.result.copy_of or statement
    own = set(finding.probe.categories)
    same = (each for each, found in categories.items() if found & own and finding.result.is_read_in(each))
    return next(same, (statement, finding.probe.id))
