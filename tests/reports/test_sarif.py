"""SARIF 2.1.0 of runs: what the standard requires and what GitHub does, and that every index leads on."""

from __future__ import annotations

import json
from typing import Any

import pytest
from jsonschema import Draft202012Validator

from auditkit.model.runs.run import Run
from auditkit.probing.engine.catalog import load_catalog
from auditkit.reports.export import json_text
from auditkit.reports.sarif import run_sarif
from tests.reports.exported_runs import ERROR, PASS, RUNS, UNAVAILABLE, run_of

PROBES = load_catalog()

# The parts of the standard that these documents use, with what GitHub requires beside it.
_MESSAGE = {"type": "object", "required": ["text"], "properties": {"text": {"type": "string", "minLength": 1}}}
_LEVEL = {"enum": ["none", "note", "warning", "error"]}
_RULE = {
    "type": "object",
    "required": ["id", "name", "shortDescription", "fullDescription", "help", "defaultConfiguration"],
    "properties": {
        "id": {"type": "string", "minLength": 1},
        "name": {"type": "string", "minLength": 1},
        "shortDescription": _MESSAGE,
        "fullDescription": _MESSAGE,
        "help": {**_MESSAGE, "required": ["text", "markdown"]},
        "defaultConfiguration": {"properties": {"level": _LEVEL}, "additionalProperties": False},
        "properties": {"properties": {"tags": {"type": "array", "uniqueItems": True, "maxItems": 10}}},
    },
    "additionalProperties": False,
}
_REGION_KEYS = ("startLine", "startColumn", "endLine", "endColumn")
_REGION = {
    "type": "object",
    "required": list(_REGION_KEYS),
    "properties": {name: {"type": "integer", "minimum": 1} for name in _REGION_KEYS},
    "additionalProperties": False,
}
_PHYSICAL = {
    "type": "object",
    "required": ["artifactLocation", "region"],
    "properties": {
        "artifactLocation": {
            "required": ["uri"],
            "properties": {
                "uri": {"type": "string", "pattern": r"^[A-Za-z0-9_.~:/%-]+$"},
                "uriBaseId": {"const": "%SRCROOT%"},
            },
            "additionalProperties": False,
        },
        "region": _REGION,
    },
    "additionalProperties": False,
}
_TEXTS = {"type": "object", "minProperties": 1, "additionalProperties": {"type": "string", "minLength": 1}}
_RESULT = {
    "type": "object",
    "required": ["message", "ruleId", "ruleIndex", "level", "locations", "fingerprints", "partialFingerprints"],
    "properties": {
        "message": _MESSAGE,
        "ruleId": {"type": "string"},
        "ruleIndex": {"type": "integer", "minimum": 0},
        "level": _LEVEL,
        "locations": {
            "type": "array",
            "minItems": 1,
            "items": {
                "properties": {"physicalLocation": _PHYSICAL, "logicalLocations": {"type": "array"}},
                "additionalProperties": False,
            },
        },
        "fingerprints": _TEXTS,
        "partialFingerprints": {**_TEXTS, "required": ["primaryLocationLineHash"]},
        "baselineState": {"enum": ["new", "unchanged"]},
        "properties": {"type": "object"},
    },
    "additionalProperties": False,
}
_NOTIFICATION = {
    "required": ["level", "message", "associatedRule"],
    "properties": {"level": _LEVEL, "message": _MESSAGE, "associatedRule": {"required": ["id", "index"]}},
    "additionalProperties": False,
}
_INVOCATION = {
    "required": ["executionSuccessful"],
    "properties": {
        "executionSuccessful": {"type": "boolean"},
        "toolExecutionNotifications": {"type": "array", "items": _NOTIFICATION},
        "properties": {"type": "object", "properties": {"sandbox": {"type": "string"}}, "additionalProperties": False},
    },
    "additionalProperties": False,
}
_DRIVER = {
    "type": "object",
    "required": ["name", "rules"],
    "properties": {
        "name": {"type": "string"},
        "version": {"type": "string"},
        "semanticVersion": {"type": "string"},
        "informationUri": {"type": "string", "pattern": "^https://"},
        "rules": {"type": "array", "uniqueItems": True, "items": _RULE},
    },
    "additionalProperties": False,
}
_RUN = {
    "type": "object",
    "required": ["tool", "results"],
    "properties": {
        "tool": {"required": ["driver"], "properties": {"driver": _DRIVER}, "additionalProperties": False},
        "originalUriBaseIds": {"required": ["%SRCROOT%"]},
        "automationDetails": {"properties": {"id": {"type": "string"}}, "additionalProperties": False},
        "invocations": {"type": "array", "items": _INVOCATION},
        "columnKind": {"enum": ["utf16CodeUnits", "unicodeCodePoints"]},
        "results": {"type": "array", "items": _RESULT},
    },
    "additionalProperties": False,
}
SARIF = {
    "type": "object",
    "required": ["version", "runs"],
    "properties": {
        "$schema": {"type": "string", "format": "uri"},
        "version": {"const": "2.1.0"},
        "runs": {"type": "array", "items": _RUN},
    },
    "additionalProperties": False,
}


