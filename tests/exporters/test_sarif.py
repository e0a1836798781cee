"""Findings of lint as SARIF 2.1.0: what the standard requires, and that every index leads somewhere."""

from __future__ import annotations

import json
from typing import Any

import pytest
from jsonschema import Draft202012Validator, ValidationError

from auditkit.exporters.sarif import lint_sarif
from auditkit.rules.lint.catalog import all_rules
from auditkit.rules.lint.check import LintFinding
from auditkit.rules.lint.rule import Level

RULES = list(all_rules().values())
FINDINGS = [
    LintFinding("tickets/batch7/B7-PT-01.md", 11, 17, "TK011", "status 'wontfix' | is `unknown`", Level.WARN),
    LintFinding("tickets/my tickets/B7-PT-02 é.md", 1, 1, "TK000", "not UTF-8", Level.ERROR),
    LintFinding("/home/a b/B7-PT-03.md", 9, 2, "TK008", "no newline", Level.INFO),
]

# The parts of the standard's own schema that these documents use, with its required members and patterns.
_MESSAGE = {"type": "object", "required": ["text"], "properties": {"text": {"type": "string", "minLength": 1}}}
_LEVEL = {"enum": ["none", "note", "warning", "error"]}
_RULE = {
    "type": "object",
    "required": ["id"],
    "properties": {
        "id": {"type": "string"},
        "shortDescription": _MESSAGE,
        "defaultConfiguration": {"properties": {"level": _LEVEL}, "additionalProperties": False},
    },
    "additionalProperties": False,
}
_REGION = {
    "type": "object",
    "required": ["startLine", "startColumn"],
    "properties": {name: {"type": "integer", "minimum": 1} for name in ("startLine", "startColumn")},
    "additionalProperties": False,
}
_PHYSICAL = {
    "type": "object",
    "required": ["artifactLocation", "region"],
    "properties": {
        "artifactLocation": {
            "required": ["uri"],
            "properties": {"uri": {"type": "string", "pattern": r"^[A-Za-z0-9_.~:/%-]+$"}},
            "additionalProperties": False,
        },
        "region": _REGION,
    },
    "additionalProperties": False,
}
_RESULT = {
    "type": "object",
    "required": ["message", "ruleId", "ruleIndex", "level", "locations"],
    "properties": {
        "message": _MESSAGE,
        "ruleId": {"type": "string"},
        "ruleIndex": {"type": "integer", "minimum": 0},
        "level": _LEVEL,
        "locations": {
            "type": "array",
            "minItems": 1,
            "items": {"properties": {"physicalLocation": _PHYSICAL}, "additionalProperties": False},
        },
    },
    "additionalProperties": False,
}
_DRIVER = {
    "type": "object",
    "required": ["name"],
    "properties": {
        "name": {"type": "string"},
        "version": {"type": "string"},
        "rules": {"type": "array", "uniqueItems": True, "items": _RULE},
    },
    "additionalProperties": False,
}
SARIF = {
    "type": "object",
    "required": ["version", "runs"],
    "properties": {
        "$schema": {"type": "string", "format": "uri"},
        "version": {"const": "2.1.0"},
        "runs": {
            "type": "array",
            "items": {
                "type": "object",
                "required": ["tool"],
                "properties": {
                    "tool": {"required": ["driver"], "properties": {"driver": _DRIVER}, "additionalProperties": False},
                    "columnKind": {"enum": ["utf16CodeUnits", "unicodeCodePoints"]},
                    "results": {"type": "array", "items": _RESULT},
                },
                "additionalProperties": False,
            },
        },
    },
    "additionalProperties": False,
}


def log() -> dict[str, Any]:
    made: dict[str, Any] = json.loads(json.dumps(lint_sarif(FINDINGS, RULES, "1.2.3")))
    return made


def test_the_log_is_valid() -> None:
    Draft202012Validator(SARIF).validate(log())
    (run,) = log()["runs"]
    assert (run["tool"]["driver"]["version"], run["columnKind"]) == ("1.2.3", "unicodeCodePoints")
    assert [rule["id"] for rule in run["tool"]["driver"]["rules"]] == list(all_rules())


def test_a_result_says_which_rule_where_and_how_bad() -> None:
    (run,) = log()["runs"]
    rules = run["tool"]["driver"]["rules"]
    assert [rules[result["ruleIndex"]]["id"] for result in run["results"]] == ["TK011", "TK000", "TK008"]
    assert [result["level"] for result in run["results"]] == ["warning", "error", "note"]
    places = [result["locations"][0]["physicalLocation"] for result in run["results"]]
    assert places[0]["region"] == {"startLine": 11, "startColumn": 17}
    assert [place["artifactLocation"]["uri"] for place in places] == [
        "tickets/batch7/B7-PT-01.md",
        "tickets/my%20tickets/B7-PT-02%20%C3%A9.md",
        "file:///home/a%20b/B7-PT-03.md",
    ]
    assert run["results"][0]["message"] == {"text": "status 'wontfix' | is `unknown`"}


@pytest.mark.parametrize(
    ("name", "value"), [("level", "warn"), ("message", "text"), ("locations", []), ("ruleIndex", -1)]
)
def test_a_wrong_result_is_refused(name: str, value: object) -> None:
    document = log()
    document["runs"][0]["results"][0][name] = value
    with pytest.raises(ValidationError):
        Draft202012Validator(SARIF).validate(document)
