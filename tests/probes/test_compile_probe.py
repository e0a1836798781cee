"""What the compile probe says of each specimen: where it breaks, how bad that is, and what is the price of a read."""

from __future__ import annotations

import pytest

from tests.probes.in_process import run_here
from tests.probes.specimens import SPECIMEN, target_of
from tests.probing_helpers import GRAPHS, values

pytestmark = pytest.mark.acceptance


def result_of(kind: str, function: str):
    """In this process: a worker of its own takes 9 s, and test_contract.py asks this probe in workers, too."""
    return run_here(SPECIMEN, target_of(kind, f"compile:{function}"), [GRAPHS]).results[0]


@pytest.mark.parametrize(
    ("function", "severity", "law", "reason"),
    [
        ("branching_share", "P4", "1", "Data-dependent branching"),
        ("read_layer_norms", "P4", "n-1", "item()"),
        ("collect_logged_async", "P4", "1", "logging.Logger"),
    ],
)
def test_a_cut_call_is_reported_with_its_law_and_reason(function: str, severity: str, law: str, reason: str) -> None:
    result = result_of("defective", function)
    assert (result.outcome.value, result.severity and result.severity.value, result.law) == (
        "reproduced",
        severity,
        law,
    )
    assert reason in result.message
    assert result.location is not None
    assert result.location.file == "gradmon/defective_compile.py"


def test_a_read_behind_the_last_operator_is_shown_and_not_judged() -> None:
    """One graph and one break: the price of an answer in numbers."""
    result = result_of("sound", "selected_share")
    assert result.outcome.value == "not_reproduced"
    assert values(result, "graph_count") == [1, 1, 1]
    assert values(result, "break_count") == [1, 1, 1]
    assert values(result, "judged_break_count") == [0]


def test_an_asynchronous_step_needs_no_break_at_all() -> None:
    result = result_of("sound", "collect_quiet_async")
    assert result.outcome.value == "not_reproduced"
    assert values(result, "break_count") == [0, 0, 0]
    assert values(result, "fullgraph_failures") == [0]


def test_a_function_kept_out_of_compiled_code_is_not_applicable() -> None:
    result = result_of("sound", "eager_layer_norms")
    assert result.outcome.value == "not_applicable"
    assert "torch.compiler.disable" in result.message
