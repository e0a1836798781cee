"""A small repository with a history of its own, of which two revisions are compared."""

from __future__ import annotations

from pathlib import Path

from tests.verify_helpers import git

# A float32 sum of squares overflows from 1.84e19 on, and holds one tensor's squares at a time.
OVERFLOWING = '''
import torch


def total_norm(parameters):
    """The norm of all gradients."""
    total = None
    for parameter in parameters:
        if parameter.grad is not None:
            square = (parameter.grad.float() ** 2).sum()
            total = square if total is None else total + square
    return 0.0 if total is None else total.sqrt().item()
'''
# The fix that somebody made: float64 copies of every gradient, 2 bytes more for each of its bytes.
WIDENED = '''
import torch


def total_norm(parameters):
    """The norm of all gradients."""
    wide = [parameter.grad.double() for parameter in parameters if parameter.grad is not None]
    if not wide:
        return 0.0
    return torch.linalg.vector_norm(torch.stack([grad.norm() for grad in wide])).item()
'''
MEAN = '''

def mean_norm(parameters):
    """The mean of the gradients' norms, read one by one."""
    count, total = 0, 0.0
    for parameter in parameters:
        if parameter.grad is None:
            continue
        total += float(parameter.grad.double().pow(2).sum()) ** 0.5
        count += 1
    return total / count if count > 0 else 0.0
'''
LARGEST = '''

def largest_norm(parameters):
    """The largest norm, read at once."""
    norms = [parameter.grad.norm() for parameter in parameters if parameter.grad is not None]
    return torch.stack(norms).max().item() if norms else 0.0
'''
TEST = """
from trainer.stats import total_norm


class TestNorm:
    def test_large_gradients_have_a_norm(self):
        assert total_norm([]) == 0.0
"""
FIX = """fix: prevent overflow of the total norm

Converts to float64 first.

- Same results for ordinary gradients
- Reduces CUDA syncs from O(n) to O(1)
"""


def commit(repository: Path, message: str, **files: str | None) -> str:
    """Write `files` (a None removes one; `__` is a folder, `.py` is added) and commit them; returns the full hash."""
    for name, text in files.items():
        path = repository / f"{name.replace('__', '/')}.py"
        if text is None:
            path.unlink()
            continue
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    git(repository, "add", "--all")
    git(repository, "commit", "--quiet", "-m", message)
    return git(repository, "rev-parse", "HEAD")


def make_history(repository: Path) -> Path:
    """Tags: `overflowing`, `widened` (the fix, with a test), `renamed` (its function under another name)."""
    repository.mkdir(parents=True)
    git(repository.parent, "init", "--quiet", str(repository))
    commit(repository, "first", trainer__stats=OVERFLOWING + MEAN)
    git(repository, "tag", "overflowing")
    commit(repository, FIX, trainer__stats=WIDENED + LARGEST, tests__test_stats=TEST)
    git(repository, "tag", "widened")
    renamed = WIDENED.replace("total_norm", "gradient_norm") + LARGEST
    commit(repository, "rename", trainer__stats=renamed, tests__test_stats=TEST.replace("total_norm", "gradient_norm"))
    git(repository, "tag", "renamed")
    return repository
