"""Ways in which a collector says that gradients are not finite, and answers that say nothing of it."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import pytest
import torch

from tests.probes.in_process import ask
from tests.probing_helpers import HEALTH


def norm(grads: Any) -> float:
    """Without what is not finite: the number alone tells nothing."""
    return math.sqrt(sum(torch.nan_to_num(grad, 0, 0, 0).double().square().sum().item() for grad in grads))


def is_bad(grads: Any) -> bool:
    return not all(bool(torch.isfinite(grad).all()) for grad in grads)


def bad_layers(grads: Any) -> list[str]:
    return [f"layer{index}" for index, grad in enumerate(grads) if is_bad([grad])]


def groups(grads: Any, health: Callable[[Any], float]) -> dict[str, Any]:
    parts = {"host": grads[:1], "seed": grads[1:]}
    return {name: {"norm": norm(part), "bad": is_bad(part), "health": health(part)} for name, part in parts.items()}


def count_of_first(grads: Any) -> int:
    return len(bad_layers(grads[:1]))


def is_large(grads: Any) -> bool:
    return norm(grads) > 10.0


FOUND, HEARD = "reproduced P1", "not_reproduced"
STAYS = "does not change for a planted nan"
# A collector, what is said of it, and a part of the message.
CASES: dict[str, tuple[Callable[[Any], Any], str, str]] = {
    "a list of the others": (lambda g: (norm(g), [f"{each.dim()}d" for each in g if not is_bad([each])]), HEARD, ""),
    "the norm of the rest": (norm, FOUND, ""),
    "its text": (lambda g: {"norm": norm(g), "text": f"{norm(g):.6f}"}, FOUND, ""),
    "the name of the largest": (lambda g: (norm(g), f"{max(range(3), key=lambda i: norm([g[i]]))}"), FOUND, ""),
    "a constant text": (lambda g: {"norm": norm(g), "state": "ok", "unit": None}, FOUND, ""),
    "health of the other part": (lambda g: groups(g, lambda part: 1.0 - is_bad(part)), HEARD, ""),
    "health of both parts stays": (lambda g: groups(g, lambda part: 1.0), "reproduced P2", STAYS),
    "health of one part stays": (
        lambda g: {"bad": is_bad(g), "host": {"norm": norm(g), "health": 1.0}}, "reproduced P2", STAYS),
    "a count of the first": (count_of_first, FOUND, "a planted nan and inf in a gradient of 1 dimension or"),
    "a threshold": (is_large, "not_applicable", "it promises no check"),
}  # fmt: skip


@pytest.mark.parametrize("way", CASES)
def test_what_says_so_is_heard_and_what_does_not_is_found(way: str) -> None:
    function, said, text = CASES[way]
    answer = ask(HEALTH, function)
    assert (answer.said, text in answer.message) == (said, True), answer.message
