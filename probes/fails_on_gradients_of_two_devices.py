#!/usr/bin/env python3
"""Do gradients that lie on two devices raise without saying so, or change the answer?"""

PROBE = {
    "id": "fails_on_gradients_of_two_devices",
    "version": 2,
    "title": "Gradients on two devices raise or change the answer",
    "contracts": ["grad_norm", "grad_stats", "dual_stats", "monitor"],
    "categories": ["Correctness bug", "API design / contract violation"],
    "agent": "PT",
    "breaks": "wrong_norm",
    "occurs": "rare",
    "lifecycle": "stable",
    "instrument": "devices",
    "devices": ["cuda", "simulated"],
    "motivation": "Pipeline stages, a model that is spread over devices, and layers that are offloaded to the host "
    "leave gradients on several devices. A collector written for one raises deep in torch, in words that name no "
    "parameter, or leaves a device's gradients out and reports too small a norm.",
    "method": "Four gradients are laid alternately on two devices (host and device, and two devices where there are or "
    "are pretended to be), either device first; of two groups also one on each. The norm and the counts must be those "
    "of the same values on one device. The values are powers of two, so that only the last rounding may differ.",
    "limits": "Fields that are neither norm nor count are not compared, but must not be fewer. A refusal is clear "
    "where its text speaks of devices and the checkout itself raised it, or where it is a ValueError. On a machine "
    "with one GPU the pair of two devices is not measured; in simulation device checks are those of torch's operators, "
    "not of kernels from elsewhere.",
    "remediation": "Reduce every gradient where it lies and bring only the results to one device, as "
    "torch.nn.utils.get_total_norm does: torch.stack takes tensors of one device alone. Or look at the devices first "
    "and raise a ValueError that names them.",
    "remediation_code": "remedies/total_norm_on_one_device.py",
    "verification": [
        "gradients on host and device, and on two devices, give the norm and the counts of the same values on one",
    ],
    "measurements": {"raises": "truth", "relative_difference": "ratio"},
    "policy": {"tolerance": 1e-5},
}

_HOME = ("cuda:0",)


def measure(ctx):
    """Yield for every arrangement whether it raises, and how far norm and counts are from those on one device."""
    for role, make in ctx.compared_roles():
        references = {}
        for pair, name, first, second in _arrangements(ctx, role):
            if second not in references:
                references[second] = ctx.reference_number(role, make, ctx.on_devices, _HOME, second)
            case = {"devices": " and ".join(pair), "arrangement": name}
            try:
                value = ctx.number_of_changed(role, make, ctx.on_devices, first, second)
            except ctx.TargetRaised as error:
                case.update(error=str(error), deliberate=error.deliberate)
                yield ctx.measurement("raises", True, "truth", **case)
                if not ctx.located and not _is_clear(case):
                    yield ctx.location(error.site or ctx.definition())
                continue
            yield ctx.measurement("raises", False, "truth", **case)
            expected, is_stable = references[second]
            if not is_stable or (role is None and value >= expected):
                continue
            difference = ctx.relative_difference(value, expected)
            case.update(field=_field(ctx, role), answer=_text(value), expected=_text(expected))
            yield ctx.measurement("relative_difference", difference, "ratio", **case)
            if difference > PROBE["policy"]["tolerance"] and not ctx.located:
                given, home = (ctx.on_devices(make(), devices) for devices in (first, _HOME))
                yield ctx.location(ctx.definition() if second else ctx.where_different(given, home))


def _arrangements(ctx, role):
    """Pair, name, devices of the first group by turns, and of the second (None: as the plan found it)."""
    for pair in ctx.device_pairs:
        yield pair, "alternating, {} first".format(pair[0]), pair, None
        if role not in ("norm", None):  # counts are taken in the same way whichever device comes first
            continue
        yield pair, "alternating, {} first".format(pair[1]), pair[::-1], None
        if ctx.plan.groups > 1:
            yield pair, "the first group on {}, the second on {}".format(*pair), pair[:1], pair[1:]


def _field(ctx, role):
    """The field that is compared; an answer without norm and counts must still hold as many numbers."""
    return "the count of its numbers" if role is None else ctx.role(role).path or role


def _text(value):
    return "missing" if value is None else "{:.6g}".format(value)


def judge(measurements, policy):
    """Reproduced where the answer changes, or where it raises in words that are not clear."""
    wrong = [m for m in measurements if m.name == "relative_difference" and m.value > policy["tolerance"]]
    raised = [m for m in measurements if m.name == "raises" and m.value]
    unclear = [m for m in raised if not _is_clear(m.case)]
    if wrong:
        worst = max(wrong, key=lambda m: m.value)
        message = "gradients on {devices} ({arrangement}): {field} is {answer} instead of {expected}"
        return {"outcome": "reproduced", "message": message.format(**worst.case)}
    if unclear:
        pairs = ", ".join(dict.fromkeys(m.case["devices"] for m in unclear))
        message = "raises for gradients on {}: {}".format(pairs, unclear[0].case["error"])
        # Trainers spread a model over processes; who spreads it over one's devices is told at the first call.
        return {"outcome": "reproduced", "breaks": "stops", "occurs": "extreme", "message": message}
    if raised:
        return {"outcome": "not_reproduced", "message": "refuses clearly: {}".format(raised[0].case["error"])}
    pairs = ", ".join(dict.fromkeys(m.case["devices"] for m in measurements))
    compared = sorted({m.case["field"] for m in measurements if m.name == "relative_difference"})
    what = "the same {}".format(", ".join(compared)) if compared else "an answer, without a norm or count to compare"
    return {"outcome": "not_reproduced", "message": "gradients on {} give {}".format(pairs, what)}


def _is_clear(case):
    """Whether the refusal speaks of devices, in words of the checkout or as the ValueError that Python has for it."""
    return "device" in case["error"].lower() and (case["deliberate"] or case["error"].startswith("ValueError"))


if __name__ == "__main__":
    from _alone import run_alone

    run_alone(__file__)
