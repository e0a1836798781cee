"""Private names of torch: which uses count, and what guards them."""

from __future__ import annotations

from pathlib import Path
from textwrap import indent

import pytest

from tests.source_helpers import PRIVATE, found

pytestmark = pytest.mark.process

USE = "norms = torch._foreach_norm(grads)\n"


def names(folder: Path, source: str) -> list[tuple[int, str]]:
    """The unguarded uses: line and name."""
    results = found(folder, {"norms.py": source}, PRIVATE).values()
    uses = (m for result in results for m in result.measurements if m.name == "private_use")
    return [(m.value, m.case["name"]) for m in uses]


@pytest.mark.parametrize(
    ("source", "name"),
    [
        ("import torch\nx = torch._foreach_norm(g)\n", "torch._foreach_norm"),
        ("import torch as t\nx = t._foreach_norm(g)\n", "torch._foreach_norm"),
        ("from torch.nn import utils\nx = utils._clip(g)\n", "torch.nn.utils._clip"),
        ("import torch\nfrom torch import _foreach_norm\n", "torch._foreach_norm"),
        ("import torch\nimport torch._dynamo\n", "torch._dynamo"),
        ("import torch\ndef f(): return torch.utils._pytree.tree_map(g)\n", "torch.utils._pytree"),
    ],
)
def test_a_private_name_is_found_however_it_was_imported(source: str, name: str, tmp_path: Path) -> None:
    assert names(tmp_path, source) == [(2, name)]


GUARDED = [
    'if hasattr(torch, "_foreach_norm"):\n    {use}else:\n    norms = slow(grads)\n',
    'if not hasattr(torch, "_foreach_norm"):\n    return slow(grads)\n{use}',
    "try:\n    {use}except AttributeError:\n    norms = slow(grads)\n",
    "if TORCH_GE_2:\n    {use}",
    'assert hasattr(torch, "_foreach_norm")\n{use}',
    'fused = hasattr(torch, "_foreach_norm")\nif fused:\n    {use}',
]
UNGUARDED = [
    "{use}",
    "try:\n    {use}except ZeroDivisionError:\n    norms = slow(grads)\n",
    '{use}assert hasattr(torch, "_foreach_norm")\n',
]


def in_function(text: str) -> str:
    """`text` as the body of a function, with the use at the depth at which `{use}` stands."""
    return "import torch\n\n\ndef f(grads):\n" + indent(text.replace("{use}", USE), "    ")


@pytest.mark.parametrize("text", GUARDED)
def test_a_guard_is_believed(text: str, tmp_path: Path) -> None:
    assert names(tmp_path, in_function(text)) == []


@pytest.mark.parametrize("text", UNGUARDED)
def test_what_is_no_guard_is_not(text: str, tmp_path: Path) -> None:
    assert [name for _, name in names(tmp_path, in_function(text))] == ["torch._foreach_norm"]


def test_an_import_that_is_tried_is_guarded(tmp_path: Path) -> None:
    """The fallback in the handler may be private too: it is for the torch that has the other name."""
    tried = "try:\n    from torch import _x as f\nexcept ImportError:\n    from torch import _y as f\n"
    assert names(tmp_path, tried) == []
    assert names(tmp_path, tried.replace("ImportError", "KeyError")) == [(2, "torch._x"), (4, "torch._y")]


@pytest.mark.parametrize(
    ("file", "requirement", "pin"),
    [
        ("pyproject.toml", 'dependencies = ["torch==2.9.1"]', "torch==2.9.1"),
        ("requirements.txt", "torch~=2.9.0\n", "torch~=2.9.0"),
        ("requirements/train.txt", "torch==2.9.1\n", "torch==2.9.1"),
        ("archive/requirements.txt", "torch==2.9.1\n", ""),
        ("requirements.txt", "torch>=2.9\n", ""),
        ("requirements.txt", "torchvision==0.20\n", ""),
    ],
)
def test_a_pin_to_one_release_guards_everything(file: str, requirement: str, pin: str, tmp_path: Path) -> None:
    files = {file: requirement, "norms.py": f"import torch\n\n{USE}"}
    assert bool(found(tmp_path, files, PRIVATE)) is not bool(pin)
