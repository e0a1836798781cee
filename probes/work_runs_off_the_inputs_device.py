#!/usr/bin/env python3
"""How many bytes of the gradients leave their device to be worked on elsewhere?"""

from forms import rows, run_alone, verdict

PROBE = {
    "title": "Work runs on another device than the gradients",
    "contracts": ["grad_norm", "grad_stats", "dual_stats", "monitor", "aligned_svd", "spectral_echo"],
    "categories": ["Performance bottleneck"],
    "breaks": "cost",
    "occurs": "ordinary",
    "instrument": "transfers",
    "devices": ["cuda", "simulated"],
    "motivation": "A copy of every gradient to the host moves gigabytes over a slow bus, and the device waits while "
    "the host computes. .cpu(), NumPy or a CPU SVD in a collector does that.",
    "method": "Bytes that one call moves off the gradients' device, beyond the result, at four gradients of 1,024 and "
    "of 65,536 elements. The slope is judged; what does not grow is free. Spectral targets get 4 replicas of 128 x 8 "
    "and 8,192 x 8, and a decomposition on the host counts too.",
    "limits": "Gradients that are given on the host are at home there. What NumPy computes, and bytes an extension "
    "moves, are not seen.",
    "remediation": "Reduce on the device that holds the gradients and read only the results.",
    "remediation_code": "remedies/gradient_statistics.py",
    "measurements": {
        "off_device_bytes": "bytes",
        "uploaded_bytes": "bytes",
        "host_elements": "count",
        "decomposed_elements": "count",
        "off_device_bytes_per_gradient_byte": "ratio",
    },
    "policy": {"share": 0.01},
}

_TENSORS = 4
_ELEMENTS = (1024, 65536)
_MATRICES = ("aligned_svd", "spectral_echo")
_COLUMNS = 8
_BYTES = 4


def measure(ctx):
    """Yield what leaves the device at both sizes, the growth between them, and the line that moves most."""
    moved = {}
    of_matrices = ctx.plan.contract in _MATRICES
    for elements in _ELEMENTS:
        if of_matrices:
            grads = ctx.matrices("replicas", _TENSORS, elements // _COLUMNS, _COLUMNS)
        else:
            grads = ctx.gradients(_TENSORS, elements)
        moved[elements] = found = ctx.transfers(grads)
        case = {"gradient_bytes": _TENSORS * elements * _BYTES, "tensors": _TENSORS}
        yield ctx.measurement("off_device_bytes", found.off_device_bytes, "bytes", answer=found.answer_bytes, **case)
        decomposed = {"decomposed_elements": found.decomposed_elements} if of_matrices else {}
        yield from rows(ctx, PROBE, case, uploaded_bytes=found.to_device_bytes, **decomposed)
        yield ctx.measurement("host_elements", found.host_elements, "count", operator=found.host_operator, **case)
    small, large = _ELEMENTS
    growth = moved[large].off_device_bytes - moved[small].off_device_bytes
    share = growth / (_TENSORS * (large - small) * _BYTES)
    yield ctx.measurement("off_device_bytes_per_gradient_byte", share, "ratio", tensors=_TENSORS)
    if moved[large].to_host_bytes or moved[large].between_devices_bytes:
        yield ctx.location(moved[large].site or ctx.definition())


def judge(measurements, policy):
    """Reproduced if the moved bytes grow with the gradients by more than the policy's share."""
    share = next(m for m in measurements if m.name == "off_device_bytes_per_gradient_byte").value
    largest = {m.name: m for m in measurements if m.case.get("gradient_bytes") == _TENSORS * _ELEMENTS[-1] * _BYTES}
    moved, work = largest["off_device_bytes"], largest["host_elements"]
    law = "{:.3g} bytes per gradient byte".format(share)
    decomposed = largest.get("decomposed_elements")
    if decomposed is not None and decomposed.value:
        text = "the host decomposes {:,} elements that lie on the device ({}); {:,} bytes go up"
        uploaded = largest["uploaded_bytes"].value
        return verdict(True, text.format(decomposed.value, work.case["operator"], uploaded), law=law)
    message = "{:,} bytes leave the device for {:,} bytes of gradients".format(
        moved.value, moved.case["gradient_bytes"]
    )
    if share <= policy["share"]:
        return verdict(False, message + ", beyond the result", law=law)
    message += ", {:.3g} for each".format(share)
    if work.value:
        message += "; the host then runs {} on {:,} elements at once".format(work.case["operator"], work.value)
    return verdict(True, message, law=law)


if __name__ == "__main__":
    run_alone(__file__)
