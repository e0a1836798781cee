"""Every line of the GPU's evidence runs here first: what could fail without a GPU must not wait for one to fail."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest
import torch

from benchmarks.gpu_evidence import PARTS, RESULTS, main
from benchmarks.gpu_machine import PREFLIGHT
from benchmarks.gpu_page import read_parts
from tests.project_files import Ended, run_program

pytestmark = pytest.mark.acceptance

# Some need a CUDA build of torch to be fed, another reads the simulated tensor's storage, which has none.
FAIL_HERE = (
    "traffic layouts/defective:reads_storage",
    "traffic devices/cuda_",
)


def evidence(*words: str) -> Ended:
    return run_program([sys.executable, "-m", "benchmarks.gpu_evidence", *words])


def test_every_line_runs_without_a_gpu_and_none_of_it_is_evidence(tmp_path: Path) -> None:
    """On the CPU, the simulated device and the kernels in Triton's interpreter; one collector of 20, for the time."""
    ended = evidence("--preflight", "--share", "20", "--out", str(tmp_path))
    assert ended.code == 0, ended.stderr[-2000:]
    rows: dict[str, Any] = {}
    for part in PARTS:
        document = json.loads((tmp_path / f"gpu_{part}.json").read_text("utf-8"))
        assert (document["ended"], document["missing"]) == ("whole", [])
        assert (document["is_preflight"], document["device"]) == (True, PREFLIGHT)
        rows |= document["rows"]
    assert {name: row for name, row in rows.items() if "error" in row and not name.startswith(FAIL_HERE)} == {}
    (tests,) = (row for name, row in rows.items() if name.startswith("pytest "))
    assert (tests["exit"], tests["collected"] > 100) == (0, True), tests
    assert rows["audit of the bundled specimen"]["summary"]["reproduced"] == 1
    with pytest.raises(SystemExit, match="is no evidence"):
        read_parts(tmp_path)


def test_without_a_gpu_nothing_is_measured(tmp_path: Path) -> None:
    if torch.cuda.is_available():
        pytest.skip("there is a GPU")
    ended = evidence("memory", "--out", str(tmp_path))
    assert (ended.code, list(tmp_path.iterdir())) == (2, [])
    assert ended.stderr.count("--preflight runs every line of this on the CPU") == 1


def test_a_preflight_is_kept_away_from_the_evidence(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["--preflight", "--out", str(RESULTS)])
    assert "preflight is no evidence" in capsys.readouterr().err
