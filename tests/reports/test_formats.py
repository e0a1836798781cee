"""Every format bears every run: findings, none, no answer, hostile names; one fingerprint in all of them."""

from __future__ import annotations

import csv
import io
import json
import re
from dataclasses import replace
from typing import Any
from xml.etree import ElementTree as ET

import pytest

from auditkit.model.enums import Evidence, Outcome
from auditkit.model.runs.run import Run
from auditkit.model.text import inert_line
from auditkit.probing.engine.catalog import load_catalog
from auditkit.reports.causes import Sources
from auditkit.reports.export import json_text
from auditkit.reports.formats import COLUMNS, run_csv, run_gitlab, run_junit
from auditkit.reports.html.page import html_page
from auditkit.reports.page import markdown_page, table
from auditkit.reports.run_page import run_page
from auditkit.reports.sarif import run_sarif
from tests.reports.exported_runs import ERROR, PASS, RUNS, UNAVAILABLE, WORST, result, run_of

PROBES = load_catalog()
each_run = pytest.mark.parametrize("run", RUNS.values(), ids=RUNS)


def junit_problems(data: bytes) -> list[str]:
    """What a reader of JUnit's XML would refuse, and counts that are wrong."""
    problems = []
    for suite in ET.fromstring(data):
        for case in suite:
            if set(case.keys()) != {"name", "classname", "time"} or not case.get("name"):
                problems.append(f"attributes of a test: {sorted(case.keys())}")
            if [child.tag for child in case] not in ([], ["skipped"], ["failure"], ["error"]):
                problems.append(f"children of a test: {[child.tag for child in case]}")
        counts = {"tests": "testcase", "failures": "testcase/failure", "errors": "testcase/error"}
        for word, tag in (counts | {"skipped": "testcase/skipped"}).items():
            if int(suite.get(word, -1)) != len(suite.findall(tag)):
                problems.append(f"{word} is {suite.get(word)}")
    return problems


@each_run
def test_junit_has_every_check_that_applies(run: Run) -> None:
    """Only a check that returned a result without a finding passes."""
    data = run_junit(run)
    assert junit_problems(data) == []
    cases = [case for suite in ET.fromstring(data) for case in suite.findall("testcase")]
    assert len(cases) == len([each for each in run.results if each.outcome is not Outcome.NOT_APPLICABLE])
    assert len([case for case in cases if len(case) == 0]) == run.summary["not_reproduced"]


def test_junit_fails_only_for_what_is_new() -> None:
    """Beside tickets a known finding is skipped and names its ticket, a minor one is skipped, a new one fails."""
    (suite,) = ET.fromstring(run_junit(RUNS["known"]))
    told = {case.get("name"): [(child.tag, child.get("message")) for child in case] for case in suite.iter("testcase")}
    assert told == {
        "sync_in_loop": [("skipped", "known, B1-PT-01: 1 line waits for the device")],
        "norm_overflows_on_finite_grads": [("failure", "reproduced: 1 line waits for the device")],
        "launches_grow_with_tensors": [("skipped", "minor, without a ticket: 1 line waits for the device")],
        "norm_depends_on_grouping": [],
    }


@each_run
def test_gitlab_has_its_fields(run: Run) -> None:
    """Texts, one of five severities, a path in the repository, a line, and no fingerprint twice."""
    document = json.loads(json_text(run_gitlab(run, PROBES, "sub/")))
    for entry in document:
        assert all(isinstance(entry[name], str) for name in ("check_name", "fingerprint", "description"))
        assert entry["severity"] in ("info", "minor", "major", "critical", "blocker")
        assert entry["location"]["path"].startswith("sub/")
        assert entry["location"]["lines"]["begin"] >= 1
    assert len({entry["fingerprint"] for entry in document}) == len(document) == run.summary["reproduced"]


@each_run
def test_csv_is_a_table_that_computes_nothing(run: Run) -> None:
    head, *lines = csv.reader(io.StringIO(run_csv(run).decode(), newline=""))
    assert tuple(head) == COLUMNS
    assert len(lines) == len(run.results)
    assert {len(line) for line in lines} <= {len(COLUMNS)}
    assert not [cell for line in lines for cell in line if cell.startswith(("=", "+", "-", "@", "\t", "\r"))]


def sarif_of(run: Run) -> dict[str, Any]:
    """The only run of the log as it is written."""
    (made,) = json.loads(json_text(run_sarif(run, PROBES, "sub/")))["runs"]
    return dict(made)


@each_run
def test_sarif_has_what_github_requires(run: Run) -> None:
    """Texts that are not empty, a place with four numbers, and indices that lead to the rule."""
    made = sarif_of(run)
    rules = made["tool"]["driver"]["rules"]
    assert len({rule["id"] for rule in rules}) == len(rules)
    for rule in rules:
        assert all(rule[name]["text"] for name in ("shortDescription", "fullDescription", "help"))
        assert rule["help"]["markdown"]
        assert len(rule["properties"]["tags"]) <= 10
    for each in made["results"]:
        (place,) = (one["physicalLocation"] for one in each["locations"])
        region = place["region"]
        assert min(region.values()) >= 1
        assert (region["endLine"], region["endColumn"]) > (region["startLine"], region["startColumn"])
        assert re.fullmatch(r"[A-Za-z0-9_.~:/%-]+", place["artifactLocation"]["uri"])
        assert rules[each["ruleIndex"]]["id"] == each["ruleId"]
        assert each["message"]["text"]
        assert each["level"] in ("note", "warning", "error")
    prints = [each["partialFingerprints"]["primaryLocationLineHash"] for each in made["results"]]
    assert len(set(prints)) == len(prints)


