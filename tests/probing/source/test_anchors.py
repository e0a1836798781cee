"""A function is found again where its name or its body says so, and lost otherwise."""

from __future__ import annotations

from pathlib import Path

import pytest

from auditkit.probing.checkout.checkout import import_roots
from auditkit.probing.source.history.anchors import Anchor, AnchoredSource, AnchorState

NORM = '''
def total_norm(module):
    """The norm."""
    grads = [p.grad for p in module.parameters() if p.grad is not None]
    if not grads:
        return 0.0
    total = sum((g.float() * g.float()).sum() for g in grads)
    return float(total.sqrt().item())
'''
OTHER = """
def count_parameters(module):
    trainable = 0
    for name, parameter in module.named_parameters():
        if parameter.requires_grad and not name.endswith("bias"):
            trainable += parameter.numel()
    return trainable
"""
CALL = "stats.norms:total_norm"


def _source(folder: Path, **files: str) -> AnchoredSource:
    for name, text in files.items():
        path = folder / "stats" / f"{name}.py"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    (folder / "stats" / "__init__.py").write_text("")
    return AnchoredSource(folder, import_roots(folder))


@pytest.fixture
def anchor(tmp_path: Path) -> Anchor:
    found = _source(tmp_path / "old", norms=NORM).anchor(CALL)
    assert found is not None
    return found


def test_comments_docstrings_annotations_and_moved_lines_change_nothing(tmp_path: Path, anchor: Anchor) -> None:
    text = NORM.replace("(module)", "(module: object) -> float").replace('"""The norm."""', "# a comment")
    found = _source(tmp_path / "new", norms=OTHER + "\n\n" + text).find_again(anchor)
    assert (found.state, found.call, found.similarity) == (AnchorState.SAME, CALL, 1.0)


def test_the_same_name_in_another_module_is_moved(tmp_path: Path, anchor: Anchor) -> None:
    found = _source(tmp_path / "new", norms=OTHER, telemetry=NORM).find_again(anchor)
    assert (found.state, found.call) == (AnchorState.MOVED, "stats.telemetry:total_norm")


def test_the_same_body_under_another_name_is_renamed(tmp_path: Path, anchor: Anchor) -> None:
    renamed = NORM.replace("total_norm", "gradient_norm")
    found = _source(tmp_path / "new", norms=OTHER, telemetry=renamed).find_again(anchor)
    assert (found.state, found.call) == (AnchorState.RENAMED, "stats.telemetry:gradient_norm")
    assert found.describe() == "renamed to stats.telemetry:gradient_norm (body 100% the same)"


BLOCKS = """import torch


def main(model):
    for step in range(3):
        model(step).backward()
{}
"""
NORMS = "        print(sum(p.grad.norm() for p in model.parameters()))\n"


def blocks(folder: Path, *statements: str) -> AnchoredSource:
    folder.mkdir()
    (folder / "train.py").write_text(BLOCKS.format("        model.eval()\n".join(statements)))
    return AnchoredSource(folder, [folder])


def test_a_blocks_name_that_passed_to_its_neighbour_is_not_taken_for_it(tmp_path: Path) -> None:
    """The first of two blocks of one name goes: the second one has its name now, and is still the second one."""
    squares = NORMS.replace("p.grad.norm()", "p.grad.double().norm() ** 2")
    before = blocks(tmp_path / "before", NORMS, squares)
    after = blocks(tmp_path / "after", squares)
    first, second = (before.anchor(f"train.py:main#{name}") for name in ("norm", "norm.2"))
    assert first is not None
    assert second is not None
    found = after.find_again(second)
    assert (found.state, found.call, found.similarity) == (AnchorState.RENAMED, "train.py:main#norm", 1.0)
    assert after.find_again(first).anchor is None
    assert before.find_again(first).state is AnchorState.SAME
