"""512 simulated ranks: what each writes, and what the host makes of their files."""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from auditkit.live.command import Ended
from auditkit.live.recording import Process, Recording
from auditkit.live.report import MOST_LINES, report
from auditkit.live.watch import Drifts, judge
from auditkit.worker.watch import process as worker
from auditkit.worker.watch.program import named_ranks

RANKS, TENSORS, STEPS = 512, 500, 4
GROUP = list(range(3, RANKS, 8))


def documents_of_one_rank(monkeypatch: pytest.MonkeyPatch) -> list[dict[str, Any]]:
    """The file of one rank after each of its steps: all parameters are replicated in its data-parallel group."""
    monkeypatch.setattr(torch.distributed, "is_initialized", lambda: True)
    monkeypatch.setattr(torch.distributed, "get_world_size", lambda *_: RANKS)
    monkeypatch.setattr(torch.distributed, "get_rank", lambda *_: GROUP[0])
    model = nn.ParameterList(nn.Parameter(torch.ones(4)) for _ in range(TENSORS))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    process = worker.Process("", {"every": 1})
    assert process.watch()
    found = []
    try:
        for _ in range(STEPS):
            optimizer.zero_grad()
            torch.stack(list(model)).square().sum().backward()
            for tensor in model:
                process.watcher.program.group(process.watcher.program.parameter(tensor), "replicas", "dp", GROUP)
            optimizer.step()
            found.append(json.loads(json.dumps(process.document(False))))
    finally:
        process.patches.remove()
    return found


def drifts_while_it_runs(document: dict[str, Any], folder: Path) -> Drifts:
    """What the host finds in the files of two ranks after step 2, where one parameter of a rank has drifted."""
    drifts = Drifts(folder, folder)
    drifts.look()
    for rank in (35, 43):
        turn = document["turns"][-1]
        if rank == 43:
            turn = copy.deepcopy(turn)
            for digests in turn["replicas"].values():
                digests[1] = digests[2][7][2] = "another"
        identity = {**document["identity"], "rank": rank, "world": RANKS}
        text = json.dumps({**document, "identity": identity, "turns": [*document["turns"][:-1], turn]})
        (folder / f"process-{rank}.json").write_text(text, encoding="utf-8")
    drifts._next = 0.0
    drifts.look()
    return drifts


def test_512_ranks_write_a_megabyte_for_an_inspection_and_are_compared(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """One digest for each group and step; the digests of each parameter only for the first and the last step."""
    documents = documents_of_one_rank(monkeypatch)
    early = drifts_while_it_runs(documents[2], tmp_path)
    sizes = [len(json.dumps(each)) for each in documents]
    per_inspection = RANKS * (sizes[3] - sizes[2])
    print(f"\n{per_inspection:,} bytes for an inspection by 512 ranks; a file has {sizes[-1]:,} bytes")
    assert per_inspection < 1_000_000
    assert named_ranks(GROUP).endswith(" (64 ranks)")
    ranks = []
    for rank in range(RANKS):
        document = {**documents[-1], "identity": {**documents[-1]["identity"], "rank": rank, "world": RANKS}}
        if rank in (43, 51):  # these took another step
            document["turns"] = copy.deepcopy(document["turns"])
            for turn in document["turns"][2:]:
                for digests in turn["replicas"].values():
                    digests[1] = "another"
                    for row in digests[2][7:]:
                        row[2] = "another"
        ranks.append(document)
    processes = tuple(Process(ranks[rank]) for rank in GROUP)
    watched = judge(Recording(processes, processes, root=Path.cwd()), Ended(0))
    (finding,) = [each for each in watched.findings if each.probe == "replicas_drift"]
    assert finding.message.startswith(f"7, 8, 9 and 490 more: values differ after the step in dp {named_ranks(GROUP)}")
    assert finding.message.endswith("on ranks 43, 51 only")
    assert finding.notes == ("since step 2", "ranks 43, 51")
    watched = judge(Recording(processes, processes, root=Path.cwd()), Ended(0), (), early)
    (finding,) = [each for each in watched.findings if each.probe == "replicas_drift"]
    assert finding.message.startswith("7: values differ after the step between ranks [35, 43]")
    assert finding.notes == ("since step 2", "ranks 43, 51")
    lines = report(watched)
    assert lines[1].startswith("512 ranks: dp64, ")
    assert "64 of 512 ranks reported" in lines[1]
    assert len(lines) <= MOST_LINES
