#!/usr/bin/env python3
"""Is there a public collector that no test names?"""

PROBE = {
    "id": "public_function_untested",
    "version": 2,
    "title": "Public collectors that no test names",
    "scope": "source",
    "style": True,
    "contracts": [],
    "categories": ["Test coverage gap"],
    "agent": "CR",
    "breaks": "upkeep",
    "occurs": "rare",
    "lifecycle": "stable",
    "instrument": "syntax",
    "motivation": "What a training run is steered by (a ratio that opens a gate, a health value, a norm that clips) "
    "fails quietly: it returns a number. Without a test of its own its edge cases (no gradients, no parameters, NaN) "
    "are met first in a run.",
    "method": "Every public function that reads gradients and returns figures of them, every public class with such a "
    "method, and what is called like them in the same module (its second step, its result): is it named by a test, in "
    "an import, as an attribute, in a string, in the name of a test or of a test file, or does its docstring hold an "
    "example? For a class the name of any of its methods counts.",
    "limits": "To name is not to test, and code that tests reach only through other functions counts as unnamed. "
    "Modules that collect through others alone are not asked, nor what trains, nor examples, scripts and tools. A "
    "checkout without any test gives one answer, not one for each module.",
    "remediation": "Add a test of the function itself: known inputs with the value worked out by hand, and the edges "
    "(no gradients, zeros, NaN and Inf).",
    "remediation_code": """# file: telemetry/ratio.py
import torch


def _tensor_norms(grads):
    grads = [g.coalesce().values() if g.is_sparse else g for g in grads]
    if hasattr(torch, "_foreach_norm"):
        return torch.stack(torch._foreach_norm(grads, 2, dtype=torch.float64))
    return torch.stack([torch.linalg.vector_norm(g, dtype=torch.float64) for g in grads])


def total_norm(parameters):
    grads = [p.grad for p in parameters if p.grad is not None]
    return torch.linalg.vector_norm(_tensor_norms(grads)).item() if grads else 0.0


# file: tests/test_ratio.py
import pytest
import torch

from telemetry.ratio import total_norm


def parameter(gradient):
    made = torch.nn.Parameter(torch.zeros(len(gradient)))
    made.grad = torch.tensor(gradient)
    return made


@pytest.mark.parametrize(("gradients", "norm"), [([], 0.0), ([[3.0], [4.0]], 5.0), ([[3e30, 4e30]], 5e30)])
def test_total_norm(gradients, norm):
    assert total_norm([parameter(gradient) for gradient in gradients]) == pytest.approx(norm)
""",
    "verification": ["a test names the function"],
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
    from _alone import run_alone

    run_alone(__file__)
