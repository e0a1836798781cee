"""What the fields of a result mean, by their behaviour, not by name.

A field is the norm if scaling every gradient by 4 scales it by 4 (or by 16: a squared norm, degree 2), if their sign
and order change nothing, and if each gradient alone can make it larger; it is a zero count if it equals the planted
number of zeros in two different cases. Names only break ties.
"""

import math
from typing import Any, Callable, Dict, NamedTuple, Optional, Set, Tuple

from ..base.refusals import CannotReadError
from ..gradients.gradients import benign

# One gradient times this outweighs the others in every norm of all gradients, also in a mean over tensors.
_DOMINANT = 256.0
# Squares of gradients of 2**80 overflow float32; squares of float32 values never overflow float64.
_HUGE = 80
_COUNTED = ("zero_count", "zero_fraction", "nan_count", "nan_fraction", "inf_count", "inf_fraction")
_DECLARABLE = ("norm", "health", *_COUNTED)
_NORM_WORDS = ("total_norm", "grad_norm", "gradient_norm", "global_norm", "total", "norm")
_PARTIAL_WORDS = ("min", "max", "layer", "per_", "mean", "avg", "ratio", "seed", "std", "squared", "sq")


class Role(NamedTuple):
    """`path` of the field; `degree` 1 for a norm and 2 for a squared one; `kind` count or fraction."""

    path: str
    degree: int = 1
    kind: str = "count"


def declared_roles(returns: Dict[str, str], fields: Dict[str, Any], ask: Callable) -> Dict[str, Role]:
    """Return the roles that the target's `returns` declares. Raises CannotReadError for a missing field."""
    roles = {}
    for name, path in returns.items():
        if name not in _DECLARABLE:
            raise CannotReadError("no role is called '{}'; there are: {}".format(name, ", ".join(_DECLARABLE)))
        if path not in fields:
            known = ", ".join(fields) or "none"
            raise CannotReadError("its result has no field '{}' for {}; it has: {}".format(path, name, known))
        counted, _, kind = name.rpartition("_")
        if name == "norm":
            roles[name] = Role(path, _degrees(ask).get(path, 1))
        elif kind in ("count", "fraction"):
            roles[counted] = Role(path, kind=kind)
    return roles


def _degrees(ask: Callable) -> Dict[str, int]:
    """Return 1 (norm) or 2 (squared norm) for each field that scales as this power of the gradients' scale."""
    small = ask(benign())
    large = ask([grad * 4 for grad in benign()])
    found = {}
    for path, value in small.items():
        other = large.get(path)
        if isinstance(value, bool) or not _positive(value) or not _positive(other):
            continue
        power = math.log(other / value, 4)
        if abs(power - round(power)) < 0.02 and round(power) in (1, 2):
            found[path] = round(power)
    return found


def _positive(value: Any) -> bool:
    return isinstance(value, (int, float)) and math.isfinite(value) and value > 0


def norm_role(ask: Callable) -> Optional[Role]:
    """Return the field that is a norm of all gradients; None if none is: one layer's norm, a clamped value."""
    norms = _norms_of_all(ask)
    degrees = {path: degree for path, degree in _degrees(ask).items() if path in norms}
    lesser = _lesser_twins(ask, degrees) if len(degrees) > 1 else set()
    known = [path for path in degrees if path not in lesser]
    best = min(known, key=lambda path: (_norm_rank(path), degrees[path]), default=None)
    return None if best is None else Role(best, degrees[best])


def _lesser_twins(ask: Callable, degrees: Dict[str, int]) -> Set[str]:
    """Return fields that overflow although an equal field does not, which is then the norm."""
    usual = ask(benign())
    try:
        huge = ask([grad * 2.0**_HUGE for grad in benign()])
    except Exception:
        return set()
    held = {path for path in degrees if _close(huge.get(path), usual[path] * 2.0 ** (_HUGE * degrees[path]), 1e-3)}
    return {path for path in set(degrees) - held if any(_close(usual[path], usual[twin], 1e-3) for twin in held)}


def _norms_of_all(ask: Callable) -> Set[str]:
    """Return the fields that do not depend on sign or order of the gradients, and that grow with each of them."""
    usual = {path: value for path, value in ask(benign()).items() if _positive(value)}
    found = set(usual)
    for same in ([grad.abs() for grad in benign()], benign()[::-1]):
        other = ask(same)
        found &= {path for path in usual if _close(other.get(path), usual[path], 1e-3)}
    for index in range(len(benign())):
        grads = benign()
        grads[index] *= _DOMINANT
        larger = ask(grads)
        found &= {path for path in usual if _positive(larger.get(path)) and larger[path] > 2 * usual[path]}
    return found


def _norm_rank(path: str) -> Tuple[bool, int]:
    leaf = path.split(".")[-1].lower()
    rank = next((rank for rank, word in enumerate(_NORM_WORDS) if word in leaf), len(_NORM_WORDS))
    return any(word in leaf for word in _PARTIAL_WORDS), rank


def count_roles(ask: Callable) -> Dict[str, Role]:
    """Return the fields that read 5 of 46 and then 9 of 46 planted values, as a count or as a fraction."""
    total, roles = sum(grad.numel() for grad in benign()), {}
    for role, plant in (("zero", "zeros"), ("nan", "nans"), ("inf", "infs")):
        try:
            first, second = ask(benign(**{plant: 5})), ask(benign(**{plant: 9}))
        except Exception:
            continue
        for path, kind, divisor in ((path, *each) for path in first for each in (("count", 1), ("fraction", total))):
            if _close(first[path], 5 / divisor) and _close(second.get(path), 9 / divisor):
                roles[role] = Role(path, kind=kind)
                break
    return roles


def _close(value: Any, expected: float, tolerance: float = 1e-6) -> bool:
    return isinstance(value, (int, float)) and math.isfinite(value) and abs(value - expected) <= tolerance * expected
