"""The verdict on a fix, as a table over results: what is gone, what is left, what got worse for it."""

from __future__ import annotations

from dataclasses import replace

import pytest

from auditkit.model.enums import Outcome, Severity
from auditkit.model.runs.measurement import Measurement
from auditkit.model.runs.run import ProbeResult, fingerprint
from auditkit.model.runs.target import Target
from auditkit.trials.answers import Answers, judge

OVERFLOW, UNDERFLOW = "norm_overflows_on_finite_grads", "norm_underflows_to_zero"
MEMORY, SYNCS, LAUNCHES = "peak_memory_grows_with_params", "syncs_grow_with_tensors", "launches_grow_with_tensors"
SPARSE = "fails_on_sparse_grads"
_SEVERITY = {OVERFLOW: Severity.P1, SYNCS: Severity.P1, MEMORY: Severity.P2, LAUNCHES: Severity.P3}
_OUTCOMES = {
    "bad": Outcome.REPRODUCED,
    "good": Outcome.NOT_REPRODUCED,
    "error": Outcome.ERROR,
    "n/a": Outcome.NOT_APPLICABLE,
    "absent": Outcome.UNAVAILABLE,
}


def result(probe: str, outcome: str, value: float | None = None) -> ProbeResult:
    """A result, with the quantity of its probe at the largest case where `value` says one."""
    names = {MEMORY: "peak_extra_per_gradient_byte", SYNCS: "sync_count", LAUNCHES: "launch_count_law"}
    measured = () if value is None else (Measurement(names[probe], value, "count", {"tensors": 256, "params": 10**8}),)
    found = _OUTCOMES[outcome]
    return ProbeResult(
        probe=probe,
        probe_version=1,
        target="a:b",
        outcome=found,
        message=f"{probe} says {outcome}",
        fingerprint=fingerprint(probe, "a:b"),
        severity=_SEVERITY.get(probe, Severity.P3) if found is Outcome.REPRODUCED else None,
        measurements=measured,
    )


# For each case: the findings, (probe, at the base, in the arm) and the verdict. A third of "bad 2.0" is a quantity.
TABLE: list[tuple[tuple[str, ...], list[tuple[str, str, str]], str]] = [
    ((OVERFLOW,), [(OVERFLOW, "bad", "good")], "sufficient"),
    ((OVERFLOW,), [(OVERFLOW, "bad", "bad")], "insufficient"),
    ((OVERFLOW,), [(OVERFLOW, "bad", "good"), (SPARSE, "bad", "bad")], "sufficient"),
    ((OVERFLOW,), [(OVERFLOW, "bad", "good"), (MEMORY, "good 0.1", "bad 2")], f"trades {OVERFLOW} for {MEMORY}"),
    ((MEMORY,), [(MEMORY, "bad 3.25", "good 0.2"), (SYNCS, "good 1", "bad 513")], f"trades {MEMORY} for {SYNCS}"),
    ((MEMORY,), [(MEMORY, "bad 3.25", "good 0.2"), (SYNCS, "good 1", "good 2")], f"trades {MEMORY} for {SYNCS}"),
    ((MEMORY,), [(MEMORY, "bad 3.25", "good 0.2"), (SYNCS, "good 1", "good 1")], "sufficient"),
    ((OVERFLOW,), [(OVERFLOW, "bad", "good"), (MEMORY, "bad 1", "bad 2")], f"trades {OVERFLOW} for {MEMORY}"),
    ((OVERFLOW,), [(OVERFLOW, "bad", "good"), (MEMORY, "bad 2", "bad 1")], "sufficient"),
    ((OVERFLOW,), [(OVERFLOW, "bad", "good"), (MEMORY, "good 0.1", "good 0.11")], "sufficient"),
    ((OVERFLOW,), [(OVERFLOW, "bad", "good"), (MEMORY, "good 0", "good 0.2")], "sufficient"),
    ((OVERFLOW,), [(OVERFLOW, "bad", "good"), (LAUNCHES, "bad 3", "bad 3")], "sufficient"),
    ((OVERFLOW,), [(OVERFLOW, "bad", "good"), (LAUNCHES, "bad 3", "bad 4")], f"trades {OVERFLOW} for {LAUNCHES}"),
    (
        (MEMORY,),
        [(MEMORY, "bad 3", "good 0"), (LAUNCHES, "good 0", "bad 7"), (SYNCS, "good 1", "bad 9")],
        f"trades {MEMORY} for {SYNCS} and {LAUNCHES}",
    ),
    ((OVERFLOW, UNDERFLOW), [(OVERFLOW, "bad", "good"), (UNDERFLOW, "bad", "bad")], "insufficient"),
    ((OVERFLOW,), [(OVERFLOW, "bad", "bad"), (SYNCS, "good 1", "bad 9")], "insufficient"),
    ((OVERFLOW,), [(OVERFLOW, "bad", "error")], "does not run"),
    ((OVERFLOW,), [(OVERFLOW, "bad", "n/a")], "does not run"),
    ((OVERFLOW,), [(OVERFLOW, "bad", "absent")], "does not run"),
    ((OVERFLOW,), [(OVERFLOW, "bad", "good"), (SPARSE, "good", "error")], f"trades {OVERFLOW} for {SPARSE}"),
    ((OVERFLOW,), [(OVERFLOW, "bad", "good"), (SPARSE, "absent", "absent")], "sufficient"),
    ((OVERFLOW,), [(OVERFLOW, "bad", "good"), (SPARSE, "n/a", "bad")], f"trades {OVERFLOW} for {SPARSE}"),
]


def _side(probe: str, text: str) -> ProbeResult:
    outcome, _, value = text.partition(" ")
    return result(probe, outcome, float(value) if value else None)


@pytest.mark.parametrize(("findings", "rows", "wanted"), TABLE)
def test_verdicts(findings: tuple[str, ...], rows: list[tuple[str, str, str]], wanted: str) -> None:
    base = Answers.of([_side(probe, before) for probe, before, _ in rows], Target("a:b"))
    arm = Answers.of([_side(probe, after) for probe, _, after in rows], Target("a:b"))
    assert judge(findings, base, arm).text.startswith(wanted)


def test_a_field_that_the_answer_lost_is_a_cost() -> None:
    base, arm = (Answers.of([result(OVERFLOW, outcome)], Target("a:b")) for outcome in ("bad", "good"))
    judged = judge((OVERFLOW,), replace(base, roles={"nan_count": "n", "norm": "n"}), replace(arm, roles={"norm": "n"}))
    assert judged.text == f"trades {OVERFLOW} for the result's nan_count"
    assert judged.reason.endswith("the result differs: it no longer returns nan_count")
    unread = replace(arm, unread="no result within 5 s")
    assert judge((OVERFLOW,), base, unread).text == "does not run"
    assert judge((OVERFLOW,), replace(base, unread="no result"), unread).text == "sufficient"
