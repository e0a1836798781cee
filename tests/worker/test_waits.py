"""Which operators make the host wait: every row of waits.md, run on the simulated device."""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import torch

from auditkit.worker.base.frames import SourceRoots
from auditkit.worker.measure.syncs import count_syncs
from auditkit.worker.simulated.device import simulated_cuda
from auditkit.worker.simulated.tensor import Observer, to_simulated
from auditkit.worker.simulated.waits import OPERATORS

PAGE = Path(__file__).with_name("waits.md")
_ROW = re.compile(r"^\| `([^|]+)` \| (\d+) \| ([^|]*)\|", re.MULTILINE)


class Row(NamedTuple):
    code: str
    waits: int
    operators: frozenset[str]


def rows(section: str = "") -> list[Row]:
    text = PAGE.read_text("utf-8")
    part = text.partition(f"## {section}\n")[2].partition("\n## ")[0] if section else text
    return [Row(code, int(count), frozenset(re.findall(r"`(\w+)`", told))) for code, count, told in _ROW.findall(part)]


class _Waits(Observer):
    def __init__(self) -> None:
        self.kinds: list[str] = []

    def on_sync(self, kind: str) -> None:
        self.kinds.append(kind)


def names_of(place: Callable[[torch.Tensor], torch.Tensor]) -> dict[str, Any]:
    """What the page's statements name; `place` puts all but `h` on the device."""
    sparse = torch.sparse_coo_tensor([[1, 1]], [2.0, 3.0], (3,), check_invariants=True)
    on_device = {
        "t": torch.tensor([1.0, 2.0, 3.0]), "m": torch.tensor([[3.0, 1.0], [1.0, 2.0]]), "n": torch.tensor([1, 2, 3]),
        "mask": torch.tensor([False, True, True]), "s": sparse,
    }  # fmt: skip
    return {name: place(each) for name, each in on_device.items()} | {
        "torch": torch,
        "h": torch.tensor([1.0, 2.0, 3.0]),
    }


def waits_of(code: str) -> list[str]:
    """What made the host wait, in order, in a statement of the page."""
    watcher = _Waits()
    with simulated_cuda(watcher), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # torch.cholesky is deprecated, and may be used
        exec(code, names_of(to_simulated))
    return watcher.kinds


@pytest.mark.parametrize("row", rows(), ids=lambda row: row.code)
def test_a_row_is_what_the_simulated_device_counts(row: Row) -> None:
    assert len(waits_of(row.code)) == row.waits


ON_CPU_TENSORS = {
    "t.masked_fill(mask, t[0])": 0, "t.masked_fill_(mask, t[0])": 0, "t[mask] = t[0]": 0, "t.copy_(h)": 0,
    "t[[0, 2]]": 0, "torch.nn.functional.one_hot(n)": 2, "torch.nn.functional.one_hot(n, 5)": 2,
}  # fmt: skip
"""Where the counter on CPU tensors differs: it does not see which tensors lie on the host; one_hot checks a range."""


@pytest.mark.parametrize("row", [row for row in rows() if "cuda" not in row.code], ids=lambda row: row.code)
def test_the_counter_on_cpu_tensors_says_the_same(row: Row) -> None:
    names = names_of(lambda tensor: tensor)
    counted = count_syncs(lambda: exec(row.code, names), "cpu", SourceRoots(str(Path(__file__).parent)))
    assert counted.total == ON_CPU_TENSORS.get(row.code, row.waits)


@pytest.mark.parametrize("row", rows("Operators that wait"), ids=lambda row: row.code)
def test_the_named_operator_is_what_waits(row: Row) -> None:
    assert row.waits > 0
    assert set(waits_of(row.code)) <= row.operators


def test_the_page_has_every_operator_and_torch_has_them_all() -> None:
    told = [name for row in rows("Operators that wait") for name in row.operators]
    assert sorted(told) == sorted(OPERATORS)
    assert [name for name in OPERATORS if not hasattr(torch.ops.aten, name)] == []
