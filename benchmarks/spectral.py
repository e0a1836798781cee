"""What aligned SVDs and spectral echoes cost, how well they align, and how near the echoes are to the truth.

    python benchmarks/spectral.py sizes        # 64 replicas of 1024 x 1024 and 4096 x 1024; half an hour on two cores
    python benchmarks/spectral.py memory alignment echoes
    python benchmarks/spectral.py sizes --device cuda
    python benchmarks/spectral.py page         # only docs/evidence/spectral.md and its plots

Each part replaces its figures in benchmarks/results/spectral.json (spectral_cuda.json) and writes the page anew.
Every size is measured in a process of its own, whose largest resident size is the kernel's figure.
"""

import argparse
import json
import resource
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT)]

import numpy as np  # noqa: E402
import torch  # noqa: E402
from evidence import results_of, store_results  # noqa: E402
from machine import environment  # noqa: E402
from spectral_page import write_page  # noqa: E402
from torch import Tensor  # noqa: E402

from auditkit.collectors.spectral import AlignedSvds, aligned_svds, spectral_echoes  # noqa: E402
from auditkit.collectors.spectral.alignment import assign  # noqa: E402
from auditkit.collectors.spectral.chunking import replica_chunks  # noqa: E402
from auditkit.probing.worker.instruments.memory import peak_bytes  # noqa: E402
from tests.collectors.spectral.planted import expected_echo, plant  # noqa: E402

SIZES = [(1024, 1024), (4096, 1024)]
CASES = [("aligned", 64), ("aligned", 8), ("whole batch", 8)]


def measure_sizes(device: str) -> list[dict[str, Any]]:
    """Both sizes, ours and one `torch.linalg.svd` of the whole batch, each in a process of its own."""
    rows = []
    for rows_N, columns_M in SIZES:
        for what, replica_count in CASES:
            size = map(str, (replica_count, rows_N, columns_M))
            command = [sys.executable, __file__, "--child", what, "--device", device, *size]
            finished = subprocess.run(command, check=True, capture_output=True, text=True, cwd=ROOT)
            rows.append(json.loads(finished.stdout))
    return rows


def measure_one(what: str, size: tuple[int, int, int], device: str) -> dict[str, Any]:
    """One size in this process; the gradients lie on the CPU, as they do where replicas are gathered."""
    grads_RNM = torch.randn(size, generator=torch.Generator().manual_seed(0))
    row: dict[str, Any] = {"what": what, "size": size, "before_bytes": _largest_resident_bytes()}
    if what == "aligned":
        aligned = _timed(row, "aligned_svds", lambda: aligned_svds(grads_RNM, device=device))
        _timed(row, "spectral_echoes", lambda: spectral_echoes(aligned))
        row["assignment"] = aligned.assignment
        if device == "cuda":
            _timed(row, "copies", lambda: _copy_there_and_back(grads_RNM, aligned))
            row["copied_bytes"] = grads_RNM.nbytes + sum(_bytes_of(aligned))
    else:
        _timed(row, "svd", lambda: torch.linalg.svd(grads_RNM.to(device), full_matrices=False))
    row["peak_bytes"] = _largest_resident_bytes()
    if device == "cuda":
        row["device_peak_bytes"] = torch.cuda.max_memory_allocated()
    return row | {"environment": environment(device, "scipy")}


def _timed(row: dict[str, Any], name: str, work: Callable[[], Any]) -> Any:
    wall, processor = time.perf_counter(), time.process_time()
    result = work()
    if torch.cuda.is_available():
        torch.cuda.synchronize()
    row[f"{name}_wall_s"] = round(time.perf_counter() - wall, 2)
    row[f"{name}_processor_s"] = round(time.process_time() - processor, 2)
    return result


def _copy_there_and_back(grads_RNM: Tensor, aligned: AlignedSvds) -> None:
    """The offload without the work: every chunk to the device, and as many bytes as the results back."""
    for _ in replica_chunks(list(grads_RNM), 8, torch.device("cuda", 0), grads_RNM.dtype):
        pass
    for part in (aligned.U_RND, aligned.svals_RD, aligned.V_RMD):
        on_device = torch.empty(part.shape[1:], device="cuda")
        for replica in part:
            replica.copy_(on_device)


