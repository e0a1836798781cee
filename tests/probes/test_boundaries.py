"""The numbers that probes find on the bundled specimen, against arithmetic done by hand."""

from __future__ import annotations

import math
import time
from resource import RUSAGE_CHILDREN, getrusage

import pytest

from auditkit.model.enums import Evidence
from auditkit.model.runs.target import Target
from tests.probes.specimens import SPECIMEN, audited
from tests.probing_helpers import (
    ASYNC,
    COUNTS,
    HEALTH,
    LAUNCHES,
    MEMORY,
    OVERFLOW,
    SYNCS,
    UNDERFLOW,
    by_probe,
    run_probes,
    values,
)

pytestmark = pytest.mark.acceptance

MILLION = 1 << 20


def of(function: str, probe: str, module: str = "defective"):
    return by_probe(audited(module, function))[probe]


def test_a_float32_norm_breaks_at_two_to_the_64() -> None:
    """1.84e19: the square is 2**128. With a million elements that is 1.8e16 for each of them."""
    result = of("squared_sum_norm", OVERFLOW)
    assert values(result, "breaking_norm", dtype="float32") == [2.0**64, 2.0**64]
    assert values(result, "breaking_magnitude", dtype="float32", elements=MILLION) == [2.0**54]
    assert values(result, "norm", magnitude=1e20) == [math.inf]
    assert values(result, "expected_norm") == [pytest.approx(6.4e21)]
    assert result.location is not None
    assert result.location.line == 19


def test_float64_accumulation_breaks_only_at_its_own_range() -> None:
    """1.34e154: the square is 2**1024. Nothing else is found."""
    result = of("foreach_norm", OVERFLOW, "sound")
    assert values(result, "breaking_norm", dtype="float64") == [2.0**512]
    for dtype in ("float32", "float16", "bfloat16", "mixed"):
        assert set(values(result, "breaking_norm", dtype=dtype)) == {None}


def test_a_float16_norm_breaks_at_its_largest_number() -> None:
    """65,536 is the first power of two above 65,504; the norm of a thousand times 2**11 is 2**16."""
    result = of("per_layer_norms", OVERFLOW)
    assert values(result, "breaking_norm", dtype="float16", elements=MILLION) == [65536.0]
    assert values(result, "breaking_magnitude", dtype="float16", elements=MILLION) == [64.0]


def test_a_float32_square_vanishes_below_two_to_the_minus_75() -> None:
    """The smallest subnormal float32 is 2**-149: half a unit of it rounds to zero."""
    (magnitude,) = values(of("squared_sum_norm", UNDERFLOW), "vanishing_magnitude", dtype="float32")
    assert magnitude == 2.0**-75
    assert values(of("foreach_norm", UNDERFLOW, "sound"), "vanishing_magnitude") == [None] * 4


def test_float32_counts_are_wrong_from_two_to_the_24_plus_one() -> None:
    result = of("concatenated_quality", COUNTS)
    assert values(result, "count_error", planted=2**24 + 1) == [-1, -1, -1]
    assert values(result, "count_error", planted=2**20 + 1) == [0, 0, 0]
    assert set(values(of("counted_quality", COUNTS, "sound"), "count_error")) == {0}


@pytest.mark.parametrize(
    ("module", "function", "sync_law", "launch_law"),
    [
        ("defective", "squared_sum_norm", "1", "3n"),
        ("defective", "double_copies_norm", "1", "n+3"),
        ("defective", "per_layer_norms", "n", "n"),
        ("defective", "concatenated_quality", "1", "13"),
        ("defective", "collect_health_async", "4", "10"),
        ("defective", "IsolationMonitor.check_isolation", "1", "3n+1"),
        ("sound", "foreach_norm", "1", "3"),
        ("sound", "stacked_layer_norms", "1", "6"),
        ("sound", "counted_quality", "1", "13"),
        ("sound", "collect_health_async", "1", "9"),
        ("sound", "IsolationMonitor.check_isolation", "1", "3"),
    ],
)
def test_traffic_laws_are_exact(module: str, function: str, sync_law: str, launch_law: str) -> None:
    syncs, launches = of(function, SYNCS, module), of(function, LAUNCHES, module)
    assert (syncs.law, launches.law) == (sync_law, launch_law)
    assert (syncs.device, syncs.evidence) == ("simulated", Evidence.SIMULATED)


def test_the_hidden_read_of_an_asynchronous_step_is_counted_alone() -> None:
    """One in collecting, three in finishing: the sync probe sees 4, this one 1, and names the line."""
    result = of("collect_health_async", ASYNC)
    assert values(result, "collect_sync_count") == [1, 1]
    assert result.location is not None
    assert (result.location.line, result.location.function) == (76, "collect_health_async")
    assert values(of("collect_health_async", ASYNC, "sound"), "collect_sync_count") == [0, 0]


def test_a_nan_norm_leaves_perfect_health() -> None:
    result = of("collect_health_async", HEALTH)
    stays = "health 1.0 for nan, has_exploding False for nan"
    assert result.message == f"a planted nan is not flagged: {stays}, norm nan for nan"


@pytest.mark.parametrize(
    ("module", "function", "in_ten", "in_one"),
    [
        ("defective", "concatenated_quality", 3.25, 3.25),
        ("defective", "double_copies_norm", 2.0, 2.0),
        ("defective", "squared_sum_norm", 0.1, 1.0),
        ("defective", "per_layer_norms", 0.0, 0.0),
        ("sound", "foreach_norm", 0.2, 2.0),
    ],
)
def test_memory_is_exact_in_both_shapes(module: str, function: str, in_ten: float, in_one: float) -> None:
    """A square of each tensor is a tenth of ten and the whole of one."""
    result = of(function, MEMORY, module)
    case = {"params": 10_000_000}
    ratios = {n: values(result, "peak_extra_per_gradient_byte", tensors=n, **case) for n in (1, 10)}
    assert ratios == {1: [pytest.approx(in_one, abs=1e-3)], 10: [pytest.approx(in_ten, abs=1e-3)]}


def test_what_was_not_measured_is_called_extrapolated() -> None:
    measured = of("concatenated_quality", MEMORY).measurements
    billion = [m for m in measured if m.case.get("params") == 1_000_000_000]
    assert {m.evidence for m in billion} == {Evidence.EXTRAPOLATED}
    assert [m.value for m in billion if m.unit == "ratio"] == [pytest.approx(3.25, abs=1e-3)]
    assert billion[0].case["residual_bytes"] < 4096


@pytest.mark.slow
def test_a_hundred_million_parameters_are_measured_within_a_minute() -> None:
    """The sizes that an audit uses, on the target that takes most: under 60 s of CPU and 16 GB."""
    before = getrusage(RUSAGE_CHILDREN)
    started = time.monotonic()
    target = Target("gradmon.defective:concatenated_quality")
    result = run_probes(SPECIMEN, target, [MEMORY], options={}).results[0]
    after = getrusage(RUSAGE_CHILDREN)
    (ratio,) = values(result, "peak_extra_per_gradient_byte", params=100_000_000)
    assert ratio == pytest.approx(3.25, abs=1e-3)
    assert after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime < 60.0
    assert time.monotonic() - started < 120.0
    assert after.ru_maxrss * 1024 < 16e9
