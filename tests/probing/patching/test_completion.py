"""A ticket's code block becomes a whole function, or is refused with a reason; what was filled in is said."""

from __future__ import annotations

from pathlib import Path

import pytest

from auditkit.model.enums import Takes
from auditkit.probing.patching.fragments import CannotComplete
from auditkit.probing.patching.patches import Blame, Patch, find_function, patch

MODULE = '''"""Norms."""

import torch

EPS = 1e-6


def collect(params, enhanced=False):
    """What the gradients look like."""
    # only those that have one
    grads = [p.grad for p in params if p.grad is not None]
    if not grads:
        return {"norm": 0.0, "zero": 0.0, "nan": 0}
    norms = torch._foreach_norm(grads, 2)
    total = torch.stack(norms).norm()
    # one copy of everything
    flat = torch.cat([g.reshape(-1) for g in grads])
    zeros_t = (flat == 0).sum()
    nans_t = torch.isnan(flat).sum()
    elements = flat.numel()
    stats = torch.stack([total, zeros_t.float(), nans_t.float()])
    norm, zeros, nan_count = stats.tolist()
    nan_count = int(nan_count)
    zero_fraction = zeros / max(elements, 1)
    return {"norm": norm, "zero": zero_fraction, "nan": nan_count}


@torch.no_grad()
def total_norm(module):
    total = 0.0
    for p in module.parameters():
        if p.grad is None:
            continue
        total = total + (p.grad * p.grad).sum()
    root = total**0.5
    return float(root)


class Monitor:
    def __init__(self):
        self.seen = 0

    def check(self, params):
        norms = [p.grad.norm() for p in params]
        self.seen += 1
        return sum(n.item() ** 2 for n in norms) ** 0.5


async def later(params):
    return 0.0
'''


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    (tmp_path / "norms.py").write_text(MODULE, encoding="utf-8")
    return tmp_path


def patched(checkout: Path, code: str, name: str = "total_norm", blame: Blame | None = None, *earlier: str) -> Patch:
    place = find_function(checkout, [checkout], f"norms:{name}")
    assert place is not None
    done = patch(code, place, blame or Blame(), earlier)
    compile(done.text, "norms.py", "exec")
    return done


def body(done: Patch) -> str:
    return done.function.partition("\n")[2]


def test_a_whole_function_replaces_the_definition_and_keeps_its_decorator(checkout: Path) -> None:
    done = patched(checkout, "def total_norm(module):\n    # fused\n    return torch.ones(1).norm().item()\n")
    assert done.function == "def total_norm(module):\n    # fused\n    return torch.ones(1).norm().item()"
    assert "@torch.no_grad()\ndef total_norm(module):\n    # fused\n" in done.text
    assert "total**0.5" not in done.text
    assert done.text.startswith('"""Norms."""\n\nimport torch\n')
    assert done.text.endswith("async def later(params):\n    return 0.0\n")
    assert done.notes == ("the block is a whole function",)
    assert "+    # fused" in done.difference.splitlines()


def test_the_original_s_signature_is_taken_where_the_block_has_dots(checkout: Path) -> None:
    done = patched(checkout, "def collect(...):\n    return {}\n", "collect")
    assert done.function.startswith("def collect(params, enhanced=False):\n")
    assert any("(params, enhanced=False)" in note for note in done.notes)


def test_a_fragment_that_returns_keeps_the_guard_and_what_it_reads(checkout: Path) -> None:
    code = (
        "norm = torch.stack([g.double().norm() for g in grads]).norm()\nreturn {'norm': norm, 'zero': 0.0, 'nan': 0}\n"
    )
    done = patched(checkout, code, "collect")
    assert body(done).splitlines() == [
        '    """What the gradients look like."""',
        "    # only those that have one",
        "    grads = [p.grad for p in params if p.grad is not None]",
        "    if not grads:",
        '        return {"norm": 0.0, "zero": 0.0, "nan": 0}',
        "    norm = torch.stack([g.double().norm() for g in grads]).norm()",
        "    return {'norm': norm, 'zero': 0.0, 'nan': 0}",
    ]
    assert done.notes[0] == "kept 3 lines of the original before it and 0 lines after"
    assert any("nothing needs it any more" in note and "flat = torch.cat" in note for note in done.notes)


