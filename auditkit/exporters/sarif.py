"""Findings of lint as SARIF 2.1.0, which code hosts and editors show beside the lines."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import PurePath
from typing import Any
from urllib.parse import quote

from auditkit.rules.lint.check import LintFinding
from auditkit.rules.lint.rule import Level, Rule

SCHEMA = "https://json.schemastore.org/sarif-2.1.0.json"

_LEVELS = {Level.ERROR: "error", Level.WARN: "warning", Level.INFO: "note"}


def lint_sarif(findings: Iterable[LintFinding], rules: Sequence[Rule], version: str) -> dict[str, Any]:
    """One SARIF log with one run: `rules` as the tool's, `findings` as its results.

    Relative paths stay relative, to where the command ran; columns count characters.
    """
    places = {rule.id: number for number, rule in enumerate(rules)}
    driver = {"name": "auditkit ticket lint", "version": version, "rules": [_rule(rule) for rule in rules]}
    run = {
        "tool": {"driver": driver},
        "columnKind": "unicodeCodePoints",
        "results": [_result(finding, places) for finding in findings],
    }
    return {"$schema": SCHEMA, "version": "2.1.0", "runs": [run]}


def _rule(rule: Rule) -> dict[str, Any]:
    return {
        "id": rule.id,
        "shortDescription": {"text": rule.title},
        "defaultConfiguration": {"level": _LEVELS[rule.level]},
    }


def _result(finding: LintFinding, places: dict[str, int]) -> dict[str, Any]:
    location = {
        "artifactLocation": {"uri": _uri(finding.path)},
        "region": {"startLine": finding.line, "startColumn": finding.column},
    }
    return {
        "ruleId": finding.rule,
        "ruleIndex": places[finding.rule],
        "level": _LEVELS[finding.level],
        "message": {"text": finding.message},
        "locations": [{"physicalLocation": location}],
    }


def _uri(path: str) -> str:
    return PurePath(path).as_uri() if PurePath(path).is_absolute() else quote(PurePath(path).as_posix())
