"""From findings to tickets, grouped by cause: the bundled specimen, a second run, what is fixed, and what returns."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from auditkit.audit.audit import AuditRequest, audit, specimen_dir
from auditkit.audit.filing import Paperwork, file_run
from auditkit.model.enums import Outcome, Severity
from auditkit.model.runs.run import ProbeResult, Run
from auditkit.model.runs.target import Target
from auditkit.probing.engine.catalog import load_catalog
from auditkit.probing.run.run_options import RunOptions
from auditkit.tickets.store import TicketFolder

pytestmark = pytest.mark.process

OVERFLOW, UNDERFLOW = "norm_overflows_on_finite_grads", "norm_underflows_to_zero"
SYNCS, LAUNCHES, IN_LOOP = "syncs_grow_with_tensors", "launches_grow_with_tensors", "sync_in_loop"
ASYNC, HEALTHY = "async_collect_synchronizes", "nonfinite_grads_look_healthy"
PER_LAYER, SQUARED, HEALTH = "per_layer_norms", "squared_sum_norm", "collect_health_async"

EXPECTED = {
    "B1-PT-01": {(OVERFLOW, PER_LAYER), (SYNCS, PER_LAYER), (LAUNCHES, PER_LAYER), (IN_LOOP, PER_LAYER),
                 (UNDERFLOW, PER_LAYER)},
    "B1-PT-02": {(OVERFLOW, SQUARED)},
    "B1-PT-03": {(OVERFLOW, HEALTH)},
    "B1-PT-04": {(HEALTHY, HEALTH)},
    "B1-PT-05": {(ASYNC, HEALTH)},
    "B1-PT-06": {(UNDERFLOW, SQUARED), (LAUNCHES, SQUARED)},
    "B1-PT-07": {(UNDERFLOW, HEALTH)},
}  # fmt: skip


@pytest.fixture(scope="module")
def audited() -> Run:
    """Three collectors of the bundled specimen and seven probes, judged but not filed."""
    targets = (
        Target(f"gradmon.defective:{PER_LAYER}", name="a"),
        Target(f"gradmon.defective:{SQUARED}", name="b"),
        Target(f"gradmon.defective:{HEALTH}", name="c", finish="gradmon.defective:materialize_health"),
    )
    probes = (OVERFLOW, UNDERFLOW, SYNCS, LAUNCHES, IN_LOOP, ASYNC, HEALTHY)
    return audit(AuditRequest(str(specimen_dir()), (RunOptions(python=sys.executable),), targets, probes))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "tickets"


def file(run: Run, folder: Path, by_name: bool = True, read: Callable[[str], str | None] | None = None) -> Run:
    source = read or (lambda name: (specimen_dir() / name).read_text("utf-8"))
    paperwork = Paperwork(load_catalog(), 1, None, "the/checkout", asked_by_name=by_name, read=source)
    return file_run(run, TicketFolder(folder), paperwork)


def grouped(run: Run) -> dict[str, set[tuple[str, str]]]:
    found: dict[str, set[tuple[str, str]]] = {}
    for result in run.results:
        if result.ticket:
            found.setdefault(result.ticket, set()).add((result.probe, result.target.partition(":")[2]))
    return found


def actions(run: Run) -> list[str]:
    return sorted({result.ticket_action for result in run.results if result.ticket})


def contents(folder: Path) -> dict[str, str]:
    return {path.stem: path.read_text(encoding="utf-8") for path in folder.glob("*.md")}


def path_of(folder: Path, ticket: str) -> Path:
    return folder / f"{ticket}.md"


def without(run: Run, dropped: Sequence[tuple[str, str]], outcome: Outcome | None = Outcome.NOT_REPRODUCED) -> Run:
    """The run with other outcomes for these probes and targets; without the results where there is no outcome."""

    def changed(result: ProbeResult) -> ProbeResult | None:
        if (result.probe, result.target.partition(":")[2]) not in dropped:
            return result
        return outcome and replace(
            result, outcome=outcome, severity=None, location=None, measurements=(), siblings=None
        )

    return replace(run, results=tuple(kept for result in run.results if (kept := changed(result))))


def test_the_specimens_findings_make_one_ticket_for_each_cause(audited: Run, folder: Path) -> None:
    """Twelve findings, seven tickets: which probes share one is exact, and every ticket holds its blocks."""
    filed = file(audited, folder)
    assert sorted(map(sorted, grouped(filed).values())) == sorted(map(sorted, EXPECTED.values()))
    assert len([result for result in filed.results if result.ticket]) == sum(map(len, EXPECTED.values()))
    for ticket in contents(folder):
        read = TicketFolder(folder).read(ticket).ticket
        held = {(name.partition("/")[0], name.partition(":")[2]) for name in read.findings}
        assert held == grouped(filed)[ticket]


def test_what_nobody_meets_has_no_ticket_of_its_own_unless_it_was_asked_by_name(audited: Run, folder: Path) -> None:
    """A finding of P4 joins the ticket of its cause, and is refreshed where it has one."""
    filed = file(audited, folder, by_name=False)
    alone = [{(UNDERFLOW, SQUARED), (LAUNCHES, SQUARED)}, {(UNDERFLOW, HEALTH)}, {(OVERFLOW, SQUARED)}]
    expected = [held for held in EXPECTED.values() if held not in alone]
    assert sorted(map(sorted, grouped(filed).values())) == sorted(map(sorted, expected))
    assert sum(result.severity is Severity.P4 and result.ticket is not None for result in filed.results) == 3
    assert {r.probe for r in filed.results if r.severity and not r.ticket} == {UNDERFLOW, LAUNCHES, OVERFLOW}
    named = grouped(file(audited, folder))
    assert grouped(file(audited, folder, by_name=False)) == named


def holding(run: Run, pair: tuple[str, str]) -> str:
    """The ticket of a probe's finding about a target."""
    return next(ticket for ticket, held in grouped(run).items() if pair in held)


