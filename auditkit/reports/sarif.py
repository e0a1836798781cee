"""Findings of a run as SARIF 2.1.0, which code hosts and editors show beside the lines."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import PurePath
from typing import Any
from urllib.parse import quote

from auditkit.model.enums import Outcome, Severity
from auditkit.model.runs.probe import ProbeInfo
from auditkit.model.runs.run import ProbeResult, Run
from auditkit.model.text import inert, inert_line, shortened
from auditkit.reports.findings import findings_of, places_of, standings_of

SCHEMA = "https://json.schemastore.org/sarif-2.1.0.json"

_BY_SEVERITY = {Severity.P0: "error", Severity.P1: "error", Severity.P2: "warning", Severity.P3: "warning"}
_STATES = {"known": "unchanged", "new": "new"}
_HOME = "https://github.com/OWNER/auditkit"
_ROOT = "%SRCROOT%"
_LONGEST = 2000
"""Characters of a message: GitHub shows fewer, and cuts a whole log that is too long."""


def run_sarif(run: Run, probes: Mapping[str, ProbeInfo], version: str, prefix: str = "") -> dict[str, Any]:
    """One log with one run: the findings as results, the worst first, and checks without a result as notifications.

    Paths are relative to the top of the repository, from which `prefix` leads to the checkout.
    """
    run = replace(run, results=(*run.results, *run.ignored))
    found = findings_of(run)
    silent = [each for each in run.results if each.outcome in (Outcome.ERROR, Outcome.UNAVAILABLE)]
    ids = {probe_id: number for number, probe_id in enumerate(sorted({each.probe for each in (*found, *silent)}))}
    rules = [_probe_rule(probe_id, probes.get(probe_id)) for probe_id in ids]
    places = places_of(run, prefix)
    standings = standings_of(run)
    results = []
    for each in found:
        place = places[each.fingerprint]
        region = _statement_region(each, place.line)
        level = _BY_SEVERITY.get(each.severity or Severity.P4, "note")
        result = _result(each.probe, ids[each.probe], level, each.message, place.file, region, each.fingerprint)
        if place.function:
            logical = {"fullyQualifiedName": inert(place.function), "kind": "function"}
            result["locations"][0]["logicalLocations"] = [logical]
        standing = standings[each.fingerprint]
        if standing.kind in _STATES:  # a minor finding is neither
            result["baselineState"] = _STATES[standing.kind]
        result["properties"] = {
            "severity": each.severity, "evidence": each.evidence, "target": inert(each.target),
            "ticket": standing.ticket,
        }  # fmt: skip
        if run.ignored:
            why = [{"kind": "inSource", "justification": _text(each.ignored)}]
            result["suppressions"] = why if each.ignored else []
        if each.met_by is not None:
            result["properties"]["metBy"] = inert(each.met_by.sentence())
        results.append(result)
    notifications = [
        {
            "level": "error" if each.outcome is Outcome.ERROR else "note",
            "message": {"text": _sentence(f"{each.outcome.value}: {each.target}: {each.message}")},
            "associatedRule": {"id": each.probe, "index": ids[each.probe]},
        }
        for each in silent
    ]
    is_whole = not any(each.outcome is Outcome.ERROR for each in silent)
    invocation = {"executionSuccessful": is_whole, "toolExecutionNotifications": notifications}
    invocation["properties"] = {"sandbox": run.environment.sandbox}
    more: dict[str, Any] = {"originalUriBaseIds": {_ROOT: {"description": {"text": "The top of the repository."}}}}
    more |= {"automationDetails": {"id": f"auditkit/{inert(run.id)}"}, "invocations": [invocation]}
    return _log("auditkit", version, rules, results, more)


def _log(
    name: str, version: str, rules: Sequence[object], results: Sequence[object], more: Mapping[str, Any]
) -> dict[str, Any]:
    driver = {"name": name, "version": version, "semanticVersion": version, "informationUri": _HOME, "rules": rules}
    run = {"tool": {"driver": driver}, **more, "columnKind": "unicodeCodePoints", "results": results}
    return {"$schema": SCHEMA, "version": "2.1.0", "runs": [run]}


def _probe_rule(probe_id: str, probe: ProbeInfo | None) -> dict[str, Any]:
    """What the probe's file says; of one that is not known here, only its name."""
    if probe is None:
        return _rule(probe_id, probe_id, probe_id.replace("_", " "), "", {}, "warning", [])
    helped = {
        "Why it matters": probe.motivation, "How it is measured": probe.method, "What it cannot see": probe.limits,
        "How to fix it": probe.remediation,
    }  # fmt: skip
    level = _BY_SEVERITY.get(probe.severity, "note")
    return _rule(probe.id, probe.id, probe.title, probe.motivation, helped, level, list(probe.categories))


