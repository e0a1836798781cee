#!/usr/bin/env python3
"""Does code depend on private names of torch, with nothing to fall back to where a release lacks them?"""

from forms import run_alone

PROBE = {
    "title": "Private torch functions are used without a fallback",
    "scope": "source",
    "style": True,
    "categories": ["Defensive programming violation"],
    "breaks": "upkeep",
    "occurs": "rare",
    "instrument": "syntax",
    "motivation": "A name with a leading underscore may change or vanish in any release of torch. Some, such as "
    "torch._foreach_norm, have no public equal; a guard keeps the next upgrade from breaking them.",
    "method": "Every torch._x, torch.x._y and private import, under whatever name torch was imported. Guarded are uses "
    "under a test of the version or of the name, after one that leaves, and in a try that catches what a missing name "
    "raises. A requirement of one minor release guards all.",
    "limits": "Whether the fallback works is not tested. A guard in another function is not seen. Methods of tensors "
    "are not looked for.",
    "remediation": "Check for the name and keep a public fallback, or pin torch to the releases that were tested.",
    "remediation_code": "remedies/guarded_norms.py",
    "measurements": {"private_use": "line", "pin": "text", "files_examined": "count"},
}

_MOST_IN_MESSAGE = 4


def measure(ctx):
    """Yield the line of every unguarded use by module, and how the checkout holds torch to one release."""
    pin = ctx.pin("torch")
    for module in ctx.modules:
        uses = ctx.private_uses(module)
        for use in uses:
            where = {"function": use.function} if use.function else {}
            yield ctx.measurement(module.name, "private_use", use.line, "line", name=use.name, **where)
        if uses:
            yield ctx.measurement(module.name, "pin", pin or "none", "text")
            yield ctx.location(module.name, module, uses[0].line, uses[0].function)
    yield ctx.measurement("", "pin", pin or "none", "text")
    yield from ctx.examined()


def judge(measurements, policy):
    """Reproduced where a private name is used unguarded and torch is not held to one minor release."""
    pin = next(m.value for m in measurements if m.name == "pin")
    uses = [m for m in measurements if m.name == "private_use"]
    if pin != "none":
        return {"outcome": "not_reproduced", "message": "the checkout requires {}".format(pin)}
    if not uses:
        files = next(m.value for m in measurements if m.name == "files_examined")
        return {
            "outcome": "not_reproduced",
            "message": "no private name of torch is used without a guard in {:,} files".format(files),
        }
    lines = {}
    for use in uses:
        lines.setdefault(use.case["name"], []).append(str(use.value))
    listed = ["{} (line {})".format(name, ", ".join(found[:3])) for name, found in lines.items()]
    more = " and {} more".format(len(listed) - _MOST_IN_MESSAGE) if len(listed) > _MOST_IN_MESSAGE else ""
    names = "1 private name" if len(listed) == 1 else "{} private names".format(len(listed))
    message = "{} of torch without version guard or fallback: {}{}".format(
        names, ", ".join(listed[:_MOST_IN_MESSAGE]), more
    )
    return {"outcome": "reproduced", "message": message}


if __name__ == "__main__":
    run_alone(__file__)