def test_a_ticket_of_several_findings_is_short_and_has_a_box_for_each_grave_probe(audited: Run, folder: Path) -> None:
    ticket = holding(file(audited, folder), (SYNCS, PER_LAYER))
    document = TicketFolder(folder).read(ticket)
    assert [box.probe for box in document.ticket.boxes] == [SYNCS, IN_LOOP]
    for text in contents(folder).values():
        assert len(text.splitlines()) <= 80
        assert not [line for line in text.splitlines() if len(line) > 100 and " " in line.strip("- ")]
        assert "\n## Cross-review\nnone yet\n" in text
        assert not re.search(r"\n## .*\n\n## ", text), "a section is empty"


def test_a_second_run_changes_nothing(audited: Run, folder: Path) -> None:
    """Nor does another revision, nor another machine with times and bytes of its own."""
    first = file(audited, folder)
    before = contents(folder)
    second = file(audited, folder)
    assert (actions(second), grouped(second)) == (["unchanged"], grouped(first))
    place = replace(audited.environment, revision="b" * 40, device_name="another", torch="2.15.0")
    slower = tuple(
        replace(
            result,
            duration_s=9.0,
            measurements=tuple(
                replace(one, value=one.value * 1.05) if one.unit == "bytes" else one for one in result.measurements
            ),
        )
        for result in audited.results
    )
    assert actions(file(replace(audited, environment=place, results=slower), folder)) == ["unchanged"]
    assert contents(folder) == before


def test_a_changed_result_replaces_the_block_and_keeps_what_people_wrote(audited: Run, folder: Path) -> None:
    ticket = holding(file(audited, folder), (SYNCS, PER_LAYER))
    text = contents(folder)[ticket].replace("## Fix\n", "## Fix\nSeen by Ada.\n")
    path_of(folder, ticket).write_text(text, encoding="utf-8")
    worse = tuple(replace(one, law="9n+9") if one.probe == SYNCS else one for one in audited.results)
    assert "refreshed" in actions(file(replace(audited, results=worse), folder))
    after = contents(folder)[ticket]
    block = re.compile(r"<!-- evidence.*?<!-- /evidence -->", re.DOTALL)
    assert "| growth | 9n+9 | fitted |" in after
    assert block.sub("", after) == block.sub("", text)


