#!/usr/bin/env python3
"""Is one threshold the default of one parameter in several signatures that belong together?"""

PROBE = {
    "id": "default_repeated",
    "version": 2,
    "title": "One threshold is the default of several signatures",
    "scope": "source",
    "style": True,
    "contracts": [],
    "categories": ["API design / contract violation"],
    "agent": "CR",
    "breaks": "upkeep",
    "occurs": "rare",
    "lifecycle": "stable",
    "instrument": "syntax",
    "motivation": "A threshold that stands as a literal in a class, in a function that makes the class and in a "
    "shortcut around both is one setting written three times. Whoever changes one of them changes what one caller "
    "gets and not what the others get, and nothing says so.",
    "method": "Literal numbers that are the default of a parameter of the same name, dataclass fields included, in "
    "signatures of one module or in signatures of which one hands the parameter on to the other. The name says that "
    "it is a threshold (limit, tolerance, eps, clip, max_norm), and code of one of the modules compares or clamps "
    "with it. Methods of one name in several classes, an interface and its implementations, count once.",
    "limits": "0, 1, 2, -1, truth values and texts are no settings here, nor is what a run is tuned with (lr, gamma, "
    "betas, batch_size). That two parameters of one name mean the same is assumed from where they stand. Signatures "
    "that belong together only by their subject are not seen, nor is a threshold whose name does not say so.",
    "remediation": "Give the number a name, once, and let every signature use the name.",
    "remediation_code": """import torch

VANISHING_NORM = 1e-7
EXPLODING_NORM = 100.0


def tensor_norms(grads):
    grads = [g.coalesce().values() if g.is_sparse else g for g in grads]
    if hasattr(torch, "_foreach_norm"):
        return torch.stack(torch._foreach_norm(grads, 2, dtype=torch.float64))
    return torch.stack([torch.linalg.vector_norm(g, dtype=torch.float64) for g in grads])


def norm_flags(norm, vanishing_norm=VANISHING_NORM, exploding_norm=EXPLODING_NORM):
    return {"is_vanishing": norm < vanishing_norm, "is_exploding": not norm <= exploding_norm}


def gradient_summary(parameters, vanishing_norm=VANISHING_NORM, exploding_norm=EXPLODING_NORM):
    grads = [p.grad for p in parameters if p.grad is not None]
    norm = torch.linalg.vector_norm(tensor_norms(grads)).item() if grads else 0.0
    return {"grad_norm": norm, **norm_flags(norm, vanishing_norm, exploding_norm)}
""",
    "verification": ["the number stands in one place, and every signature names it"],
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
    from _alone import run_alone

    run_alone(__file__)
