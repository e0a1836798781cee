"""Every format bears every run: findings, none, no answer, hostile names, 10,000; one fingerprint in all of them."""

from __future__ import annotations

import csv
import io
import json
import re
import time
from dataclasses import replace
from xml.etree import ElementTree as ET

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from auditkit.model.enums import Evidence, Outcome
from auditkit.model.runs.run import Finding, Run
from auditkit.model.text import inert_line
from auditkit.probing.engine.catalog import load_catalog
from auditkit.reports.causes import Sources
from auditkit.reports.export import MOST_BYTES, cut, json_text
from auditkit.reports.gitlab import run_gitlab
from auditkit.reports.html.page import html_page
from auditkit.reports.junit import run_junit
from auditkit.reports.page import markdown_page
from auditkit.reports.run_page import run_page
from auditkit.reports.sarif import run_sarif
from auditkit.reports.table import COLUMNS, run_csv
from tests.reports.exported_runs import RUNS, WORST, many, result, run_of
from tests.reports.hostile import findings

PROBES = load_catalog()
each_run = pytest.mark.parametrize("run", RUNS.values(), ids=RUNS)


def junit_problems(data: bytes) -> list[str]:
    """What Ant's schema of JUnit's XML would refuse: its elements in their order, its attributes, and its counts."""
    problems = []
    top = ET.fromstring(data)
    needed = {"name", "timestamp", "hostname", "tests", "failures", "errors", "time", "package", "id"}
    if top.tag != "testsuites":
        problems.append(f"the top is {top.tag}")
    for suite in top:
        if not needed <= set(suite.keys()) <= needed | {"skipped"} or not (suite.get("name") and suite.get("hostname")):
            problems.append(f"attributes of a suite: {sorted(suite.keys())}")
        if not re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d", suite.get("timestamp", "")):
            problems.append(f"timestamp {suite.get('timestamp')}")
        tags = [child.tag for child in suite]
        cases = suite.findall("testcase")
        if tags != ["properties", *["testcase"] * len(cases), "system-out", "system-err"]:
            problems.append(f"children of a suite: {tags[:3]}")
        for case in cases:
            if set(case.keys()) != {"name", "classname", "time"} or not case.get("name"):
                problems.append(f"attributes of a test: {sorted(case.keys())}")
            if [child.tag for child in case] not in ([], ["skipped"], ["failure"], ["error"]):
                problems.append(f"children of a test: {[child.tag for child in case]}")
            problems += [
                f"no type in {child.tag}" for child in case if child.tag != "skipped" and not child.get("type")
            ]
        for word, tag in (("tests", "testcase"), ("failures", "testcase/failure"), ("errors", "testcase/error")):
            if int(suite.get(word, -1)) != len(suite.findall(tag)):
                problems.append(f"{word} is {suite.get(word)}")
    return problems


def gitlab_problems(document: object) -> list[str]:
    """What GitLab's code quality report needs: its fields, its five severities, a path in the repository, a line."""
    problems = []
    assert isinstance(document, list)
    for entry in document:
        if not all(entry.get(name) and isinstance(entry[name], str) for name in ("check_name", "fingerprint")):
            problems.append(f"names: {entry}")
        if entry.get("severity") not in ("info", "minor", "major", "critical", "blocker"):
            problems.append(f"severity: {entry.get('severity')}")
        if not isinstance(entry["description"], str) or entry["location"]["lines"]["begin"] < 1:
            problems.append(f"place: {entry}")
    if len({entry["fingerprint"] for entry in document}) < len(document):
        problems.append("a fingerprint twice")
    return problems


@each_run
def test_junit_keeps_to_its_schema(run: Run) -> None:
    """Every question that applies is a test; only one that was answered without a finding passes."""
    data = run_junit(run)
    assert junit_problems(data) == []
    cases = [case for suite in ET.fromstring(data) for case in suite.findall("testcase")]
    assert len(cases) == len([each for each in run.results if each.outcome is not Outcome.NOT_APPLICABLE])
    passed = [case for case in cases if len(case) == 0]
    assert len(passed) == run.summary["not_reproduced"]


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
    document = json.loads(json_text(run_gitlab(run, PROBES, "sub/")))
    assert gitlab_problems(document) == []
    assert len(document) == run.summary["reproduced"]
    assert all(entry["location"]["path"].startswith("sub/") for entry in document)


@each_run
def test_csv_is_a_table_that_computes_nothing(run: Run) -> None:
    head, *lines = csv.reader(io.StringIO(run_csv(run).decode(), newline=""))
    assert tuple(head) == COLUMNS
    assert len(lines) == len(run.results)
    assert {len(line) for line in lines} <= {len(COLUMNS)}
    assert not [cell for line in lines for cell in line if cell.startswith(("=", "+", "-", "@", "\t", "\r"))]


