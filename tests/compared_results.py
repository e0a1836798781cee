"""Comparisons and saved runs of our own invention, for tests that start no worker."""

from __future__ import annotations

from typing import Any

from auditkit.model.answer_changes import compare_answers
from auditkit.model.enums import Evidence, Outcome, Severity
from auditkit.model.revisions.changes import Changes, Commit, FileChange
from auditkit.model.revisions.comparison import (
    Comparison,
    Contrast,
    FunctionText,
    MatchState,
    TargetComparison,
    TargetMatch,
)  # fmt: skip
from auditkit.model.runs.measurement import CodeExcerpt, Location, Measurement
from auditkit.model.runs.run import SOURCE_DEVICE, Environment, ProbeResult, Run, fingerprint
from auditkit.trials.comparison import contrast, contrast_source

TARGET = "trainer.stats:total_norm"
SYNCS, LAUNCHES = "syncs_grow_with_tensors", "launches_grow_with_tensors"
MEMORY, OVERFLOW = "peak_memory_grows_with_params", "norm_overflows_on_finite_grads"
PRIVATE = "private_torch_api_without_fallback"
BASE = Environment(
    "trainer@v1", "a" * 40, False, "3.11.7", "2.13.0", "cpu", "A CPU", "python", "Linux", "0.1.0"
)  # fmt: skip
HEAD = Environment("trainer@v2", "b" * 40, False, "3.11.7", "2.13.0", "cpu", "A CPU", "python", "Linux", "0.1.0")
MESSAGE = """perf: one kernel for all gradients

Reduces CUDA syncs from O(n_params) to O(1)
per gradient group.

- Fewer kernel launches
- Same results as before
- Cuts peak memory
- Fixes the overflow of large norms
- Tests pass

Co-Authored-By: A sync that nobody wrote <a@example.org>
"""


def result(
    probe: str, outcome: Outcome, *figures: Measurement, law: str = "", target: str = TARGET, **more: Any
) -> ProbeResult:
    """What a probe said; a finding is P2 unless `more` says otherwise."""
    severity = Severity.P2 if outcome is Outcome.REPRODUCED else None
    simulated = probe in (SYNCS, LAUNCHES)
    fields: dict[str, Any] = {
        "severity": severity,
        "evidence": Evidence.SIMULATED if simulated else Evidence.MEASURED,
        "device": "simulated" if simulated else "cpu",
        "law": law,
        "measurements": figures,
        "location": Location("trainer/stats.py", 7, "total_norm") if severity else None,
        **more,
    }
    if fields["device"] == SOURCE_DEVICE:
        fields["evidence"] = Evidence.MEASURED
    message = f"{law or outcome.value} for n tensors"
    return ProbeResult(probe, 1, target, outcome, message, fingerprint(probe, target), **fields)


def counts(name: str, law: str, slope: int, constant: int, outcome: Outcome) -> ProbeResult:
    """A probe that counts at 4 and 256 tensors."""
    probe = {"sync_count": SYNCS, "launch_count": LAUNCHES}[name]
    simulated = Evidence.SIMULATED
    rows = [Measurement(name, slope * n + constant, "count", {"tensors": n}, simulated) for n in (4, 256)]
    return result(probe, outcome, *rows, law=law)


def run(environment: Environment, *results: ProbeResult) -> Run:
    return Run("20260304T050607Z-abcdef", environment, results)


def before() -> list[ProbeResult]:
    ratio = Measurement("peak_extra_per_gradient_byte", 0.1, "ratio", {"params": 10**8, "tensors": 10})
    return [
        counts("sync_count", "1", 0, 1, Outcome.NOT_REPRODUCED),
        counts("launch_count", "3n+1", 3, 1, Outcome.REPRODUCED),
        result(MEMORY, Outcome.NOT_REPRODUCED, ratio, law="0.1 bytes per gradient byte"),
        result(OVERFLOW, Outcome.REPRODUCED, severity=Severity.P1),
    ]


def after() -> list[ProbeResult]:
    ratio = Measurement("peak_extra_per_gradient_byte", 2.0, "ratio", {"params": 10**8, "tensors": 10})
    return [
        counts("sync_count", "1", 0, 1, Outcome.NOT_REPRODUCED),
        counts("launch_count", "5", 0, 5, Outcome.NOT_REPRODUCED),
        result(MEMORY, Outcome.REPRODUCED, ratio, law="2 bytes per gradient byte"),
        result(OVERFLOW, Outcome.REPRODUCED, severity=Severity.P1),
    ]


def answers(*values: float) -> list[Measurement]:
    """One number for each set of gradients, whose exact norm is 10."""
    rows = []
    for seed, value in enumerate(values):
        case = {"family": "seeded", "seed": seed}
        rows += [
            Measurement("exact_norm", 10.0, "norm", case),
            Measurement("allowed_difference", 1e-3, "ratio", case),
            Measurement("answer", value, "value", {**case, "field": "norm"}),
        ]
    return rows


def text(body: str) -> FunctionText:
    lines = ("def total_norm(parameters):", f"    return {body}")
    return FunctionText(CodeExcerpt("trainer/stats.py", 7, lines), "total_norm(parameters)")


def comparison(
    base: list[ProbeResult] | None = None,
    head: list[ProbeResult] | None = None,
    values: tuple[list[Measurement], list[Measurement]] = (answers(10.0, 10.0), answers(10.0, 10.001)),
    message: str = MESSAGE,
    source: tuple[Contrast, ...] | None = None,
) -> Comparison:
    """Fewer launches, the same syncs, more memory, the overflow as it was, one private name more."""
    ours, theirs = before() if base is None else base, after() if head is None else head
    contrasts = tuple(contrast(one, other) for one, other in zip(ours, theirs, strict=True))
    match = TargetMatch(TARGET, TARGET, MatchState.CHANGED, 0.86, text("old"), text("new"))
    private = result(PRIVATE, Outcome.REPRODUCED, device=SOURCE_DEVICE, target="trainer.stats", severity=Severity.P4)
    clean = result(PRIVATE, Outcome.NOT_REPRODUCED, device=SOURCE_DEVICE, target="trainer")
    changes = Changes(
        (Commit("b" * 40, "A. Author", "2026-03-04", message),),
        (FileChange("trainer/stats.py", "trainer/stats.py", 8, 13), FileChange("tests/test_stats.py", "", 31, 0)),
    )
    return Comparison(
        "trainer",
        BASE,
        HEAD,
        (TargetComparison(match, contrasts, compare_answers(*values)),),
        contrast_source([clean], [private], {}) if source is None else source,
        changes,
    )
