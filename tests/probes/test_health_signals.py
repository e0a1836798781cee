"""Ways in which a collector says that gradients are not finite, and answers that say nothing of it."""

from __future__ import annotations

import enum
import math
from collections.abc import Callable
from typing import Any

import pytest
import torch

from tests.probes.in_process import ask
from tests.probing_helpers import HEALTH


class State(enum.Enum):
    FINE = 1
    BROKEN = 2


def norm(grads: Any) -> float:
    """Without what is not finite: the number alone tells nothing."""
    return math.sqrt(sum(torch.nan_to_num(grad, 0, 0, 0).double().square().sum().item() for grad in grads))


def is_bad(grads: Any) -> bool:
    return not all(bool(torch.isfinite(grad).all()) for grad in grads)


def bad_layers(grads: Any) -> list[str]:
    return [f"layer{index}" for index, grad in enumerate(grads) if is_bad([grad])]


SIGNALS: dict[str, Callable[[Any], Any]] = {
    "a flag": lambda grads: {"norm": norm(grads), "bad": is_bad(grads)},
    "a flag as a float": lambda grads: {"norm": norm(grads), "bad": float(is_bad(grads))},
    "a flag as a tensor": lambda grads: {"norm": norm(grads), "bad": torch.tensor(is_bad(grads))},
    "a flag as a float tensor of one element": lambda grads: {
        "norm": norm(grads),
        "bad": torch.ones(1) * is_bad(grads),
    },
    "no number": lambda grads: {"norm": None if is_bad(grads) else norm(grads)},
    "no answer": lambda grads: None if is_bad(grads) else norm(grads),
    "a text": lambda grads: {"norm": norm(grads), "state": "nan" if is_bad(grads) else "ok"},
    "a member": lambda grads: {"norm": norm(grads), "state": State.BROKEN if is_bad(grads) else State.FINE},
    "a list of names": lambda grads: {"norm": norm(grads), "layers": bad_layers(grads)},
    "a list of the others": lambda grads: (norm(grads), [f"{g.dim()}d" for g in grads if not is_bad([g])]),
    "a count of another name": lambda grads: {"norm": norm(grads), "skipped": len(bad_layers(grads))},
}
SILENT: dict[str, Callable[[Any], Any]] = {
    "the norm of the rest": norm,
    "its text": lambda grads: {"norm": norm(grads), "text": f"{norm(grads):.6f}"},
    "the name of the largest": lambda grads: (norm(grads), f"layer{max(range(3), key=lambda i: norm([grads[i]]))}"),
    "a constant text": lambda grads: {"norm": norm(grads), "state": "ok", "unit": None},
}


@pytest.mark.parametrize("way", SIGNALS)
def test_each_way_to_say_so_is_heard(way: str) -> None:
    answer = ask(HEALTH, SIGNALS[way])
    assert (answer.outcome, set(answer.values("visible"))) == ("not_reproduced", {True})


@pytest.mark.parametrize("way", SILENT)
def test_what_differs_for_any_gradients_says_nothing(way: str) -> None:
    assert ask(HEALTH, SILENT[way]).outcome == "reproduced"


def test_a_health_value_that_stays_perfect_is_a_finding_where_another_field_tells() -> None:
    """The control is one that drops."""
    stays = ask(HEALTH, lambda grads: {"norm": norm(grads), "health": 1.0, "bad": is_bad(grads)})
    assert (stays.outcome, stays.severity) == ("reproduced", "P2")
    assert stays.message == "health stays as it is for a planted nan and inf, which other fields tell"
    drops = ask(HEALTH, lambda grads: {"norm": norm(grads), "health": 1.0 - is_bad(grads), "bad": is_bad(grads)})
    assert drops.outcome == "not_reproduced"


def groups(grads: Any, health: Callable[[Any], float]) -> dict[str, Any]:
    parts = {"host": grads[:1], "seed": grads[1:]}
    return {name: {"norm": norm(part), "bad": is_bad(part), "health": health(part)} for name, part in parts.items()}


def test_the_health_of_another_part_of_the_answer_may_stay() -> None:
    """The control: the health of the part that has the gradient stays too."""
    assert ask(HEALTH, lambda grads: groups(grads, lambda part: 1.0 - is_bad(part))).outcome == "not_reproduced"
    stays = ask(HEALTH, lambda grads: groups(grads, lambda part: 1.0))
    assert (stays.outcome, stays.severity) == ("reproduced", "P2")
    beside = ask(HEALTH, lambda grads: {"bad": is_bad(grads), "host": {"norm": norm(grads), "health": 1.0}})
    assert (beside.outcome, beside.severity) == ("reproduced", "P2")


def first_is_finite(grads: Any) -> bool:
    return not is_bad(grads[:1])


def has_nan(grads: Any) -> bool:
    return any(bool(grad.isnan().any()) for grad in grads)


def grads_are_finite(grads: Any) -> bool:
    return not has_nan(grads)


def count_of_first(grads: Any) -> int:
    return len(bad_layers(grads[:1]))


def is_large(grads: Any) -> bool:
    return norm(grads) > 10.0


def clip_values(grads: Any) -> None:
    for grad in grads:
        grad.clamp_(-0.5, 0.5)


@pytest.mark.parametrize(
    ("function", "outcome", "message"),
    [
        (first_is_finite, "reproduced", "a planted nan and inf in a gradient of 1 dimension or"),
        (count_of_first, "reproduced", "a planted nan and inf in a gradient of 1 dimension or"),
        (grads_are_finite, "reproduced", "a planted inf is not flagged"),
        (has_nan, "not_reproduced", "a check for one of NaN and Inf makes it visible (nan: answer)"),
        (is_large, "not_applicable", "it promises no check"),
        (clip_values, "not_applicable", "it returns nothing that could tell"),
    ],
)
def test_a_check_is_held_to_what_it_promises(function: Callable[[Any], Any], outcome: str, message: str) -> None:
    answer = ask(HEALTH, function)
    assert (answer.outcome, message in answer.message) == (outcome, True), answer.message


@pytest.mark.parametrize(
    ("flag", "tells", "outcome"),
    [
        ("exploding", lambda norm: norm > 100.0, "reproduced"),
        ("has_nan", lambda norm: norm == math.nan, "reproduced"),
        ("exploding", lambda norm: not norm <= 100.0, "not_reproduced"),
        ("will_clip", lambda norm: norm > 100.0, "not_reproduced"),
    ],
)
def test_an_alarm_that_stays_off_beside_a_norm_that_tells_is_a_finding(
    flag: str, tells: Callable[[float], bool], outcome: str
) -> None:
    def watch(grads: Any) -> dict:
        total = torch.stack([grad.norm() for grad in grads]).norm().item()
        return {"norm": total, flag: tells(total)}

    answer = ask(HEALTH, watch)
    severity = "P2" if outcome == "reproduced" else None
    assert (answer.outcome, answer.severity) == (outcome, severity)
    if severity:
        assert answer.message == f"{flag} stays as it is for a planted nan, which other fields tell"
