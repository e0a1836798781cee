"""Findings of lint that a project knows already: a text file with one on each line, which git can merge."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable
from pathlib import PurePath

from auditkit.model.text import inert_line
from auditkit.rules.lint.check import LintFinding
from auditkit.rules.lint.checks.metadata import UNREADABLE

HEADER = "# Findings that `auditkit ticket lint --baseline` leaves out; --write-baseline writes this file anew.\n"
# Numbers of lines and counts, which change when nobody touched the ticket; not those in ids, dates and ranges.
_NUMBER = re.compile(r"(?<![\w-])[+-]?\d+(?![\w-])")


def baseline_of(findings: Iterable[LintFinding]) -> str:
    """The file that knows these findings, those apart that no ticket can have: a file that cannot be read."""
    lines = sorted(_named(finding) for finding in findings if finding.rule != UNREADABLE)
    return HEADER + "".join(f"{line}\n" for line in lines)


def not_known(findings: Iterable[LintFinding], baseline: str) -> tuple[list[LintFinding], int]:
    """The findings that are not in the file, and how many of the file were not found again.

    A finding is known by the name of the ticket's file, the rule and the message without its numbers: it may move to
    another line, and its file to another folder. As many of a kind are known as the file has lines.
    """
    known = Counter(line for line in baseline.splitlines() if line.strip() and not line.startswith("#"))
    new = []
    for finding in findings:
        name = _named(finding)
        if known[name] > 0 and finding.rule != UNREADABLE:
            known[name] -= 1
        else:
            new.append(finding)
    return new, known.total()


def fingerprints_of(findings: Iterable[LintFinding]) -> list[str]:
    """A name for each finding that stays when lines move; of several with one name all but the first have a number."""
    seen: Counter[str] = Counter()
    names = []
    for name in map(_named, findings):
        seen[name] += 1
        names.append(name if seen[name] == 1 else f"{name} #{seen[name]}")
    return names


def _named(finding: LintFinding) -> str:
    return f"{PurePath(finding.path).name} {finding.rule} {_NUMBER.sub('#', inert_line(finding.message))}"
