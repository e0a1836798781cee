#!/usr/bin/env python3
"""Is there a public function that nothing in the checkout refers to?"""

from forms import counted, joined, nothing_found, run_alone, verdict

PROBE = {
    "version": 2,
    "title": "Public functions that nothing refers to",
    "scope": "source",
    "style": True,
    "categories": ["Dead code / unwired functionality"],
    "agent": "CR",
    "breaks": "upkeep",
    "occurs": "rare",
    "motivation": "Code that is never called is still read, reviewed and maintained, and a collector that was never "
    "wired in looks as if the run were watched.",
    "method": "Every public function, and method of a class without outside bases, that no code, test, export, setting "
    "or prose of the checkout names. vulture finds the names that code uses.",
    "limits": "A name that is used anywhere counts as used everywhere. Names made at run time and users outside the "
    "checkout are not seen. Functions under a decorator that may register them are not reported.",
    "remediation": "Remove it, or wire it in. If it is meant for users outside, export and test it.",
    "measurements": {"named_by": "text", "files_examined": "count", "functions_examined": "count"},
}


def measure(ctx):
    """Yield every public function that nothing names, by module."""
    yield from ctx.check("unused_functions")


def judge(measurements, policy):
    """Reproduced if nothing names a function."""
    found = [m for m in measurements if m.name == "named_by"]
    if not found:
        message = "code, tests, exports, settings or prose name each of {functions_examined:,} public functions in "
        return nothing_found(measurements, message + "{files_examined:,} files")
    listed = ["{} (line {})".format(m.case["function"], m.case["line"]) for m in found]
    functions, verb = counted(len(found), "public function"), "is" if len(found) == 1 else "are"
    return verdict(True, "{} {} referred to by nothing in the checkout: {}".format(functions, verb, joined(listed, 5)))


if __name__ == "__main__":
    run_alone(__file__)
