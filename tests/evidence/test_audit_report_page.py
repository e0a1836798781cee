"""docs/evidence/esper-audit-report.md: every counterpart that its table names stands in the report below it."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs" / "evidence" / "esper-audit-report.md").read_text(encoding="utf-8")
RUN = json.loads((ROOT / "benchmarks" / "results" / "esper-audit-report.json").read_text(encoding="utf-8"))
ROW = re.compile(r"^\| [\d.]+ \| [^|]+ \| \w* \| ([\d.]+) \| (\w+)(?: \((P\d)\))? \|", re.MULTILINE)


def missing(page: str) -> list[str]:
    """The rows whose numbered item is not in the report, or has another label there."""
    table, _, report = page.partition("\n---\n")
    wanted = [(number, label, level) for number, label, level in ROW.findall(table)]
    found = set(re.findall(r"^### ([\d.]+) .* - \*\*(\w+)\*\* \((P\d)\)$", report, re.MULTILINE))
    found |= {(number, label, "") for number, label in re.findall(r"^- ([\d.]+) \*\*(\w+)\*\* ", report, re.MULTILINE)}
    found |= {(number, "LOW", "P4") for number in re.findall(r"^\| (\d+\.\d+) \| [^`]", report, re.MULTILINE)}
    _, _, asked = report.partition("### OK: ")
    found |= {(number, "OK", "") for number in re.findall(r"^\| (\d+\.\d+) \| `", asked.partition("### ")[0], re.M)}
    return [number for number, label, level in wanted if (number, label, level) not in found]


def test_every_counterpart_is_there() -> None:
    assert len(ROW.findall(PAGE)) >= 19
    assert missing(PAGE) == []


def test_a_counterpart_that_is_gone_is_seen() -> None:
    assert missing(PAGE.replace("**MEDIUM** (P2)", "**MEDIUM** (P1)")) != []


@pytest.mark.parametrize("name", ["reproduced", "not_reproduced", "not_applicable", "unavailable", "error"])
def test_the_page_is_of_the_stored_run(name: str) -> None:
    words = {
        "reproduced": "reproduced",
        "not_reproduced": "not reproduced",
        "not_applicable": "not applicable",
        "unavailable": "without the hardware they need",
        "error": "ended in an error",
    }
    # Of probes about other kinds of targets the report does not speak.
    count = sum(
        one["outcome"] == name and "does not cover the contract" not in one["message"] for one in RUN["results"]
    )
    assert (f"{count} {words[name]}" in PAGE) == (count > 0)
    assert f"Run `{RUN['run']['id']}`" in PAGE
