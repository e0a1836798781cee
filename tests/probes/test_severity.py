"""docs/design/severity.md: its tables are what the code says, and each case of it comes out as it says."""

from __future__ import annotations

import re
from functools import cache

import pytest

from auditkit.model.enums import Contract, Takes
from auditkit.model.runs.severity import Breaks, Occurs, severity_of
from auditkit.model.runs.target import Target
from auditkit.probing.engine.catalog import load_catalog
from tests.probing_helpers import TARGETS, by_probe, run_probes
from tests.project_files import ROOT

PAGE = ROOT / "docs" / "design" / "severity.md"


@cache
def rows(heading: str) -> list[list[str]]:
    """The cells of the first table below a heading or line that begins so, without its two first lines."""
    lines = PAGE.read_text("utf-8").partition(f"\n{heading}")[2].splitlines()
    first = next(number for number, line in enumerate(lines) if line.startswith("|"))
    table = [line for line in lines[first : lines.index("", first)] if line.startswith("|")]
    return [[cell.strip().strip("`") for cell in line.strip("|").split("|")] for line in table[2:]]


CASES = [(row[1], row[2], row[4]) for row in rows("## The seeds and public cases")]


def test_the_table_is_that_of_the_code() -> None:
    found = re.findall(r"^\| `(\w+)` \|((?: P\d \|){4})$", PAGE.read_text("utf-8"), re.MULTILINE)
    table = {name: cells.replace("|", " ").split() for name, cells in found}
    assert table == {one.value: [severity_of(one, other).value for other in Occurs] for one in Breaks}


def test_every_probe_has_its_row() -> None:
    said = {row[0]: tuple(row[1:]) for row in rows("## Probe by probe")}
    known = {
        probe.id: (probe.breaks, probe.occurs.value if probe.occurs else "", probe.severity.value)
        for probe in load_catalog().values()
    }
    assert said == known


@pytest.mark.acceptance
@pytest.mark.parametrize(("function", "probe", "severity"), CASES)
def test_a_case_is_as_grave_as_the_page_says(function: str, probe: str, severity: str) -> None:
    target = Target(f"cases:{function}", contract=Contract.GRAD_NORM, takes=Takes.PARAMETERS)
    result = by_probe(run_probes(TARGETS / "public_cases", target, [probe]))[probe]
    assert (result.outcome.value, str(result.severity)) == ("reproduced", severity), result.message


def test_what_breaks_training_stands_above_what_nobody_meets() -> None:
    """The order that the page exists for: clipping that never happens, a raise under FSDP2, waits, 1e19."""
    grave = {function: severity for function, _, severity in CASES}
    assert len(CASES) >= 14
    order = ("clip_twice_read", "plain_among_sharded", "wait_for_each", "wide_copies", "sum_of_squares")
    assert [grave[name] for name in order] == ["P0", "P1", "P2", "P3", "P4"]
