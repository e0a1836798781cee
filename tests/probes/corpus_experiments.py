"""What plain torch shows of the corpus' collectors: no probe, no instrument and no plan of ours takes part."""

from __future__ import annotations

import functools
import importlib
import math
from collections.abc import Callable, Mapping
from typing import Any

import torch
import yaml
from torch.utils._python_dispatch import TorchDispatchMode

from tests.probing_helpers import (
    ACCURACY,
    COUNTS,
    EMPTY,
    HEALTH,
    MIXED_DTYPES,
    MUTATES,
    NO_ELEMENTS,
    NONCONTIGUOUS,
    OVERFLOW,
    RATIO,
    SYNCS,
    TARGETS,
    UNDERFLOW,
)

CORPUS = TARGETS / "corpus"
VERDICTS = yaml.safe_load((CORPUS / "verdicts.yaml").read_text())
TARGET_ROWS = {row["call"]: row for row in yaml.safe_load((CORPUS / "auditkit.yaml").read_text())["targets"]}
SHAPES = ((3,), (2, 3), (2, 3, 2))
"""A bias, a matrix and a convolution."""


def ordinary(scale: float = 1.0, shapes: tuple = SHAPES, dtype: torch.dtype = torch.float32) -> list[torch.Tensor]:
    """Gradients of both signs, none of them zero."""
    count = [math.prod(shape) for shape in shapes]
    return [
        (torch.arange(1, n + 1, dtype=torch.float64).reshape(shape) * scale * (-1) ** i).to(dtype)
        for i, (n, shape) in enumerate(zip(count, shapes, strict=True))
    ]


def call(name: str, grads: list[torch.Tensor]) -> Any:
    """The target's answer to `grads`, finished, by hand: no plan is looked for."""
    module, _, function = name.partition(":")
    owner, _, method = function.rpartition(".")
    loaded = importlib.import_module(module)
    called = getattr(getattr(loaded, owner)(), method) if owner else getattr(loaded, function)
    row = TARGET_ROWS[name]
    answer = called(taken(row["takes"], grads), **BY_HAND.get(name, {}))
    if "finish" in row:
        answer = getattr(loaded, row["finish"].partition(":")[2])(answer)
    return answer


BY_HAND: dict[str, dict[str, Any]] = {
    "guessed_arguments:norm_on": {"device": "cpu"},
    "guessed_arguments:clip_to": {"max_norm": 1.0},
    "guessed_arguments:layer_spread": {"eps": 1e-8},
    "guessed_arguments:norm_of_type": {"norm_type": 3.0},
    "guessed_arguments:vanishing_layers": {"threshold": 1e-3},
    "leaks:outlier_free_mean": {"bound": 1e-3},
    "leaks:grad_stats_bounded": {"limit": 1e-3},
    "leaks:unscaled_grad_norm": {"scale": 2.0},
    "leaks:grad_norm_of_scaled": {"scale": 2.0},
    "leaks:shifted_stats": {"offset": 1e-3},
    "checks:count_bad": {"check": True},
    "checks:finite_norm": {"check": True},
}


def taken(takes: str, grads: list[torch.Tensor]) -> Any:
    if takes == "gradients":
        return grads
    parameters = [torch.nn.Parameter(torch.zeros_like(g, memory_format=torch.preserve_format)) for g in grads]
    for parameter, grad in zip(parameters, grads, strict=True):
        parameter.grad = grad
    named = {f"layer{i}": parameter for i, parameter in enumerate(parameters)}
    return {
        "parameters": parameters,
        "named_parameters": list(named.items()),
        "module": torch.nn.ParameterDict(named),
    }[takes]


def fields(answer: Any) -> list[Any]:
    """Everything that an answer says, properties included."""
    if isinstance(answer, Mapping):
        return [x for key, value in answer.items() if "fp32" not in str(key) for x in fields(value)]
    if isinstance(answer, list | tuple):
        return [len(answer), *(x for value in answer for x in fields(value))]
    if isinstance(answer, torch.Tensor):
        return fields(answer.tolist())
    if hasattr(answer, "total_norm"):
        return [answer.total_norm, answer.largest]
    if hasattr(answer, "__dataclass_fields__"):
        return fields(vars(answer))
    return [answer]


def is_finite(value: Any) -> bool:
    return not isinstance(value, float) or math.isfinite(value)


def overflows(name: str) -> bool:
    return not all(map(is_finite, fields(call(name, ordinary(1e25)))))


def vanishes(name: str) -> bool:
    """Every field reads zero for gradients of 1e-30, and not for ordinary ones."""
    return max(fields(call(name, ordinary(1e-30)))) == 0.0 < max(fields(call(name, ordinary())))


