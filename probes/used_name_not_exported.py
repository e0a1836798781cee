#!/usr/bin/env python3
"""Do others import names of a module that its package exports in part, and not those?"""

from forms import counted, joined, nothing_found, run_alone, verdict

PROBE = {
    "title": "Names in use are missing from the package's exports",
    "scope": "source",
    "style": True,
    "categories": ["API design / contract violation"],
    "agent": "CR",
    "breaks": "upkeep",
    "occurs": "rare",
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


def measure(ctx):
    """Yield for every missing name how many files outside the package import it, and whether those are tests."""
    yield from ctx.check("partial_exports")


def judge(measurements, policy):
    """Reproduced if code outside imports a missing name, or several test files do."""
    importers = [m for m in measurements if m.name == "importer_count"]
    if not importers:
        message = "no module of {files_examined:,} has a package that exports it in part and lacks names in use"
        return nothing_found(measurements, message)
    found, single = {}, set()
    for row in importers:
        name, kind = row.case["name"], "test file" if row.case["by"] == "tests" else "file"
        if row.case["by"] == "code" or row.value >= policy["test_files"]:
            found.setdefault(name, []).append(counted(row.value, kind))
        else:
            single.add(name)
    listed = ["{} (imported by {})".format(name, " and ".join(by)) for name, by in found.items()]
    message = "{package} exports {exported} of this module, and lacks ".format(**importers[0].case) + joined(listed, 5)
    if single - set(found):
        message += "; single test files import {} too".format(joined(sorted(single - set(found)), 5))
    return verdict(bool(found), message)


if __name__ == "__main__":
    run_alone(__file__)