def test_what_is_counted_anew_is_not_counted_twice(checkout: Path) -> None:
    """An accumulating loop goes with its start value: kept, it would add to the fix's own sum."""
    done = patched(checkout, "total = sum(p.grad.double().pow(2).sum() for p in module.parameters())\n")
    assert body(done).splitlines() == [
        "    total = sum(p.grad.double().pow(2).sum() for p in module.parameters())",
        "    root = total**0.5",
        "    return float(root)",
    ]


LOOP = """def collect(...):
    # ... existing grad collection ...

    nan_count = 0
    elements = 0
    for g in grads:
        piece = g.reshape(-1)
        nan_count += torch.isnan(piece).sum().item()
        elements += piece.numel()

    # Peak memory: one gradient
"""


def test_a_sum_that_the_fix_forgets_goes_into_its_loop(checkout: Path) -> None:
    """Of the flat copy that the ticket blames nothing is left; the tail that builds the answer stays."""
    done = patched(checkout, LOOP, "collect", Blame(code=("flat = torch.cat([g.reshape(-1) for g in grads])",)))
    lines = body(done).splitlines()
    assert "flat" not in done.function
    assert "        zeros_t = zeros_t + (piece == 0).sum()" in lines
    assert "    stats = torch.stack([total, zeros_t.float()])" in lines
    assert "    norm, zeros = stats.tolist()" in lines
    assert lines[-3:] == [
        "    nan_count = int(nan_count)",
        "    zero_fraction = zeros / max(elements, 1)",
        '    return {"norm": norm, "zero": zero_fraction, "nan": nan_count}',
    ]
    assert any(note.startswith("zeros_t, which the function still needs and the fix forgets") for note in done.notes)
    assert any("no longer reads back nan_count" in note for note in done.notes)


def test_what_cannot_be_carried_is_still_computed_as_before_and_said(checkout: Path) -> None:
    file = checkout / "norms.py"
    file.write_text(MODULE.replace("(flat == 0).sum()", "flat.median()"), encoding="utf-8")
    done = patched(checkout, LOOP, "collect", Blame(code=("flat = torch.cat([g.reshape(-1) for g in grads])",)))
    assert "    flat = torch.cat([g.reshape(-1) for g in grads])" in body(done).splitlines()
    assert any(note.startswith("flat, which the rest of the function needs") for note in done.notes)


def test_lines_say_what_is_wrong_unless_they_are_the_whole_function(checkout: Path) -> None:
    first = MODULE.splitlines().index("    flat = torch.cat([g.reshape(-1) for g in grads])") + 1
    some = patched(checkout, LOOP, "collect", Blame(frozenset(range(first, first + 4))))
    assert "flat" not in some.function
    whole = patched(checkout, LOOP, "collect", Blame(frozenset(range(8, 30))))
    assert "flat = torch.cat" in whole.function


def test_elisions_in_the_middle_keep_what_stands_there(checkout: Path) -> None:
    code = """def total_norm(module):
    total = torch.zeros((), dtype=torch.float64)
    # ... as before ...
    root = total.sqrt()
    return root.item()
"""
    done = patched(checkout, code)
    assert body(done).splitlines()[0] == "    total = torch.zeros((), dtype=torch.float64)"
    assert body(done).splitlines()[-2:] == ["    root = total.sqrt()", "    return root.item()"]


def test_statements_that_the_original_has_word_for_word_are_context(checkout: Path) -> None:
    code = "grads = [p.grad for p in params if p.grad is not None]\ngrads = [g.double() for g in grads]\n"
    lines = body(patched(checkout, code, "collect")).splitlines()
    place = lines.index("    grads = [p.grad for p in params if p.grad is not None]")
    assert lines[place + 1] == "    grads = [g.double() for g in grads]"
    assert lines[place + 2] == "    if not grads:"


