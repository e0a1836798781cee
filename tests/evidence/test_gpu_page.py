"""The pages that speak of a GPU show what was measured on one, or that nothing was; a preflight is never shown."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from benchmarks.evidence import EVIDENCE, ROOT, fill
from benchmarks.gpu_machine import PREFLIGHT
from benchmarks.gpu_memory import MEASURED
from benchmarks.gpu_page import blocks, read_parts
from benchmarks.rival_collectors import OURS

HEAD = {"is_preflight": False, "device": "NVIDIA H100", "torch": "2.11.0", "cuda": "13.0", "triton": "3.6.0",
        "python": "3.12.3", "revision": "0123abc", "ended": "whole", "missing": []}  # fmt: skip
SYNCS = {"what": "syncs", "tensors": 3, "simulated": {"count": 1, "lines": {"a.py:3": 1}}}
TRUTH = {
    "instrument syncs": {"agrees": True},
    "traffic a:same": {"agrees": True, "lines_agree": True},
    "traffic a:other": {
        "agrees": False,
        "lines_agree": False,
        "cases": [{**SYNCS, "measured": {"count": 2, "lines": {"a.py:3": 2}}}],
    },
    "traffic a:crashes": {"error": "its process ended with SIGSEGV"},
    "pytest test_collectors_gpu.py": {"agrees": False, "passed": 70, "failed": 1, "failed_tests": ["test_a[x|y]"]},
    "audit of the bundled specimen": {"summary": {"reproduced": 42, "not_reproduced": 7}},
}


def part(rows: dict[str, Any], **other: Any) -> dict[str, Any]:
    return {**HEAD, "rows": rows, **other}


def page(name: str, parts: dict[str, Any]) -> dict[str, str]:
    return next(written for path, written in blocks(parts).items() if path.name == name)


@pytest.mark.parametrize("path", blocks({}), ids=lambda path: path.name)
def test_a_page_shows_what_is_stored(path: Path) -> None:
    """Without results, that nothing was measured."""
    text = path.read_text(encoding="utf-8")
    assert fill(text, blocks(read_parts())[path]) == text


def test_without_results_every_cell_says_so() -> None:
    written = page("gpu.md", {})
    cells = [
        cell.strip() for text in written.values() for line in text.splitlines()[2:] for cell in line.split("|")[2:]
    ]
    assert {cell for cell in cells if cell} == {"not measured", "has none"}


@pytest.mark.parametrize("change", [{"is_preflight": True}, {"cuda": None}])
def test_what_no_gpu_measured_is_refused(change: dict[str, Any], tmp_path: Path) -> None:
    (tmp_path / "gpu_truth.json").write_text(json.dumps({**HEAD, **change, "device": PREFLIGHT}), encoding="utf-8")
    with pytest.raises(SystemExit, match="is no evidence: preflight on the CPU"):
        read_parts(tmp_path)


def test_truth_counts_what_agrees_and_names_every_difference() -> None:
    parts = {"truth": part(TRUTH, ended="out of time", missing=["audit"])}
    written = page("gpu.md", parts)
    assert (
        "NVIDIA H100, torch 2.11.0, CUDA 13.0, Triton 3.6.0, Python 3.12.3, revision 0123abc" in written["environment"]
    )
    assert "6 rows, 1 with an error; 1 rows are missing: out of time\n- memory: not measured" in written["environment"]
    assert "launches that grow in both or in neither | 3 | 1 | 2 |" in written["truth"]
    assert "| instruments that read their toys | 1 | 1 | 0 |" in written["truth"]
    assert "outcomes of the numeric probes | not measured |" in written["truth"]
    assert written["audit"].splitlines() == [
        "- Audit of the bundled specimen on the device: 42 reproduced, 7 not reproduced.",
        "- Audit of the spectral specimen on the device: not measured.",
    ]
    assert written["differences"].splitlines() == [
        "- `traffic a:other`: syncs of 3 gradients: 1 at a.py:3 simulated, 2 at a.py:3 measured",
        "- `traffic a:crashes`: its process ended with SIGSEGV",
        "- `pytest test_collectors_gpu.py`: test_a[x\\|y]",
    ]
    assert "was the measured one for 1 of 3 collectors" in page("README.md", parts)["gpu"]
    assert (
        "| numerics: `tests/gpu/test_collectors_gpu.py` | 70 tests pass, 1 fail |"
        in page("collectors.md", parts)["gpu"]
    )


@pytest.mark.parametrize(("largest", "holds"), [(1.05, "yes"), (1.2, "no")])
def test_the_cpus_ratio_holds_within_a_tenth(largest: float, holds: str) -> None:
    ratios = {"CPU 10M": 1.0, "device 1M": 3.0, "device 10M": 1.0, "device 1B": largest}
    rows = {f"{where} {MEASURED[4]}": {"ratio": ratio} for where, ratio in ratios.items()}
    rows[f"device 1B {MEASURED[5]}"] = {"error": "OutOfMemoryError: tried to allocate 60 GiB"}
    lines = page("gpu.md", {"memory": part(rows)})["memory"].splitlines()
    assert lines[6] == f"| {MEASURED[4]} | 1 | 3 | 1 | not measured | {largest} | {holds} |"
    assert lines[7].endswith(" | OutOfMemoryError | not measured |")


def test_speed_is_shown_beside_the_copy_kernels() -> None:
    rows: dict[str, Any] = {
        "1B: copy kernel": {"ms": [2.6, 2.7, 2.8], "bytes_per_s": 3e12, "share_of_nominal": 0.9},
        f"1B float32 contiguous: {OURS}": {"ms": [1.9, 2.0, 2.1], "bytes_per_s": 1.5e12},
        "training eager: no statistics": {"ms": [9, 10, 11]},
        f"training eager: {OURS}": {"ms": [9, 10.25, 11]},
    }
    written = page("gpu.md", {"speed": part(rows)})
    assert "2.700 ms, 3,000 GB/s, 100% of the copy, 90% of the memory's" in written["speed-1B"]
    assert f"| {OURS} | 2.000 ms, 1,500 GB/s, 50% of the copy | not measured |" in written["speed-1B"]
    assert f"| {OURS} | 10.250 | +2.5% | not measured | not measured |" in written["training"]
    assert "| time of 1B float32 | 2.000 ms, 1,500 GB/s |" in page("collectors.md", {"speed": part(rows)})["gpu"]


def test_the_evidence_and_the_readme_are_the_pages() -> None:
    assert set(blocks({})) == {EVIDENCE / "gpu.md", ROOT / "README.md", ROOT / "docs" / "design" / "collectors.md"}
