#!/usr/bin/env python3
"""Does code depend on private names of torch, with nothing to fall back to where a release lacks them?"""

from forms import counted, joined, nothing_found, run_alone, verdict

PROBE = {
    "title": "Private torch functions are used without a fallback",
    "scope": "source",
    "style": True,
    "categories": ["Defensive programming violation"],
    "breaks": "upkeep",
    "occurs": "rare",
    "motivation": "A name with a leading underscore may change or vanish in any release of torch. Some, such as "
    "torch._foreach_norm, have no public equal; a guard keeps the next upgrade from breaking them.",
    "method": "Every torch._x, torch.x._y and private import, under whatever name torch was imported. Guarded are uses "
    "under a test of the version or of the name, after one that leaves, and in a try that catches what a missing name "
    "raises. A requirement of one minor release guards all.",
    "limits": "Whether the fallback works is not tested. A guard in another function is not seen. Methods of tensors "
    "are not looked for.",
    "remediation": "Check for the name and keep a public fallback, or pin torch to the releases that were tested.",
    "remediation_code": "remedies/collect_and_materialize.py",
    "measurements": {"private_use": "line", "pin": "text", "files_examined": "count"},
}


def measure(ctx):
    """Yield the line of every unguarded use by module, and how the checkout pins torch to one release."""
    yield from ctx.check("private_uses")


def judge(measurements, policy):
    """Reproduced if a private name is used unguarded and torch is not pinned to one minor release."""
    uses = [m for m in measurements if m.name == "private_use"]
    if not uses:
        return nothing_found(
            measurements, "no private name of torch is used without a guard in {files_examined:,} files"
        )
    pin = next(m.value for m in measurements if m.name == "pin")
    if pin != "none":
        return verdict(False, "the checkout requires {}".format(pin))
    lines = {}
    for use in uses:
        lines.setdefault(use.case["name"], []).append(str(use.value))
    listed = ["{} (line {})".format(name, ", ".join(found[:3])) for name, found in lines.items()]
    names = counted(len(listed), "private name")
    return verdict(True, "{} of torch without version guard or fallback: {}".format(names, joined(listed, 4)))


if __name__ == "__main__":
    run_alone(__file__)
