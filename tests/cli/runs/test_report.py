"""The report of a run: what breaks comes first, the end says what to do, nothing is wider than the terminal."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from auditkit.audit.audit import AuditRequest, exit_code
from auditkit.cli.runs.report import page_lines
from auditkit.errors import ExitCode
from auditkit.model.enums import Contract, Evidence, Outcome, Reason, Severity, Takes
from auditkit.model.runs.candidates import FoundCandidate, not_checked
from auditkit.model.runs.cause import Statement
from auditkit.model.runs.measurement import Location
from auditkit.model.runs.run import SOURCE_DEVICE, Environment, NoTarget, ProbeResult, Run, TargetReading, fingerprint
from auditkit.model.runs.severity import Breaks, Occurs, in_words
from auditkit.model.runs.target import Target

OVERFLOW, SPARSE, PEAK = "norm_overflows_on_finite_grads", "fails_on_sparse_grads", "peak_memory_grows_with_params"
FILE = "src/trainer/telemetry/gradient_statistics.py"
WHY = in_words(Breaks.WRONG_ANSWER, Occurs.ORDINARY)
MESSAGE = "the norm (host_grad_norm) breaks at 1.84e+19 in float32; broken for bfloat16, float16, float32, mixed"


def found(probe: str, severity: str, target: str = "trainer.stats:norm", line: int = 18, **fields: Any) -> ProbeResult:
    """A finding in `norm`, at a statement of one line."""
    outcome = Outcome(fields.pop("outcome", "reproduced"))
    place = Location(fields.pop("file", FILE), line, fields.pop("function", "norm"))
    own = {"location": place, "statement": Statement(place.file, line, line), "evidence": Evidence.MEASURED} | fields
    if outcome is not Outcome.REPRODUCED:
        own.update(location=None, statement=None)
    message = own.pop("message", MESSAGE)
    given = Severity(severity) if severity else None
    return ProbeResult(probe, 1, target, outcome, message, fingerprint(probe, target), severity=given, **own)


def run_of(results: Sequence[ProbeResult], **fields: Any) -> Run:
    environment = Environment("/code/trainer", "0123456789abcdef", False, "3.11", "2.13.0", "cpu", "a CPU")
    return Run("a-run", environment, tuple(results), **fields)


def page(
    results: Sequence[ProbeResult],
    width: int | None = None,
    verbose: bool = False,
    tickets: str | None = None,
    wants_tickets: bool = True,
    **fields: Any,
) -> str:
    request = AuditRequest("/code/trainer", tickets=Path(tickets) if tickets else None)
    return "\n".join(page_lines(run_of(results, **fields), request, verbose, width, wants_tickets))


ORDINARY = {"breaks": Breaks.WRONG_ANSWER, "occurs": Occurs.ORDINARY}
MANY = (
    found(PEAK, "P2", line=30, message="3x the gradients' bytes", ticket="B1-PT-02", ticket_action="joined"),
    found(OVERFLOW, "P1", **ORDINARY, ticket="B1-PT-01", ticket_action="created"),
    found(OVERFLOW, "P1", "trainer.stats:collect", **ORDINARY, ticket="B1-PT-01", ticket_action="joined"),
    found("launches_grow_with_tensors", "P3", message="launches per call: 3n", evidence=Evidence.SIMULATED,
          ticket="B1-PT-01", ticket_action="joined"),
    found(SPARSE, "P4", line=40), found(SPARSE, "P4", "trainer.stats:collect", line=40),
    found(SPARSE, "P4", "trainer.stats:last", line=41),
    found("counts_are_rounded", "", outcome="not_reproduced", message="counts are exact"),
    found("clip_destroys_gradients", "", outcome="not_applicable", message="it does not clip"),
)  # fmt: skip


def test_one_entry_for_each_cause_the_worst_first() -> None:
    """The statement once, with every probe and target that met it; what is minor is only counted."""
    lines = page(MANY).splitlines()
    first = lines.index(f"P1  {FILE}:18 in norm through collect  B1-PT-01 (new)")
    assert lines[first + 1 : first + 5] == [
        f"    The norm overflows on finite gradients: {WHY}",
        f"    {OVERFLOW}: {MESSAGE}",
        "    also launches_grow_with_tensors (-v)",
        f"P2  {FILE}:30 in norm  B1-PT-02 (known, this is new in it)",
    ]
    assert f"Minor (P4), -v shows each: {SPARSE} at 2 places" in lines
    assert lines[0] == "Checked 3 functions with 6 probes: 2 findings (1 P1, 1 P2), 2 minor, 1 passed"
    assert lines[2] == "simulated: counted on the CPU behind a simulated CUDA device; no number comes from a GPU"
    others = [found(OVERFLOW, "P2", f"trainer.stats:norm{line}", line=line) for line in range(12)]
    text = page(others)
    assert (text.count("\nP2  "), len(text.splitlines()) <= 60) == (10, True)
    assert f"And 2 more, -v shows each: P2 {OVERFLOW} (2)" in text


def test_verbose_writes_out_what_is_minor_and_what_was_quiet() -> None:
    """Each place, each target's words, and how each collector was called, by the options' names."""
    reading = TargetReading(
        Target("trainer.stats:norm", contract=Contract.GRAD_NORM, takes=Takes.MODULE), {"norm": "total"}, "mapping"
    )
    text = page(MANY, verbose=True, targets=[reading])
    assert f"\nP4  {FILE}:40 in norm through collect\n" in text
    assert text.partition("\ntrainer.stats:norm\n")[2].splitlines()[:3] == [
        "  --target trainer.stats:norm --contract grad_norm --takes module: returns mapping (total is norm)",
        "  not reproduced: counts_are_rounded: counts are exact",
        "  not applicable: clip_destroys_gradients: it does not clip",
    ]


def test_nothing_is_wider_than_the_terminal_and_no_word_is_broken() -> None:
    """Every word of the unbroken page stands on the narrow one, in the same order; only a path alone is wider."""
    whole, narrow = page(MANY, None, tickets="tickets"), page(MANY, 50, tickets="tickets")
    assert [word for word in narrow.split() if word != "\\"] == whole.split()
    wide = [line for line in narrow.splitlines() if len(line) > 50]
    assert all(len(line.split()) == 1 for line in wide), wide
    assert max(map(len, whole.splitlines())) > 100


def test_the_end_says_what_to_do_and_what_is_new() -> None:
    """The worst kinds with why and how, the count of known and new, and a command as the last line."""
    lines = page(MANY, tickets="some where").splitlines()
    first = lines.index("What to do first:")
    assert lines[first + 1 : first + 3] == [
        f"1. {FILE}:18  B1-PT-01: Accumulate the squares in float64, inside the reduction.",
        f"2. {FILE}:30  B1-PT-02: Reduce tensors in place, or in buffers of a million elements; keep only scalars.",
    ]
    assert lines[-3:] == [
        "2 tickets in some where: 1 new, 1 known",
        "Next, the evidence of B1-PT-01 and its fix:",
        "  auditkit ticket show B1-PT-01 --tickets 'some where'",
    ]


def test_what_was_found_and_not_checked_comes_first_and_fails_where_steps_are_required() -> None:
    step = FoundCandidate("train:step", "train.py", 3, contract=Contract.TRAIN_STEP)
    norm = FoundCandidate("train:norm", "train.py", 9, contract=Contract.GRAD_NORM)
    results = [found(SPARSE, "P4")]
    text = page(results, candidates=(step, replace(step, call="train:other"), replace(norm, fed=True)))
    assert text.splitlines()[0] == "2 of 2 training steps were NOT checked"
    assert "Nothing that was checked breaks training: what reproduced is minor (P4)." in text
    codes = [
        exit_code(run_of(results, candidates=(each, norm)), requires_steps=required)
        for each in (step, replace(step, fed=True))
        for required in (True, False)
    ]
    assert codes == [ExitCode.NOTHING_MEASURED, ExitCode.FINDINGS, ExitCode.FINDINGS, ExitCode.FINDINGS]
    assert not_checked((step, norm)) == "1 of 1 training step and 1 of 1 collector were NOT checked"
    assert not_checked((replace(step, excluded="excluded"), replace(norm, fed=True))) == ""


def test_a_defect_of_torch_is_said_once_and_is_nothing_to_do() -> None:
    """However many targets call the function that has it, in one line, below what is the checkout's own."""
    owner = "torch 2.13.0: torch.nn.utils.clip_grad_norm_"
    theirs = [found(OVERFLOW, "P4", f"trainer.stats:{name}", owner=owner) for name in ("norm", "collect")]
    theirs.append(found(SPARSE, "P4", "trainer.stats:other", line=40, owner=owner))
    lines = page([*theirs, found(PEAK, "P2", line=30)]).splitlines()
    (line,) = (line for line in lines if owner in line)
    assert line == f"    {owner}: {OVERFLOW}, {SPARSE}, met at {FILE}:18 and 1 more place"
    assert lines.index(f"P2  {FILE}:30 in norm") < lines.index(line) < lines.index("What to do first:")
    assert not any(line.startswith("1. P4") for line in lines)