METHOD = """class Monitor:
    def check(self, params):
        return self._norm(params)

    def _norm(self, params):
        return 1.0
"""


def test_a_method_is_mended_in_its_class(checkout: Path) -> None:
    lines = patched(checkout, METHOD, "Monitor.check").text.splitlines()
    place = lines.index("    def check(self, params):")
    assert lines[place + 1 : place + 5] == [
        "        return self._norm(params)",
        "",
        "    def _norm(self, params):",
        "        return 1.0",
    ]
    assert "        self.seen = 0" in lines[:place]
    assert "        self.seen += 1" not in lines


HELPER = """from __future__ import annotations
import math

def _root(x):
    return math.sqrt(x)

def total_norm(module):
    return _root(4.0)
"""


def test_a_helper_that_the_block_defines_comes_along(checkout: Path) -> None:
    done = patched(checkout, HELPER)
    assert done.text.index("def _root(x)") < done.text.index("@torch.no_grad()")


def test_an_import_that_is_missing_is_added_and_said(checkout: Path) -> None:
    done = patched(checkout, "def total_norm(module):\n    return math.sqrt(4.0)\n")
    assert "import math\n@torch.no_grad()" in done.text
    assert done.notes[-1] == "added: import math"


ABOVE = """def total_norm(module):
    grads = [p.grad for p in module.parameters()]
    return torch.stack(grads).norm().item()
"""


def test_an_alternative_is_completed_from_the_whole_function_above_it(checkout: Path) -> None:
    done = patched(checkout, "return max(g.abs().max().item() for g in grads)\n", "total_norm", None, ABOVE)
    assert body(done).splitlines() == [
        "    grads = [p.grad for p in module.parameters()]",
        "    return max(g.abs().max().item() for g in grads)",
    ]
    assert done.notes[0] == "completed from the whole function of block 1, which defines what it needs"


@pytest.mark.parametrize(
    ("name", "code", "reason"),
    [
        ("total_norm", "Use vector_norm instead of the loop.\n", "is no Python"),
        ("total_norm", "norm = total_norm(model)\nassert norm > 0\n", "sets norm, which total_norm does not use"),
        ("total_norm", "def other(x):\n    return x\n", "defines other, not total_norm"),
        ("total_norm", "return float(grand_total)\n", "needs grand_total, which neither the function nor its module"),
        ("total_norm", "def total_norm(module):\n    return _helper(module)\n", "needs _helper"),
        ("total_norm", "def total_norm(module, scale):\n    return scale\n", "asks for scale"),
        ("total_norm", "async def total_norm(module):\n    return 0.0\n", "asynchronous"),
        ("total_norm", "return torch.stack(...)\n", "leaves code out inside a statement"),
        (
            "total_norm",
            "for p in module.parameters():\n    # ... as before ...\n    total = total + 1\n",
            "leaves code",
        ),
        ("collect", "return {\n    # ... as before ...\n    'norm': 0.0,\n}\n", "inside a statement, with a comment"),
        ("total_norm", "import torch\n", "defines nothing, not total_norm"),
        ("total_norm", "total = 0.0\n", "says nothing that the function does not say already"),
        ("total_norm", "# ... use another norm ...\n", "says nothing that"),
    ],
)
def test_what_would_be_a_guess_is_refused_with_the_reason(checkout: Path, name: str, code: str, reason: str) -> None:
    with pytest.raises(CannotComplete) as refused:
        patched(checkout, code, name)
    assert reason in str(refused.value)


def test_two_values_that_belong_together_are_not_torn_apart(checkout: Path) -> None:
    file = checkout / "norms.py"
    file.write_text(MODULE.replace("norm, zeros, nan_count = stats.tolist()", "norm, zeros, nan_count = split(stats)"))
    with pytest.raises(CannotComplete, match="sets nan_count, which the function sets again together with other"):
        patched(checkout, LOOP, "collect")


OWN_NAME = "_recommended_total_norm([p.grad for p in module.parameters() if p.grad is not None])"