def test_a_fixed_finding_of_a_joined_ticket_says_so_once(audited: Run, folder: Path) -> None:
    ticket = holding(file(audited, folder), (SYNCS, PER_LAYER))
    before = contents(folder)
    fixed = without(audited, [(SYNCS, PER_LAYER)])
    noted = file(fixed, folder)
    fingerprint = f"{SYNCS}/1/gradmon.defective:{PER_LAYER}"
    assert noted.notes == (*audited.notes, f"{ticket}: {fingerprint} no longer reproduces")
    after = contents(folder)
    assert [name for name in after if after[name] != before[name]] == [ticket]
    assert f"| {SYNCS} | not reproduced at " in after[ticket]
    assert "status: open" in after[ticket]
    assert (file(fixed, folder).notes, contents(folder)) == (audited.notes, after)
    file(audited, folder)
    assert contents(folder)[ticket] == before[ticket]


@pytest.mark.parametrize("outcome", [None, Outcome.ERROR, Outcome.UNAVAILABLE, Outcome.NOT_APPLICABLE])
def test_only_a_pass_says_that_a_finding_is_gone(audited: Run, folder: Path, outcome: Outcome | None) -> None:
    file(audited, folder)
    before = contents(folder)
    assert file(without(audited, [(SYNCS, PER_LAYER)], outcome), folder).notes == audited.notes
    assert contents(folder) == before


@pytest.mark.parametrize(("status", "is_back"), [("fixed", True), ("closed", True), ("wont-fix", False)])
def test_a_ticket_that_was_fixed_opens_again_and_a_decision_stands(
    audited: Run, folder: Path, status: str, is_back: bool
) -> None:
    filed = file(audited, folder)
    ticket = holding(filed, (SYNCS, PER_LAYER))
    text = contents(folder)[ticket].replace("status: open", f"status: {status}").replace("- [ ] probe", "- [x] probe")
    path_of(folder, ticket).write_text(text, encoding="utf-8")
    again = file(without(audited, [(SYNCS, PER_LAYER)]), folder)
    after = contents(folder)[ticket]
    assert ("status: open" in after, "- open by auditkit, " in after, "- [x]" in after) == (
        is_back,
        is_back,
        not is_back,
    )
    assert grouped(file(audited, folder)) == grouped(filed)
    assert ("reopened" in actions(again)) == is_back


@pytest.mark.parametrize(
    ("status", "severity", "joins"),
    [("open", "P1", True), ("in-review", "P1", True), ("wont-fix", "P1", False), ("deferred", "P1", False),
     ("open", "P4", False)],
)  # fmt: skip
def test_a_new_finding_joins_the_open_ticket_of_its_cause(
    audited: Run, folder: Path, status: str, severity: str, joins: bool
) -> None:
    """A finished or deferred ticket, or one that is less severe, takes none: nobody would see it."""
    graver = [replace(r, severity=Severity.P3) if r.probe == LAUNCHES else r for r in audited.results]
    audited = replace(audited, results=tuple(graver))
    ticket = holding(file(without(audited, [(LAUNCHES, PER_LAYER)], None), folder), (SYNCS, PER_LAYER))
    text = contents(folder)[ticket].replace("status: open", f"status: {status}")
    path_of(folder, ticket).write_text(text.replace("severity: P2", f"severity: {severity}"), encoding="utf-8")
    later = file(audited, folder)
    (launches,) = [r for r in later.results if r.probe == LAUNCHES and r.target.endswith(PER_LAYER)]
    assert (launches.ticket == ticket, launches.ticket_action) == (joins, "joined" if joins else "created")
