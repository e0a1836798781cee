"""Findings of a public repository make few tickets, one for each cause.

Skipped without AUDITKIT_ESPER_REPO, a clone of tachyon-beep/esper-lite, and AUDITKIT_ESPER_PYTHON, an
interpreter with its packages.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections import defaultdict
from pathlib import Path
from typing import Any

import pytest

REPOSITORY = os.environ.get("AUDITKIT_ESPER_REPO", "")
PYTHON = os.environ.get("AUDITKIT_ESPER_PYTHON", "")
REVISION = "874190c0~1"
COLLECTOR = "esper.simic.telemetry.gradient_collector"
TARGETS = ("SeedGradientCollector.collect", "SeedGradientCollector.collect_async", "collect_seed_gradients")
PROBES = (
    "norm_overflows_on_finite_grads",
    "norm_underflows_to_zero",
    "launches_grow_with_tensors",
    "peak_memory_grows_with_params",
)


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> tuple[list[dict[str, Any]], Path]:
    """The findings of three collectors that share their arithmetic, and the tickets' folder."""
    folder = tmp_path_factory.mktemp("tickets")
    words = [sys.executable, "-P", "-m", "auditkit", "audit", f"{REPOSITORY}@{REVISION}", "--python", PYTHON, "--json"]
    words += [word for target in TARGETS for word in ("--target", f"{COLLECTOR}:{target}")]
    words += [word for probe in PROBES for word in ("--probe", probe)]
    ended = subprocess.run([*words, "--tickets", str(folder)], capture_output=True, text=True, check=False)
    assert ended.returncode == 1, ended.stderr
    return [result for result in json.loads(ended.stdout)["results"] if result["outcome"] == "reproduced"], folder


@pytest.mark.slow
@pytest.mark.skipif(not (REPOSITORY and PYTHON), reason="AUDITKIT_ESPER_REPO and AUDITKIT_ESPER_PYTHON are not set")
def test_each_line_has_one_ticket(found: tuple[list[dict[str, Any]], Path]) -> None:
    """As many tickets as causing lines, fewer than findings; no line is in two tickets and no ticket has two."""
    findings, folder = found
    lines: dict[str, set[tuple[str, int]]] = defaultdict(set)
    for result in findings:
        lines[result["ticket"]].add((result["location"]["file"], result["location"]["line"]))
    assert all(len(places) == 1 for places in lines.values())
    assert len(set().union(*lines.values())) == len(lines) < len(findings)
    assert len(list(folder.rglob("B*.md"))) == len(lines)


@pytest.mark.slow
@pytest.mark.skipif(not (REPOSITORY and PYTHON), reason="AUDITKIT_ESPER_REPO and AUDITKIT_ESPER_PYTHON are not set")
def test_the_targets_of_one_line_share_its_ticket(found: tuple[list[dict[str, Any]], Path]) -> None:
    """The three collectors lead to the same norm: one ticket, a block for each."""
    findings, folder = found
    overflows = [result for result in findings if result["probe"] == "norm_overflows_on_finite_grads"]
    shared: dict[str, set[str]] = defaultdict(set)
    for result in overflows:
        shared[result["ticket"]].add(result["target"].rpartition(":")[2])
    assert max(map(len, shared.values())) > 1
    for ticket, targets in shared.items():
        text = next(folder.rglob(f"{ticket}.md")).read_text(encoding="utf-8")
        assert all(f"norm_overflows_on_finite_grads/1/{COLLECTOR}:{target}`" in text for target in targets)
        assert text.split("\n## ", 1)[0].count("**Reproduced on CPU only:**") == 1
