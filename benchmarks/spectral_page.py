"""docs/evidence/spectral.md and its plots, from what benchmarks/spectral.py measured."""

import json
from pathlib import Path
from typing import Any

from log_plot import log_plot

GIB = 2**30


def write_page(root: Path) -> None:
    """Write the page and the plots from the figures that exist."""
    results = root / "benchmarks" / "results"
    cpu, cuda = (_read(results / name) for name in ("spectral.json", "spectral_cuda.json"))
    _write_plots(root / "docs" / "evidence" / "plots", cpu["alignment"]["figures"])
    lines = [
        *_head(cpu),
        *_sizes(cpu.get("sizes", {}).get("figures", [])),
        *_device(cuda),
        *_memory(cpu.get("memory", {}).get("figures", [])),
    ]
    lines += [*_alignment(cpu["alignment"]["figures"]), *_echoes(cpu["echoes"]["figures"])]
    (root / "docs" / "evidence" / "spectral.md").write_text("\n".join([*lines, ""]), encoding="utf-8")


def _read(path: Path) -> dict[str, Any]:
    return json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}


def _table(*columns: str, rows: list[list[object]]) -> list[str]:
    cells = [columns, ["---"] * len(columns), *rows]
    return ["| " + " | ".join(map(str, row)) + " |" for row in cells] + [""]


def _head(cpu: dict[str, Any]) -> list[str]:
    environment = cpu["alignment"]["environment"]
    return [
        "# Aligned SVDs and spectral echoes: what they cost and how near the truth they are",
        "",
        "Written by `python benchmarks/spectral.py`; the figures are in `benchmarks/results/spectral.json`. What is "
        "estimated, and why so, is in [design/spectral.md](../design/spectral.md).",
        "",
        f"{environment['device']}, {environment['cores']} cores, {environment['threads']} threads, Python "
        f"{environment['python']}, torch {environment['torch']}, scipy {environment['scipy']}.",
        "",
    ]


def _sizes(rows: list[dict[str, Any]]) -> list[str]:
    if not rows:
        return ["## 64 replicas on a CPU", "", "Not measured: `python benchmarks/spectral.py sizes` fills it.", ""]
    whole_batch = {tuple(row["size"]): row["svd_processor_s"] for row in rows if row["what"] == "whole batch"}
    cells = []
    for row in rows:
        ours = row["what"] == "aligned"
        parts = [part for part in ("aligned_svds", "spectral_echoes", "svd") if f"{part}_wall_s" in row]
        processor = sum(row[f"{part}_processor_s"] for part in parts)
        compared = whole_batch.get(tuple(row["size"]))
        cells.append(
            [
                "{} x {} x {}".format(*row["size"]),
                " + ".join(f"`{part}`" for part in parts) if ours else "`torch.linalg.svd` of the whole batch",
                " + ".join(f"{row[f'{part}_wall_s']:.0f}" for part in parts),
                " + ".join(f"{row[f'{part}_processor_s']:.0f}" for part in parts),
                f"{processor / row['size'][0]:.2f}",
                f"{processor / compared:.2f}" if compared else "",
                f"{row['peak_bytes'] / GIB:.2f}",
            ]
        )
    load = [row["environment"]["load_average"][0] for row in rows]
    columns = ("R x N x M", "what", "wall s", "processor s", "for each replica", "ratio", "peak GiB")
    return [
        "## 64 replicas on a CPU",
        "",
        "Float32; each row is a process of its own, and its peak is the largest resident size that the kernel saw, "
        "with Python, torch, the gradients (0.25 and 1 GiB for 64) and the results (0.50 and 1.25 GiB) in it. Wall "
        f"seconds grow with what else the machine does (load average at the ends {min(load):.1f} to {max(load):.1f} "
        "on two cores); the ratio is of processor seconds, which such a load moves too. The whole batch is neither "
        "aligned nor heard, and is compared at 8 replicas, where the reference is one SVD in nine; of 64 it is one "
        "in 65.",
        "",
        *_table(*columns, rows=cells),
        *_missing(rows),
    ]


def _missing(rows: list[dict[str, Any]]) -> list[str]:
    """Say which of the benchmark's rows the figures lack."""
    wanted = [
        (what, [count, *size])
        for size in ([1024, 1024], [4096, 1024])
        for what, count in (("aligned", 64), ("aligned", 8), ("whole batch", 8))
    ]
    found = [(row["what"], row["size"]) for row in rows]
    missing = ["{} {} x {} x {}".format(what, *size) for what, size in wanted if (what, size) not in found]
    return [f"Not measured yet: {', '.join(missing)}.", ""] if missing else []


def _device(cuda: dict[str, Any]) -> list[str]:
    if "sizes" not in cuda:
        return [
            "## 64 replicas on a GPU",
            "",
            "Not measured: `python benchmarks/spectral.py sizes --device cuda` fills this section on a GPU.",
            "",
        ]
    cells = [
        [
            "{} x {} x {}".format(*row["size"]),
            row["aligned_svds_wall_s"],
            f"{row['copies_wall_s'] / row['aligned_svds_wall_s']:.0%}",
            f"{row['copied_bytes'] / GIB / max(row['copies_wall_s'], 1e-3):.1f}",
            f"{row['device_peak_bytes'] / GIB:.2f}",
        ]
        for row in cuda["sizes"]["figures"]
        if row["what"] == "aligned" and row["size"][0] == 64
    ]
    return [
        f"## 64 replicas on a GPU: {cuda['sizes']['environment']['device']}",
        "",
        "The copies alone: every chunk there and the results back, without the work.",
        "",
        *_table("size", "aligned_svds s", "copies alone", "copies GiB/s", "peak GiB of the device", rows=cells),
    ]


