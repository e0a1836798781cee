"""An audit report follows from the run, the tickets and the source; nothing that got no answer is a pass."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from auditkit.model.enums import Contract, Outcome, Severity
from auditkit.model.module_page import Share
from auditkit.model.runs.run import Arm, ArmOutcome, ProbeResult, Run
from auditkit.model.ticket import Status, Ticket
from auditkit.rules.reports.audit import Sources, audit_report, audited_modules, count_labels, uncalled_targets
from auditkit.rules.reports.audit_parts import AuditReport, Item
from auditkit.rules.reports.sections import Section
from auditkit.rules.reports.words import Horizon, Label
from tests.rules.reports.runs import (
    CLIP,
    COLLECT,
    ENVIRONMENT,
    FINISH,
    GRAPH,
    LAUNCHES,
    MEMORY,
    OVERFLOW,
    PROBES,
    RUN,
    SYNCS,
    found,
    make_page,
    make_run,
    said,
)


def report(run: Run = RUN, **others: object) -> AuditReport:
    return audit_report(Sources(run, PROBES, **others))  # type: ignore[arg-type]


def items(made: AuditReport, section: Section | None = None) -> list[Item]:
    return [item for page in made.sections if section in (None, page.section) for item in page.items]


def of_probe(made: AuditReport, probe: str) -> Item:
    (item,) = [item for item in items(made) if any(answer.result.probe == probe for answer in item.answers)]
    return item


def tracked(probe: str, number: int, status: Status, severity: Severity = Severity.P1) -> object:
    name = f"{probe}/1/{COLLECT}"
    return Ticket(id=f"B7-PT-{number:02d}", title="t", batch=7, status=status, severity=severity, findings=(name,))


@pytest.mark.parametrize(
    ("probe", "label"),
    [
        (OVERFLOW, Label.HIGH),
        (MEMORY, Label.MEDIUM),
        (GRAPH, Label.OK),
        (CLIP, Label.NOTE),
        ("breaks_cuda_graph_capture", Label.NOTE),
        (LAUNCHES, Label.ERROR),
    ],
)
def test_what_did_not_reproduce_is_ok_and_nothing_else_is(probe: str, label: Label) -> None:
    assert of_probe(report(), probe).label is label


@pytest.mark.parametrize(
    ("severity", "label"),
    [
        (Severity.P0, Label.CRITICAL),
        (Severity.P1, Label.HIGH),
        (Severity.P2, Label.MEDIUM),
        (Severity.P3, Label.LOW),
        (Severity.P4, Label.LOW),
    ],
)
def test_words_for_severities(severity: Severity, label: Label) -> None:
    item = of_probe(report(make_run(found(OVERFLOW, severity))), OVERFLOW)
    assert (item.label, item.severity) == (label, severity)


def test_a_cause_is_one_issue_with_an_item_in_each_section_it_matters_to() -> None:
    made = report()
    overflow, syncs = of_probe(made, OVERFLOW), of_probe(made, SYNCS)
    assert (overflow.number, overflow.see) == ("8.1", ("3.1",))
    assert (syncs.number, syncs.see) == ("3.1", ("8.1",))
    assert [(issue.severity, issue.numbers, issue.also) for issue in made.issues] == [
        (Severity.P1, ("3.1", "8.1"), (SYNCS,)),
        (Severity.P2, ("4.1",), ()),
    ]
    assert made.issues[0].title == "total_norm: The norm overflows on finite gradients"


def test_findings_at_different_statements_are_different_issues() -> None:
    other = replace(RUN.results[1], statement=replace(RUN.results[1].statement, first=30))  # type: ignore[type-var]
    made = report(make_run(RUN.results[0], other))
    assert [issue.numbers for issue in made.issues] == [("8.1",), ("3.1",)]
    assert of_probe(made, SYNCS).see == ()


def test_errors_stand_before_passes_and_after_findings() -> None:
    labels = [item.label for item in items(report(), Section.FLOW)]
    assert labels == [Label.HIGH, Label.ERROR]


def test_targets_that_got_the_same_answer_share_a_line() -> None:
    run = make_run(said(GRAPH, Outcome.NOT_REPRODUCED), said(GRAPH, Outcome.NOT_REPRODUCED, FINISH))
    assert [answer.result.target for answer in of_probe(report(run), GRAPH).answers] == [COLLECT, FINISH]


@pytest.mark.parametrize(
    ("outcome", "title"),
    [
        (Outcome.ERROR, "No answer: 2 questions"),
        (Outcome.UNAVAILABLE, "Could not be asked here: 2 questions"),
        (Outcome.NOT_APPLICABLE, "Does not apply: 2 questions"),
    ],
)
def test_what_got_no_answer_for_one_reason_shares_a_line_whatever_the_probe(outcome: Outcome, title: str) -> None:
    reason = {"message": "no torch", "device": "cpu"}
    (item,) = items(report(make_run(said(SYNCS, outcome, **reason), said(LAUNCHES, outcome, **reason))), Section.FLOW)
    assert (item.title, len(item.answers)) == (title, 2)


def test_code_is_shown_once() -> None:
    elsewhere = found(OVERFLOW, Severity.P1, FINISH, statement=None)
    first, second = items(report(make_run(RUN.results[0], elsewhere)), Section.NUMERICS)
    assert first.advice[0].code == second.advice[0].code != ""
    assert (first.advice[0].code_at, second.advice[0].code_at) == ("", "8.1")


def test_only_the_worst_finding_of_an_item_shows_code() -> None:
    made = report(make_run(found(SYNCS, Severity.P1), found(LAUNCHES, Severity.P3)))
    (item,) = items(made, Section.FLOW)
    assert [(one.probe, bool(one.code)) for one in item.advice] == [(SYNCS, True), (LAUNCHES, False)]


def test_a_ticket_gives_its_severity_and_status() -> None:
    made = report(tickets=[tracked(SYNCS, 1, Status.IN_REVIEW, Severity.P0)])
    first = made.issues[0]
    assert first.ticket is not None
    assert (first.ticket.id, first.ticket.status, first.severity) == ("B7-PT-01", "in-review", Severity.P0)
    assert made.issues[1].ticket is None
    assert (made.counts[Severity.P0], made.counts[Severity.P1], made.counts[Severity.P2]) == (1, 0, 1)


def test_of_two_tickets_the_unfinished_one_counts() -> None:
    tickets = [tracked(OVERFLOW, 1, Status.FIXED), tracked(OVERFLOW, 2, Status.OPEN)]
    assert report(tickets=tickets).issues[0].ticket.id == "B7-PT-02"  # type: ignore[union-attr]


def test_a_ticket_that_the_run_filed_and_nobody_read_has_no_status() -> None:
    made = report(make_run(replace(RUN.results[0], ticket="B7-PT-05")))
    assert made.issues[0].ticket.to_json() == {"id": "B7-PT-05", "status": ""}  # type: ignore[union-attr]


@pytest.mark.parametrize(
    ("status", "severity", "horizon"),
    [
        (Status.OPEN, Severity.P0, Horizon.IMMEDIATE),
        (Status.OPEN, Severity.P1, Horizon.IMMEDIATE),
        (Status.IN_REVIEW, Severity.P2, Horizon.SHORT_TERM),
        (Status.OPEN, Severity.P3, Horizon.LONG_TERM),
        (Status.DEFERRED, Severity.P0, Horizon.LONG_TERM),
    ],
)
def test_what_is_due_when(status: Status, severity: Severity, horizon: Horizon) -> None:
    plan = report(make_run(RUN.results[0]), tickets=[tracked(OVERFLOW, 1, status, severity)]).plan
    assert {key: len(issues) for key, issues in plan.due.items()} == {key: int(key is horizon) for key in Horizon}
    assert plan.contradicted == ()


@pytest.mark.parametrize("status", [Status.FIXED, Status.NOT_A_BUG])
def test_a_finished_ticket_that_is_reproduced_is_no_task_but_a_question(status: Status) -> None:
    plan = report(make_run(RUN.results[0]), tickets=[tracked(OVERFLOW, 1, status)]).plan
    assert not any(plan.due.values())
    assert [issue.ticket.status for issue in plan.contradicted] == [status.value]  # type: ignore[union-attr]


def test_the_assessment_is_counted() -> None:
    assert report().assessment == (
        "2 issues behind 3 findings: 1 HIGH (P1), 1 MEDIUM (P2). The worst is HIGH (P1).",
        "8 answers about 1 target and the source: 3 reproduced, 2 not reproduced, 1 not applicable, "
        "1 without the hardware they need, 1 ended in an error.",
        "Evidence of the answers: 3 measured on cpu, 1 simulated (CPU values behind a pretended CUDA device), "
        "1 read from the source. Nothing was measured on a GPU.",
        "Incomplete: 2 questions got no answer, which is not a pass.",
    )


def test_arms_that_differ_are_told_and_every_version_is_named() -> None:
    arms = tuple(
        ArmOutcome(label, replace(ENVIRONMENT, torch=torch), outcome, severity, "told", device="cpu")
        for label, torch, outcome, severity in (
            ("torch 2.9", "2.9", Outcome.REPRODUCED, Severity.P1),
            ("torch 2.15", "2.15", Outcome.NOT_REPRODUCED, None),
        )
    )
    matrix = tuple(Arm(arm.arm, make_run(environment=arm.environment)) for arm in arms)
    made = report(make_run(found(OVERFLOW, Severity.P1, arm="torch 2.9", arms=arms), matrix=matrix))
    assert of_probe(made, OVERFLOW).answers[0].arms == "P1 reproduced with torch 2.9; not reproduced with torch 2.15"
    assert made.versions == ("torch 2.9 on cpu (A CPU), Python 3.11.7", "torch 2.15 on cpu (A CPU), Python 3.11.7")


def test_a_run_that_measured_on_a_gpu_does_not_say_otherwise() -> None:
    run = make_run(replace(RUN.results[0], device="cuda"))
    assert "GPU" not in " ".join(report(run).assessment)


@pytest.mark.parametrize(
    ("results", "first"),
    [
        ((said(GRAPH, Outcome.NOT_REPRODUCED),), "No issue: nothing reproduced."),
        ((said(GRAPH, Outcome.ERROR),), "No verdict: no probe gave an answer."),
        ((), "No verdict: no probe gave an answer."),
    ],
)
def test_no_finding_is_no_verdict_where_nothing_answered(results: tuple[ProbeResult, ...], first: str) -> None:
    assert report(make_run(*results)).assessment[0] == first


def test_what_reading_the_module_shows() -> None:
    """Positive only where all have it: the docstrings of this page lack one."""
    made = report(modules=[make_page()])
    observed = {item.title: (item.label, item.observation) for item in items(made) if item.observation}
    assert observed == {
        "No compilation in train.norms": (
            Label.NOTE,
            "No line names torch.compile: the functions are compiled only where a caller does it.",
        ),
        "Type annotations complete in train.norms": (
            Label.POSITIVE,
            "3 of 3 functions have all their types written out.",
        ),
        "Docstrings incomplete in train.norms": (
            Label.NOTE,
            "2 of 3 public functions and classes have a docstring. Without: total_norm.",
        ),
        "Property-based tests exist for train.norms": (
            Label.POSITIVE,
            "1 test file uses the module: tests/test_norms.py (4 tests). With hypothesis: tests/test_norms.py.",
        ),
    }
    assert (made.title, made.files) == ("train.norms: Module Audit Report", ("src/train/norms.py",))


def test_a_module_without_functions_or_tests_has_nothing_positive() -> None:
    page = make_page(annotated=Share(0, ()), documented=Share(0, ()), importers=(), compiles=(3, 9))
    made = report(make_run(), modules=[page])
    assert [(item.title, item.label) for item in items(made)] == [
        ("Compilation in train.norms", Label.NOTE),
        ("No test file imports train.norms", Label.NOTE),
    ]
    assert [location.line for location in items(made)[0].locations] == [3, 9]


def test_targets_that_no_flow_calls() -> None:
    assert uncalled_targets([COLLECT, FINISH, "other:total_norm"], make_page()) == ["materialize"]


def test_audited_modules() -> None:
    assert audited_modules(RUN) == ("train.norms",)
    assert audited_modules(replace(RUN, targets=())) == ("train.norms",)
    assert audited_modules(make_run()) == ("train.norms",)


def test_a_probe_that_is_not_known_keeps_its_id_and_severity() -> None:
    made = audit_report(Sources(make_run(found("gone_probe", Severity.P2)), {}))
    assert made.issues[0].severity is Severity.P2
    assert made.issues[0].title == "total_norm: gone_probe (this probe's definition is not known here)"


def test_the_date_is_the_runs() -> None:
    assert report().date == "2026-03-04"
    assert report(replace(RUN, id="run-1"), today="2026-05-06").date == "2026-05-06"


def is_of_another_contract(result: ProbeResult) -> bool:
    covered = PROBES[result.probe].contracts
    is_other = result.target == COLLECT and bool(covered) and Contract.GRAD_NORM not in covered
    return is_other and result.outcome is Outcome.NOT_APPLICABLE


def test_a_probe_of_another_contract_is_no_news() -> None:
    """The controls: its error is news, and so is a probe of this contract that does not apply."""
    other, own = "accumulates_in_low_precision", CLIP
    told = report(make_run(said(other, Outcome.NOT_APPLICABLE), said(own, Outcome.NOT_APPLICABLE)))
    assert [answer.result.probe for item in items(told) for answer in item.answers] == [own]
    told = report(make_run(said(other, Outcome.ERROR)))
    assert [answer.result.probe for item in items(told) for answer in item.answers] == [other]


RESULTS = st.lists(
    st.builds(
        said,
        st.sampled_from(sorted(PROBES)),
        st.sampled_from([outcome for outcome in Outcome if outcome is not Outcome.REPRODUCED]),
        st.sampled_from([COLLECT, FINISH]),
        message=st.sampled_from(["one", "two"]),
    )
    | st.builds(found, st.sampled_from(sorted(PROBES)), st.sampled_from(Severity), st.sampled_from([COLLECT, FINISH])),
    max_size=12,
    unique_by=lambda result: result.fingerprint,
)


@given(RESULTS)
def test_every_answer_stands_in_the_report_once(results: list[ProbeResult]) -> None:
    made = report(make_run(*results))
    told = [answer.result for item in items(made) for answer in item.answers]
    results = [result for result in results if not is_of_another_contract(result)]
    said = [sorted((one.probe, one.target, one.message) for one in every) for every in (told, results)]
    assert said[0] == said[1]
    numbers = [item.number for item in items(made)]
    assert len(set(numbers)) == len(numbers)
    assert sum(count_labels(made.sections).values()) == len(numbers)
    passed = {answer.result.message for item in items(made) if item.label is Label.OK for answer in item.answers}
    assert passed <= {result.message for result in results if result.outcome is Outcome.NOT_REPRODUCED}