@each_run
def test_one_fingerprint_in_every_format(run: Run) -> None:
    """That of the finding, which its ticket has: in SARIF's two places, in GitLab, CSV and JUnit."""
    expected = {inert_line(each.fingerprint) for each in run.results if each.outcome is Outcome.REPRODUCED}
    (sarif,) = run_sarif(run, PROBES, "1")["runs"]
    rows = list(csv.DictReader(io.StringIO(run_csv(run).decode(), newline="")))
    assert {entry["fingerprint"] for entry in run_gitlab(run, PROBES)} == expected
    assert {row["fingerprint"] for row in rows if row["outcome"] == "reproduced"} == expected
    for kind in ("fingerprints", "partialFingerprints"):
        assert {text for each in sarif["results"] for text in each[kind].values()} == expected
    told = "\n".join(case.text or "" for case in ET.fromstring(run_junit(replace(run, baseline=None))).iter("failure"))
    assert set(re.findall(r"^fingerprint: (.*)$", told, re.MULTILINE)) == expected


def test_one_label_standing_and_ticket_in_json_sarif_csv_junit_gitlab_html_and_markdown() -> None:
    """A finding that reading the source gave is `read`, and never `measured`, in each of them."""
    waits = result(evidence=Evidence.READ, device="source", ticket="B1-PT-01")
    grows = replace(WORST, evidence=Evidence.SIMULATED, ticket="B1-PT-02")
    run = replace(RUNS["known"], results=(waits, grows))
    expected = {
        waits.fingerprint: ("read", "known", "B1-PT-01"),
        grows.fingerprint: ("simulated", "new", "B1-PT-02"),
    }
    kinds = {"unchanged": "known", "new": "new"}
    (sarif,) = run_sarif(run, PROBES, "1")["runs"]
    assert expected == {
        each["fingerprints"]["auditkit/v1"]: (
            each["properties"]["evidence"], kinds[each["baselineState"]], each["properties"]["ticket"],
        )
        for each in sarif["results"]
    }  # fmt: skip
    rows = csv.DictReader(io.StringIO(run_csv(run).decode()))
    assert expected == {row["fingerprint"]: (row["evidence"], row["baseline"], row["ticket"]) for row in rows}
    written = run.to_json()
    standing = {each["fingerprint"]: kind for kind in ("known", "new") for each in written["baseline"][kind]}
    assert expected == {
        each["fingerprint"]: (each["evidence"], standing[each["fingerprint"]], each["ticket"])
        for each in written["results"]
    }
    summary, page = page_of(run), html_page(run_page(Sources(run, PROBES))).decode()
    for kind, ticket in ((kind, ticket) for _, kind, ticket in expected.values()):
        assert f"{kind}, {ticket}" in summary
        assert f"{kind}, {ticket}" in page
    said = "\n".join(each.text or "" for each in ET.fromstring(run_junit(run)).iter("failure"))
    assert ("ticket: B1-PT-02" in said, "evidence: simulated" in said) == (True, True)
    skipped = [each.get("message", "") for each in ET.fromstring(run_junit(run)).iter("skipped")]
    assert [text.partition(":")[0] for text in skipped] == ["known, B1-PT-01"]
    assert {each["fingerprint"] for each in run_gitlab(run, PROBES)} == set(expected)
    every = (run_csv(run).decode(), summary, page, run_junit(run).decode(), json.dumps(sarif))
    assert [text for text in every if "measured on" in text] == []


@settings(max_examples=10)
@given(st.lists(findings(), max_size=3))
def test_every_format_bears_every_text(drawn: list[Finding]) -> None:
    """Whatever names, messages, places and excerpts are, each format is what it should be."""
    run = run_of(*(each.result for each in drawn))
    assert junit_problems(run_junit(run)) == []
    json.loads(json_text(run_gitlab(run, PROBES)))
    (sarif,) = json.loads(json_text(run_sarif(run, PROBES, "1")))["runs"]
    regions = [each["locations"][0]["physicalLocation"]["region"] for each in sarif["results"]]
    assert all((one["endLine"], one["endColumn"]) > (one["startLine"], one["startColumn"]) for one in regions)
    head, *rows = csv.reader(io.StringIO(run_csv(run).decode(), newline=""))
    assert [len(row) for row in rows] == [len(head)] * len(run.results)
    assert page_of(run).endswith("\n")


def page_of(run: Run) -> str:
    return markdown_page(run_page(Sources(run, PROBES))).decode()


def test_a_summary_that_is_too_long_says_what_it_leaves_out() -> None:
    """GitHub drops more than 1 MiB without a word."""
    data = "".join(f"- é {number} {'x' * 90}\n" for number in range(20_000)).encode()
    made = cut(data)
    assert 0.9 * MOST_BYTES < len(made) <= MOST_BYTES
    *shown, _, last = made.decode().rstrip("\n").split("\n")
    assert last.startswith(f"**Left out: {20_000 - len(shown)} more lines.** `auditkit export")
    assert cut(b"short\n") == b"short\n"


@pytest.mark.slow
def test_ten_thousand_findings_take_seconds_and_megabytes() -> None:
    """GitHub takes 10 MB of packed SARIF; none of the formats needs more than what a machine writes in a second."""
    import gzip

    run = many()
    started = time.process_time()
    sarif = json_text(run_sarif(run, PROBES, "1"))
    others = (run_junit(run), json_text(run_gitlab(run, PROBES)), run_csv(run), page_of(run).encode())
    assert time.process_time() - started < 30
    assert len(gzip.compress(sarif)) < 10e6
    assert max(map(len, (sarif, *others))) < 30e6
    assert junit_problems(others[0]) == []
