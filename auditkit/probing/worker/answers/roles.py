"""What the fields of an answer mean, told by behaviour, not by name.

A field is the norm where scaling every gradient by 4 scales it by 4 (or by 16: a squared norm, degree 2), where
their sign and order change nothing, and where each of them alone can make it larger; it is a zero count where it
equals the planted number of zeros in two different cases. Names only break ties.
"""

import difflib
import math
from typing import Any, Callable, Dict, NamedTuple, Optional, Set, Tuple

from ..base.refusals import CannotReadError
from ..gradients.gradients import benign

# One gradient times this outweighs the others in every norm of all of them, also in a mean over tensors.
_DOMINANT = 256.0
# Squares of gradients of 2**80 overflow float32, and those of float32 values never float64.
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
    """The roles that the target's `returns` states. Raises CannotReadError for a field that is not there."""
    roles = {}
    for name, path in returns.items():
        if name not in _DECLARABLE:
            known = ", ".join(difflib.get_close_matches(name, _DECLARABLE, 3, 0.4) or _DECLARABLE)
            raise CannotReadError("no role is called '{}'; there are: {}".format(name, known))
        if path not in fields:
            near = difflib.get_close_matches(path, list(fields), 3, 0.4)
            known = ", ".join(near or list(fields)) or "none"
            raise CannotReadError("its answer has no field '{}' for {}; it has: {}".format(path, name, known))
        if name == "norm":
            roles[name] = Role(path, _degrees(ask).get(path, 1))
        elif name.endswith("_fraction"):
            roles[name[: -len("_fraction")]] = Role(path, kind="fraction")
        elif name.endswith("_count"):
            roles[name[: -len("_count")]] = Role(path, kind="count")
    return roles


def _degrees(ask: Callable) -> Dict[str, int]:
    """For each field that scales as a power of the gradients' scale: 1 (norm) or 2 (squared norm)."""
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
    """The field that is a norm of all gradients; None where none is: one layer's norm, a mean, a clamped value."""
    norms = _norms_of_all(ask)
    degrees = {path: degree for path, degree in _degrees(ask).items() if path in norms}
    if not degrees:
        return None
    lesser = _lesser_twins(ask, degrees)
    known = [path for path in degrees if path not in lesser]
    best = min(known, key=lambda path: (_norm_rank(path), degrees[path]))
    return Role(best, degrees[best])


def _lesser_twins(ask: Callable, degrees: Dict[str, int]) -> Set[str]:
    """Fields that overflow where another one, equal for ordinary gradients, holds: that one is meant."""
    if len(degrees) == 1:
        return set()
    usual = ask(benign())
    try:
        huge = ask([grad * 2.0**_HUGE for grad in benign()])
    except Exception:
        return set()
    held = {path for path in degrees if _close(huge.get(path), usual[path] * 2.0 ** (_HUGE * degrees[path]), 1e-3)}
    return {path for path in set(degrees) - held if any(_close(usual[path], usual[twin], 1e-3) for twin in held)}


def _norms_of_all(ask: Callable) -> Set[str]:
    """The fields that neither sign nor order of the gradients changes, and that grow with each of them."""
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


def _norm_rank(path: str) -> Tuple[int, int]:
    leaf = path.split(".")[-1].lower()
    partial = int(any(word in leaf for word in _PARTIAL_WORDS))
    for rank, word in enumerate(_NORM_WORDS):
        if word in leaf:
            return partial, rank
    return partial, len(_NORM_WORDS)


def count_roles(ask: Callable) -> Dict[str, Role]:
    roles = {}
    for role, plant in (("zero", "zeros"), ("nan", "nans"), ("inf", "infs")):
        found = _field_that_counts(ask, plant)
        if found is not None:
            roles[role] = found
    return roles


def _field_that_counts(ask: Callable, plant: str) -> Optional[Role]:
    """The field that reads 5 of 46 and then 9 of 46 planted values, as a count or as a fraction."""
    total = sum(grad.numel() for grad in benign())
    try:
        first, second = ask(benign(**{plant: 5})), ask(benign(**{plant: 9}))
    except Exception:
        return None
    kinds = (("count", 1), ("fraction", total))
    for path, value in first.items():
        other = second.get(path)
        for kind, divisor in kinds:
            if _close(value, 5 / divisor) and _close(other, 9 / divisor):
                return Role(path, kind=kind)
    return None


def _close(value: Any, expected: float, tolerance: float = 1e-6) -> bool:
    return isinstance(value, (int, float)) and math.isfinite(value) and abs(value - expected) <= tolerance * expected
