#!/usr/bin/env python3
"""Do others import names of a module that its package exports in part, and not those?"""

PROBE = {
    "id": "used_name_not_exported",
    "version": 1,
    "title": "Names in use are missing from the package's exports",
    "scope": "source",
    "style": True,
    "contracts": [],
    "categories": ["API design / contract violation"],
    "agent": "CR",
    "breaks": "upkeep",
    "occurs": "rare",
    "lifecycle": "stable",
    "instrument": "syntax",
    "motivation": "A package whose __init__ exports some names of a module tells its users that the rest is "
    "internal. Where they import the rest all the same, from the module, the interface is not the one that is used: "
    "moving the module breaks them, and nobody who reads the exports can know.",
    "method": "For every module of which a package around it exports at least one name: the public names that are "
    "imported from the module by code outside that package, or by several test files, and that no package above "
    "exports or lists in __all__. Importers inside the package need no export.",
    "limits": "A package that exports nothing of a module has decided so, and is not reported; nor is one that makes "
    "its names at run time (__getattr__). Users outside the checkout are not known. A name that only tests import is "
    "not reported for one test file: a test may look inside on purpose.",
    "remediation": "Export the names that are used, and list them in __all__; or make them private, and give their "
    "users something public.",
    "remediation_code": """# file: telemetry/gradients.py
import torch


def _tensor_norms(grads):
    grads = [g.coalesce().values() if g.is_sparse else g for g in grads]
    if hasattr(torch, "_foreach_norm"):
        return torch.stack(torch._foreach_norm(grads, 2, dtype=torch.float64))
    return torch.stack([torch.linalg.vector_norm(g, dtype=torch.float64) for g in grads])


def total_norm(parameters):
    grads = [p.grad for p in parameters if p.grad is not None]
    return torch.linalg.vector_norm(_tensor_norms(grads)).item() if grads else 0.0


def is_exploding(parameters, limit):
    return not total_norm(parameters) <= limit


# file: telemetry/__init__.py
from telemetry.gradients import is_exploding, total_norm

__all__ = ["is_exploding", "total_norm"]


# file: train.py
from telemetry import is_exploding, total_norm


def log_step(parameters, limit):
    return {"grad_norm": total_norm(parameters), "exploding": is_exploding(parameters, limit)}
""",
    "verification": ["every name that is imported from outside the package is one of its exports, or is gone"],
    "measurements": {"importer_count": "count", "files_examined": "count"},
    "policy": {"test_files": 2},
}

_MOST_IN_MESSAGE = 5


def measure(ctx):
    """Yield for every missing name how many files outside the package import it, and whether those are tests."""
    for found in ctx.partial_exports():
        subject = found.module.name
        exported = ", ".join(found.exported[:_MOST_IN_MESSAGE])
        if len(found.exported) > _MOST_IN_MESSAGE:
            exported += " and {} more".format(len(found.exported) - _MOST_IN_MESSAGE)
        for name in found.missing:
            for by, files in (("code", name.code), ("tests", name.tests)):
                if files:
                    case = {"name": name.name, "by": by, "first": files[0]}
                    case.update(package=found.package.name, exported=exported)
                    yield ctx.measurement(subject, "importer_count", len(files), "count", **case)
        yield ctx.location(subject, found.package, found.line)
    yield from ctx.examined()


def judge(measurements, policy):
    """Reproduced where code outside imports a missing name, or several test files do."""
    importers = [m for m in measurements if m.name == "importer_count"]
    if not importers:
        files = next(m.value for m in measurements if m.name == "files_examined")
        message = "no module of {:,} has a package that exports it in part and lacks names in use".format(files)
        return {"outcome": "not_reproduced", "message": message}
    found, inside = {}, set()
    for row in importers:
        if row.case["by"] == "code" or row.value >= policy["test_files"]:
            found.setdefault(row.case["name"], []).append(_files_in_words(row))
        else:
            inside.add(row.case["name"])
    listed = ["{} (imported by {})".format(name, " and ".join(by)) for name, by in found.items()]
    more = " and {} more".format(len(listed) - _MOST_IN_MESSAGE) if len(listed) > _MOST_IN_MESSAGE else ""
    message = "{} exports {} of this module, and lacks {}{}".format(
        importers[0].case["package"], importers[0].case["exported"], ", ".join(listed[:_MOST_IN_MESSAGE]), more
    )
    single = sorted(inside - set(found))
    if single:
        message += "; single test files import {} too".format(", ".join(single[:_MOST_IN_MESSAGE]))
    return {"outcome": "reproduced" if found else "not_reproduced", "message": message}


def _files_in_words(row):
    kind = "test file" if row.case["by"] == "tests" else "file"
    return "{} {}{}".format(row.value, kind, "" if row.value == 1 else "s")


if __name__ == "__main__":
    from _alone import run_alone

    run_alone(__file__)
