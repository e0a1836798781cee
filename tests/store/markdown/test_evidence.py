"""An evidence block's parts: each is written and taken out alone, and nothing else in the block changes."""

from __future__ import annotations

from dataclasses import replace

import pytest

from auditkit.model.runs.measurement import Measured, Measurement
from auditkit.model.tickets.ticket import CheckedRun
from auditkit.rendering.evidence import render_evidence
from auditkit.store.markdown.document import Document
from auditkit.store.markdown.evidence import (
    VERIFIED,
    part_of,
    say_the_same,
    says_reproduced,
    with_history_line,
    with_outcome,
    with_part,
)
from auditkit.store.reading.evidence_blocks import read_evidence
from tests.filing_helpers import OLD_REVISION, PATH, evidence_block, make_finding

BLOCK = evidence_block("p/1/t").encode() + b"\n"
TOLD = with_history_line(BLOCK, "once")
ONE, TWO = b"**Verified**, red first\n\n| a | b |", b"**Verified**, again\n\ntext"


@pytest.mark.parametrize("block", [BLOCK, TOLD], ids=["plain", "with history"])
def test_a_part_is_written_replaced_and_taken_out(block: bytes) -> None:
    once = with_part(block, VERIFIED, ONE)
    twice = with_part(once, VERIFIED, TWO)
    assert (part_of(once, VERIFIED), part_of(twice, VERIFIED)) == (ONE, TWO)
    assert with_part(twice, VERIFIED, ONE) == once
    assert with_part(once, VERIFIED, b"") == block
    assert with_part(block, VERIFIED, b"") == block


def test_the_history_stays_last_and_is_read() -> None:
    changed = with_part(TOLD, VERIFIED, b"**Verified**\n\n- no line of the history")
    changed = with_history_line(changed, "twice")
    (block,) = Document.parse(changed, PATH).evidence
    assert block.history == ("once", "twice")


def test_an_outcome_goes_and_comes_back() -> None:
    block = render_evidence(make_finding())
    gone = with_outcome(block, False)
    assert (says_reproduced(block), says_reproduced(gone)) == (True, False)
    assert with_outcome(gone, True) == block
    assert with_outcome(BLOCK, True) == with_outcome(BLOCK, False) == BLOCK


def test_a_part_says_something_else() -> None:
    assert not say_the_same(BLOCK, with_part(BLOCK, VERIFIED, ONE))


def test_an_answer_of_an_earlier_command_says_so_and_is_the_same() -> None:
    finding = make_finding()
    remembered = replace(finding, result=replace(finding.result, remembered=True))
    asked, again = render_evidence(finding), render_evidence(remembered)
    assert (b"| **Asked** | by an earlier command" in asked, b"| **Asked** | by an earlier command" in again) == (
        False,
        True,
    )
    assert say_the_same(asked, again)


def test_what_was_found_is_read_with_its_rows() -> None:
    (block,) = read_evidence(Document.parse(with_outcome(render_evidence(make_finding()), False), PATH))
    assert (block.outcome, block.was_found, block.version, block.law) == ("not_reproduced", True, 3, "3n+1")
    assert (block.revision, block.is_dirty, block.python, block.torch) == (OLD_REVISION, True, "3.11.7", "2.13.0")
    norm, peak = block.measurements
    assert (norm.name, norm.value, norm.case, norm.slack) == (
        "norm",
        float("inf"),
        {"dtype": "float32", "tensors": "64"},
        0,
    )
    assert (peak.value, peak.unit, peak.evidence) == (3 * 1024**2, "bytes", "extrapolated")


def test_the_verified_part_is_read() -> None:
    part = (
        b"**Verified**, red first\n\n| Run | Outcome | Revision | Version | Law | Message |\n|--|--|--|--|--|--|\n"
        b"| base as found above | `reproduced` | `aaaaaaaaaa` | 2 | `3n+1` | m |\n"
        b"| fix | `not_reproduced` | `bbbbbbbbbb` with uncommitted changes | 2 | | m |\n\n"
        b"| Measurement at the fix | Value | Unit | Case | Evidence |\n|--|--|--|--|--|\n"
        b"| `syncs` | 1 | count | tensors=64 | simulated |"
    )
    (block,) = read_evidence(Document.parse(with_part(BLOCK, VERIFIED, part), PATH))
    assert block.checks == (
        CheckedRun("base", "reproduced", "aaaaaaaaaa", False, 2, "3n+1", True),
        CheckedRun("fix", "not_reproduced", "bbbbbbbbbb", True, 2),
    )
    assert block.measurements_at_fix == (Measured("syncs", 1, "1", "count", {"tensors": "64"}, "simulated"),)
    assert [row.name for row in block.measurements] == ["norm"]


@pytest.mark.parametrize(
    ("value", "unit"),
    [
        (3 * 400_000_000, "bytes"), (399_999_999, "bytes"), (1023, "bytes"), (1_030_000, "bytes"), (68, "count"),
        (1_048_576, "count"), (1234.6, "ratio"), (3.2504, "ratio"), (1.8446744e19, "norm"), (-0.00012345, "value"),
        (999.96, "ratio"), (0.0, "ratio"), (12, "ratio"),
    ],
)  # fmt: skip
def test_a_shown_number_is_within_its_slack(value: float, unit: str) -> None:
    shown = Measured.exact(Measurement("m", value, unit, {"params": 100_000_000, "dtype": "float32"}))
    read = Measured.from_cells("m", shown.text, unit, shown.case_text(), "measured")
    assert read.value is not None
    assert abs(read.value - value) <= read.slack * (1 + 1e-9)
    assert read.slack <= abs(value) * 0.006
    assert (read.case, read.text) == (shown.case, shown.text)
    if isinstance(value, int) and unit == "count":
        assert read.slack == 0