def _rule(
    rule_id: str, name: str, title: str, told: str, helped: Mapping[str, str], level: str, tags: Sequence[str]
) -> dict[str, Any]:
    parts = [(head, _text(text)) for head, text in helped.items() if text] or [("What it finds", _text(title))]
    return {
        "id": inert(rule_id),
        "name": "".join(word.capitalize() for word in inert(name).split("_")),
        "shortDescription": {"text": _sentence(title)},
        "fullDescription": {"text": _sentence(told or title)},
        "help": {
            "text": "\n\n".join(f"{head}: {text}" for head, text in parts),
            "markdown": "\n\n".join(f"**{head}**\n\n{text}" for head, text in parts),
        },
        "defaultConfiguration": {"level": level},
        "properties": {"tags": list(tags)},
    }


def _result(
    rule: str, index: int, level: str, message: str, path: str, region: Mapping[str, int], fingerprint: str
) -> dict[str, Any]:
    return {
        "ruleId": inert(rule),
        "ruleIndex": index,
        "level": level,
        "message": {"text": _sentence(message) if message else f"{rule}."},
        "locations": [{"physicalLocation": {"artifactLocation": _artifact(path), "region": region}}],
        "fingerprints": {"auditkit/v1": inert_line(fingerprint)},
        # What GitHub tells results apart by; without it, its upload makes one of the line's text, which edits change.
        "partialFingerprints": {"primaryLocationLineHash": inert_line(fingerprint)},
    }


def _statement_region(result: ProbeResult, line: int) -> dict[str, int]:
    """The statement that begins with the line, where it is known; columns of 1 and 2 where the text is not."""
    own = result.location is not None and result.location.line == line
    statement, excerpt = (result.statement, result.excerpt) if own else (None, None)
    last = max(line, statement.last) if statement and statement.first == line else line
    texts = dict(enumerate(excerpt.lines, excerpt.first_line)) if excerpt else {}
    first = texts.get(line, "")
    return _region(line, len(first) - len(first.lstrip()) + 1, len(texts.get(last, "").rstrip()) + 1, last)


def _region(line: int, start: int, end: int, last: int = 0) -> dict[str, int]:
    last = max(line, last)
    end = max(end, start + 1 if last == line else 2)
    return {"startLine": line, "startColumn": start, "endLine": last, "endColumn": end}


def _text(text: str) -> str:
    return shortened(inert(text).strip(), _LONGEST)


def _sentence(text: str) -> str:
    text = " ".join(_text(text).split())
    return text if text.endswith((".", "!", "?")) else f"{text}."


def _artifact(path: str) -> dict[str, str]:
    """The place of a file: relative to the top of the repository, if it is in it."""
    uri = _uri(path)
    return {"uri": uri} if uri.startswith("file:") else {"uri": uri, "uriBaseId": _ROOT}


def _uri(path: str) -> str:
    # git has no revision whose name is not text.
    name = path.encode("utf-8", "replace").decode()
    return PurePath(name).as_uri() if PurePath(name).is_absolute() else quote(PurePath(name).as_posix())
