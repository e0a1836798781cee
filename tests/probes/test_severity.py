"""docs/design/severity.md: its table is what the code says, and severity_cases.yaml has the severity of each case."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import yaml

from auditkit.model.enums import Contract, Takes
from auditkit.model.runs.severity import Breaks, Occurs, severity_of
from auditkit.model.runs.target import Target
from tests.probing_helpers import TARGETS, by_probe, run_probes
from tests.project_files import ROOT

PAGE = ROOT / "docs" / "design" / "severity.md"


ROWS = yaml.safe_load(Path(__file__).with_name("severity_cases.yaml").read_text("utf-8"))
CASES = [(row["function"], row["probe"], row["severity"]) for row in ROWS]


def test_the_table_is_that_of_the_code() -> None:
    found = re.findall(r"^\| `(\w+)` \|((?: P\d \|){4})$", PAGE.read_text("utf-8"), re.MULTILINE)
    table = {name: cells.replace("|", " ").split() for name, cells in found}
    assert table == {one.value: [severity_of(one, other).value for other in Occurs] for one in Breaks}


@pytest.mark.acceptance
@pytest.mark.parametrize(("function", "probe", "severity"), CASES)
def test_a_case_is_as_severe_as_its_row_says(function: str, probe: str, severity: str) -> None:
    target = Target(f"cases:{function}", contract=Contract.GRAD_NORM, takes=Takes.PARAMETERS)
    result = by_probe(run_probes(TARGETS / "public_cases", target, [probe]))[probe]
    assert (result.outcome.value, str(result.severity)) == ("reproduced", severity), result.message
