"""From findings to tickets, grouped by cause: the bundled specimen, a second run, what is fixed, and what returns."""

from __future__ import annotations

import re
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from auditkit.model.enums import Outcome, Severity
from auditkit.model.runs.run import ArmOutcome, ProbeResult, Run
from auditkit.model.runs.target import Target
from auditkit.probing.hosts.catalog import load_catalog
from auditkit.store.folder.repository import Repository
from auditkit.store.reading.reader import read_ticket
from auditkit.workflows.audit.audit import AuditRequest, audit, specimen_dir
from auditkit.workflows.audit.filing import Paperwork, file_run
from auditkit.workflows.audit.run_options import RunOptions

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


def file(run: Run, folder: Path, by_name: bool = True) -> Run:
    paperwork = Paperwork(load_catalog(), 1, None, "the/checkout", "auditkit audit", asked_by_name=by_name)
    return file_run(run, Repository(folder), paperwork)


def grouped(run: Run) -> dict[str, set[tuple[str, str]]]:
    found: dict[str, set[tuple[str, str]]] = {}
    for result in run.results:
        if result.ticket:
            found.setdefault(result.ticket, set()).add((result.probe, result.target.partition(":")[2]))
    return found


def actions(run: Run) -> list[str]:
    return sorted({result.ticket_action for result in run.results if result.ticket})


def contents(folder: Path) -> dict[str, str]:
    return {path.stem: path.read_text(encoding="utf-8") for path in folder.rglob("*.md")}


def path_of(folder: Path, ticket: str) -> Path:
    return folder / "batch1" / f"{ticket}.md"


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
    for ticket, text in contents(folder).items():
        read = read_ticket(text.encode(), path_of(folder, ticket))
        held = {(name.partition("/")[0], name.partition(":")[2]) for name in read.fingerprints}
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


def test_a_joined_ticket_reads_as_one(audited: Run, folder: Path) -> None:
    """The worst gives the severity and title, the first lines say CPU only, siblings once, graver ones have boxes."""
    filed = file(audited, folder)
    ticket = next(ticket for ticket, held in grouped(filed).items() if (SYNCS, PER_LAYER) in held)
    text = contents(folder)[ticket]
    head = text.split("\n## ", 1)[0]
    assert head.startswith("# Finding Ticket: per_layer_norms: ")
    assert "**Reproduced on CPU only:** device traffic was counted behind a pretended CUDA device" in head
    assert text.count("\n| **Severity** | `P2` |") == 1
    assert text.count("**Same pattern elsewhere:**") == 1
    assert text.count("\n## Evidence: ") == 5
    results = {result.probe: result for result in filed.results if result.ticket == ticket}
    graver = [result.probe for result in results.values() if result.severity is not Severity.P4]
    boxes = re.findall(r"^- \[ \] .*` no longer (?:reproduces|names `[^`]+`) <!-- probe: (\w+)", text, re.MULTILINE)
    assert sorted(boxes) == sorted(graver) == ["sync_in_loop", "syncs_grow_with_tensors"]
    assert sorted(results) == sorted(probe for probe, _ in EXPECTED["B1-PT-01"])
    assert sorted(result.ticket_action for result in results.values()) == ["created"] + ["joined"] * 4


def test_tickets_about_one_function_name_each_other(audited: Run, folder: Path) -> None:
    """Linked both ways, with the words of the relation; never to itself."""
    filed = file(audited, folder)
    first, second = (
        next(ticket for ticket, held in grouped(filed).items() if pair in held)
        for pair in ((OVERFLOW, SQUARED), (LAUNCHES, SQUARED))
    )
    texts = contents(folder)
    assert f"- {second}: same function, squared_sum_norm()\n" in texts[first]
    assert f"- {first}: same function, squared_sum_norm()\n" in texts[second]
    assert all(f"- {ticket}: " not in text for ticket, text in texts.items())


def test_a_second_run_changes_nothing(audited: Run, folder: Path) -> None:
    first = file(audited, folder)
    before = contents(folder)
    second = file(audited, folder)
    assert (actions(second), grouped(second)) == (["unchanged"], grouped(first))
    assert contents(folder) == before


def test_a_refresh_keeps_what_people_wrote(audited: Run, folder: Path) -> None:
    """Every block is renewed in its place, every other byte stays."""
    file(audited, folder)
    edited = {}
    for ticket, text in contents(folder).items():
        edited[ticket] = text.replace("## Recommended Fix", "Seen by Ada.\n\n## Recommended Fix") + "the end\n"
        path_of(folder, ticket).write_text(edited[ticket], encoding="utf-8")
    old = audited.environment.revision or "not under version control"
    later = replace(audited, environment=replace(audited.environment, revision="b" * 40, dirty=False))
    assert actions(file(later, folder)) == ["refreshed"]
    row = re.compile(r"(\| \*\*Revision\*\* \||Run at `|Read at `).*\n")
    assert old not in "".join(row.findall("".join(contents(folder).values())))
    assert {ticket: row.sub("", text) for ticket, text in contents(folder).items()} == {
        ticket: row.sub("", text) for ticket, text in edited.items()
    }