def test_a_finding_in_sarif_has_its_statement_and_a_path_of_the_repository() -> None:
    worst, found, minor = sarif_of(RUNS["findings"])["results"]
    assert [each["level"] for each in (worst, found, minor)] == ["error", "warning", "note"]
    place = found["locations"][0]["physicalLocation"]
    assert place["artifactLocation"]["uri"] == "sub/stats.py"
    # `    return [` to the end of `        g.norm().item()`.
    assert place["region"] == {"startLine": 5, "startColumn": 5, "endLine": 6, "endColumn": 24}
    assert found["fingerprints"] == {"auditkit/v1": "sync_in_loop/1/stats:layer_norms"}
    assert minor["properties"] == {
        "severity": "P4", "evidence": "measured", "target": "stats:layer_norms", "ticket": "B1-PT-01",
    }  # fmt: skip


def test_a_missing_result_is_a_notification_of_sarif() -> None:
    """An error makes the execution unsuccessful; a device that is not here does not."""
    made = sarif_of(run_of(ERROR, UNAVAILABLE, PASS))
    (invocation,) = made["invocations"]
    assert (made["results"], invocation["executionSuccessful"]) == ([], False)
    assert [(each["level"], each["message"]["text"]) for each in invocation["toolExecutionNotifications"]] == [
        ("error", "error: stats:slow: no result in 120 s."),
        ("note", "unavailable: stats:other: there is no CUDA device on this machine."),
    ]
    assert sarif_of(run_of(UNAVAILABLE))["invocations"][0]["executionSuccessful"] is True


@each_run
def test_one_fingerprint_in_every_format(run: Run) -> None:
    """That of the finding, which its ticket has: in SARIF's two places, in GitLab, CSV and JUnit."""
    expected = {inert_line(each.fingerprint) for each in run.results if each.outcome is Outcome.REPRODUCED}
    rows = list(csv.DictReader(io.StringIO(run_csv(run).decode(), newline="")))
    assert {entry["fingerprint"] for entry in run_gitlab(run, PROBES)} == expected
    assert {row["fingerprint"] for row in rows if row["outcome"] == "reproduced"} == expected
    for kind in ("fingerprints", "partialFingerprints"):
        assert {text for each in sarif_of(run)["results"] for text in each[kind].values()} == expected
    told = "\n".join(case.text or "" for case in ET.fromstring(run_junit(replace(run, baseline=None))).iter("failure"))
    assert set(re.findall(r"^fingerprint: (.*)$", told, re.MULTILINE)) == expected


def test_one_label_standing_and_ticket_in_every_format() -> None:
    """A finding that reading the source gave is `read`, and never `measured`, in each of them."""
    waits = result(evidence=Evidence.READ, device="source", ticket="B1-PT-01")
    grows = replace(WORST, evidence=Evidence.SIMULATED, ticket="B1-PT-02")
    run = replace(RUNS["known"], results=(waits, grows))
    expected = {
        waits.fingerprint: ("read", "known", "B1-PT-01"),
        grows.fingerprint: ("simulated", "new", "B1-PT-02"),
    }
    kinds = {"unchanged": "known", "new": "new"}
    sarif = sarif_of(run)
    assert expected == {
        each["fingerprints"]["auditkit/v1"]: (
            each["properties"]["evidence"], kinds[each["baselineState"]], each["properties"]["ticket"],
        )
        for each in sarif["results"]
    }  # fmt: skip
    rows = csv.DictReader(io.StringIO(run_csv(run).decode()))
    assert expected == {row["fingerprint"]: (row["evidence"], row["baseline"], row["ticket"]) for row in rows}
    summary, page = page_of(run), html_page(run_page(Sources(run, PROBES))).decode()
    for _, kind, ticket in expected.values():
        assert f"{kind}, {ticket}" in summary
        assert f"{kind}, {ticket}" in page
    (failure,) = ET.fromstring(run_junit(run)).iter("failure")
    assert (failure.text or "").endswith("ticket: B1-PT-02\nevidence: simulated")
    every = (run_csv(run).decode(), summary, page, run_junit(run).decode(), json.dumps(sarif))
    assert [text for text in every if "measured on" in text] == []


def page_of(run: Run) -> str:
    return markdown_page(run_page(Sources(run, PROBES))).decode()


def test_a_long_table_says_what_it_leaves_out() -> None:
    """GitHub drops a summary of more than 1 MiB without a word."""
    made = table(("a",), [(str(number),) for number in range(400)]).splitlines()
    assert (len(made), made[-1]) == (303, "| 100 more rows are in the JSON |")
