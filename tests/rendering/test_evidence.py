"""The machine-written parts of a ticket: what a finding's block says, the banner, and the same pattern elsewhere."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from auditkit.model.enums import Evidence, Outcome, Severity
from auditkit.model.runs.cause import Sibling, Siblings
from auditkit.model.runs.measurement import Location, Measurement
from auditkit.model.runs.run import ArmOutcome, Finding
from auditkit.rendering.evidence import MOST_SIBLINGS, render_banner, render_evidence, sibling_lines
from auditkit.store.markdown.document import Document
from tests.filing_helpers import PATH, make_finding
from tests.rendering.hostile import HOSTILE, findings


def evidence(finding: Finding) -> str:
    return render_evidence(finding).decode()


def test_the_evidence_block_says_how_where_and_what_was_measured() -> None:
    assert evidence(make_finding()) == (
        "<!-- auditkit:evidence -->\n"
        "## Evidence: norm overflows on finite gradients\n\n"
        "**Partly extrapolated:** rows marked so come from a fit, not from a measurement.\n\n"
        f"Run at `{'a' * 40}` with uncommitted changes on A 64-core CPU (cpu), Python 3.11.7, torch 2.13.0.\n\n"
        "<details>\n<summary>Fingerprint, environment, 2 measurements</summary>\n\n"
        "| Field | Value |\n|-------|-------|\n"
        "| **Fingerprint** | `norm_overflows_on_finite_grads/1/train.norms:total_norm` |\n"
        "| **Probe** | `norm_overflows_on_finite_grads` (version 3) |\n"
        "| **Target** | `train.norms:total_norm` |\n"
        "| **Outcome** | `reproduced` |\n"
        "| **Proposed severity** | `P0` |\n"
        "| **Evidence** | `measured` |\n"
        "| **Message** | reads inf from 1e19 on |\n"
        "| **Law** | `3n+1` |\n"
        "| **Location** | `src/train/norms.py:10` in `total_norm` |\n"
        f"| **Revision** | `{'a' * 40}` with uncommitted changes |\n"
        "| **Device** | A 64-core CPU (cpu) |\n"
        "| **Python** | 3.11.7 |\n"
        "| **torch** | 2.13.0 |\n"
        "| **Sandbox** | none |\n\n"
        "| Measurement | Value | Unit | Case | Evidence |\n"
        "|-------------|-------|------|------|----------|\n"
        "| `norm` | inf | value | dtype=float32, tensors=64 | measured |\n"
        "| `peak` | 3 MiB | bytes | | extrapolated |\n\n"
        "</details>\n"
        "<!-- /auditkit:evidence -->\n"
    )


def test_the_first_line_says_what_kind_of_device_answered() -> None:
    measured = (Measurement("n", 1, "count"),)
    simulated = make_finding(device="simulated", evidence=Evidence.SIMULATED, measurements=measured)
    assert "**Simulated:** CPU values behind a pretended CUDA device" in evidence(simulated).split("\n")[3]
    on_gpu = evidence(make_finding(device="cuda", measurements=measured))
    assert on_gpu.split("\n")[3].startswith("Run at `")


def test_odd_values_of_a_worker_are_shown() -> None:
    values = (None, True, float("nan"), float("-inf"), [1, 2], {"a": 1}, "text | pipe", 1.5)
    finding = make_finding(measurements=tuple(Measurement("m", value, "", {}) for value in values))
    folded = evidence(finding).partition("<details>")[2]
    cells = [row.split(" | ")[1] for row in folded.split("\n") if row.startswith("| `m`")]
    assert cells == ["none", "True", "nan", "-inf", "[1, 2]", "{'a': 1}", "text \\| pipe", "1.5"]


@settings(max_examples=100, deadline=None)
@given(findings(), st.lists(HOSTILE.filter(str.strip), max_size=3))
def test_a_block_keeps_its_history_whatever_the_finding_says(finding: Finding, history: list[str]) -> None:
    block = render_evidence(finding, history)
    (read,) = Document.parse(block, PATH).evidence
    (again,) = Document.parse(render_evidence(finding, read.history), PATH).evidence
    assert len(read.history) == len(history)
    assert again.history == read.history
    assert read.fingerprint == finding.result.fingerprint


CPU_ONLY = "**Reproduced on CPU only:** no number in this ticket comes from a GPU."
PRETENDED = (
    "**Reproduced on CPU only:** device traffic was counted behind a pretended CUDA device; "
    "no number in this ticket comes from a GPU."
)
BOTH = "**Reproduced on a GPU and on CPU:** each evidence block names its device."


@pytest.mark.parametrize(
    ("devices", "text"),
    [
        ([], CPU_ONLY),
        (["cpu", "cpu"], CPU_ONLY),
        (["cpu", "source"], CPU_ONLY),
        (["simulated"], PRETENDED),
        (["cpu", "simulated", "source"], PRETENDED),
        (["cuda"], "**Reproduced on a GPU:** its numbers were measured there."),
        (["cuda", "source"], "**Reproduced on a GPU:** its numbers were measured there."),
        (["cuda", "cpu"], BOTH),
        (["cuda", "simulated"], BOTH),
        (["source", "source"], "**Read from the source:** nothing was run."),
    ],
    ids=str,
)
def test_the_banner_says_where_all_numbers_come_from(devices: list[str], text: str) -> None:
    """One sentence for every mixture; a GPU is named only where one ran."""
    assert render_banner(devices).decode() == f"<!-- auditkit:evidence -->\n{text}\n<!-- /auditkit:evidence -->\n"


def place(line: int, is_test: bool = False) -> Sibling:
    return Sibling(Location("a|b.py" if line == 9 else "a.py", line, "read" if line != 8 else ""), is_test)


OWN = (Location("b.py", 3, "f"),)
HEAD = "**Same pattern elsewhere:**"


@pytest.mark.parametrize(
    ("siblings", "lines"),
    [
        (Siblings("x.item()"), (f"{HEAD} none; `x.item()` stands nowhere else.",)),
        (Siblings("x.item()", reason="too common"), (f"{HEAD} none is listed for `x.item()`: too common.",)),
        (Siblings(reason="too short"), (f"{HEAD} none is listed: too short.",)),
        (
            Siblings("x.item()", (place(7), place(8))),
            (f"{HEAD} `x.item()`; candidates, unproven until probed.", "", "- `a.py:7` in `read`", "- `a.py:8`"),
        ),
        (
            Siblings("x.item()", (place(7), place(5, True), place(6, True))),
            (f"{HEAD} `x.item()`; candidates, unproven until probed.", "", "- `a.py:7` in `read`",
             "- in tests 2 times, first at `a.py:5`"),
        ),
        (
            Siblings("x.item()", (), OWN),
            (f"{HEAD} none; `x.item()` stands nowhere else unprobed.", "",
             "Findings of their own in this run: `b.py:3`."),
        ),
        (
            Siblings("x.item()", (place(7),), (*OWN, *OWN)),
            (f"{HEAD} `x.item()`; candidates, unproven until probed.", "", "- `a.py:7` in `read`", "",
             "Findings of their own in this run: `b.py:3`, `b.py:3`."),
        ),
    ],
    ids=["none", "too common", "too short", "places", "tests", "all probed", "some probed"],
)  # fmt: skip
def test_the_same_pattern_elsewhere(siblings: Siblings, lines: tuple[str, ...]) -> None:
    """Candidates are called so; tests are counted, findings of the run told apart, and nothing found is said."""
    assert sibling_lines(siblings) == lines


def test_no_more_candidates_are_listed_than_can_be_read() -> None:
    listed = sibling_lines(Siblings("x.item()", tuple(map(place, range(10, 10 + MOST_SIBLINGS + 3)))))
    assert len(listed) == 2 + MOST_SIBLINGS + 1
    assert listed[-1] == "- and 3 more"


def test_the_pattern_is_listed_in_the_first_block_alone() -> None:
    finding = make_finding(siblings=Siblings("x.item()", (place(7),)))
    assert evidence(finding).count(HEAD) == 1
    below = render_evidence(finding, above=["other_probe/1/m:f"]).decode()
    assert (HEAD in below, "\n## Evidence: norm overflows" in below, "| `norm` | inf |" in below) == (False, True, True)


def test_another_target_of_the_same_probe_is_told_shortly() -> None:
    """Below a block of its own probe: which target, its own facts, and no second table of numbers."""
    block = render_evidence(make_finding(), above=["norm_overflows_on_finite_grads/1/m:f"]).decode()
    assert block.split("\n")[1] == "### The same through `total_norm`"
    assert "| **Fingerprint** | `norm_overflows_on_finite_grads/1/train.norms:total_norm` |" in block
    assert "| `norm` | inf |" not in block


def test_another_module_keeps_what_was_read_in_it() -> None:
    """What one module has says nothing of the next: its lines are listed."""
    finding = make_finding(target="train.norms", device="source")
    finding = replace(finding, probe=replace(finding.probe, scope="source"))
    block = render_evidence(finding, above=["norm_overflows_on_finite_grads/1/train.other"]).decode()
    assert block.split("\n")[1] == "### The same in `train.norms`"
    assert "| **Device** | none, the source was read (source) |" in block
    assert "| `norm` | inf |" in block
    assert "torch" not in block.partition("| **Device**")[2].partition("\n\n")[0]


def test_every_arm_has_a_row() -> None:
    environment = make_finding().environment
    arms = (
        ArmOutcome("torch 2.9.1", environment, Outcome.REPRODUCED, Severity.P3, "4 | 16", "n", "cpu"),
        ArmOutcome("torch 2.15.0", environment, Outcome.NOT_REPRODUCED, None, "flat", "", "cpu"),
    )
    text = evidence(make_finding(arms=arms, arm="torch 2.9.1"))
    assert (
        "| Arm | torch | Python | Device | Outcome | Message |\n"
        "|-----|-------|--------|--------|---------|---------|\n"
        "| torch 2.9.1 | 2.13.0 | 3.11.7 | cpu | P3 reproduced (n) | 4 \\| 16 |\n"
        "| torch 2.15.0 | 2.13.0 | 3.11.7 | cpu | not reproduced | flat |\n"
    ) in text


def test_notes_and_history_stand_at_the_end() -> None:
    text = render_evidence(make_finding(notes=("fp8 was left out",)), ["2026-03-04: returned"]).decode()
    assert text.endswith(
        "\nNote: fp8 was left out\n\n**History**\n\n- 2026-03-04: returned\n<!-- /auditkit:evidence -->\n"
    )


def judged(name: str, value: object, unit: str = "ratio", **case: object) -> Measurement:
    return Measurement(name, value, unit, {**case, "device": "cpu"})


SYNCS = tuple(judged("sync_count", n, "count", tensors=n) for n in (4, 16, 64, 256))
SYNC_LAW = judged("sync_count_law", 1.0, "per tensor", law="n", exact=True)
ERRORS = tuple(
    judged(name, value, dtype=dtype, elements=elements)
    for dtype, elements, error in (("float32", 64, 1e-8), ("bfloat16", 64, -0.2927), ("bfloat16", 4096, 1e-4))
    for name, value in (("relative_error", error), ("allowed_error", 0.01175))
)


def test_the_rows_that_decide_stand_before_the_fold() -> None:
    """What the message tells, what it was held against, and the largest case; all rows are behind them."""
    message = "the norm is off by -29.3 % in bfloat16 (64 elements); 1.2 % is allowed"
    text = evidence(make_finding(message=message, measurements=ERRORS))
    shown, _, folded = text.partition("<details>")
    rows = [row.split(" | ")[:2] for row in shown.split("\n") if row.startswith("| `")]
    assert rows == [
        ["| `relative_error`", "-0.2927"],
        ["| `allowed_error`", "0.01175"],
        ["| `relative_error`", "0.0001"],
    ]
    assert folded.count("| `relative_error` |") == 3
    (read,) = Document.parse(text.encode(), PATH).evidence
    assert read.fingerprint == make_finding().result.fingerprint


def test_the_block_of_another_probe_is_one_line_and_a_fold() -> None:
    message = "synchronisations per call: n for n tensors (256 at 256)"
    finding = make_finding(message=message, measurements=(*SYNCS, SYNC_LAW))
    shown = render_evidence(finding, above=["other_probe/1/m:f"]).decode().partition("<details>")[0]
    assert shown.split("\n")[3:] == ["Measured: sync_count 256 (tensors=256); sync_count_law 1 (law=n).", "", ""]


def test_what_was_read_is_called_read() -> None:
    """No figure of a source probe was measured, in no row and no field."""
    finding = make_finding(device="source", measurements=(judged("host_read", 7, "line"),))
    text = evidence(replace(finding, probe=replace(finding.probe, scope="source")))
    assert "measured |" not in text
    assert ("| **Evidence** | `read` |" in text, text.count("| read |")) == (True, 1)
