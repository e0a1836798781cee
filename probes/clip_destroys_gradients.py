#!/usr/bin/env python3
"""Does clipping turn finite gradients into zeros, NaN or next to nothing once their norm overflows?"""

import bisect
import math

from forms import (
    LARGE_MAGNITUDE,
    REACHED_NORM,
    attempt,
    boundaries,
    by_need,
    judged_boundaries,
    rows,
    run_alone,
    verdict,
    who_meets_norm,
)  # fmt: skip

PROBE = {
    "version": 2,
    "title": "Clipping destroys finite gradients",
    "categories": ["Correctness bug", "Numerical stability"],
    "breaks": "wrong_step",
    "occurs": "rare",
    "statement_does": "gives the first value that is not finite",
    "motivation": "Clipping exists for exploding gradients. When the norm overflows (1.84e19 in float32, 65,504 in "
    "float16), the coefficient is 0 and the step is lost, or every weight becomes NaN.",
    "method": "Gradients of one magnitude are scaled by powers of two and read after the call. Bisection finds the "
    "smallest norm at which they are zero, NaN, infinite, or have less than half the usual clipped norm, for each "
    "dtype.",
    "limits": "Magnitudes are uniform, and the true norm stays below 1.7e38. Raising, or leaving the gradients alone, "
    "is not judged. float64 is judged only with judge_float64.",
    "remediation": "Compute the norm and the coefficient in float64; for float16, multiply by its root twice. Or "
    "refuse to clip by a norm that is not finite (error_if_nonfinite=True).",
    "remediation_code": "remedies/clip_gradients.py",
    "measurements": {
        "destroying_norm": "norm",
        "destroying_magnitude": "magnitude",
        "norm_after": "norm",
        "expected_norm_after": "norm",
    },
    "policy": {"judge_float64": 0},
}

# Exponents of two ordinary magnitudes at which a limit is read. The second pair meets a limit of a million too.
_ORDINARY = ((2, 4), (30, 32))
# A gradient below half the limit is lost, not clipped: ordinary clipping meets the limit to within rounding.
_GONE = 0.5


def measure(ctx):
    """Yield the boundary of every case (None: no boundary), and what is left of gradients of 1e20."""
    if not ctx.plan.clips:
        raise ctx.NotApplicable("it does not clip: it sets no limit to gradients")
    usual = (4, 1024, "float32")
    limit = _limit(ctx, usual, 126)
    if limit is None and not _state(ctx, usual, 2.0 ** _ORDINARY[0][0], None)[1]:
        raise ctx.NotApplicable("it does not clip: larger ordinary gradients stay larger")
    case = {"dtype": "float32", "tensors": 4, "elements": 4096, "magnitude": LARGE_MAGNITUDE}
    left, _ = attempt(ctx, ctx.left_by, ctx.gradients(*usual, LARGE_MAGNITUDE))
    after = None if left is None else _norm_of(left)
    yield from rows(ctx, PROBE, case, norm_after=after, expected_norm_after=limit)
    yield from boundaries(ctx, "destroying", lambda shape, largest: _boundary(ctx, shape, largest))


def _limit(ctx, shape, highest):
    """Return the norm to which ordinary gradients are clipped; None if it grows with them."""
    for pair in _ORDINARY:
        if max(pair) > highest:
            continue
        norms = [_norm_of(ctx.left_by(ctx.gradients(*shape, 2.0**exponent))) for exponent in pair]
        if all(norm is not None and 0 < norm < math.inf for norm in norms) and abs(norms[1] / norms[0] - 1) < 0.02:
            return norms[0]
    return None


def _norm_of(grads):
    """Return the 2-norm of the remaining gradients; None if gradients were removed."""
    if any(grad is None for grad in grads):
        return None
    return math.sqrt(math.fsum(float((grad.double() ** 2).sum()) for grad in grads))


def _state(ctx, shape, magnitude, limit):
    """Return (one word for the state of the gradients, whether they are destroyed)."""
    tensors, elements, dtype = shape
    left, error = attempt(ctx, ctx.left_by, ctx.gradients(*shape, magnitude))
    if error is not None:
        return "refused", False
    norm = _norm_of(left)
    if norm is None:
        return "removed", False
    if math.isnan(norm) or any(bool(grad.isnan().any()) for grad in left):
        return "NaN", True
    if math.isinf(norm):
        return "infinite", dtype != "float64"
    # Mixed gradients have an all-zero float16 tensor.
    judged = [grad for grad in left if grad.numel() and not (dtype == "mixed" and str(grad.dtype) == "torch.float16")]
    if not all(bool(grad.any()) for grad in judged):
        return "zero", True
    if limit is not None and norm < _GONE * min(limit, magnitude * math.sqrt(tensors * elements)):
        return "next to nothing", True
    return "clipped", False


def _boundary(ctx, shape, highest):
    """Return the smallest exponent that destroys gradients, or None, and how; 2 if it destroys ordinary ones."""
    limit = _limit(ctx, shape, highest)

    def destroys(exponent):
        return _state(ctx, shape, 2.0**exponent, limit)[1]

    if not destroys(highest):
        return None, {"how": ""}
    sound = _ORDINARY[0][0]
    first = sound if destroys(sound) else bisect.bisect_left(range(highest), True, lo=sound + 1, key=destroys)
    return first, {"how": _state(ctx, shape, 2.0**first, limit)[0]}


def judge(measurements, policy):
    """Reproduced if a dtype that training uses loses its gradients."""
    destroyed = judged_boundaries(measurements, "destroying_norm", policy)
    if not destroyed:
        return verdict(False, "no finite gradients are destroyed up to the largest norm that float32 holds")
    worst = min(destroyed, key=lambda m: m.value)
    if worst.value >= REACHED_NORM:  # float16 itself ends near there: wider dtypes matter more
        worst = min([m for m in destroyed if m.case["dtype"] != "float16"] or destroyed, key=lambda m: m.value)
    dtypes = ", ".join(sorted({m.case["dtype"] for m in destroyed}))
    message = "from a norm of {:.3g} on, finite {dtype} gradients are {how} after clipping; destroyed for {}"
    text = message.format(worst.value, dtypes, **worst.case)
    return verdict(True, text, occurs=by_need(destroyed, who_meets_norm))


if __name__ == "__main__":
    run_alone(__file__)