def test_a_fixed_finding_of_a_joined_ticket_says_so(audited: Run, folder: Path) -> None:
    """Its block and no other; once, however often it is asked again; and again when it returns."""
    filed = file(audited, folder)
    ticket = next(ticket for ticket, held in grouped(filed).items() if (SYNCS, PER_LAYER) in held)
    before = contents(folder)
    fixed = without(audited, [(SYNCS, PER_LAYER)])
    noted = file(fixed, folder)
    fingerprint = next(result.fingerprint for result in audited.results if result.probe == SYNCS)
    assert noted.notes == (*audited.notes, f"{ticket}: {fingerprint} is not reproduced any more")
    after = contents(folder)
    assert [name for name in after if after[name] != before[name]] == [ticket]
    assert after[ticket].count("`not_reproduced` now; the rest is what was found before") == 1
    assert after[ticket].count("| **Outcome** | `reproduced` |") == 4
    assert after[ticket].count(": no longer reproduced at ") == 1
    assert "| **Status** | `open` |" in after[ticket]
    assert (file(fixed, folder).notes, contents(folder)) == (audited.notes, after)

    returned = file(audited, folder)
    assert [r.ticket_action for r in returned.results if r.fingerprint == fingerprint] == ["refreshed"]
    text = contents(folder)[ticket]
    assert text.count("| **Outcome** | `reproduced` |") == 5
    assert (text.count(": no longer reproduced at "), text.count(": returned at ")) == (1, 1)
    file(audited, folder)
    assert contents(folder)[ticket] == text


@pytest.mark.parametrize("outcome", [None, Outcome.ERROR, Outcome.UNAVAILABLE, Outcome.NOT_APPLICABLE])
def test_only_a_pass_says_that_a_finding_is_gone(audited: Run, folder: Path, outcome: Outcome | None) -> None:
    """What was not asked, or had no answer, says nothing."""
    file(audited, folder)
    before = contents(folder)
    assert file(without(audited, [(SYNCS, PER_LAYER)], outcome), folder).notes == audited.notes
    assert contents(folder) == before


def test_a_resolved_ticket_comes_back_whole(audited: Run, folder: Path) -> None:
    """One of its findings is enough to open it; the others are refreshed in it and nothing is filed twice."""
    filed = file(audited, folder)
    ticket = next(ticket for ticket, held in grouped(filed).items() if (SYNCS, PER_LAYER) in held)
    text = contents(folder)[ticket].replace("| **Status** | `open` |", "| **Status** | `fixed` |")
    path_of(folder, ticket).write_text(text, encoding="utf-8")
    file(without(audited, [(SYNCS, PER_LAYER)]), folder)
    again = contents(folder)[ticket]
    assert "| **Status** | `open` |" in again
    assert again.count("; the status was fixed and is open again") == 1
    assert grouped(file(audited, folder)) == grouped(filed)


def test_a_new_finding_joins_the_open_ticket_of_its_cause(audited: Run, folder: Path) -> None:
    """Below the blocks that are there; nothing else changes, and the ticket holds it from then on."""
    filed = file(without(audited, [(LAUNCHES, PER_LAYER)], None), folder)
    ticket = next(ticket for ticket, held in grouped(filed).items() if (SYNCS, PER_LAYER) in held)
    before = contents(folder)
    later = file(audited, folder)
    assert [r.ticket_action for r in later.results if r.probe == LAUNCHES and r.ticket == ticket] == ["joined"]
    after = contents(folder)
    assert after.keys() == before.keys()
    assert after[ticket].count("\n## Evidence: ") == 5
    assert (file(audited, folder), contents(folder))[1] == after


@pytest.mark.parametrize(
    ("status", "severity", "joins"),
    [("open", "P1", True), ("in-review", "P1", True), ("wont-fix", "P1", False), ("deferred", "P1", False),
     ("open", "P4", False)],
)  # fmt: skip
def test_a_new_finding_is_not_hidden_in_what_was_put_away(
    audited: Run, folder: Path, status: str, severity: str, joins: bool
) -> None:
    """A finished or deferred ticket, or one that is less severe, takes none: it would not be seen."""
    graver = [replace(r, severity=Severity.P3) if r.probe == LAUNCHES else r for r in audited.results]
    audited = replace(audited, results=tuple(graver))
    filed = file(without(audited, [(LAUNCHES, PER_LAYER)], None), folder)
    ticket = next(ticket for ticket, held in grouped(filed).items() if (SYNCS, PER_LAYER) in held)
    text = contents(folder)[ticket].replace("| **Status** | `open` |", f"| **Status** | `{status}` |")
    text = text.replace("\n| **Severity** | `P2` |", f"\n| **Severity** | `{severity}` |")
    path_of(folder, ticket).write_text(text, encoding="utf-8")
    later = file(audited, folder)
    (launches,) = [r for r in later.results if r.probe == LAUNCHES and r.target.endswith(PER_LAYER)]
    assert (launches.ticket == ticket, launches.ticket_action) == (joins, "joined" if joins else "created")


def test_one_finding_of_several_arms_is_one_block_with_a_row_for_each(audited: Run, folder: Path) -> None:
    """Findings with arms group as others do."""

    def with_arms(result: ProbeResult) -> ProbeResult:
        if result.outcome is not Outcome.REPRODUCED:
            return result
        severity = result.severity or Severity.P4
        arms = tuple(
            ArmOutcome(name, replace(audited.environment, torch=name), result.outcome, severity, "told", device="cpu")
            for name in ("2.9.1", "2.15.0")
        )
        return replace(result, arm="2.9.1", arms=arms)

    filed = file(replace(audited, results=tuple(map(with_arms, audited.results))), folder)
    assert sorted(map(sorted, grouped(filed).values())) == sorted(map(sorted, EXPECTED.values()))
    ticket = next(ticket for ticket, held in grouped(filed).items() if (SYNCS, PER_LAYER) in held)
    text = contents(folder)[ticket]
    assert (text.count("\n| 2.9.1 | "), text.count("\n| 2.15.0 | ")) == (5, 5)
