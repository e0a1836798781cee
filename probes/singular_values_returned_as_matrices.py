#!/usr/bin/env python3
"""Do the singular values come back as (R, D, D) diagonal matrices, where (R, D) holds the same?"""

from forms import rows, run_alone, verdict

PROBE = {
    "title": "Singular values are returned as diagonal matrices",
    "contracts": ["aligned_svd"],
    "categories": ["Memory leak / resource issue", "API design / contract violation"],
    "breaks": "cost",
    "occurs": "common",
    "statement_does": "makes matrices of the singular values",
    "devices": ["cuda", "cpu"],
    "motivation": "D numbers in a D x D matrix are mostly zeros: at D = 1024 and 64 replicas 268 MB instead of 262 kB "
    "for each layer.",
    "method": "Elements of the part that holds the singular values, for each of them, at D = 4, 8, 16 and 32. The part "
    "is found by its values.",
    "limits": "Results without singular values do not apply. A matrix with other non-zero elements is read as "
    "something else.",
    "remediation": "Return (R, D). A caller that needs a matrix multiplies along an axis (U * S[:, None, :]).",
    "remediation_code": "remedies/aligned_svds.py",
    "measurements": {
        "returned_elements": "count",
        "elements_per_singular_value": "ratio",
        "bytes_at_64_replicas_of_1024": "bytes",
    },
}

_REPLICAS = 5
_SIZES = (4, 8, 16, 32)
_FULL_SIZE = {"replicas": 64, "size": 1024}


def measure(ctx):
    """Yield the elements that come back for the singular values at every D, and the line that makes matrices."""
    for size in _SIZES:
        grads = ctx.matrices("replicas", _REPLICAS, size + 3, size)
        part = ctx.svals_part(grads)
        if part is None:
            raise ctx.NotApplicable("its result holds no singular values")
        values = ctx.factors(grads)["svals"].numel()
        case = {"replicas": _REPLICAS, "directions": size, "shape": str(tuple(part.shape))}
        elements = part.numel()
        yield from rows(ctx, PROBE, case, returned_elements=elements, elements_per_singular_value=elements / values)
    kept = part.shape[-1] if part.dim() == 3 else 1
    full = _FULL_SIZE["replicas"] * _FULL_SIZE["size"] * part.element_size() * (_FULL_SIZE["size"] if kept > 1 else 1)
    yield ctx.measurement("bytes_at_64_replicas_of_1024", full, "bytes", evidence="extrapolated", **_FULL_SIZE)
    yield ctx.location(ctx.where("becomes_diagonal", grads, grads[0].shape[0], kept))


def judge(measurements, policy):
    """Reproduced if more than one element comes back for a singular value."""
    ratios = {m.case["directions"]: m for m in measurements if m.name == "elements_per_singular_value"}
    largest = ratios[max(ratios)]
    full = next(m.value for m in measurements if m.name == "bytes_at_64_replicas_of_1024")
    if largest.value <= 1:
        return verdict(False, "singular values come back as (R, D)", law="1 per value")
    text = "{} elements come back for {} singular values at D = {}, {:,} bytes at 64 replicas of 1024 x 1024"
    message = text.format(largest.case["shape"], largest.case["replicas"] * max(ratios), max(ratios), full)
    return verdict(True, message, law="D per value")


if __name__ == "__main__":
    run_alone(__file__)