READ = found("sync_in_loop", "", "source", outcome="not_reproduced", device=SOURCE_DEVICE, evidence=None)


@pytest.mark.parametrize("width", [None, 80])
def test_where_no_collector_was_found_nothing_was_audited(width: int | None) -> None:
    """No count of what did not reproduce looks like an answer; the next command names a target."""
    missing = NoTarget("no gradient collector was found in 15 Python files", "what needs no collector: ...")
    text = page([READ], width, no_target=missing)
    assert "Nothing was audited: no gradient collector was found in 15 Python files." in text
    assert "auditkit only read its source and measured nothing: it found nothing." in text
    assert "not reproduced" not in text
    assert text.split()[-4:] == ["--target", "module:function", "--contract", "grad_norm"]


def test_a_collector_that_could_not_be_fed_is_named_again() -> None:
    """With the option that says what it needs; one that could not be imported asks for its interpreter."""
    failed = found(OVERFLOW, "", outcome="error", reason=Reason.CANNOT_FEED, message="it needs mp_pg")
    unfed = page([failed], no_target=NoTarget("no gradient collector could be fed:\n  not audited: it needs mp_pg"))
    assert "Nothing was audited: no gradient collector could be fed." in unfed
    assert "cannot_feed" not in unfed  # stderr has the reasons
    assert unfed.splitlines()[-1].endswith(" collector: --target trainer.stats:norm --argument NAME=VALUE")
    unloaded = page([failed], no_target=NoTarget("no gradient collector could be imported:", is_import=True))
    assert unloaded.splitlines()[-1].endswith(" the interpreter that has it: --python VENV/bin/python")
