"""Findings of a run as SARIF 2.1.0, which code hosts and editors show beside the lines."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import PurePath
from typing import Any
from urllib.parse import quote

from auditkit import __version__
from auditkit.model.enums import Outcome, Severity
from auditkit.model.runs.probe import ProbeInfo
from auditkit.model.runs.run import Run
from auditkit.model.text import inert, inert_line, shortened
from auditkit.reports.findings import Row, probe_of, rows_of

SCHEMA = "https://json.schemastore.org/sarif-2.1.0.json"

_BY_SEVERITY = {Severity.P0: "error", Severity.P1: "error", Severity.P2: "warning", Severity.P3: "warning"}
_STATES = {"known": "unchanged", "new": "new"}
_HOME = "https://github.com/OWNER/auditkit"
_ROOT = "%SRCROOT%"
_LONGEST = 2000
"""Characters of a message: GitHub shows fewer, and cuts a whole log that is too long."""


def run_sarif(run: Run, probes: Mapping[str, ProbeInfo], prefix: str = "") -> dict[str, Any]:
    """One log with one run: the findings as results, the worst first, and checks without a result as notifications.

    Paths are relative to the top of the repository, from which `prefix` leads to the checkout.
    """
    rows = rows_of(replace(run, results=(*run.results, *run.ignored)), prefix)
    found = [row for row in rows if row.is_finding]
    silent = [row.result for row in rows if row.result.outcome in (Outcome.ERROR, Outcome.UNAVAILABLE)]
    named = {each.probe: probe_of(each, probes) for each in (*(row.result for row in found), *silent)}
    ids = {probe_id: number for number, probe_id in enumerate(sorted(named))}
    notifications = [
        {
            "level": "error" if each.outcome is Outcome.ERROR else "note",
            "message": {"text": _sentence(f"{each.outcome.value}: {each.target}: {each.message}")},
            "associatedRule": {"id": each.probe, "index": ids[each.probe]},
        }
        for each in silent
    ]
    invocation = {
        "executionSuccessful": not any(each.outcome is Outcome.ERROR for each in silent),
        "toolExecutionNotifications": notifications,
        "properties": {"sandbox": run.environment.sandbox},
    }
    driver = {
        "name": "auditkit", "version": __version__, "semanticVersion": __version__, "informationUri": _HOME,
        "rules": [_rule(named[probe_id]) for probe_id in ids],
    }  # fmt: skip
    log = {
        "tool": {"driver": driver},
        "originalUriBaseIds": {_ROOT: {"description": {"text": "The top of the repository."}}},
        "automationDetails": {"id": f"auditkit/{inert(run.id)}"},
        "invocations": [invocation],
        "columnKind": "unicodeCodePoints",
        "results": [_result(row, ids[row.result.probe], bool(run.ignored)) for row in found],
    }
    return {"$schema": SCHEMA, "version": "2.1.0", "runs": [log]}


def _rule(probe: ProbeInfo) -> dict[str, Any]:
    """What the probe's file says."""
    helped = {
        "Why it matters": probe.motivation, "How it is measured": probe.method, "What it cannot see": probe.limits,
        "How to fix it": probe.remediation,
    }  # fmt: skip
    parts = [(head, _text(text)) for head, text in helped.items() if text] or [("What it finds", _text(probe.title))]
    return {
        "id": inert(probe.id),
        "name": "".join(word.capitalize() for word in inert(probe.id).split("_")),
        "shortDescription": {"text": _sentence(probe.title)},
        "fullDescription": {"text": _sentence(probe.motivation or probe.title)},
        "help": {
            "text": "\n\n".join(f"{head}: {text}" for head, text in parts),
            "markdown": "\n\n".join(f"**{head}**\n\n{text}" for head, text in parts),
        },
        "defaultConfiguration": {"level": _BY_SEVERITY.get(probe.severity, "note")},
        "properties": {"tags": list(probe.categories)},
    }


def _result(row: Row, index: int, has_ignored: bool) -> dict[str, Any]:
    one = row.result
    location = {"physicalLocation": {"artifactLocation": _artifact(row.place.file), "region": _region(row)}}
    properties = {
        "severity": one.severity, "evidence": one.evidence, "target": inert(one.target), "ticket": row.ticket or None,
    }  # fmt: skip
    if one.met_by is not None:
        properties["metBy"] = inert(one.met_by.sentence())
    result = {
        "ruleId": inert(one.probe),
        "ruleIndex": index,
        "level": _BY_SEVERITY.get(one.severity or Severity.P4, "note"),
        "message": {"text": _sentence(one.message or one.probe)},
        "locations": [location],
        "fingerprints": {"auditkit/v1": inert_line(one.fingerprint)},
        # GitHub distinguishes results by it; without it, its upload makes one of the line's text, which edits change.
        "partialFingerprints": {"primaryLocationLineHash": inert_line(one.fingerprint)},
        "properties": properties,
    }
    if row.standing in _STATES:
        result["baselineState"] = _STATES[row.standing]
    if has_ignored:
        result["suppressions"] = [{"kind": "inSource", "justification": _text(one.ignored)}] if one.ignored else []
    return result


def _region(row: Row) -> dict[str, int]:
    """The statement that begins with the line, if it is known; columns of 1 and 2 if its text is not."""
    one, line = row.result, row.place.line
    is_own = one.location is not None and one.location.line == line
    last = one.statement.last if is_own and one.statement and one.statement.first == line else line
    texts = dict(enumerate(one.excerpt.lines, one.excerpt.first_line)) if is_own and one.excerpt else {}
    first, last = texts.get(line, ""), max(line, last)
    start = len(first) - len(first.lstrip()) + 1
    end = max(len(texts.get(last, "").rstrip()) + 1, start + 1 if last == line else 2)
    return {"startLine": line, "startColumn": start, "endLine": last, "endColumn": end}


def _text(text: str) -> str:
    return shortened(inert(text).strip(), _LONGEST)


def _sentence(text: str) -> str:
    text = " ".join(_text(text).split())
    return text if text.endswith((".", "!", "?")) else f"{text}."


def _artifact(path: str) -> dict[str, str]:
    """The place of a file: relative to the top of the repository, if it is in it."""
    name = PurePath(path.encode("utf-8", "replace").decode())  # a lone surrogate is in no URI
    if name.is_absolute():
        return {"uri": name.as_uri()}
    return {"uri": quote(name.as_posix()), "uriBaseId": _ROOT}
