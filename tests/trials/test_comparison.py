"""What became of an answer: fixed, introduced, still so, better or worse; and what may not be compared at all."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import pytest

from auditkit.model.enums import Evidence, Outcome, Reason, Severity
from auditkit.model.figure_trends import compare_figures
from auditkit.model.revisions.comparison import Change, Trend
from auditkit.model.runs.measurement import Measurement
from auditkit.model.runs.run import SOURCE_DEVICE, ProbeResult
from auditkit.trials.comparison import contrast, contrast_added, contrast_source

FOUND, SOUND, ERROR, ABSENT_DEVICE, NOT_ASKED = (
    Outcome.REPRODUCED, Outcome.NOT_REPRODUCED, Outcome.ERROR, Outcome.UNAVAILABLE, Outcome.NOT_APPLICABLE,
)  # fmt: skip


def said(outcome: Outcome = FOUND, *figures: Measurement, **more: Any) -> ProbeResult:
    severity = Severity.P2 if outcome is FOUND else None
    evidence = Evidence.MEASURED if outcome in (FOUND, SOUND) else None
    fields = {"severity": severity, "evidence": evidence, "device": "cpu", "measurements": figures, **more}
    return ProbeResult("probe", 1, "stats:norm", outcome, outcome.value, "probe/1/stats:norm", **fields)


def figure(name: str, value: Any, unit: str = "count", **case: Any) -> Measurement:
    return Measurement(name, value, unit, case)


@pytest.mark.parametrize(
    ("before", "after", "change"),
    [
        (FOUND, SOUND, Change.FIXED),
        (SOUND, FOUND, Change.INTRODUCED),
        (FOUND, FOUND, Change.STILL_REPRODUCED),
        (SOUND, SOUND, Change.STILL_SOUND),
        (NOT_ASKED, NOT_ASKED, Change.NOT_APPLICABLE),
        (NOT_ASKED, FOUND, Change.INTRODUCED),
        (FOUND, NOT_ASKED, Change.NOT_COMPARABLE),
        (FOUND, ERROR, Change.NOT_COMPARABLE),
        (ERROR, SOUND, Change.NOT_COMPARABLE),
        (FOUND, ABSENT_DEVICE, Change.NOT_COMPARABLE),
        (ABSENT_DEVICE, ABSENT_DEVICE, Change.NOT_COMPARABLE),
    ],
)
def test_two_outcomes_are_one_change(before: Outcome, after: Outcome, change: Change) -> None:
    """An error, a missing device, a question that no longer applies: never a fix."""
    assert contrast(said(before), said(after)).change is change


@pytest.mark.parametrize(
    ("more", "reason"),
    [
        ({"probe_version": 2}, "the probes differ: version 1 at the base, 2 at the head"),
        ({"device": "simulated"}, "the devices differ: cpu at the base, simulated at the head"),
        ({"evidence": Evidence.SIMULATED}, "the evidence differs: measured at the base, simulated at the head"),
        (
            {"measurements": (figure("norm", 1.0, dtype="float32"),)},
            "other dtypes: bfloat16 measured at the base alone",
        ),
    ],
    ids=str,
)
def test_what_was_measured_otherwise_is_not_comparable(more: dict[str, Any], reason: str) -> None:
    """A defect in bfloat16 is not fixed by a head that was only asked in float32."""
    base = said(FOUND, figure("norm", 1.0, dtype="float32"), figure("norm", 2.0, dtype="bfloat16"))
    head = replace(said(SOUND, *base.measurements), **more)
    assert (contrast(base, head).change, contrast(base, head).reason) == (Change.NOT_COMPARABLE, reason)
    assert contrast(base, said(SOUND, *base.measurements)).change is Change.FIXED


@pytest.mark.parametrize(
    ("before", "after", "trend"),
    [
        (figure("launch_count", 13), figure("launch_count", 5), Trend.BETTER),
        (figure("launch_count", 13), figure("launch_count", 14), Trend.WORSE),
        (figure("peak_extra_per_gradient_byte", 2.0, "ratio"), figure("peak_extra_per_gradient_byte", 2.0, "ratio"),
         Trend.SAME),
        (figure("breaking_norm", 1e19, "norm"), figure("breaking_norm", 1e20, "norm"), Trend.BETTER),
        (figure("breaking_norm", 1e19, "norm"), figure("breaking_norm", None, "norm"), Trend.BETTER),
        (figure("vanishing_magnitude", None, "magnitude"), figure("vanishing_magnitude", 1e-30, "magnitude"),
         Trend.WORSE),
        (figure("count_error", -1), figure("count_error", 1), Trend.SAME),
        (figure("sound", False, "truth"), figure("sound", True, "truth"), Trend.BETTER),
        (figure("raises", False, "truth"), figure("raises", True, "truth"), Trend.WORSE),
        (figure("value", 1.0, "value"), figure("value", 2.0, "value"), Trend.MOVED),
        (figure("health", "ok", "value"), figure("health", "ok", "value"), Trend.SAME),
        (figure("relative_difference", 0.5, "ratio"), figure("relative_difference", 0.5 + 1e-8, "ratio"), Trend.SAME),
        (figure("relative_difference", math.inf, "ratio"), figure("relative_difference", 0.5, "ratio"), Trend.BETTER),
        (figure("held_bytes", 5316, "bytes", memory="NumPy and Python"),
         figure("held_bytes", 5541, "bytes", memory="NumPy and Python"), Trend.SAME),
        (figure("held_bytes", 5316, "bytes", memory="tensors"), figure("held_bytes", 5317, "bytes", memory="tensors"),
         Trend.WORSE),
    ],
    ids=str,
)  # fmt: skip
def test_a_figure_goes_one_way(before: Measurement, after: Measurement, trend: Trend) -> None:
    """Counters by equality, boundaries of None as the best, truths by what they say, Python's memory with its noise."""
    (compared,) = compare_figures([before], [after])
    assert compared.trend is trend
    assert contrast(said(FOUND, before), said(FOUND, after)).trend is trend