def _bytes_of(aligned: AlignedSvds) -> list[int]:
    return [part.nbytes for part in (aligned.U_RND, aligned.svals_RD, aligned.V_RMD)]


def _largest_resident_bytes() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def measure_memory(device: str) -> list[dict[str, Any]]:
    """Peak bytes of the allocator beyond the results, over replicas and chunks."""
    rows = []
    for replica_count in (8, 16, 32, 64):
        grads_RNM = torch.randn(replica_count, 128, 64, generator=torch.Generator().manual_seed(0))
        results = sum(_bytes_of(aligned_svds(grads_RNM, device=device)))
        extra = peak_bytes(lambda grads=grads_RNM: aligned_svds(grads, device=device), device) - results
        whole = peak_bytes(lambda grads=grads_RNM: torch.linalg.svd(grads, full_matrices=False), device) - results
        rows.append({"replicas": replica_count, "ours_bytes": extra, "whole_batch_bytes": whole})
    return rows


def column_argmax(score_DD: np.ndarray) -> np.ndarray:
    """The public greedy: each column in turn takes its best row if that is free, the others fill what is left."""
    rows = np.full(len(score_DD), -1)
    for column in np.argsort(-score_DD.max(axis=0)):
        best = score_DD[:, column].argmax()
        if best not in rows:
            rows[column] = best
    rows[rows < 0] = np.setdiff1d(np.arange(len(rows)), rows)
    return rows


ASSIGNMENTS: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    "optimal (ours, with scipy)": lambda score: assign(score, "optimal"),
    "greedy (ours, without)": lambda score: assign(score, "greedy"),
    "greedy by column (public)": column_argmax,
    "by singular value": lambda score: np.arange(len(score)),
}


def measure_alignment(_: str) -> dict[str, list[dict[str, Any]]]:
    """Mean score of a direction over noise (gap 0.1) and over the gap (noise 0.1), 64 directions of 96 x 64."""
    noises, gaps = [0.003, 0.01, 0.03, 0.1, 0.3, 1.0], [0.001, 0.003, 0.01, 0.03, 0.1, 0.3]
    return {
        "noise": [{"noise": noise, "gap": 0.1} | _scores(noise, 0.1) for noise in noises],
        "gap": [{"noise": 0.1, "gap": gap} | _scores(0.1, gap) for gap in gaps],
    }


def _scores(noise: float, gap: float, rank_D: int = 64, trials: int = 10) -> dict[str, float]:
    """Singular values 1, 1 + gap, ...; noise is the standard deviation of an element times sqrt(columns)."""
    strengths = [1 + gap * index for index in range(rank_D)]
    totals = dict.fromkeys(ASSIGNMENTS, 0.0)
    for seed in range(trials):
        planted = plant(2, 96, rank_D, [strength / noise for strength in strengths[::-1]], seed)
        U_RND, _, Vh_RDM = torch.linalg.svd(planted.grads_RNM, full_matrices=False)
        score_DD = ((U_RND[1].T @ U_RND[0]) * (Vh_RDM[1] @ Vh_RDM[0].T)).abs().numpy()
        for name, how in ASSIGNMENTS.items():
            totals[name] += float(score_DD[how(score_DD), np.arange(rank_D)].mean()) / trials
    return totals


def measure_echoes(_: str) -> dict[str, Any]:
    """Bias, spread and stated error at several strengths and R, and what noise echoes under three references."""
    return {
        "close": [_close_strengths(strengths) for strengths in ([10.0, 8.0], [10.0, 9.0], [10.0, 9.5], [4.0, 3.9])],
        "signal": [row for replica_count in (3, 4, 8, 16) for row in _known_signal(replica_count)],
        "noise": [_noise(replica_count, name) for replica_count in (4, 8, 16) for name in ("half", "first", "all")],
    }


