"""The code evidence of a ticket: whole short statements, within the function, never beyond the file."""

from __future__ import annotations

from pathlib import Path

import pytest

from auditkit.model.runs.measurement import Location
from auditkit.probing.source.excerpts import cut_excerpt

SOURCE = """import torch


def first(grads):
    return grads


@torch.no_grad()
def second(grads):
    counts = torch.stack(
        [
            grads.sum(),
            grads.max(),
        ]
    )
    return counts


def third(grads):
    return grads
"""


@pytest.mark.parametrize(
    ("line", "first", "last"),
    [
        (11, 8, 15),  # inside a statement of several lines: its end is shown
        (16, 10, 16),  # the function's last line: nothing of the next one
        (5, 4, 5),  # a short function
    ],
)
def test_the_lines_around_a_location(tmp_path: Path, line: int, first: int, last: int):
    """First and last line as an editor counts them, and the text between."""
    (tmp_path / "m.py").write_text(SOURCE, encoding="utf-8")
    excerpt = cut_excerpt(tmp_path, Location("m.py", line))
    assert excerpt is not None
    assert (excerpt.first_line, excerpt.last_line) == (first, last)
    assert list(excerpt.lines) == SOURCE.splitlines()[first - 1 : last]
