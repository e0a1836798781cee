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


def groups(grads: Any, health: Callable[[Any], float]) -> dict[str, Any]:
    parts = {"host": grads[:1], "seed": grads[1:]}
    return {name: {"norm": norm(part), "bad": is_bad(part), "health": health(part)} for name, part in parts.items()}


def watch(grads: Any, flag: str, tells: Callable[[float], bool]) -> dict:
    total = torch.stack([grad.norm() for grad in grads]).norm().item()
    return {"norm": total, flag: tells(total)}


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


FOUND, HEARD = "reproduced P1", "not_reproduced"
STAYS = "does not change for a planted nan"
# A collector, what is said of it, and a part of the message.
CASES: dict[str, tuple[Callable[[Any], Any], str, str]] = {
    "a flag": (lambda g: {"norm": norm(g), "bad": is_bad(g)}, HEARD, ""),
    "a flag as a float": (lambda g: {"norm": norm(g), "bad": float(is_bad(g))}, HEARD, ""),
    "a flag as a tensor": (lambda g: {"norm": norm(g), "bad": torch.tensor(is_bad(g))}, HEARD, ""),
    "a flag in a float tensor": (lambda g: {"norm": norm(g), "bad": torch.ones(1) * is_bad(g)}, HEARD, ""),
    "no number": (lambda g: {"norm": None if is_bad(g) else norm(g)}, HEARD, ""),
    "no result": (lambda g: None if is_bad(g) else norm(g), HEARD, ""),
    "a text": (lambda g: {"norm": norm(g), "state": "nan" if is_bad(g) else "ok"}, HEARD, ""),
    "a member": (lambda g: {"norm": norm(g), "state": State.BROKEN if is_bad(g) else State.FINE}, HEARD, ""),
    "a list of names": (lambda g: {"norm": norm(g), "layers": bad_layers(g)}, HEARD, ""),
    "a list of the others": (lambda g: (norm(g), [f"{each.dim()}d" for each in g if not is_bad([each])]), HEARD, ""),
    "a count of another name": (lambda g: {"norm": norm(g), "skipped": len(bad_layers(g))}, HEARD, ""),
    "the norm of the rest": (norm, FOUND, ""),
    "its text": (lambda g: {"norm": norm(g), "text": f"{norm(g):.6f}"}, FOUND, ""),
    "the name of the largest": (lambda g: (norm(g), f"{max(range(3), key=lambda i: norm([g[i]]))}"), FOUND, ""),
    "a constant text": (lambda g: {"norm": norm(g), "state": "ok", "unit": None}, FOUND, ""),
    # Health values, and those of another part of the result.
    "health stays": (lambda g: {"norm": norm(g), "health": 1.0, "bad": is_bad(g)}, "reproduced P2", f"health {STAYS}"),
    "health drops": (lambda g: {"norm": norm(g), "health": 1.0 - is_bad(g), "bad": is_bad(g)}, HEARD, ""),
    "health of the other part": (lambda g: groups(g, lambda part: 1.0 - is_bad(part)), HEARD, ""),
    "health of both parts stays": (lambda g: groups(g, lambda part: 1.0), "reproduced P2", STAYS),
    "health of one part stays": (
        lambda g: {"bad": is_bad(g), "host": {"norm": norm(g), "health": 1.0}}, "reproduced P2", STAYS),
    # An alarm beside a norm that tells.
    "exploding stays off": (lambda g: watch(g, "exploding", lambda n: n > 100), "reproduced P2", f"exploding {STAYS}"),
    "has_nan by ==": (lambda g: watch(g, "has_nan", lambda n: n == math.nan), "reproduced P2", f"has_nan {STAYS}"),
    "exploding by not <=": (lambda g: watch(g, "exploding", lambda n: not n <= 100.0), HEARD, ""),
    "will_clip promises nothing": (lambda g: watch(g, "will_clip", lambda n: n > 100.0), HEARD, ""),
    # A check is held to what it promises.
    "a check of the first": (first_is_finite, FOUND, "a planted nan and inf in a gradient of 1 dimension or"),
    "a count of the first": (count_of_first, FOUND, "a planted nan and inf in a gradient of 1 dimension or"),
    "a check by name of both": (grads_are_finite, FOUND, "a planted inf is not flagged"),
    "a check of NaN": (has_nan, HEARD, "a check for one of NaN and Inf makes it visible (nan: answer)"),
    "a threshold": (is_large, "not_applicable", "it promises no check"),
    "nothing returned": (clip_values, "not_applicable", "it returns nothing, so no value could show a NaN"),
}  # fmt: skip


@pytest.mark.parametrize("way", CASES)
def test_what_says_so_is_heard_and_what_does_not_is_found(way: str) -> None:
    function, said, text = CASES[way]
    answer = ask(HEALTH, function)
    assert (answer.said, text in answer.message) == (said, True), answer.message
