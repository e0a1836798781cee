#!/usr/bin/env python3
"""Do gradients on two devices raise an unclear error, or change the result?"""

from forms import compare_numbers, run_alone, verdict

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


def measure(ctx):
    """Yield for every arrangement whether it raises, and how far norm and counts are from those on one device."""

    def arrangements(role):
        for pair in ctx.device_pairs:
            # The order of the devices does not change how counts are taken.
            for first in (pair, pair[::-1]) if role in ("norm", None) else (pair,):
                name = "alternating, {} first".format(first[0])
                yield {"devices": " and ".join(pair), "arrangement": name}, first, None
            if ctx.plan.groups > 1 and role in ("norm", None):
                name = "the first group on {}, the second on {}".format(*pair)
                yield {"devices": " and ".join(pair), "arrangement": name}, pair[:1], pair[1:]

    def is_wrong(_, difference):
        return difference > PROBE["policy"]["tolerance"]

    yield from compare_numbers(ctx, arrangements, ctx.on_devices, ("cuda:0",), is_wrong, _is_clear)


def _is_clear(case):
    """Return whether the exception names devices, in the checkout's own text or as a ValueError."""
    return "device" in case["error"].lower() and (case["deliberate"] or case["error"].startswith("ValueError"))


def judge(measurements, policy):
    """Reproduced if the result changes, or the target raises an unclear error."""
    compared = [m for m in measurements if m.name == "relative_difference"]
    wrong = [m for m in compared if m.value > policy["tolerance"]]
    raised = [m for m in measurements if m.name == "raises" and m.value]
    unclear = [m for m in raised if not _is_clear(m.case)]
    pairs = ", ".join(dict.fromkeys(m.case["devices"] for m in unclear or measurements))
    if wrong:
        message = "gradients on {devices} ({arrangement}): {field} is {answer} instead of {expected}"
        return verdict(True, message.format(**max(wrong, key=lambda m: m.value).case))
    if unclear:
        message = "raises for gradients on {}: {}".format(pairs, unclear[0].case["error"])
        # Trainers distribute a model over processes; one that distributes it over devices fails at the first call.
        return verdict(True, message, breaks="stops", occurs="extreme")
    if raised:
        return verdict(False, "refuses clearly: {}".format(raised[0].case["error"]))
    fields = sorted({m.case["field"] for m in compared})
    what = "the same " + ", ".join(fields) if fields else "a result, without a norm or count to compare"
    return verdict(False, "gradients on {} give {}".format(pairs, what))


if __name__ == "__main__":
    run_alone(__file__)
