"""A comparison read again from the document that `auditkit compare --json` printed."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from auditkit.model.changes import Changes, Commit, FileChange, TestChange
from auditkit.model.comparison import (
    ABSENT,
    SCHEMA_VERSION,
    Agreement,
    AnswerContrast,
    Change,
    Comparison,
    Contrast,
    FigureChange,
    FunctionText,
    MatchState,
    Said,
    TargetComparison,
    TargetMatch,
    Trend,
)
from auditkit.model.enums import Evidence, Outcome, Reason, Severity
from auditkit.model.measurement import CodeExcerpt, Location
from auditkit.model.run import Environment

_Json = Mapping[str, Any]


def read_comparison(document: Any) -> Comparison:
    """The comparison that `Comparison.to_json` wrote; raises ValueError for anything else, and says what is wrong."""
    if not isinstance(document, dict):
        raise ValueError("it is no JSON object")
    if document.get("schema_version") != SCHEMA_VERSION:
        raise ValueError(f"schema_version is {document.get('schema_version')!r}, not {SCHEMA_VERSION}")
    try:
        return Comparison(
            checkout=str(document["checkout"]),
            base=_environment(document["base"]),
            head=_environment(document["head"]),
            targets=tuple(map(_target, document["targets"])),
            source=tuple(map(_contrast, document["source"])),
            changes=_changes(document["changes"]),
            differing=tuple(map(str, document["differing"])),
            notes=tuple(map(str, document["notes"])),
        )
    except KeyError as error:
        raise ValueError(f"{error} is missing") from None
    except (TypeError, AttributeError) as error:
        raise ValueError(f"a part of it is of the wrong type: {error}") from None


def _environment(raw: _Json) -> Environment:
    names = ("checkout", "revision", "python", "torch", "device", "device_name", "interpreter", "platform", "auditkit")
    return Environment(dirty=bool(raw["dirty"]), **{name: str(raw[name]) for name in names})


def _target(raw: _Json) -> TargetComparison:
    match = TargetMatch(
        base=str(raw["base"]),
        head=str(raw["head"]),
        state=MatchState(raw["state"]),
        similarity=float(raw["similarity"]),
        base_text=_text(raw["base_text"]),
        head_text=_text(raw["head_text"]),
    )
    return TargetComparison(match, tuple(map(_contrast, raw["contrasts"])), tuple(map(_answer, raw["answers"])))


def _text(raw: _Json | None) -> FunctionText | None:
    if raw is None:
        return None
    excerpt = CodeExcerpt(str(raw["file"]), int(raw["first_line"]), tuple(map(str, raw["lines"])))
    return FunctionText(excerpt, str(raw["signature"]))


def _contrast(raw: _Json) -> Contrast:
    return Contrast(
        probe=str(raw["probe"]),
        base=_said(raw["base"]),
        head=_said(raw["head"]),
        change=Change(raw["change"]),
        trend=Trend(raw["trend"]),
        reason=str(raw["reason"]),
        figures=tuple(map(_figure, raw["figures"])),
    )


def _said(raw: _Json | None) -> Said | None:
    if raw is None:
        return None
    place = raw["location"]
    return Said(
        target=str(raw["target"]),
        outcome=Outcome(raw["outcome"]),
        severity=Severity(raw["severity"]) if raw["severity"] else None,
        message=str(raw["message"]),
        law=str(raw["law"]),
        device=str(raw["device"]),
        probe_version=int(raw["probe_version"]),
        evidence=Evidence(raw["evidence"]) if raw["evidence"] else None,
        location=Location(str(place["file"]), int(place["line"]), str(place["function"])) if place else None,
        reason=Reason(raw["reason"]) if raw["reason"] else None,
    )


def _figure(raw: _Json) -> FigureChange:
    return FigureChange(
        name=str(raw["name"]),
        unit=str(raw["unit"]),
        case=dict(raw["case"]),
        base=_value(raw, "base"),
        head=_value(raw, "head"),
        trend=Trend(raw["trend"]),
        evidence=Evidence(raw["evidence"]),
    )


def _answer(raw: _Json) -> AnswerContrast:
    return AnswerContrast(
        case=dict(raw["case"]),
        field=str(raw["field"]),
        base=_value(raw, "base"),
        head=_value(raw, "head"),
        exact=float(raw["exact"]),
        allowed=float(raw["allowed"]),
        agreement=Agreement(raw["agreement"]),
        nearer=str(raw["nearer"]),
    )


def _value(raw: _Json, side: str) -> Any:
    """What was measured; the strings "inf", "-inf" and "nan" are numbers again."""
    value = raw.get(side, ABSENT)
    return float(value) if value in ("inf", "-inf", "nan") and raw.get("unit") != "text" else value


def _changes(raw: _Json) -> Changes:
    return Changes(
        commits=tuple(Commit(one["hash"], one["author"], one["date"], one["message"]) for one in raw["commits"]),
        files=tuple(
            FileChange(one["path"], one["old_path"], one["added"], one["removed"], bool(one["is_test"]))
            for one in raw["files"]
        ),
        tests=tuple(TestChange(one["file"], one["name"], one["kind"], tuple(one["names"])) for one in raw["tests"]),
    )
