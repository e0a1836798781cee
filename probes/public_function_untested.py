#!/usr/bin/env python3
"""Is there a public collector that no test names?"""

from forms import joined, nothing_found, run_alone, verdict

PROBE = {
    "version": 2,
    "title": "Public collectors that no test names",
    "scope": "source",
    "style": True,
    "categories": ["Test coverage gap"],
    "agent": "CR",
    "breaks": "upkeep",
    "occurs": "rare",
    "motivation": "A norm that clips or a health value that opens a gate fails quietly: it returns a number. Without a "
    "test, its edge cases (no gradients, NaN) first appear in a run.",
    "method": "Every public function that returns figures of gradients, every class with such a method, and what is "
    "named like them in the same module: does a test file name it, or does its docstring hold an example?",
    "limits": "A name in a test is not a test, and code that tests reach only through other functions counts as "
    "unnamed. Examples, scripts and tools are not judged.",
    "remediation": "Add a test of the function itself: known inputs with values worked out by hand, and the edges.",
    "measurements": {"test_count": "count", "files_examined": "count", "definitions_examined": "count"},
}


def measure(ctx):
    """Yield for every public collector that no test names where it is defined, by module."""
    yield from ctx.check("untested_collectors")


def judge(measurements, policy):
    """Reproduced if no test names something public."""
    untested = [m for m in measurements if m.name == "test_count"]
    if not untested:
        message = "tests name each of {definitions_examined:,} public collectors in {files_examined:,} files"
        return nothing_found(measurements, message)
    listed = ["{} (line {})".format(m.case["name"], m.case["line"]) for m in untested]
    return verdict(True, "no test names " + joined(listed, 6))


if __name__ == "__main__":
    run_alone(__file__)
