"""Recommended code replaces a whole function, or is refused with a reason; what was added is said."""

from __future__ import annotations

from pathlib import Path

import pytest

from auditkit.probing.fix.patches import CannotComplete, function_in, patch
from auditkit.probing.source.python_files import PythonFiles

MODULE = '''"""Norms."""

import torch

def collect(params, enhanced=False):
    return {"norm": params[0].grad.norm()}


@torch.no_grad()
def total_norm(module):
    total = 0.0
    for p in module.parameters():
        if p.grad is None:
            continue
        total = total + (p.grad * p.grad).sum()
    root = total**0.5
    return float(root)


async def later(params):
    return 0.0
'''


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    (tmp_path / "norms.py").write_text(MODULE, encoding="utf-8")
    return tmp_path


def patched(checkout: Path, code: str, name: str = "total_norm") -> str:
    place = function_in(PythonFiles(checkout, [checkout]), f"norms:{name}")
    assert place is not None
    done = patch(code, place)
    compile(done, "norms.py", "exec")
    return done.decode()


def test_a_whole_function_replaces_the_definition_and_keeps_its_decorator(checkout: Path) -> None:
    done = patched(checkout, "import math\n\ndef total_norm(module):\n    # fused\n    return math.sqrt(1.0)\n")
    assert "import math\n@torch.no_grad()\ndef total_norm(module):\n    # fused\n    return math.sqrt(1.0)\n" in done
    assert "total**0.5" not in done
    assert done.startswith('"""Norms."""\n\nimport torch\n')
    assert done.endswith("async def later(params):\n    return 0.0\n")


@pytest.mark.parametrize(
    ("name", "code", "reason"),
    [
        ("total_norm", "Use vector_norm instead of the loop.\n", "is no Python"),
        ("total_norm", "return 1.0\n", "defines no function, not total_norm"),
        ("total_norm", "def other(x):\n    return x\n", "defines other, not total_norm"),
        ("collect", "def collect(params):\n    # ... as before ...\n    return {}\n", "leaves code out"),
    ],
)
def test_what_would_be_a_guess_is_refused_with_the_reason(checkout: Path, name: str, code: str, reason: str) -> None:
    with pytest.raises(CannotComplete) as refused:
        patched(checkout, code, name)
    assert reason in str(refused.value)