@pytest.mark.parametrize(
    ("name", "code", "takes", "body"),
    [
        ("total_norm", "def f(parameters):\n    return 1.0\n", "module", "f(module.parameters())"),
        (
            "collect",
            "def f(grads):\n    return 1.0\n",
            "parameters",
            "f([p.grad for p in params if p.grad is not None])",
        ),
        ("total_norm", "def total_norm(grads):\n    return 1.0\n", "module", OWN_NAME),
        ("Monitor.check", "def f(parameters, eps=1):\n    return 1.0\n", "parameters", "f(params)"),
    ],
)
def test_a_function_of_another_name_is_fed_what_the_target_takes(
    checkout: Path, name: str, code: str, takes: str, body: str
) -> None:
    """As in tickets of an audit, whose code is a pattern that knows nothing of the target."""
    place = find_function(checkout, [checkout], f"norms:{name}")
    assert place is not None
    done = patch(code, place, Blame(), takes=Takes(takes))
    compile(done.text, "norms.py", "exec")
    assert done.function.endswith(f"return {body}")
    called = body.partition("(")[0]
    assert f"\ndef {called}(" in done.text
    assert done.notes[0] == f"the block defines {called}: {name.rpartition('.')[2]} returns {body}, whatever that is"


def test_a_function_that_cannot_be_fed_is_refused(checkout: Path) -> None:
    place = find_function(checkout, [checkout], "norms:total_norm")
    assert place is not None
    for code, takes in (
        ("def f(parameters):\n    return 1.0\n", Takes.GRADIENTS),
        ("def f(a, b):\n    return 1.0\n", Takes.MODULE),
    ):
        with pytest.raises(CannotComplete, match="defines f, not total_norm"):
            patch(code, place, Blame(), takes=takes)


def test_a_sum_that_is_read_above_the_loop_is_not_carried_into_it(checkout: Path) -> None:
    """Nothing blames the copy, and the block's place is below the line that reads the sum."""
    done = patched(
        checkout, LOOP.replace("    elements = 0\n", "").replace("        elements += piece.numel()\n", ""), "collect"
    )
    lines = body(done).splitlines()
    assert lines.index("    zeros_t = (flat == 0).sum()") < lines.index("    nan_count = 0")
    assert not any("forgets" in note for note in done.notes)


WRAPPED = """import torch


class Monitor:
\tdef check(self, params):
\t\t\"\"\"Two tabs.\"\"\"
\t\twith torch.no_grad():
\t\t\t# all of them
\t\t\tnorms = [p.grad.norm() for p in params]
\t\t\ttotal = sum(n.item() ** 2 for n in norms)
\t\t\treturn total**0.5
"""


def test_a_body_inside_one_with_is_mended_in_it_and_tabs_stay_tabs(checkout: Path) -> None:
    (checkout / "norms.py").write_text(WRAPPED, encoding="utf-8")
    done = patched(checkout, "total = torch.stack(norms).square().sum().item()\n", "Monitor.check")
    changed = "\t\t\ttotal = torch.stack(norms).square().sum().item()\n"
    assert done.text == WRAPPED.replace("\t\t\ttotal = sum(n.item() ** 2 for n in norms)\n", changed)
    whole = patched(checkout, "def check(self, params):\n    return 1.0\n", "Monitor.check")
    assert whole.text.endswith("class Monitor:\n\tdef check(self, params):\n\t    return 1.0\n")


def test_a_comment_above_the_first_statement_stands_once(checkout: Path) -> None:
    (checkout / "norms.py").write_text(
        "def total_norm(\n    module,\n):\n    # first\n    x = 1\n    return x\n", "utf-8"
    )
    done = patched(checkout, "return x + 1\n")
    assert done.text == "def total_norm(\n    module,\n):\n    # first\n    x = 1\n    return x + 1\n"


def test_a_function_on_one_line_is_written_out(checkout: Path) -> None:
    (checkout / "norms.py").write_text("def total_norm(module): return 1.0\n", "utf-8")
    assert patched(checkout, "return 2.0\n").text == "def total_norm(module):\n    return 2.0\n"
