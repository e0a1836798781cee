#!/usr/bin/env python3
"""Does code depend on private names of torch, with nothing to fall back to where a release lacks them?"""

PROBE = {
    "id": "private_torch_api_without_fallback",
    "version": 1,
    "title": "Private torch functions are used without a fallback",
    "scope": "source",
    "style": True,
    "contracts": [],
    "categories": ["Defensive programming violation"],
    "agent": "PT",
    "breaks": "upkeep",
    "occurs": "rare",
    "lifecycle": "stable",
    "instrument": "syntax",
    "motivation": "A name with a leading underscore may change its arguments or vanish in any release of torch, "
    "without a deprecation. Some, such as torch._foreach_norm, have been stable for years and have no public equal; "
    "using them is a decision, and a guard keeps it from breaking on the next upgrade.",
    "method": "Every torch._x, torch.x._y, from torch._x import and from torch.x import _y, under whatever name "
    "torch was imported. Guarded are uses under a test of the version or of the name (hasattr, getattr with a "
    "default), after such a test that leaves, under a flag set from one, and in a try that catches what a missing "
    "name raises. A checkout whose requirements hold torch to one minor release guards all of them.",
    "limits": "A guard is believed as it stands: whether the fallback works is not tested. A guard in another "
    "function or module is not seen. Private methods of tensors (p._version) and names built at run time are not "
    "looked for.",
    "remediation": "Ask for the name, and keep a public way for the releases without it; or hold torch to the "
    "releases that were tested. Advice of other probes that uses torch._foreach_norm is meant with this guard around "
    "it.",
    "remediation_code": """import torch


def tensor_norms(grads):
    if hasattr(torch, "_foreach_norm"):
        return torch.stack(torch._foreach_norm(grads, 2, dtype=torch.float64))
    return torch.stack([torch.linalg.vector_norm(g, 2, dtype=torch.float64) for g in grads])


def total_norm(parameters):
    grads = [p.grad for p in parameters if p.grad is not None]
    grads = [g.coalesce().values() if g.is_sparse else g for g in grads]
    return torch.linalg.vector_norm(tensor_norms(grads)).item() if grads else 0.0
""",
    "verification": ["every use of a private name stands under a guard, or torch is held to one minor release"],
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
    from _alone import run_alone

    run_alone(__file__)
