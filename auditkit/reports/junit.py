"""A run as JUnit's XML, which CI systems show as tests: one suite for each target, one test for each probe."""

from __future__ import annotations

import re
from xml.etree import ElementTree as ET

from auditkit.model.enums import Outcome
from auditkit.model.runs.run import ProbeResult, Run
from auditkit.model.text import inert, inert_line
from auditkit.reports.findings import places_of, standings_of

_WHEN = re.compile(r"(\d{4})(\d\d)(\d\d)T(\d\d)(\d\d)(\d\d)Z")
_KINDS = {Outcome.REPRODUCED: "failure", Outcome.ERROR: "error", Outcome.NOT_REPRODUCED: ""}


def run_junit(run: Run, prefix: str = "") -> bytes:
    """Return every check that applies: a finding is a failure; a check without a result is an error or skipped.

    With a baseline a finding that a ticket has, or that is minor, is skipped and says so. Elements and attributes are
    those of the strictest schema there is, Ant's: it has no `file`, so a failure's text says where.
    """
    stamp = "-".join(found.groups()[:3]) if (found := _WHEN.match(run.id)) else "1970-01-01"
    stamp += f"T{':'.join(found.groups()[3:])}" if found else "T00:00:00"
    standings, places = standings_of(run), places_of(run, prefix)
    suites: dict[str, list[ProbeResult]] = {}
    for result in run.results:
        if result.outcome is not Outcome.NOT_APPLICABLE:
            suites.setdefault(result.target, []).append(result)
    top = ET.Element("testsuites")
    for number, (target, results) in enumerate(suites.items()):
        suite = ET.SubElement(top, "testsuite", name=_line(target), timestamp=stamp, hostname="localhost")
        ET.SubElement(suite, "properties")
        kinds = []
        for each in results:
            case = ET.SubElement(suite, "testcase", name=_line(each.probe), classname=_line(target))
            case.set("time", f"{each.duration_s:.3f}")
            kind, standing = _KINDS.get(each.outcome, "skipped"), standings[each.fingerprint]
            kind = "skipped" if kind == "failure" and standing.kind in ("known", "minor") else kind
            kinds.append(kind)
            if kind:
                place = places[each.fingerprint]
                _tell(case, kind, each, standing.ticket, f"{place.file}:{place.line}")
        counts = {"tests": len(results), "failures": kinds.count("failure"), "errors": kinds.count("error")}
        counts["skipped"] = kinds.count("skipped")
        for name, count in counts.items():
            suite.set(name, str(count))
        suite.set("time", f"{sum(each.duration_s for each in results):.3f}")
        suite.set("package", _line(target.partition(":")[0]))
        suite.set("id", str(number))
        for name in ("system-out", "system-err"):
            ET.SubElement(suite, name)
    ET.indent(top)
    text: str = ET.tostring(top, "unicode")
    return f'<?xml version="1.0" encoding="utf-8"?>\n{text}\n'.encode()


def _tell(case: ET.Element, kind: str, result: ProbeResult, ticket: str | None, place: str) -> None:
    said = result.outcome.value.replace("_", " ")
    if kind == "skipped" and result.outcome is Outcome.REPRODUCED:
        said = f"known, {ticket}" if ticket else "minor, without a ticket"
    told = ET.SubElement(case, kind, message=_line(f"{said}: {result.message}"))
    if kind != "skipped":
        told.set("type", str(result.severity or result.reason or result.outcome))
        lines = [place, result.message, f"fingerprint: {_line(result.fingerprint)}", f"ticket: {ticket or 'none'}"]
        lines += [f"evidence: {result.evidence}"] if result.evidence else []
        told.text = inert("\n".join(lines))


def _line(text: str) -> str:
    return inert_line(text) or "unknown"
