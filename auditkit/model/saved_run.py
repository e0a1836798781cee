"""A run read again from the document that `--json` printed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from auditkit.model.cause import Sibling, Siblings, Statement
from auditkit.model.enums import Contract, Evidence, Outcome, Reason, Severity, Takes
from auditkit.model.measurement import CodeExcerpt, Location, Measurement
from auditkit.model.run import SCHEMA_VERSION, Arm, ArmOutcome, Environment, ProbeResult, Run, TargetReading
from auditkit.model.target import Target

_Json = Mapping[str, Any]
_REASONS_NOT_LOADED = frozenset((Reason.IMPORT_ERROR, Reason.NO_TORCH, Reason.NO_INTERPRETER))


def read_run(document: Any) -> Run:
    """The run that `Run.to_json` wrote; a document of it says the same again.

    Raises ValueError, which says what is missing or wrong, for anything else.
    """
    if not isinstance(document, dict):
        raise ValueError("it is no JSON object")
    if document.get("schema_version") != SCHEMA_VERSION:
        raise ValueError(f"schema_version is {document.get('schema_version')!r}, not {SCHEMA_VERSION}")
    try:
        run = _body(document)
        arms = [Arm(str(each["arm"]), _body(each)) for each in document.get("matrix", ())]
    except KeyError as error:
        raise ValueError(f"{error} is missing") from None
    except (TypeError, AttributeError) as error:
        raise ValueError(f"a part of it is of the wrong type: {error}") from None
    return replace(run, matrix=tuple(arms))


def _body(document: _Json) -> Run:
    environment = _environment(document["run"])
    return Run(
        id=str(document["run"]["id"]),
        environment=environment,
        results=tuple(_result(each, environment) for each in document["results"]),
        targets=tuple(map(_reading, document.get("targets", ()))),
        notes=tuple(map(str, document.get("notes", ()))),
    )


def _environment(raw: _Json) -> Environment:
    texts = {name: str(raw[name]) for name in ("checkout", "revision", "python", "torch", "device", "device_name")}
    later = {name: str(raw.get(name, "")) for name in ("interpreter", "platform", "auditkit")}
    return Environment(**texts, dirty=bool(raw["dirty"]), **later)


def _reading(raw: _Json) -> TargetReading:
    target = Target(
        call=str(raw["call"]),
        name=str(raw.get("name", "")),
        contract=Contract(raw["contract"]) if raw.get("contract") else None,
        takes=Takes(raw["takes"]) if raw.get("takes") else None,
        finish=raw.get("finish"),
        setup=raw.get("setup"),
        arguments=dict(raw.get("arguments", {})),
        returns=dict(raw.get("returns", {})),
    )
    return TargetReading(target, dict(raw.get("roles", {})), str(raw.get("answer", "")), bool(raw.get("found")))


def _result(raw: _Json, environment: Environment) -> ProbeResult:
    reason = Reason(raw["reason"]) if raw.get("reason") else None
    return ProbeResult(
        probe=str(raw["probe"]),
        probe_version=int(raw["probe_version"]),
        target=str(raw["target"]),
        outcome=Outcome(raw["outcome"]),
        message=str(raw["message"]),
        fingerprint=str(raw["fingerprint"]),
        severity=Severity(raw["severity"]) if raw["severity"] else None,
        evidence=Evidence(raw["evidence"]) if raw["evidence"] else None,
        reason=reason,
        device=str(raw.get("device", "")),
        law=str(raw.get("law", "")),
        location=_location(raw["location"]),
        excerpt=_excerpt(raw.get("excerpt")),
        measurements=tuple(map(Measurement.from_json, raw["measurements"])),
        notes=tuple(map(str, raw.get("notes", ()))),
        duration_s=float(raw.get("duration_s", 0.0)),
        ticket=raw.get("ticket"),
        ticket_action=str(raw.get("ticket_action", "")),
        loaded=reason not in _REASONS_NOT_LOADED,
        arm=str(raw.get("arm", "")),
        arms=tuple(_arm_outcome(each, environment) for each in raw.get("arms", ())),
        statement=_statement(raw.get("statement")),
        siblings=_siblings(raw.get("siblings")),
    )


def _arm_outcome(raw: _Json, environment: Environment) -> ArmOutcome:
    """One arm's word; of its environment the document has the versions and the device."""
    where = replace(environment, python=str(raw["python"]), torch=str(raw["torch"]), device=str(raw["device"]))
    return ArmOutcome(
        arm=str(raw["arm"]),
        environment=where,
        outcome=Outcome(raw["outcome"]),
        severity=Severity(raw["severity"]) if raw["severity"] else None,
        message=str(raw["message"]),
        law=str(raw.get("law", "")),
        device=str(raw["device"]),
    )


def _location(raw: _Json | None) -> Location | None:
    return Location(str(raw["file"]), int(raw["line"]), str(raw.get("function", ""))) if raw else None


def _excerpt(raw: _Json | None) -> CodeExcerpt | None:
    return CodeExcerpt(str(raw["file"]), int(raw["first_line"]), tuple(map(str, raw["lines"]))) if raw else None


def _statement(raw: _Json | None) -> Statement | None:
    return Statement(str(raw["file"]), int(raw["first"]), int(raw["last"])) if raw else None


def _siblings(raw: list[_Json] | None) -> Siblings | None:
    if raw is None:
        return None
    places = (Location(str(one["file"]), int(one["line"]), str(one.get("function", ""))) for one in raw)
    return Siblings(places=tuple(map(Sibling, places)))