def hides_nonfinite(name: str) -> bool:
    """A NaN or Inf at some place neither raises, nor is told by a flag, count or word, nor shows in a number."""
    for bad in (math.nan, math.inf):
        for index, shape in enumerate(SHAPES):
            for place in range(math.prod(shape)):
                grads = ordinary(1e-2)
                grads[index].view(-1)[place] = bad
                try:
                    answer = fields(call(name, grads))
                except Exception:
                    continue
                if not tells(fields(call(name, ordinary(1e-2))), answer):
                    return True
    return False


def tells(sound: list[Any], answer: list[Any]) -> bool:
    pairs = list(zip(sound, answer, strict=False))
    flags = any(a != b for a, b in pairs if not isinstance(a, float) or (a in (0.0, 1.0) and b in (0.0, 1.0)))
    return len(sound) != len(answer) or flags or any((is_finite(a) and not is_finite(b)) or b is None for a, b in pairs)


def changes(name: str) -> bool:
    grads = ordinary(1e-2)
    before = [g.clone() for g in grads]
    call(name, grads)
    return not all(map(torch.equal, before, grads))


def miscounts(name: str) -> bool:
    planted = 2**24 + 1
    return float(planted) not in fields(call(name, [torch.cat([torch.zeros(planted), torch.ones(2)])]))


def drifts(name: str) -> bool:
    """More than 0.1 % off at 16,777,216 random elements."""
    grad = torch.randn(2**24, generator=torch.Generator().manual_seed(7))
    return abs(fields(call(name, [grad]))[0] / grad.double().square().sum().sqrt().item() - 1) > 1e-3


def differs_transposed(name: str) -> bool:
    contiguous = torch.arange(1.0, 7).reshape(2, 3)
    return fields(call(name, [contiguous])) != fields(call(name, [contiguous.T.contiguous().T]))


def answers_nothing(name: str, grads: list[torch.Tensor]) -> bool:
    return len([x for x in fields(call(name, grads)) if x is not None]) < len(fields(call(name, ordinary())))


def divides_by_zero(name: str) -> bool:
    zeros = [g * 0 for g in ordinary()]
    one_zero = [*zeros[:1], *ordinary()[1:]]
    return any(
        (isinstance(x, float) and x in (math.inf, math.nan)) or x != x
        for grads in (zeros, one_zero)
        for x in fields(call(name, grads))
        if x is not None
    )


class Reads(TorchDispatchMode):
    """Operators that hand a value or a size to the host, by the list of ATen's CUDA sources that waits.py cites."""

    WAITING = ("_local_scalar_dense", "nonzero.", "_unique2", "_linalg_svd", "_linalg_eigh", "masked_select")

    def __init__(self) -> None:
        super().__init__()
        self.count = 0

    def __torch_dispatch__(self, function: Any, types: Any, args: tuple = (), kwargs: Any = None) -> Any:
        name = str(function).removeprefix("aten.")
        masked = name.startswith("index.") and any(t is not None and t.dtype is torch.bool for t in args[1])
        unbounded = name.startswith("histc") and (args[2:] or (0, 0)) == (0, 0)
        self.count += name.startswith(self.WAITING) or masked or unbounded
        return function(*args, **(kwargs or {}))


def reads(name: str, tensors: int) -> int:
    with Reads() as counted:
        answer = call(name, ordinary(shapes=((2, 3),) * tensors))
        if hasattr(answer, "total_norm"):
            fields(answer)
    return counted.count


def reads_grow(name: str) -> bool:
    return reads(name, 64) > reads(name, 16)


EXPERIMENTS: dict[str, Callable[[str], bool]] = {
    OVERFLOW: overflows,
    UNDERFLOW: vanishes,
    HEALTH: hides_nonfinite,
    MUTATES: changes,
    COUNTS: miscounts,
    ACCURACY: drifts,
    NONCONTIGUOUS: differs_transposed,
    NO_ELEMENTS: functools.partial(answers_nothing, grads=[*ordinary(), torch.zeros(0)]),
    EMPTY: functools.partial(answers_nothing, grads=[]),
    MIXED_DTYPES: functools.partial(
        answers_nothing,
        grads=[g.to(d) for g, d in zip(ordinary(), (torch.bfloat16, torch.float32, torch.float32), strict=True)],
    ),
    RATIO: divides_by_zero,
    SYNCS: reads_grow,
}
# What this cannot show: a device by name; two calls of one monitor; a flag that another field tells; a None that the
# annotation allows; a hook of one tensor.
NOT_TRIED = {
    *(f"hard_coded_devices:{name}_norm" for name in ("to_zero", "current_device", "typed_constructor", "literal_cuda")),
    *("hard_coded_devices:literal_cuda_counts", "hard_coded_devices:literal_host_norm"),
    *("remembered:cached_norm", "remembered:StepMonitor.total_norm", "remembered:remembered_norm"),
    *("remembered:norm_by_shape", "nonfinite_signals:untouched_health"),
    *("checks:norm_and_nan_flag", "checks:explosion_alarm", "leaks:log_magnitude"),
    ("caught:norm_if_any", EMPTY),
    *(name for name in VERDICTS["deceptive"] if name.startswith("constants:")),
}
