"""The example that measures spectra while it trains, started with torchrun as documented, and its plots."""

import importlib.util
import os
import runpy
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch

from auditkit.collectors.spectral.stream import Spectrum, read_spectra, write_spectra

ROOT = Path(__file__).resolve().parents[1]
EXAMPLES = ROOT / "examples"
TINY = ("--steps", "1", "--every", "1", "--replicas", "4", "--batch", "2", "--width", "16", "--layers", "1")
MATRICES = ["linear1", "linear2", "self_attn.k", "self_attn.out_proj", "self_attn.q", "self_attn.v"]

pytestmark = [
    pytest.mark.skipif(not torch.distributed.is_available(), reason="torch was built without distributed"),
    pytest.mark.acceptance,
]


def train(ranks: int, folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    own = {"PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1", "GLOO_SOCKET_IFNAME": "lo"}
    torchrun = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", str(ranks)]
    return subprocess.run(
        [*torchrun, str(EXAMPLES / "train_with_spectra.py"), "--folder", str(folder), *words],
        env=os.environ | own,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )


def steps_of(run: subprocess.CompletedProcess[str]) -> list[str]:
    """The example's own lines: gloo of torch 2.9 writes to standard output, too."""
    return [line for line in run.stdout.splitlines() if line.startswith("step ")]


def spectra_of(folder: Path, step: int) -> dict[str, Spectrum]:
    return {spectrum.parameter: spectrum for spectrum in read_spectra(folder / f"step-{step:06d}.csv")}


@pytest.mark.slow
def test_two_ranks_train_and_measure(tmp_path: Path) -> None:
    """Both steps have every matrix of the layer, of the replicas of both ranks, each rank having measured some."""
    run = train(2, tmp_path, *TINY)
    assert run.returncode == 0, run.stderr
    assert [line.split()[-1] for line in steps_of(run)] == ["measured", "measured"]
    for step in (0, 1):
        spectra = spectra_of(tmp_path, step)
        assert list(spectra) == [f"layers.layers.0.{matrix}" for matrix in MATRICES]
        assert {spectrum.replicas for spectrum in spectra.values()} == {4}
        assert spectra["layers.layers.0.linear1"].svals_RD.shape == (4, 16)
        assert all(spectrum.svals_RD[:, 0].min() > 0 and spectrum.echo_D[0] <= 1 for spectrum in spectra.values())
        parts = [list(read_spectra(path)) for path in sorted(tmp_path.glob(f"step-{step:06d}.rank-*-of-2.csv"))]
        assert [len(part) for part in parts] == [3, 3]
    before, after = (spectra_of(tmp_path, step)["layers.layers.0.linear2"].svals_RD for step in (0, 1))
    assert not np.array_equal(before, after)  # it has trained in between


SVALS_TOLERANCE = 1e-6
"""Of the largest singular value of the matrix: a few float32 roundings."""
ECHO_TOLERANCE = 1e-4
"""Of an echo; measured: all files are equal byte for byte."""


def differences(first: dict[str, Spectrum], second: dict[str, Spectrum]) -> tuple[float, float]:
    """Return the largest difference of singular values, relative to the largest one, and of echoes."""
    assert list(first) == list(second)
    pairs = [(first[name], second[name]) for name in first]
    svals = max(float(abs(one.svals_RD - other.svals_RD).max() / one.svals_RD.max()) for one, other in pairs)
    return svals, max(float(abs(one.echo_D - other.echo_D).max()) for one, other in pairs)


@pytest.mark.slow
def test_one_two_and_four_ranks_measure_the_same(tmp_path: Path) -> None:
    """Over training, within the documented tolerance; other data is far outside of it."""
    words = ("--steps", "6", "--every", "3", "--array-dtype", "float32")
    for name, ranks, more in (("1", 1, ()), ("2", 2, ()), ("4", 4, ()), ("other", 2, ("--seed", "1"))):
        run = train(ranks, tmp_path / name, *words, *more)
        assert run.returncode == 0, run.stderr
    for step in (0, 3, 6):
        alone = spectra_of(tmp_path / "1", step)
        for ranks in ("2", "4"):
            svals, echoes = differences(alone, spectra_of(tmp_path / ranks, step))
            assert svals <= SVALS_TOLERANCE
            assert echoes <= ECHO_TOLERANCE
        svals, echoes = differences(alone, spectra_of(tmp_path / "other", step))
        assert svals > 1e3 * SVALS_TOLERANCE
        assert echoes > 1e3 * ECHO_TOLERANCE


@pytest.mark.slow
def test_a_second_start_goes_on_and_other_settings_are_refused(tmp_path: Path) -> None:
    """On another number of ranks: the step that is there stays, the one that is missing is the same as before."""
    assert train(1, tmp_path, *TINY).returncode == 0
    last = tmp_path / "step-000001.csv"
    for path in tmp_path.glob("step-000001.*"):
        path.rename(path.with_suffix(".before"))
    first = (tmp_path / "step-000000.csv").stat().st_mtime_ns
    again = train(2, tmp_path, *TINY)
    assert [line.split("  ")[-1] for line in steps_of(again)] == ["was there", "measured"]
    assert (tmp_path / "step-000000.csv").stat().st_mtime_ns == first
    svals, _ = differences(spectra_of(tmp_path, 1), {s.parameter: s for s in read_spectra(last.with_suffix(".before"))})
    assert svals <= SVALS_TOLERANCE
    refused = train(2, tmp_path, *TINY, "--seed", "1")
    assert refused.returncode == 1
    message = f"error: rank 0: {tmp_path} holds spectra of another run (seed is 1, not 0): use another folder"
    assert [f"rank {rank}: {message}" in refused.stderr for rank in (0, 1)] == [True, True]


def run_here(script: str, monkeypatch: pytest.MonkeyPatch, *words: str) -> None:
    """Run a script in this process, which has imported torch already."""
    monkeypatch.setattr(sys, "argv", [script, *words])
    monkeypatch.syspath_prepend(EXAMPLES)
    runpy.run_path(str(EXAMPLES / script), run_name="__main__")


def test_without_torchrun_it_says_how_to_start(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delenv("RANK", raising=False)
    with pytest.raises(SystemExit, match="2"):
        run_here("train_with_spectra.py", monkeypatch, "--folder", str(tmp_path))
    assert "error: start this with torchrun: torchrun --standalone --nproc-per-node 2" in capsys.readouterr().err


@pytest.mark.skipif(importlib.util.find_spec("matplotlib") is None, reason="the plots need matplotlib")
def test_plots_show_the_parameters_of_whole_steps(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A panel each; files of ranks and half-written ones are not drawn, and no spectra are one line."""
    with pytest.raises(SystemExit, match="error: no spectra of whole steps in"):
        run_here("plot_spectra.py", monkeypatch, str(tmp_path / "none"))
    for step in (0, 5):
        values = np.geomspace(1, 1e-3, 12).reshape(3, 4) * (1 + step)
        echo = np.linspace(0.9, 0, 4)
        spectrum = Spectrum(step, "layers.layers.0.q", 3, 4, 4, "float32", "greedy", values, echo, echo / 9)
        write_spectra(tmp_path / f"step-{step:06d}.csv", "f", 1, [spectrum], "float16")
    (tmp_path / "step-000005.rank-0-of-2.csv").write_text("another rank's")
    (tmp_path / "step-000009.csv.partial").write_text("half")
    run_here("plot_spectra.py", monkeypatch, str(tmp_path))
    svals, echoes = ((tmp_path / name).read_text() for name in ("singular-values.svg", "echoes.svg"))
    # matplotlib leaves each text that it draws as a comment beside its outlines.
    for svg in (svals, echoes):
        assert [f"<!-- {text} -->" in svg for text in ("0.q", "direction", "4", "8")] == [True, True, True, False]
    assert "Spectral echoes" in echoes
    assert "Spectral echoes" not in svals
