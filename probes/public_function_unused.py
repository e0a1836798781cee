#!/usr/bin/env python3
"""Is there a public function that nothing in the checkout refers to?"""

from forms import run_alone

PROBE = {
    "title": "Public functions that nothing refers to",
    "scope": "source",
    "style": True,
    "categories": ["Dead code / unwired functionality"],
    "agent": "CR",
    "breaks": "upkeep",
    "occurs": "rare",
    "instrument": "syntax",
    "motivation": "Code that nobody calls is still read, reviewed and maintained, and a collector that was never wired "
    "in looks as if the run were watched.",
    "method": "Every public function, and method of a class without outside bases, that no code, test, export, setting "
    "or prose of the checkout names. vulture finds the names that code uses.",
    "limits": "A name that is used anywhere counts as used everywhere. Names made at run time and users outside the "
    "checkout are not seen. Functions under a decorator that may register them are not reported.",
    "remediation": "Remove it, or wire it in. If it is meant for users outside, export and test it.",
    "measurements": {"named_by": "text", "files_examined": "count", "functions_examined": "count"},
    "policy": {"judge_test_only": 0, "judge_exported": 0},
}

_MOST_IN_MESSAGE = 5
_HOOKS = ("pytest_", "test_")


def measure(ctx):
    """Yield for every public function that no code uses who names it at all, by module."""
    functions = 0
    for module in ctx.modules:
        unused = []
        for item in module.public("function", "method"):
            if item.name.startswith(_HOOKS) or ctx.is_hook(item):
                continue
            functions += 1
            by = ctx.use_of(item).named_by()
            if by != "code":
                unused.append((item, by))
        if any(by in ("nothing", "tests", "exports") for _, by in unused):
            for item, by in unused:
                case = {"function": item.qualified_name, "line": item.line}
                yield ctx.measurement(module.name, "named_by", by, "text", **case)
            first = min(unused, key=lambda pair: (pair[1] != "nothing", pair[0].line))[0]
            yield ctx.location(module.name, module, first.line, first.qualified_name)
    yield from ctx.examined(functions=functions)


def judge(measurements, policy):
    """Reproduced where nothing names a function; what tests or exports alone name, as the policy says."""
    wanted = ["nothing"]
    wanted += ["tests"] if policy["judge_test_only"] else []
    wanted += ["exports"] if policy["judge_exported"] else []
    rows = [m for m in measurements if m.name == "named_by"]
    found = [m for m in rows if m.value in wanted]
    if not found:
        return {"outcome": "not_reproduced", "message": _examined(measurements)}
    listed = [
        "{} (line {}{})".format(m.case["function"], m.case["line"], "" if m.value == "nothing" else ", by " + m.value)
        for m in found[:_MOST_IN_MESSAGE]
    ]
    more = " and {} more".format(len(found) - _MOST_IN_MESSAGE) if len(found) > _MOST_IN_MESSAGE else ""
    counted = "1 public function is" if len(found) == 1 else "{} public functions are".format(len(found))
    message = "{} referred to by nothing in the checkout: {}{}".format(counted, ", ".join(listed), more)
    if len(wanted) > 1:
        message = "{} not used by any code: {}{}".format(counted, ", ".join(listed), more)
    others = {}
    for row in rows:
        if row not in found:
            others.setdefault(row.value, []).append(row.case["function"])
    for by, names in sorted(others.items()):
        message += "; {} named by {} alone".format(len(names), by)
    return {"outcome": "reproduced", "message": message}


def _examined(measurements):
    counts = {m.name: m.value for m in measurements}
    if "functions_examined" not in counts:
        return "nothing but what the policy leaves out is unused"
    return "code, tests, exports, settings or prose name each of {:,} public functions in {:,} files".format(
        counts["functions_examined"], counts["files_examined"]
    )


if __name__ == "__main__":
    run_alone(__file__)
