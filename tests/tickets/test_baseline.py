"""Known, new, gone: what the tickets of before say of a run's findings."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from auditkit.model.enums import Contract, Outcome, Reason, Severity
from auditkit.model.runs.baseline import Baseline, Tracked
from auditkit.model.runs.candidates import FoundCandidate
from auditkit.model.runs.probe import ProbeInfo
from auditkit.model.runs.run import ProbeResult, Run, TargetReading
from auditkit.model.runs.target import Target
from auditkit.model.ticket import Status, Ticket
from auditkit.tickets.baseline import baseline_of
from tests.reports.exported_runs import ENVIRONMENT, ERROR, result

FOUND = result()
EMPTY = Baseline("tickets")
PROBES = {
    "sync_in_loop": ProbeInfo("sync_in_loop", 1, "loop", Severity.P2, scope="source"),
    "norm_loses_accuracy": ProbeInfo("norm_loses_accuracy", 1, "accuracy", Severity.P2),
}


def ticket(status: str = "open", fingerprint: str = FOUND.fingerprint, ticket_id: str = "B7-PT-01") -> Ticket:
    return Ticket(
        id=ticket_id, title="t", severity=Severity.P2, status=Status(status), findings=(fingerprint,), batch=7
    )


def run_of(*results: ProbeResult, **more: Any) -> Run:
    return Run("r", ENVIRONMENT, results, **more)


def compared(run: Run, *tickets: Ticket, least: Severity = Severity.P3, whole: bool = True) -> Baseline:
    return baseline_of(run, tickets, EMPTY, least, PROBES if whole else None)


def test_a_finding_without_a_ticket_is_new_where_it_is_worth_one() -> None:
    """A minor one is not, nor what is torch's: an audit files no ticket for them either."""
    minor = result("minor", severity=Severity.P4)
    torchs = result("torchs", owner="torch 2.13.0: torch.nn.utils.clip_grad_norm_")
    called = result("called", "torch.nn.utils:clip_grad_norm_")
    reading = TargetReading(Target("torch.nn.utils:clip_grad_norm_", Contract.GRAD_NORM, places=("loop.py:3",)))
    run = run_of(FOUND, FOUND, minor, torchs, called, targets=(reading,))
    assert compared(run) == replace(EMPTY, new=(Tracked(FOUND.fingerprint),), minor=3)
    assert len(compared(run, least=Severity.P4).new) == 2


def test_what_an_answer_says_is_gone_and_what_none_says_is_not() -> None:
    """An error, a missing device, and a run that asked about a part prove nothing."""
    print_ = ERROR.fingerprint
    for outcome, is_gone in (
        (Outcome.NOT_REPRODUCED, True),
        (Outcome.NOT_APPLICABLE, True),
        (Outcome.ERROR, False),
        (Outcome.UNAVAILABLE, False),
    ):
        found = compared(run_of(replace(ERROR, outcome=outcome)), ticket(fingerprint=print_))
        assert [one.ticket for one in (found.gone if is_gone else found.unasked)] == ["B7-PT-01"]
    assert compared(run_of(), ticket("wont-fix", print_), ticket("fixed", print_)) == EMPTY


def test_without_an_answer_gone_means_that_the_code_is() -> None:
    """Not what a part of the code was asked about, what a configuration leaves out, or a probe that was not asked."""
    other = FoundCandidate("stats:other", "stats.py", 1, fed=True)
    left_out = FoundCandidate("stats:slow", "stats.py", 9, excluded="excluded")
    of_source, of_target = ticket(), ticket(fingerprint="norm_loses_accuracy/1/stats:slow", ticket_id="B7-PT-02")
    of_unknown = ticket(fingerprint="of_before/1/stats:slow#2", ticket_id="B7-PT-03")
    tickets = (of_source, of_target, of_unknown)
    found = compared(run_of(candidates=(other,)), *tickets)
    assert [(one.ticket, one.why) for one in found.gone] == [
        ("B7-PT-01", "no longer found in the source"), ("B7-PT-02", "the collector no longer exists"),
    ]  # fmt: skip
    assert [(one.ticket, one.why) for one in found.unasked] == [("B7-PT-03", "not checked")]
    hidden = compared(run_of(candidates=(other, left_out)), *tickets)
    assert [(one.ticket, one.why) for one in hidden.unasked] == [("B7-PT-02", "excluded"), ("B7-PT-03", "excluded")]
    assert compared(run_of(candidates=(other,)), *tickets, whole=False).gone == ()
    # Where targets are configured, nobody looked for the others.
    assert [one.ticket for one in compared(run_of(), *tickets).gone] == ["B7-PT-01"]


def test_while_a_file_cannot_be_parsed_no_silence_means_gone() -> None:
    """The file may still hold the finding, or call the collector; a probe that ran and passed is still an answer."""
    source, target = "sync_in_loop/1/m:f", "norm_loses_accuracy/1/m:f"
    passed = result("norm_loses_accuracy", outcome=Outcome.NOT_REPRODUCED, severity=None)
    unread = FoundCandidate("m.py", "m.py", 3, why_not="line 3: invalid syntax", reason=Reason.NOT_PARSED)
    tickets = [ticket(fingerprint=each) for each in (source, target, passed.fingerprint)]
    found = compared(run_of(passed, candidates=(unread,)), *tickets)
    assert [each.fingerprint for each in found.gone] == [passed.fingerprint]
    why = "not checked: m.py: line 3: invalid syntax"
    assert [(each.fingerprint, each.why) for each in found.unasked] == [(source, why), (target, why)]
    other = FoundCandidate("n:g", "n.py", 3, fed=True)
    control = compared(run_of(passed, candidates=(other,)), *tickets)
    assert len(control.gone) == 3
