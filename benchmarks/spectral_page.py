"""The figures of docs/evidence/spectral.md and its plots, from what benchmarks/spectral.py measured."""

from collections.abc import Sequence
from typing import Any

from evidence import EVIDENCE, results_of, rows, write_blocks
from log_plot import log_plot

GIB = 2**30


def write_page() -> None:
    """Write the page's blocks and the plots from the figures that exist."""
    cpu = results_of("spectral")
    figures = {part: cpu[part]["figures"] for part in ("sizes", "memory", "alignment", "echoes")}
    alignment, echoes = figures["alignment"], figures["echoes"]
    _write_plots(alignment)
    blocks = {
        "environment": _environment(cpu["alignment"]["environment"]),
        "sizes": _sizes(figures["sizes"]),
        "gpu": _gpu(results_of("spectral_cuda")),
        "memory": _memory(figures["memory"]),
        "alignment-noise": _shares("noise", alignment["noise"]),
        "alignment-gap": _shares("gap", alignment["gap"]),
        "signal": _signal(echoes["signal"]),
        "close-strengths": _close_strengths(echoes["close"]),
        "noise": _noise(echoes["noise"]),
    }
    write_blocks("spectral", blocks)


def _environment(environment: dict[str, Any]) -> str:
    return (
        f"{environment['device']}, {environment['cores']} cores, {environment['threads']} threads, Python "
        f"{environment['python']}, torch {environment['torch']}, scipy {environment['scipy']}."
    )


def _sizes(measured: list[dict[str, Any]]) -> str:
    whole_batch = {tuple(row["size"]): row["svd_processor_s"] for row in measured if row["what"] == "whole batch"}
    cells = []
    for row in measured:
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
    load = [row["environment"]["load_average"][0] for row in measured]
    columns = ("R x N x M", "what", "wall s", "processor s", "for each replica", "ratio", "peak GiB")
    return f"Load average at the ends: {min(load):.1f} to {max(load):.1f}.\n\n{rows(columns, cells)}"


def _gpu(cuda: dict[str, Any]) -> str:
    if "sizes" not in cuda:
        return "Not measured: `python benchmarks/spectral.py sizes --device cuda` fills this section on a GPU."
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
    columns = ("size", "aligned_svds s", "copies alone", "copies GiB/s", "peak GiB of the device")
    device = cuda["sizes"]["environment"]["device"]
    what = "The copies alone: every chunk there and the results back, without the work."
    return f"{device}. {what}\n\n{rows(columns, cells)}"


def _memory(measured: list[dict[str, Any]]) -> str:
    cells = [(row["replicas"], f"{row['ours_bytes']:,}", f"{row['whole_batch_bytes']:,}") for row in measured]
    return rows(("R", "`aligned_svds`", "`torch.linalg.svd` of the whole batch"), cells)


def _shares(along: str, measured: list[dict[str, Any]]) -> str:
    """The score of the optimal assignment, and the others' share of it."""
    optimal, *others = _assignments(measured)
    cells = [
        [row[along], f"{row[optimal]:.4f}", *(f"{row[name] / row[optimal]:.1%}" for name in others)] for row in measured
    ]
    return rows((along, "optimal: score", *(f"{name}: share" for name in others)), cells)


def _assignments(measured: list[dict[str, Any]]) -> Sequence[str]:
    return [name for name in measured[0] if name not in ("noise", "gap")]


def _signal(measured: list[dict[str, Any]]) -> str:
    cells = [
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
        for row in measured
    ]
    return rows(("R", "strength", "expected", "true", "bias", "spread", "stated", "within 2 errors"), cells)


def _close_strengths(measured: list[dict[str, Any]]) -> str:
    cells = [
        [
            " and ".join(map(str, row["strengths"])),
            f"{row['true_echo']:.3f}",
            f"{row['bias']:+.5f} ± {row['bias_standard_error']:.5f}",
            f"{row['predicted_bias']:+.5f}" if row["predicted_bias"] < 0.1 else "no small noise",
        ]
        for row in measured
    ]
    return rows(("strengths", "true", "bias", "predicted"), cells)


def _noise(measured: list[dict[str, Any]]) -> str:
    cells = [
        [
            row["replicas"],
            row["reference"],
            f"{row['mean_overlap']:+.5f} ± {row['mean_overlap_standard_error']:.5f}",
            f"{row['first_echo']:+.3f} ± {row['first_echo_standard_error']:.3f}",
        ]
        for row in measured
    ]
    return rows(("R", "reference", "mean squared echo, signed", "first direction's echo"), cells)


def _write_plots(figures: dict[str, list[dict[str, Any]]]) -> None:
    for along, fixed in (("noise", "gap 0.1"), ("gap", "noise 0.1")):
        measured = figures[along]
        series = {name: [(row[along], row[name]) for row in measured] for name in _assignments(measured)}
        svg = log_plot(f"Alignment score over {along} ({fixed})", along, "mean score of a direction", series)
        (EVIDENCE / "plots" / f"spectral-alignment-{along}.svg").write_text(svg, encoding="utf-8")