def test_a_severity_outweighs_the_figures() -> None:
    base = said(FOUND, figure("launch_count", 4), severity=Severity.P3)
    head = said(FOUND, figure("launch_count", 2), severity=Severity.P1)
    assert contrast(base, head).trend is Trend.WORSE
    assert contrast(head, base).trend is Trend.BETTER


def test_better_here_and_worse_there_is_worse() -> None:
    """A mixed finding does not pass."""
    base = said(FOUND, figure("n", 4, tensors=4), figure("n", 9, tensors=8))
    head = said(FOUND, figure("n", 5, tensors=4), figure("n", 8, tensors=8))
    compared = contrast(base, head)
    assert (compared.trend, compared.is_worse) == (Trend.MIXED, True)
    assert contrast(base, base).is_worse is False
    assert contrast(said(SOUND, *base.measurements), said(SOUND, *head.measurements)).is_worse is False


def test_a_finding_of_a_new_target_came_with_it() -> None:
    assert contrast_added(said(FOUND)).change is Change.INTRODUCED
    assert contrast_added(said(SOUND)).change is Change.NOT_COMPARABLE
    assert contrast_added(said(NOT_ASKED)).change is Change.NOT_APPLICABLE


def read(outcome: Outcome, target: str, *figures: Measurement, **more: Any) -> ProbeResult:
    return replace(said(outcome, *figures, device=SOURCE_DEVICE), target=target, **more)


def test_source_is_matched_by_what_it_is_about() -> None:
    """Also where its module was renamed; more places of the same finding are worse."""
    base = [read(FOUND, "old.stats", figure("line", 3, "line")), read(FOUND, "gone")]
    head = [read(FOUND, "new.stats", figure("line", 4, "line"), figure("line", 9, "line")), read(FOUND, "fresh")]
    found = {one.target: (one.change, one.trend) for one in contrast_source(base, head, {"old.stats": "new.stats"})}
    assert found == {
        "new.stats": (Change.STILL_REPRODUCED, Trend.WORSE),
        "gone": (Change.FIXED, Trend.BETTER),
        "fresh": (Change.INTRODUCED, Trend.WORSE),
    }
    assert [one.change for one in contrast_source([read(SOUND, "a")], [read(SOUND, "a")], {})] == [Change.STILL_SOUND]


def test_source_that_cannot_be_read_fixes_nothing() -> None:
    """A file that does not parse at the head hides its findings; one that never did says nothing of the change."""
    broken = read(ERROR, "stats.py", reason=Reason.NOT_PARSED)
    base, sound = [read(FOUND, "stats")], read(SOUND, "package")
    assert [one.change for one in contrast_source(base, [sound, broken], {})] == [Change.NOT_COMPARABLE]
    assert [one.change for one in contrast_source([*base, broken], [sound, broken], {})] == [Change.FIXED]
    assert [one.change for one in contrast_source(base, [], {})] == [Change.NOT_COMPARABLE]