def log(run: Run) -> dict[str, Any]:
    """The run's log as it is written."""
    document = run_sarif(run, PROBES, "1.2.3", "sub/")
    made: dict[str, Any] = json.loads(json_text(document))
    return made


LOGS = RUNS


@pytest.mark.parametrize("run", LOGS.values(), ids=LOGS)
def test_the_log_is_valid(run: Run) -> None:
    document = log(run)
    Draft202012Validator(SARIF).validate(document)
    (only,) = document["runs"]
    rules = [rule["id"] for rule in only["tool"]["driver"]["rules"]]
    assert len(set(rules)) == len(rules)
    for each in only["results"]:
        region = each["locations"][0]["physicalLocation"]["region"]
        assert (region["endLine"], region["endColumn"]) > (region["startLine"], region["startColumn"])
        assert rules[each["ruleIndex"]] == each["ruleId"]
    prints = [each["partialFingerprints"]["primaryLocationLineHash"] for each in only["results"]]
    assert len(set(prints)) == len(prints)


def test_a_finding_of_a_run_has_the_columns_of_its_statement_and_a_path_of_the_repository() -> None:
    (run,) = log(RUNS["findings"])["runs"]
    worst, found, minor = run["results"]
    assert [each["level"] for each in (worst, found, minor)] == ["error", "warning", "note"]
    place = found["locations"][0]["physicalLocation"]
    assert place["artifactLocation"]["uri"] == "sub/stats.py"
    # `    return [` to the end of `        g.norm().item()`.
    assert place["region"] == {"startLine": 5, "startColumn": 5, "endLine": 6, "endColumn": 24}
    assert found["fingerprints"] == {"auditkit/v1": "sync_in_loop/1/stats:layer_norms"}
    assert minor["properties"] == {
        "severity": "P4", "evidence": "measured", "target": "stats:layer_norms", "ticket": "B1-PT-01",
    }  # fmt: skip


def test_what_got_no_answer_is_told_and_is_no_result() -> None:
    """An error makes the execution unsuccessful; a device that is not here does not."""
    (run,) = log(run_of(ERROR, UNAVAILABLE, PASS))["runs"]
    (invocation,) = run["invocations"]
    assert run["results"] == []
    assert invocation["executionSuccessful"] is False
    told = invocation["toolExecutionNotifications"]
    assert [(each["level"], each["message"]["text"]) for each in told] == [
        ("error", "error: stats:slow: no result in 120 s."),
        ("note", "unavailable: stats:other: there is no CUDA device on this machine."),
    ]
    assert log(run_of(UNAVAILABLE))["runs"][0]["invocations"][0]["executionSuccessful"] is True


def test_beside_tickets_a_result_says_whether_it_is_new() -> None:
    (run,) = log(RUNS["known"])["runs"]
    assert [each.get("baselineState") for each in run["results"]] == ["new", "unchanged", None]  # the last is minor
