"""Clips gradients by their total norm without reading it back."""

import math
from typing import Literal

import torch
from torch import Tensor

from .pending import measure_sets
from .sources import FLOAT8_DTYPES, GradientSet, GradientSource, select_gradients

_BITS = {2: torch.int16, 4: torch.int32, 8: torch.int64}


@torch.no_grad()
def clip_gradients(
    parameters_or_gradients: GradientSource,
    max_norm: float,
    *,
    nonfinite: Literal["leave", "zero"] = "leave",
    total_norm: Tensor | None = None,
) -> Tensor:
    """Scale gradients in place to a total norm of at most `max_norm`, and return the norm before: 0-d, not read back.

    Takes what `collect_gradients` takes. The norm is float64 and that of `PendingGradientStats.total_norm`; where it
    is known already, as that tensor, `total_norm` saves the measuring. Gradients keep their direction at every finite
    norm: the coefficient is never float16 or bfloat16. The gradients are not copied.

    Where the norm is NaN or inf, "leave" leaves all gradients as they are (`GradScaler` then skips the step), and
    "zero" sets them all to zero, for a step without gradients. Performs no synchronization, but one for CPU gradients
    beside those of a GPU.

    Raises ValueError for a `max_norm` below zero, and as `collect_gradients` does; also for float8.
    """
    if not max_norm >= 0.0:
        raise ValueError(f"max_norm is {max_norm}: expected 0 or more")
    if nonfinite not in ("leave", "zero"):
        raise ValueError(f"nonfinite is {nonfinite!r}: expected 'leave' or 'zero'")
    gradients = select_gradients(parameters_or_gradients)
    for key in gradients.groups:
        if key.dtype in FLOAT8_DTYPES:
            raise ValueError(f"gradients of dtype {key.dtype} cannot be scaled: they have no multiplication")
    if total_norm is None:
        total_norm = measure_sets([gradients]).total_norm(0)
    if nonfinite == "zero":
        _multiply_bits(gradients, total_norm.isfinite())
    if max_norm < math.inf:
        is_clipped = (total_norm > max_norm) & (total_norm < math.inf)
        _multiply(gradients, (max_norm / total_norm.double()).masked_fill(~is_clipped, 1.0))
    return total_norm


def _multiply(gradients: GradientSet, coefficient: Tensor) -> None:
    """Multiply all gradients by a 0-d float64 tensor, those of 32 bits and fewer by its float32 form."""
    for device, tensors in _stored(gradients):
        on_device = coefficient.to(device, non_blocking=True)
        if tensors[0].dtype == torch.float64:
            torch._foreach_mul_(tensors, on_device)
        elif device.type == "cuda" and tensors[0].dtype == torch.bfloat16:
            multiply_each(tensors, on_device.float())
        else:
            # GradScaler's own operator, private, in every release from 1.6 on: the only one that multiplies a list by
            # a float32 of the device. _foreach_mul_ would round it to the gradients' dtype: 1e-8 is 0 in float16.
            coefficient_32 = on_device.float()
            torch._amp_foreach_non_finite_check_and_unscale_(tensors, coefficient_32.new_zeros(1), coefficient_32)


def multiply_each(tensors: list[Tensor], coefficient_32: Tensor) -> None:
    """Multiply bfloat16 tensors by a 0-d float32 tensor, one launch each: no operator of CUDA does it to a list.

    The coefficient gets the dimensions of the gradient, because torch rounds a 0-d operand to the other's dtype.
    """
    for tensor in tensors:
        tensor.mul_(coefficient_32.view((1,) * tensor.dim()))


def _multiply_bits(gradients: GradientSet, is_kept: Tensor) -> None:
    """Set all gradients to zero where the 0-d tensor is false: NaN * 0 is NaN, but the integer of its bits * 0 is 0."""
    for device, tensors in _stored(gradients):
        bits = [tensor.view(_BITS[tensor.itemsize]) for tensor in tensors]
        torch._foreach_mul_(bits, is_kept.to(device, bits[0].dtype, non_blocking=True))


def _stored(gradients: GradientSet) -> list[tuple[torch.device, list[Tensor]]]:
    """Return the memory of the gradients, by device and dtype."""
    return [
        (key.device, [gradients.summands.get(place, value) for place, value in zip(*group, strict=True)])
        for key, group in gradients.groups.items()
    ]
