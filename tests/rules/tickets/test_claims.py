"""Claims against evidence: confirmed, refuted or untested, with units, ranges, tolerances and laws."""

from __future__ import annotations

import pytest

from auditkit.model.runs.measurement import Measured
from auditkit.model.tickets.claim import ClaimState, parse_claim, parse_condition
from auditkit.model.tickets.ticket import CheckedRun, EvidenceSummary
from auditkit.rules.tickets.claims import Reading, check_condition, judge_claim

GIB, MIB = 1024**3, 1024**2
PROBE = "peak_memory_grows_with_params"


def row(name: str, text: str, unit: str, case: str = "", evidence: str = "measured") -> Measured:
    return Measured.from_cells(name, text, unit, case, evidence)


BASE = (
    row("peak_extra_bytes", "12.4 MiB", "bytes", "params=1,000,000, tensors=10"),
    row("peak_extra_bytes", "1.21 GiB", "bytes", "params=100,000,000, tensors=10"),
    row("peak_extra_bytes", "12.1 GiB", "bytes", "params=1,000,000,000, tensors=10", "extrapolated"),
    row("ratio", "3.25", "ratio", "params=100,000,000"),
    row("launch_count", "97", "count", "tensors=32"),
    row("launch_count", "193", "count", "tensors=64"),
    row("breaking", "1.845e+19", "norm", "dtype=float32"),
    row("breaking", "none", "norm", "dtype=float16"),
    row("never", "none", "norm", "dtype=float32"),
    row("answer", "inf", "norm", "magnitude=1e+20"),
    row("captured", "True", "truth"),
)
FIX = (
    row("launch_count", "4", "count", "tensors=32"),
    row("launch_count", "8", "count", "tensors=64"),
    row("answer", "1e+20", "norm", "magnitude=1e+20"),
)


def evidence(probe: str = PROBE, law: str = "3n+1", with_fix: bool = True) -> EvidenceSummary:
    runs = (
        CheckedRun("base", "reproduced", "a" * 40, False, 1, law, True),
        CheckedRun("fix", "not_reproduced", "b" * 40, False, 1, "5"),
    )
    checks = runs if with_fix else ()
    return EvidenceSummary(
        f"{probe}/1/m:f", probe, "m:f", "reproduced", "measured", "", "a" * 40, "cpu", "2.13", (), 1,
        law=law, measurements=BASE, checks=checks, measurements_at_fix=FIX if with_fix else (),
    )  # fmt: skip


CONFIRMED, REFUTED, UNTESTED = ClaimState.CONFIRMED, ClaimState.REFUTED, ClaimState.UNTESTED


@pytest.mark.parametrize(
    ("text", "state", "message"),
    [
        # Seed 001's figure: one float32 copy of the gradients, where 3.25 of them were measured.
        ("peak_extra_bytes = 400 MB ±10% @ params=100M", REFUTED, "1.21 GiB (params=100,000,000, tensors=10)"),
        ("peak_extra_bytes = 1.3 GB ±1% @ params=100M", CONFIRMED, "1.21 GiB"),
        ("peak_extra_bytes = 1.21GiB @ params=1e8, tensors=10", CONFIRMED, "1.21 GiB"),
        ("peak_extra_bytes = 1300000000 @ params=100_000_000", CONFIRMED, "1.21 GiB"),
        ("peak_extra_bytes = 1.22 GiB @ params=100M", REFUTED, "1.21 GiB"),
        ("peak_extra_bytes = 4 GB ±10% @ params=1B", REFUTED, "12.1 GiB (params=1,000,000,000, tensors=10; extrapol"),
        ("peak_extra_bytes = 4 GB @ params=7B", UNTESTED, "params: 1,000,000, 100,000,000, 1,000,000,000"),
        ("peak_extra_bytes = 4 GB @ rank=3", UNTESTED, "rank: no such case"),
        ("peak_extra_bytes < 20 GB", CONFIRMED, "12.4 MiB"),
        ("peak_extra_bytes < 1 GB", REFUTED, "1.21 GiB"),
        ("peak_extra_bytes = 3 ms", UNTESTED, "is in bytes, not in ms"),
        ("ratio = 3..3.5 x", CONFIRMED, "3.25x"),
        ("ratio = 325 %", CONFIRMED, "3.25x"),
        ("ratio = 1 x", REFUTED, "3.25x"),
        ("launch_count = 3n", UNTESTED, "is in count, not in n"),
        ("launch_count base/fix = 24-33x @ tensors=64", CONFIRMED, "24.12x"),
        ("launch_count base/fix = 24-33x", CONFIRMED, "24.25x"),
        ("launch_count base/fix = 30..33 x", REFUTED, "24.25x"),
        ("launch_count fix/base < 5 %", CONFIRMED, "0.0412"),
        ("launch_count at fix <= 8", CONFIRMED, "is 4 (tensors=32), 8 (tensors=64)"),
        ("launch_count at fix = 4", REFUTED, "is 8 (tensors=64)"),
        ("answer = inf @ magnitude=1e20", CONFIRMED, "inf"),
        ("answer = finite @ magnitude=1e20", REFUTED, "inf"),
        ("answer at fix = finite @ magnitude=1e20", CONFIRMED, "1e+20"),
        ("captured = true", CONFIRMED, "True"),
        ("captured != true", REFUTED, "True"),
        ("law = O(n)", CONFIRMED, "3n+1, which is O(n)"),
        ("law at fix = O(1)", CONFIRMED, "5, which is O(1)"),
        ("law at fix = O(n)", REFUTED, "5, which is O(1)"),
        ("law = 3n+1", CONFIRMED, "3n+1"),
        ("law = n", REFUTED, "3n+1"),
        ("nothing = 1", UNTESTED, "no measurement nothing: the evidence has peak_extra_bytes, ratio"),
        # The boundary of one dtype exists, that of another does not.
        ("breaking > 1e10", CONFIRMED, "1.845e+19"),
        ("breaking = 1.84e19 ±1%", CONFIRMED, "1.845e+19"),
        ("never > 1e30", UNTESTED, "or none"),
        ("never > 1e30 or none", CONFIRMED, "is none"),
        ("never = none", CONFIRMED, "none"),
        ("breaking = none @ dtype=float32", REFUTED, "1.845e+19"),
    ],
)  # fmt: skip
def test_a_claim_is_judged_by_the_rows_of_its_probe(text: str, state: ClaimState, message: str) -> None:
    judged = judge_claim(parse_claim(f"{PROBE} {text}"), [evidence("another_probe", "n"), evidence()])
    assert (judged.state, message in judged.message) == (state, True), judged.message


