#!/usr/bin/env python3
"""Is the same threshold repeated as a default in several related signatures?"""

from forms import joined, nothing_found, run_alone, verdict

PROBE = {
    "version": 2,
    "title": "One threshold is the default of several signatures",
    "scope": "source",
    "style": True,
    "categories": ["API design / contract violation"],
    "agent": "CR",
    "breaks": "upkeep",
    "occurs": "rare",
    "motivation": "A threshold that is a literal in a class, in its factory and in a shortcut is one setting written "
    "three times. A change of one of them changes what only one caller gets.",
    "method": "Literal numbers that are the default of a threshold-like parameter (limit, tolerance, eps, clip, "
    "max_norm) in signatures of one module, whose code must compare or clamp with it.",
    "limits": "0, 1, 2, -1 and tuning values (lr, betas) are not reported. Two parameters of one name may be different "
    "settings.",
    "remediation": "Define the number once as a constant, and use it in every signature.",
    "measurements": {"default": "line", "files_examined": "count", "signatures_examined": "count"},
    "policy": {"signatures": 2},
}


def measure(ctx):
    """Yield the line of every default that several signatures repeat, by parameter and number."""
    yield from ctx.check("repeated_defaults")


def judge(measurements, policy):
    """Reproduced if at least as many signatures repeat it as the policy states."""
    defaults = [m for m in measurements if m.name == "default"]
    if not defaults:
        message = "no number is repeated among {signatures_examined:,} signatures with literal defaults in "
        return nothing_found(measurements, message + "{files_examined:,} files")
    listed = ["{} ({}:{})".format(m.case["signature"], m.case["file"].rpartition("/")[2], m.value) for m in defaults]
    message = "{} signatures repeat the same default: {}".format(len(defaults), joined(listed, 5))
    return verdict(len(defaults) >= policy["signatures"], message)


if __name__ == "__main__":
    run_alone(__file__)
