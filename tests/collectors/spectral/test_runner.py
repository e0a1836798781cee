"""Real ranks measure the spectra together, refuse bad input together, and do not wait for one that is gone."""

import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest
import torch

from auditkit.collectors.spectral.runner import SpectralRun, measure_stack
from auditkit.collectors.spectral.stream import read_spectra
from tests.collectors.spectral import rank_program

PROGRAM = Path(rank_program.__file__)
ROOT = PROGRAM.parents[3]
ENDS_WITHIN_S = 240
"""Less than the 600 s after which gloo gives up; most of it is for importing torch on a busy machine."""

pytestmark = [
    pytest.mark.skipif(not torch.distributed.is_available(), reason="torch was built without distributed"),
    pytest.mark.process,
]


def environment(**more: str) -> dict[str, str]:
    own = {"PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1", "GLOO_SOCKET_IFNAME": "lo", "MASTER_ADDR": "127.0.0.1"}
    return os.environ | own | more


def free_port() -> str:
    with socket.create_server(("127.0.0.1", 0)) as server:
        return str(server.getsockname()[1])


@contextmanager
def started(folder: Path, ranks: int, *scenarios: str) -> Iterator[list[subprocess.Popen[str]]]:
    """Start the ranks of some scenarios; none of them is left afterwards."""
    port = free_port()
    processes = [
        subprocess.Popen(
            [sys.executable, "-W", "error", str(PROGRAM), str(folder), *scenarios],
            env=environment(RANK=str(rank), WORLD_SIZE=str(ranks), MASTER_PORT=port),
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        for rank in range(ranks)
    ]
    try:
        yield processes
    finally:
        for process in processes:
            process.kill()
            process.communicate()


def run_ranks(folder: Path, ranks: int, *scenarios: str) -> None:
    """Run scenarios to their end: every rank must exit with 0."""
    with started(folder, ranks, *scenarios) as processes:
        outputs = [process.communicate(timeout=ENDS_WITHIN_S)[0] for process in processes]
    assert [process.returncode for process in processes] == [0] * ranks, "\n".join(outputs)


def last_line(process: subprocess.Popen[str], timeout: float = ENDS_WITHIN_S) -> str:
    """Return the last line of a rank that ends by itself, with an error."""
    output = process.communicate(timeout=timeout)[0]
    assert process.returncode == 1, output
    return output.strip().splitlines()[-1]


def assert_is_what_one_process_measures(path: Path) -> None:
    """The merged file has, to the last bit of float32, what the whole stacks give here."""
    spectra = {spectrum.parameter: spectrum for spectrum in read_spectra(path)}
    assert list(spectra) == sorted(rank_program.SHAPES)
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        for name, grads_RNM in rank_program.whole_stacks().items():
            aligned, echoes = measure_stack(grads_RNM)
            np.testing.assert_array_equal(spectra[name].svals_RD, aligned.svals_RD.numpy())
            np.testing.assert_array_equal(spectra[name].echo_D, echoes.echo_D.float().numpy())
            np.testing.assert_array_equal(spectra[name].standard_error_D, echoes.standard_error_D.float().numpy())
            shuffled, _ = measure_stack(grads_RNM.flip(0))
            assert not torch.equal(shuffled.svals_RD, aligned.svals_RD)  # control: the order of the replicas counts
    finally:
        torch.set_num_threads(before)


@pytest.mark.acceptance
def test_two_ranks(tmp_path: Path) -> None:
    """Gather, spectra as of one process, resumption, bad input and failures of one rank, in one start of two ranks."""
    run_ranks(tmp_path, 2, "gathered", "whole", "bad_input", "one_fails")
    assert_is_what_one_process_measures(tmp_path / "whole" / "step-000003.csv")
    (first, *others) = read_spectra(tmp_path / "whole-gz" / "step-000000.csv.gz")
    assert (first.dtype, first.svals_RD.shape, len(others)) == ("bfloat16", (6, 2), 2)


@pytest.mark.slow
@pytest.mark.parametrize("ranks", [1, 4])
def test_one_and_four_ranks(tmp_path: Path, ranks: int) -> None:
    """The same file, byte for byte, as two ranks' and one process's; with more ranks than parameters, too."""
    run_ranks(tmp_path, ranks, "late", "gather_memory", "gathered", "whole")
    assert_is_what_one_process_measures(tmp_path / "whole" / "step-000003.csv")
    parts = list((tmp_path / "whole").glob("step-000003.rank-*.csv"))
    assert len(parts) == min(ranks, len(rank_program.SHAPES))


@pytest.mark.slow
def test_a_killed_rank_is_named(tmp_path: Path) -> None:
    """Rank 0 ends by itself and names rank 1, and what rank 1 had begun is no file that a reader finds."""
    with started(tmp_path, 2, "killed") as (survivor, victim):
        message = last_line(survivor)
        assert victim.wait(timeout=10) == -9
    assert "RankLostError: rank 0 stops at 'finish the files of step 0': rank 1 gave no sign of life for" in message
    assert sorted(path.name for path in (tmp_path / "killed").iterdir()) == [
        "spectra.json",
        "step-000000.rank-0-of-2.csv",
        "step-000000.rank-1-of-2.csv.partial",
    ]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("scenario", "ranks", "gone", "message"),
    [
        ("stopped", 4, 3, "rank 3 gave no sign of life for"),
        ("stopped_in_gather", 3, 1, "rank 1 gave no sign of life for"),
        ("stuck", 2, 1, "rank 1 is alive, but got nowhere for"),
        ("never", 2, 1, "rank 1 has not begun for"),
        (
            "store_stopped",
            2,
            0,
            "holds the group's key-value store, rank 0 or torchrun, died or was stopped: no answer",
        ),
    ],
)
def test_no_rank_waits_for_one_that_is_gone(tmp_path: Path, scenario: str, ranks: int, gone: int, message: str) -> None:
    """All others end by themselves and say which rank it was, or that the store is gone with it."""
    with started(tmp_path, ranks, scenario) as processes:
        survivors = [process for rank, process in enumerate(processes) if rank != gone]
        assert [message in line for line in map(last_line, survivors)] == [True] * len(survivors)
        assert processes[gone].poll() is None


