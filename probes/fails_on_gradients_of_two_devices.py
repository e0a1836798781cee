#!/usr/bin/env python3
"""Do gradients that lie on two devices raise without saying so, or change the answer?"""

from forms import run_alone

PROBE = {
    "version": 2,
    "title": "Gradients on two devices raise or change the result",
    "categories": ["Correctness bug", "API design / contract violation"],
    "breaks": "wrong_norm",
    "occurs": "rare",
    "instrument": "devices",
    "devices": ["cuda", "simulated"],
    "motivation": "Pipeline stages and offloaded layers leave gradients on several devices. A collector for one device "
    "raises deep in torch, or leaves out a device and reports a norm that is too small.",
    "method": "Four gradients alternate between two devices (host and device; two devices where there are two); of two "
    "groups also one on each. Norm and counts must be those of the same values on one device.",
    "limits": "Other fields are not compared, but must not be fewer. A refusal is clear if it names devices and the "
    "checkout raised it, or if it is a ValueError.",
    "remediation": "Reduce every gradient on its device and move only the results, as torch.nn.utils.get_total_norm "
    "does. Or raise a ValueError that names the devices.",
    "remediation_code": "remedies/total_norm.py",
    "measurements": {"raises": "truth", "relative_difference": "ratio"},
    "policy": {"tolerance": 1e-05},
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
    run_alone(__file__)
