#!/usr/bin/env python3
"""Do others import names of a module that its package exports in part, and not those?"""

from forms import run_alone

PROBE = {
    "title": "Names in use are missing from the package's exports",
    "scope": "source",
    "style": True,
    "categories": ["API design / contract violation"],
    "agent": "CR",
    "breaks": "upkeep",
    "occurs": "rare",
    "instrument": "syntax",
    "motivation": "A package that exports some names of a module tells its users that the rest is internal. Where they "
    "import the rest anyway, moving the module breaks them.",
    "method": "For every module of which a package exports at least one name: public names that code outside the "
    "package, or several test files, import from it and that no package around it exports.",
    "limits": "A package that exports nothing of a module, or makes names at run time, is not reported, nor is a name "
    "that one test imports.",
    "remediation": "Export the names that are used and list them in __all__, or make them private.",
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
    run_alone(__file__)
