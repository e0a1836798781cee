#!/usr/bin/env python3
"""Is one threshold the default of one parameter in several signatures that belong together?"""

from forms import run_alone

PROBE = {
    "version": 2,
    "title": "One threshold is the default of several signatures",
    "scope": "source",
    "style": True,
    "categories": ["API design / contract violation"],
    "agent": "CR",
    "breaks": "upkeep",
    "occurs": "rare",
    "instrument": "syntax",
    "motivation": "A threshold that is a literal in a class, in its factory and in a shortcut is one setting written "
    "three times. Whoever changes one changes what one caller gets.",
    "method": "Literal numbers that are the default of a threshold-like parameter (limit, tolerance, eps, clip, "
    "max_norm) in signatures of one module, or in signatures that pass the parameter on. Code of one of the modules "
    "must compare or clamp with it.",
    "limits": "0, 1, 2, -1 and tuning values (lr, betas) are not reported. Two parameters of one name may be different "
    "settings.",
    "remediation": "Give the number a name once, and let every signature use the name.",
    "measurements": {"default": "line", "files_examined": "count", "signatures_examined": "count"},
    "policy": {"signatures": 2},
}

_MOST_IN_MESSAGE = 5


def measure(ctx):
    """Yield the line of every default that several signatures repeat, by parameter and number."""
    for repeated in ctx.repeated_defaults():
        subject = "{}:{}={:.12g}".format(repeated.package, repeated.parameter, repeated.value)
        for place in repeated.places:
            case = {"file": place.module.file, "signature": place.signature.qualified_name}
            yield ctx.measurement(subject, "default", place.line, "line", **case)
        first = repeated.places[0]
        yield ctx.location(subject, first.module, first.line, first.signature.qualified_name)
    yield from ctx.examined(signatures=sum(len(module.signatures) for module in ctx.modules))


def judge(measurements, policy):
    """Reproduced where at least as many signatures repeat it as the policy says."""
    defaults = [m for m in measurements if m.name == "default"]
    if not defaults:
        counts = {m.name: m.value for m in measurements}
        message = "no number is repeated among {:,} signatures with literal defaults in {:,} files".format(
            counts["signatures_examined"], counts["files_examined"]
        )
        return {"outcome": "not_reproduced", "message": message}
    listed = [
        "{} ({}:{})".format(m.case["signature"], m.case["file"].rpartition("/")[2], m.value)
        for m in defaults[:_MOST_IN_MESSAGE]
    ]
    more = " and {} more".format(len(defaults) - _MOST_IN_MESSAGE) if len(defaults) > _MOST_IN_MESSAGE else ""
    message = "{} signatures repeat the same default: {}{}".format(len(defaults), ", ".join(listed), more)
    outcome = "reproduced" if len(defaults) >= policy["signatures"] else "not_reproduced"
    return {"outcome": outcome, "message": message}


if __name__ == "__main__":
    run_alone(__file__)