def test_without_evidence_nothing_is_confirmed() -> None:
    claim = parse_claim(f"{PROBE} launch_count = 193 @ tensors=64")
    assert judge_claim(claim, [evidence("another_probe")]).state is UNTESTED
    assert judge_claim(claim, []).message == f"no evidence of {PROBE}"
    assert judge_claim(claim, [evidence()]).state is CONFIRMED


def test_a_law_that_is_no_line_says_nothing_of_growth() -> None:
    claim = parse_claim(f"{PROBE} law = O(n)")
    judged = judge_claim(claim, [evidence(law="3.25 bytes per gradient byte")])
    assert (judged.state, judged.message) == (UNTESTED, "the law is 3.25 bytes per gradient byte: no law in n")


def test_a_claim_about_the_fix_waits_for_its_run() -> None:
    for text in ("launch_count at fix = 4", "launch_count base/fix > 2", "law at fix = O(1)"):
        judged = judge_claim(parse_claim(f"{PROBE} {text}"), [evidence(with_fix=False)])
        assert (judged.state, "auditkit ticket verify" in judged.message) == (UNTESTED, True)


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("", "not of the form PROBE"),
        ("probe", "not of the form PROBE"),
        ("probe about 400 MB", "not a condition: 'about 400 MB'"),
        ("probe peak =", "there is no value to compare with"),
        ("probe peak = 4..2 MB", "goes down"),
        ("probe peak > 2..4 MB", "a range can only be ="),
        ("probe peak > many", "'many' is no number"),
        ("probe peak = many ±10%", "'many' is no number"),
        ("probe peak = 4 MB @ params", "'params' is no case"),
        ("probe peak = 4 MB @ params=100,000,000", "'000' is no case"),
        ("probe peak = (4)", "neither a number nor a word"),
    ],
)
def test_what_is_no_claim_says_why(text: str, problem: str) -> None:
    claim = parse_claim(text)
    judged = judge_claim(claim, [evidence("probe")])
    assert (judged.state, problem in judged.message) == (ClaimState.MALFORMED, True), judged.message


def test_a_rounded_number_may_be_any_that_it_was_rounded_from() -> None:
    """1.21 GiB is 1.205 to 1.215 GiB: more precision than was shown refutes nothing."""
    rows = Reading([row("b", "1.21 GiB", "bytes")])
    assert check_condition(parse_condition("b = 1.2148 GiB"), rows).is_true is True
    assert check_condition(parse_condition("b = 1.2152 GiB"), rows).is_true is False
    exact = Reading([row("c", "1,024", "count")])
    assert check_condition(parse_condition("c = 1024.1"), exact).is_true is False
