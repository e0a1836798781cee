"""Which answers were right: those to ordinary gradients, and of others what is near the exact norm or counts."""

from __future__ import annotations

from typing import Any

import pytest

from auditkit.model.runs.measurement import Measurement
from auditkit.trials.right_answers import SPARSE, changed_answers, told

INF, NAN = float("inf"), float("nan")
ROLES = {"norm": "norm", "nan_count": "nans"}
HIDES, EMPTY = "nonfinite_grads_look_healthy", "empty_input_changes_result_type"


def answers(fields: dict[str, Any], exact: float, **case: Any) -> list[Measurement]:
    """The record of one case, as the probe writes it."""
    case = {"family": "seeded", "dtype": "float32", **case}
    known = [("exact_norm", exact, "norm"), ("allowed_difference", 1e-5, "ratio")]
    found = [Measurement(name, value, unit, case) for name, value, unit in known]
    if "raises" in fields:
        return [*found, Measurement("raises", fields["raises"], "text", case)]
    return [*found, *(Measurement("answer", value, "value", {**case, "field": name}) for name, value in fields.items())]


MAGNITUDES = {"family": "magnitudes"}
PLANTED = {"family": "special values", "planted": "2 nans"}
STORED = {"layout": "sparse, coalesced"}
NONE = {"family": "missing and empty", "gradients": "none"}
# Base's fields, head's fields, the exact norm, the case, the findings, and which fields were right and are others.
TABLE: list[tuple[dict[str, Any], dict[str, Any], float, dict[str, Any], tuple[str, ...], list[str]]] = [
    ({"norm": 3.0}, {"norm": 3.000001}, 3.0, {}, (), []),
    ({"norm": 3.0}, {"norm": 3.1}, 3.0, {}, (), ["norm"]),
    ({"norm": 3.1}, {"norm": 3.0}, 3.0, {}, (), []),
    ({"count": 4}, {"count": 5}, 3.0, {}, (), ["count"]),
    ({"mean": 1e-9}, {"mean": 2e-9}, 3.0, {}, (), []),
    ({"share": 0.25}, {"share": 0.5}, 3.0, {}, (), ["share"]),
    ({"norm": 3.0, "nans": 0}, {"norm": 3.0}, 3.0, {}, (), ["nans"]),
    ({"norm": 3.0}, {"norm": 3.0, "more": 1.0}, 3.0, {}, (), []),
    ({"norm": 3.0}, {"raises": "ValueError"}, 3.0, {}, (), ["norm", "(raises)"]),
    ({"raises": "ValueError"}, {"norm": 3.0}, 3.0, {}, (), []),
    ({"norm": INF}, {"norm": 3e20}, 3e20, {**MAGNITUDES, "magnitude": 1e20}, (), []),
    ({"mean": 1e-30}, {"mean": 2e-30}, 3e-30, {**MAGNITUDES, "magnitude": 1e-30}, (), []),
    ({"norm": 3e4}, {"norm": 3.1e4}, 3e4, {**MAGNITUDES, "magnitude": 1e4}, (), ["norm"]),
    ({"mean": 1.0}, {"mean": 1.1}, 3.0, {"dtype": "bfloat16"}, (), []),
    ({"mean": 1.0}, {"mean": INF}, 3.0, {"dtype": "bfloat16"}, (), ["mean"]),
    ({"norm": NAN}, {"norm": 2.0}, NAN, PLANTED, (), ["norm"]),
    ({"norm": 2.0}, {"norm": NAN}, NAN, PLANTED, (HIDES,), []),
    ({"norm": NAN, "nans": 2}, {"norm": NAN, "nans": 0}, NAN, PLANTED, (HIDES,), ["nans"]),
    ({"healthy": True}, {"healthy": False}, NAN, PLANTED, (HIDES,), []),
    ({"healthy": False}, {"healthy": True}, NAN, PLANTED, (), ["healthy"]),
    ({"healthy": True}, {}, NAN, PLANTED, (HIDES,), []),
    ({"healthy": True}, {}, NAN, PLANTED, (), ["healthy"]),
    ({"nans": 2}, {}, NAN, PLANTED, (HIDES,), ["nans"]),
    ({"": 0.0}, {"norm": 0.0}, 0.0, NONE, (), [""]),
    ({"": 0.0}, {"norm": 0.0}, 0.0, NONE, (EMPTY,), []),
    ({"mean": 1.0}, {"mean": 2.0}, 3.0, STORED, (), ["mean"]),
    ({"mean": 1.0}, {"mean": 2.0}, 3.0, STORED, (SPARSE,), []),
    ({"mean": 1.0}, {"mean": NAN}, 3.0, STORED, (SPARSE,), ["mean"]),
    ({"mean": 1.0}, {"mean": 2.0}, 3.0, {}, (SPARSE,), ["mean"]),
]


@pytest.mark.parametrize(("base", "head", "exact", "case", "findings", "changed"), TABLE)
def test_what_was_right_and_is_another(
    base: dict[str, Any],
    head: dict[str, Any],
    exact: float,
    case: dict[str, Any],
    findings: tuple[str, ...],
    changed: list[str],
) -> None:
    found = changed_answers(answers(base, exact, **case), answers(head, exact, **case), ROLES, findings)
    assert [one.field for one in found] == changed


def test_a_change_is_told_with_its_case() -> None:
    (found,) = changed_answers(answers({"norm": 3.0}, 3.0, seed=1), answers({"norm": 4.0}, 3.0, seed=1), ROLES, ())
    assert told(found) == "norm of dtype float32, seed 1: 3 -> 4"