def _memory(rows: list[dict[str, Any]]) -> list[str]:
    if not rows:
        return ["## Memory over R", "", "Not measured: `python benchmarks/spectral.py memory` fills it.", ""]
    cells = [[row["replicas"], f"{row['ours_bytes']:,}", f"{row['whole_batch_bytes']:,}"] for row in rows]
    return [
        "## Memory over R",
        "",
        "Peak bytes of torch's allocator beyond gradients and results, 128 x 64, the chunk chosen (8 replicas).",
        "",
        *_table("R", "`aligned_svds`", "`torch.linalg.svd` of the whole batch", rows=cells),
    ]


def _alignment(figures: dict[str, list[dict[str, Any]]]) -> list[str]:
    names = [name for name in figures["noise"][0] if name not in ("noise", "gap")]
    lines = [
        "## Alignment against the optimum",
        "",
        "Two replicas of a 96 x 64 gradient of rank 64 with singular values 1, 1 + gap, 1 + 2 gap, ... and noise of "
        "standard deviation noise / sqrt(64) for each element. The score is the mean over directions of "
        "|u . u_ref| |v . v_ref|, over ten draws; a share is of the optimal assignment's score.",
        "",
        "![score over noise](plots/spectral-alignment-noise.svg)",
        "",
        "![score over gap](plots/spectral-alignment-gap.svg)",
        "",
    ]
    for along, fixed in (("noise", "gap 0.1"), ("gap", "noise 0.1")):
        cells = [
            [row[along], f"{row[names[0]]:.4f}", *(f"{row[name] / row[names[0]]:.1%}" for name in names[1:])]
            for row in figures[along]
        ]
        lines += [
            f"At {fixed}:",
            "",
            *_table(along, "optimal: score", *(f"{n}: share" for n in names[1:]), rows=cells),
        ]
    return lines


def _echoes(figures: dict[str, Any]) -> list[str]:
    signal = [
        [
            row["replicas"],
            row["strength"],
            f"{row['large_matrix_echo']:.3f}",
            f"{row['true_echo']:.3f}",
            f"{row['bias']:+.4f} ± {row['bias_standard_error']:.4f}",
            f"{row['spread']:.4f}",
            f"{row['stated_error']:.4f}",
            f"{row['within_two_errors']:.0%}",
        ]
        for row in figures["signal"]
    ]
    noise = [
        [
            row["replicas"],
            row["reference"],
            f"{row['mean_overlap']:+.5f} ± {row['mean_overlap_standard_error']:.5f}",
            f"{row['first_echo']:+.3f} ± {row['first_echo_standard_error']:.3f}",
        ]
        for row in figures["noise"]
    ]
    close = [
        [
            " and ".join(map(str, row["strengths"])),
            f"{row['true_echo']:.3f}",
            f"{row['bias']:+.5f} ± {row['bias_standard_error']:.5f}",
            f"{row['predicted_bias']:+.5f}" if row["predicted_bias"] < 0.1 else "no small noise",
        ]
        for row in figures["close"]
    ]
    return [
        "## Echoes of a known signal",
        "",
        "48 x 32 gradients of rank 4 plus noise, 200 draws; a single replica shows nothing of a direction below "
        "strength 1.11 in large matrices. Expected is the echo in matrices of this shape grown large "
        "(Benaych-Georges & Nadakuditi 2012), true the mean over the replicas at hand. The stated error covers new "
        "replicas too (spread); distance from the replicas at hand is smaller.",
        "",
        *_table("R", "strength", "expected", "true", "bias", "spread", "stated", "within 2 errors", rows=signal),
        "Two directions of nearly the same strength, R = 8: the bias is that of the overlap in "
        "[design/spectral.md](../design/spectral.md), to leading order, over twice the echo.",
        "",
        *_table("strengths", "true", "bias", "predicted", rows=close),
        "## Echoes of noise",
        "",
        "24 x 16 noise, 300 draws. With the mean of all replicas as reference, noise echoes, most of all in the first "
        "direction; that is why half of them make the reference and pairs within that half do not count.",
        "",
        *_table("R", "reference", "mean squared echo, signed", "first direction's echo", rows=noise),
    ]


def _write_plots(folder: Path, figures: dict[str, list[dict[str, Any]]]) -> None:
    for along, fixed in (("noise", "gap 0.1"), ("gap", "noise 0.1")):
        rows = figures[along]
        names = [name for name in rows[0] if name not in ("noise", "gap")]
        series = {name: [(row[along], row[name]) for row in rows] for name in names}
        svg = log_plot(f"Alignment score over {along} ({fixed})", along, "mean score of a direction", series)
        (folder / f"spectral-alignment-{along}.svg").write_text(svg, encoding="utf-8")
