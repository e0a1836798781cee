"""`auditkit run --tickets`: a finding is the same finding in the next run of the program."""

from __future__ import annotations

import runpy
from pathlib import Path

import torch

from auditkit.live.tickets import file_tickets
from auditkit.live.watch import Watched
from auditkit.testing import watch
from auditkit.tickets.filing import FilingOptions
from auditkit.tickets.lint import lint
from auditkit.tickets.store import TicketFolder

PROGRAM = """
import torch
from torch import nn


def train():
    model = nn.Linear(8, 4)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
    for _ in range(4):
        ZERO
        model(torch.randn(4, 8)).square().mean().backward()
        optimizer.step()
        CLIP


train()
"""
LATE = "nn.utils.clip_grad_norm_(model.parameters(), 0.01)"


def watched(folder: Path, zero: str, clip: str, first: str = "") -> Watched:
    text = first + PROGRAM.replace("ZERO", zero).replace("CLIP", clip)
    (folder / "train.py").write_text(text, encoding="utf-8")
    torch.manual_seed(0)
    with watch(fail_on=None, root=folder) as seen:
        runpy.run_path(str(folder / "train.py"))
    assert seen.watched is not None
    return seen.watched


def files_of(folder: TicketFolder) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.folder.rglob("*") if path.is_file()}


def test_a_finding_keeps_its_ticket(tmp_path: Path) -> None:
    """The same program again writes no byte; moved lines change `location`; a law that holds is noted as gone."""
    folder = TicketFolder(tmp_path / "tickets")
    command = ("python", str(tmp_path / "train.py"))

    def filed(seen: Watched) -> dict[str, tuple[str | None, str]]:
        run = file_tickets(seen, folder, command, FilingOptions(batch=7)).run
        return {each.probe: (each.ticket, each.ticket_action) for each in run.results if each.ticket}

    laws = ("gradients_lost_or_stale", "clip_misses_the_step")
    first = filed(watched(tmp_path, "pass", LATE))
    assert first == {laws[0]: ("B7-PT-01", "created"), laws[1]: ("B7-PT-02", "created")}
    text = folder.read("B7-PT-01").text
    assert "findings: [gradients_lost_or_stale/1/run:train.py:train]" in text
    assert "location: train.py:11\n" in text
    assert "    auditkit run -- python train.py\n" in text
    assert str(tmp_path) not in text
    assert lint(folder, None) == []
    before = files_of(folder)
    assert filed(watched(tmp_path, "pass", LATE)) == {law: (first[law][0], "unchanged") for law in laws}
    assert files_of(folder) == before
    assert filed(watched(tmp_path, "pass", LATE, "# moved\n")) == {law: (first[law][0], "refreshed") for law in laws}
    changed = [line for line in folder.read("B7-PT-01").text.split("\n") if line not in text.split("\n")]
    assert changed == ["location: train.py:12"]
    fixed = watched(tmp_path, "optimizer.zero_grad()", LATE)
    assert filed(fixed) == {laws[1]: ("B7-PT-02", "refreshed")}
    evidence = folder.evidence("B7-PT-01")
    assert evidence is not None
    assert list(evidence.gone) == ["gradients_lost_or_stale/1/run:train.py:train"]
    assert folder.evidence("B7-PT-02").gone == {}  # type: ignore[union-attr]
