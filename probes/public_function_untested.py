#!/usr/bin/env python3
"""Is there a public collector that no test names?"""

from forms import run_alone

PROBE = {
    "version": 2,
    "title": "Public collectors that no test names",
    "scope": "source",
    "style": True,
    "categories": ["Test coverage gap"],
    "agent": "CR",
    "breaks": "upkeep",
    "occurs": "rare",
    "instrument": "syntax",
    "motivation": "A norm that clips or a health value that opens a gate fails quietly: it returns a number. Without a "
    "test, its edge cases (no gradients, NaN) first appear in a run.",
    "method": "Every public function that returns figures of gradients, every class with such a method, and what is "
    "named like them in the same module: does a test file name it, or does its docstring hold an example?",
    "limits": "A name in a test is not a test, and code that tests reach only through other functions counts as "
    "unnamed. Examples, scripts and tools are not judged.",
    "remediation": "Add a test of the function itself: known inputs with values worked out by hand, and the edges.",
    "measurements": {"test_count": "count", "files_examined": "count", "definitions_examined": "count"},
}

_MOST_IN_MESSAGE = 6
_WORDS = ("grad", "norm", "stat", "health", "collect")


def measure(ctx):
    """Yield for every public collector that no test names where it stands, by module."""
    if not ctx.has_tests:
        raise ctx.NotApplicable("the checkout has no test file (test_*.py, *_test.py, tests/)")
    definitions = 0
    for module in ctx.modules:
        if module.is_side:
            continue
        collectors = {name.partition(".")[0] for name in ctx.collectors(module)}
        untested = []
        for item in module.public("function", "class"):
            if item.qualified_name not in collectors and not (collectors and _belongs_to_them(module, item)):
                continue
            definitions += 1
            if not ctx.is_named_by_a_test(module, item):
                untested.append(item)
        for item in untested:
            case = {"name": item.qualified_name, "kind": item.kind, "line": item.line}
            yield ctx.measurement(module.name, "test_count", 0, "count", **case)
        if untested:
            yield ctx.location(module.name, module, untested[0].line, untested[0].qualified_name)
    yield from ctx.examined(definitions=definitions)


def _belongs_to_them(module, item):
    """Whether something beside collectors is called like one: `materialize_grad_stats`, `DualGradientStats`."""
    is_called_so = any(word in item.name.lower() for word in _WORDS)
    return is_called_so and (item.kind != "class" or module.has_public_methods(item))


def judge(measurements, policy):
    """Reproduced where no test names something public."""
    untested = [m for m in measurements if m.name == "test_count"]
    if not untested:
        counts = {m.name: m.value for m in measurements}
        message = "tests name each of {:,} public collectors in {:,} files".format(
            counts["definitions_examined"], counts["files_examined"]
        )
        return {"outcome": "not_reproduced", "message": message}
    listed = ["{} (line {})".format(m.case["name"], m.case["line"]) for m in untested[:_MOST_IN_MESSAGE]]
    more = " and {} more".format(len(untested) - _MOST_IN_MESSAGE) if len(untested) > _MOST_IN_MESSAGE else ""
    message = "no test names {}{}".format(", ".join(listed), more)
    return {"outcome": "reproduced", "message": message}


if __name__ == "__main__":
    run_alone(__file__)