def _known_signal(replica_count: int, trials: int = 200) -> list[dict[str, Any]]:
    rows_N, columns_M, strengths = 48, 32, [4.0, 2.5, 1.6, 0.8]
    found = []
    for seed in range(trials):
        planted = plant(replica_count, rows_N, columns_M, strengths, seed)
        true_NM = planted.U_NK * torch.tensor(strengths) @ planted.V_MK.T
        aligned = aligned_svds(planted.grads_RNM, reference=true_NM)
        echoes = spectral_echoes(aligned)
        true_K = planted.true_echoes(aligned).diagonal(dim1=1, dim2=2).double().mean(0)
        found.append(torch.stack([true_K, echoes.echo_D[:4], echoes.standard_error_D[:4]]))
    true_TK, echo_TK, error_TK = torch.stack(found).unbind(1)
    within = ((echo_TK - true_TK).abs() <= 2 * error_TK).double().mean(0)
    threshold = (rows_N / columns_M) ** 0.25
    return [
        {
            "replicas": replica_count,
            "strength": strength,
            "large_matrix_echo": expected_echo(strength, rows_N, columns_M) if strength > threshold else 0.0,
            "true_echo": true_TK[:, k].mean().item(),
            "bias": (echo_TK - true_TK)[:, k].mean().item(),
            "bias_standard_error": (echo_TK - true_TK)[:, k].std().item() / trials**0.5,
            "spread": echo_TK[:, k].std().item(),
            "stated_error": error_TK[:, k].square().mean().sqrt().item(),
            "within_two_errors": within[k].item(),
        }
        for k, strength in enumerate(strengths)
    ]


def _close_strengths(strengths: list[float], trials: int = 100) -> dict[str, Any]:
    """The bias of two directions whose strengths are close: beside the truth, and to leading order."""
    rows_N, columns_M = 48, 32
    found = []
    for seed in range(trials):
        planted = plant(8, rows_N, columns_M, strengths, seed)
        true_NM = planted.U_NK * torch.tensor(strengths) @ planted.V_MK.T
        aligned = aligned_svds(planted.grads_RNM, reference=true_NM)
        true_K = planted.true_echoes(aligned).diagonal(dim1=1, dim2=2).double().mean(0)
        found.append(torch.stack([true_K, spectral_echoes(aligned).echo_D[:2]]))
    true_TK, echo_TK = torch.stack(found).unbind(1)
    bias_T = (echo_TK - true_TK).mean(1)
    first, second = strengths
    overlap_bias = (2 * first * second / columns_M / (first**2 - second**2) ** 2) ** 2
    return {
        "strengths": strengths,
        "true_echo": true_TK.mean().item(),
        "bias": bias_T.mean().item(),
        "bias_standard_error": bias_T.std().item() / trials**0.5,
        "predicted_bias": overlap_bias / (2 * true_TK.mean().item()),
    }


def _noise(replica_count: int, reference: str, trials: int = 300) -> dict[str, Any]:
    generator = torch.Generator().manual_seed(0)
    overlap_T, first_T = [], []
    for _ in range(trials):
        grads_RNM = torch.randn(replica_count, 24, 16, generator=generator)
        aligned = aligned_svds(grads_RNM, reference=grads_RNM.mean(0) if reference == "all" else reference)
        echo_D = spectral_echoes(aligned).echo_D
        overlap_T.append((echo_D * echo_D.abs()).mean())
        first_T.append(echo_D[0])
    overlap_T, first_T = torch.stack(overlap_T), torch.stack(first_T)
    return {
        "replicas": replica_count,
        "reference": reference,
        "mean_overlap": overlap_T.mean().item(),
        "mean_overlap_standard_error": overlap_T.std().item() / trials**0.5,
        "first_echo": first_T.mean().item(),
        "first_echo_standard_error": first_T.std().item() / trials**0.5,
    }


PARTS = {"sizes": measure_sizes, "memory": measure_memory, "alignment": measure_alignment, "echoes": measure_echoes}


def main() -> None:
    """Measure the parts asked for, keep the figures of the others, and write the page."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("parts", nargs="+", help=", ".join([*PARTS, "page"]))
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu")
    parser.add_argument("--child", choices=("aligned", "whole batch"), help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.child:
        replicas, rows, columns = map(int, options.parts)
        print(json.dumps(measure_one(options.child, (replicas, rows, columns), options.device)))
        return
    name = "spectral_cuda" if options.device == "cuda" else "spectral"
    for part in options.parts:
        if part != "page":
            measured = {"environment": environment(options.device, "scipy"), "figures": PARTS[part](options.device)}
            store_results(name, results_of(name) | {part: measured})
    write_page()


if __name__ == "__main__":
    main()
