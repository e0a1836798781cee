"""Which findings share a ticket, and which tickets are about the same code: as tables."""

from __future__ import annotations

from dataclasses import replace

import pytest

from auditkit.model.enums import Severity
from auditkit.model.grouping import group_by_cause
from auditkit.model.runs.cause import Statement
from auditkit.model.runs.measurement import Location, Measurement
from auditkit.model.runs.run import Finding
from tests.filing_helpers import make_finding

LINE, NEXT, ELSEWHERE = Statement("norms.py", 7, 7), Statement("norms.py", 8, 9), Statement("other.py", 7, 7)
TORCH = "torch 2.13.0: torch.nn.utils.get_total_norm"
NUMERICAL, NAMING = "Numerical stability", "Documentation / naming"


def found(
    probe: str,
    statement: Statement | None = LINE,
    target: str = "norms:total",
    severity: Severity = Severity.P2,
    category: str = NUMERICAL,
    scope: str = "target",
    function: str = "total",
    owner: str = "",
) -> Finding:
    finding = make_finding(
        owner=owner,
        probe=probe,
        target=target,
        fingerprint=f"{probe}/1/{target}",
        severity=severity,
        statement=statement,
        location=Location(statement.file, statement.first, function)
        if statement
        else Location("norms.py", 5, function),
    )
    return replace(finding, probe=replace(finding.probe, id=probe, categories=(category,), scope=scope))


def prints(groups: list[tuple[Finding, ...]]) -> list[list[str]]:
    return [[finding.result.fingerprint.replace("/1/norms:total", "") for finding in group] for group in groups]


def read(
    probe: str, category: str = NUMERICAL, statement: Statement | None = LINE, target: str = "norms:total"
) -> Finding:
    return found(probe, statement, target, category=category, scope="source")


def read_in(probe: str, *lines: int) -> Finding:
    """What was read in several lines, the first of them its place."""
    finding = read(probe, statement=Statement("norms.py", lines[0], lines[0]))
    measurements = tuple(Measurement("host_read", line, "line", {}) for line in lines)
    return replace(finding, result=replace(finding.result, measurements=measurements))


@pytest.mark.parametrize(
    ("findings", "expected"),
    [
        ([found("a"), found("b")], [["a", "b"]]),
        ([found("a"), found("b", NEXT)], [["a"], ["b"]]),
        ([found("a", target="m:f"), found("a", target="m:g")], [["a/1/m:f", "a/1/m:g"]]),
        ([found("a", None), found("b")], [["a"], ["b"]]),
        ([found("a", None, "m:f"), found("a", None, "m:g"), found("b", target="m:f"), found("b", target="m:g"),
          found("c", NEXT, "m:f")], [["a/1/m:f", "a/1/m:g"], ["b/1/m:f", "b/1/m:g"], ["c/1/m:f"]]),
        ([found("a", None, "m:f"), found("a", None, "m:g"), found("b", target="m:f"), found("b", target="m:g"),
          found("c", NEXT, "m:f"), found("c", ELSEWHERE, "m:g")],
         [["a/1/m:f"], ["a/1/m:g"], ["b/1/m:f", "b/1/m:g"], ["c/1/m:f"], ["c/1/m:g"]]),
        ([found("a"), read("b")], [["a", "b"]]),
        ([found("a"), read("b", NAMING)], [["a"], ["b"]]),
        ([found("a", NEXT), read_in("b", 7, 8)], [["a", "b"]]),
        ([found("a", NEXT), read_in("b", 6, 7)], [["a"], ["b"]]),
        ([read("a"), read("b")], [["a"], ["b"]]),
        ([read("a", target="m:f"), read("a", target="m:g")], [["a/1/m:f", "a/1/m:g"]]),
        ([read("a", target="m"), read("a", NAMING, ELSEWHERE, "n"), read("b", target="m")],
         [["a/1/m", "a/1/n"], ["b/1/m"]]),
        ([found("a"), read("b", target="m")], [["a"], ["b/1/m"]]),
        ([read("a", statement=None, target="m"), read("a", statement=None, target="n")], [["a/1/m", "a/1/n"]]),
        ([found("a", owner=TORCH), found("a", NEXT, "m:g", owner=TORCH)], [["a", "a/1/m:g"]]),
        ([found("a", owner=TORCH), found("b", owner=TORCH), found("c"), read("d")], [["a"], ["b"], ["c", "d"]]),
    ],
    ids=[
        "one statement", "the next statement",
        "two targets", "a definition and a line",
        "a wrapper and what it calls", "two that share a helper",
        "read from the source", "read, but another kind of defect",
        "read in several lines, of which one is blamed", "in none that is",
        "two readings", "one reading of two functions",
        "whole modules", "a whole module beside a statement", "whole modules by their definitions",
        "torch's, by whoever calls it", "torch's beside the checkout's",
    ],
)  # fmt: skip
def test_groups(findings: list[Finding], expected: list[list[str]]) -> None:
    """One statement is one cause; a definition is none; what is read joins its own kind; modules by probe."""
    assert prints(group_by_cause(findings)) == expected