@pytest.mark.slow
def test_torchrun_starts_a_run_again_that_goes_on(tmp_path: Path) -> None:
    """A rank is killed in its second step: torchrun stops the other one, starts both, and the first step stays.

    Without that variable torch 2.13 gives the new ranks the store of the old ones, whose addresses are in it.
    """
    torchrun = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]
    done = subprocess.run(
        [*torchrun, "--max-restarts", "1", str(PROGRAM), str(tmp_path), "killed_once"],
        env=environment(TORCH_DISABLE_SHARE_RDZV_TCP_STORE="1"),
        capture_output=True,
        text=True,
        timeout=2 * ENDS_WITHIN_S,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    said = done.stdout.splitlines()
    assert [said.count(f"step 3 is complete: {answer}") for answer in (False, True)] == [2, 2]
    assert [said.count(f"step 4 is complete: {answer}") for answer in (False, True)] == [4, 0]
    for step in (3, 4):
        assert_is_what_one_process_measures(tmp_path / "killed_once" / f"step-00000{step}.csv")


@pytest.mark.slow
def test_without_the_run_a_rank_waits(tmp_path: Path) -> None:
    """The control: with a barrier of the process group rank 0 still waits when the ranks above have long ended."""
    with started(tmp_path, 2, "alone") as (survivor, _):
        time.sleep(60)
        assert survivor.poll() is None


def test_no_process_group_is_one_clear_error(tmp_path: Path) -> None:
    with pytest.raises(RuntimeError, match="no process group: start the script with torchrun"), SpectralRun(tmp_path):
        pass


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"array_dtype": "bfloat16"}, "array_dtype is 'bfloat16': expected 'float16' or 'float32'"),
        ({"directions": 0}, "directions is 0: expected at least 1"),
        ({"chunk_bytes": 0}, "chunk_bytes is 0: expected at least 1"),
        ({"settings": {"compress": 1}}, "the setting 'compress' is the run's own: choose another name"),
    ],
)
def test_bad_options_are_refused(tmp_path: Path, options: dict[str, object], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        SpectralRun(tmp_path, **options)  # type: ignore[arg-type]
