"""A code audit numbers causes, what is resolved, no issue and not answered; no question without an answer is a pass."""

from __future__ import annotations

from auditkit.model.enums import Evidence, Outcome, Severity
from auditkit.model.revisions.changes import Commit, FunctionHistory
from auditkit.model.runs.measurement import Location
from auditkit.model.ticket import Status, Ticket
from auditkit.rendering.code_audit import render_code_audit
from auditkit.rules.reports.audit import Sources, audit_report
from auditkit.rules.reports.code_audit import CodeAudit, Entry, Kind, code_audit
from tests.rules.reports.runs import CAPTURE, CLIP, COLLECT, GRAPH, LAUNCHES, OVERFLOW, PROBES, RUN, SYNCS, make_page


def _audit(**others: object) -> CodeAudit:
    report = audit_report(Sources(RUN, PROBES, modules=[make_page()]))
    return code_audit(report, RUN, **{"tickets": (), **others})  # type: ignore[arg-type]


def _kinds(audit: CodeAudit) -> list[tuple[int, Kind]]:
    return [(entry.number, entry.kind) for entry in audit.entries]


def _asked(entry: Entry) -> set[str]:
    return {answer.result.probe for answer in entry.answers}


def test_causes_come_first_then_what_is_no_issue_then_what_got_no_answer() -> None:
    audit = _audit()
    assert [kind for _, kind in _kinds(audit)] == [
        Kind.FINDING, Kind.FINDING, Kind.NO_ISSUE, Kind.NO_ISSUE, Kind.UNANSWERED, Kind.UNANSWERED,
    ]  # fmt: skip
    assert [number for number, _ in _kinds(audit)] == [1, 2, 3, 4, 5, 6]
    assert _asked(audit.entries[0]) == {OVERFLOW, SYNCS}
    assert audit.entries[0].severity is Severity.P1


def test_an_error_and_a_missing_device_are_not_among_what_is_no_issue() -> None:
    by_kind: dict[Kind, set[str]] = {}
    for entry in _audit().entries:
        by_kind.setdefault(entry.kind, set()).update(_asked(entry))
    assert by_kind[Kind.UNANSWERED] == {LAUNCHES, CAPTURE}
    assert by_kind[Kind.NO_ISSUE] & {LAUNCHES, CAPTURE, CLIP} == set()
    assert GRAPH in by_kind[Kind.NO_ISSUE]


def test_a_finished_ticket_is_resolved_only_if_all_of_it_was_asked_again() -> None:
    gone, other = f"{GRAPH}/1/{COLLECT}", f"{LAUNCHES}/1/{COLLECT}"
    cases = {
        (Status.FIXED, (gone,)): True,
        (Status.OPEN, (gone,)): False,
        (Status.FIXED, (gone, other)): False,  # the second one ended in an error
        (Status.FIXED, (gone, "never_asked/1/a:b")): False,
        (Status.FIXED, (f"{OVERFLOW}/1/{COLLECT}",)): False,
        (Status.FIXED, ()): False,
    }
    for (status, held), expected in cases.items():
        one = Ticket(id="B7-PT-01", title="t", batch=7, severity=Severity.P2, status=status, findings=held)
        found = [entry for entry in _audit(tickets=[one]).entries if entry.kind is Kind.RESOLVED]
        assert bool(found) is expected, (status, held)


def test_what_changed_is_told_of_the_function_of_the_location() -> None:
    commit = Commit("1bc9278" + "0" * 33, "Dana", "2026-03-04", "use _foreach_norm\n\nbody")
    told = FunctionHistory(COLLECT, "v1", "changed", added=3, removed=2, commits=(commit,))
    asked = []

    def history(location: Location | None, calls: object) -> FunctionHistory:
        asked.append((location.line if location else None, calls))
        return told

    audit = _audit(since="v1", history=history)
    assert asked == [(10, [COLLECT, COLLECT]), (10, [COLLECT])]
    text = render_code_audit(audit).decode()
    assert f"- What changed: `{COLLECT}` changed since v1 (+3 -2 lines). Commits to its file: `1bc9278` use" in text
    assert audit.to_json()["findings"][0]["what_changed"]["added"] == 3


def test_the_page_says_by_which_evidence_and_what_is_proposed() -> None:
    text = render_code_audit(_audit()).decode()
    assert text.startswith("# Code Audit: `src/train/norms.py`\n")
    assert "### 1) HIGH (P1): total_norm: The norm overflows on finite gradients" in text
    assert "*(measured on cpu)*" in text
    assert "*(simulated: CPU values behind a pretended CUDA device)*" in text
    assert "(not answered) | `breaks_cuda_graph_capture` of `total_norm` | there is no CUDA device |\n" in text
    fixes = text.partition("## Summary of proposed fixes")[2]
    assert "- 1) total_norm: The norm overflows on finite gradients: " in fixes
    assert "3)" not in fixes


def test_nothing_found_proposes_nothing() -> None:
    clean = RUN.results[3]
    assert (clean.outcome, clean.evidence) == (Outcome.NOT_REPRODUCED, Evidence.MEASURED)
    run = type(RUN)(RUN.id, RUN.environment, (clean,), RUN.targets)
    audit = code_audit(audit_report(Sources(run, PROBES)), run, ())
    assert [entry.kind for entry in audit.entries] == [Kind.NO_ISSUE]
    text = render_code_audit(audit).decode()
    assert "None: nothing reproduced.\n" in text
    assert "ticket verify" not in text
