"""docs/evidence/collectors.md and its plots, from what benchmarks/collectors.py measured."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from log_plot import log_plot
from rival_collectors import BASELINE, OURS, PURE_READ

_SMALL, _LARGE = "1000 x 1000", "1 x 1B"
_MODEL = "GPT-2 small: 148 tensors, 124M"


def write_page(root: Path) -> str:
    """Write the page and the plots from the results that exist, and return the page."""
    results = root / "benchmarks" / "results"
    found = {name: _read(results / f"collectors_{name}.json") for name in ("cpu", "cuda", "training")}
    if found["cpu"]:
        _write_plots(root / "docs" / "evidence" / "plots", found["cpu"]["growth"])
    text = "\n".join(_lines(found["cpu"], found["cuda"], found["training"]))
    (root / "docs" / "evidence" / "collectors.md").write_text(text, encoding="utf-8")
    return text


def _read(path: Path) -> dict[str, Any]:
    return json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}


def _lines(cpu: dict[str, Any], cuda: dict[str, Any], training: dict[str, Any]) -> list[str]:
    lines = [
        "# What the collectors cost",
        "",
        "Written by `python benchmarks/collectors.py`; the figures are in `benchmarks/results/collectors_cpu.json`, "
        "those of a GPU in `collectors_cuda.json`.",
        "",
        "`auditkit.collectors` takes every statistic in one pass; `_foreach_norm` takes one norm for each gradient and "
        "nothing else. A ratio is the median over turns of one time over that of `_foreach_norm` in float32 in the "
        "same turn; ms are medians with quartiles.",
        "",
    ]
    if cpu:
        lines += ["## On a CPU", "", _environment(cpu["environment"]), "", *_kept(cpu), *_goals(cpu), *_device(cpu)]
        lines += _growth_lines()
    lines += ["## On a GPU", ""]
    if cuda:
        lines += [_environment(cuda["environment"]), "", *_device(cuda)]
    else:
        lines += ["Not measured: `python benchmarks/collectors.py --device cuda` fills this section on a GPU.", ""]
    return [*lines, *_training(training)]


def _environment(environment: dict[str, Any]) -> str:
    load, cores = environment["load_average"][0], environment["cores"]
    busy = (
        " The machine was not idle: the ratios hold, with wider quartiles, and the times are too long, by the factor "
    )
    busy += "by which the baseline's are."
    return (
        f"{environment['device']}, {cores} cores, {environment['threads']} thread, Python "
        f"{environment['python']}, torch {environment['torch']}, NumPy {environment['numpy']}; load average at the "
        f"start {load}. Times are processor seconds of this one process; another process on the other core shares "
        f"its caches and its memory, which is why only ratios count.{busy if load > cores / 2 else ''}"
    )


def _kept(cpu: dict[str, Any]) -> list[str]:
    """What --ours did not measure again."""
    if "kept_from" not in cpu:
        return []
    was = cpu["kept_from"]
    return [
        f"Ours, `_foreach_norm` in float32 and the pure read were measured last, by `--ours`; the other rows and the "
        f"traffic before, with torch {was['torch']} on the same machine at a load average of {was['load_average'][0]}. "
        "A row's ratio is to the baseline of its own turns.",
        "",
    ]


def _goals(cpu: dict[str, Any]) -> list[str]:
    cases, hard = cpu["cases"], cpu["hard_inputs"]
    small = cases[_SMALL]["rows"][OURS]
    rows = [
        (f"{name}: time against `_foreach_norm` float32", 2.5, cases[name]["rows"][OURS]["ratio"])
        for name in cases
        if name != _SMALL
    ]
    rows += [
        (f"{_SMALL}: us a tensor", 6.0, round(small["ms"][1], 2)),
        ("NaN in every piece: time against `_foreach_norm`", 8.0, hard["NaN in every piece"]["ratio"]),
        ("every square underflows", 6.0, hard["every square underflows (1e-30)"]["ratio"]),
    ]
    for name, found in cases.items():
        spare = 2e6 + 256 * found["tensors"]
        rows.append((f"{name}: extra bytes", round(spare), found["rows"][OURS]["extra_bytes"]))
        rows.append((f"{name}: relative error of the norm", 1e-6, float(f"{found['rows'][OURS]['error']:.1e}")))
    missed = [row for row in rows if row[2] > row[1]]
    baseline_us = cases[_SMALL]["rows"][BASELINE]["ms"][1]
    lines = [
        f"{len(rows) - len(missed)} of {len(rows)} goals are reached.",
        "",
        "| goal | at most | measured | |",
        "|---|---|---|---|",
    ]
    lines += [f"| {what} | {limit:,} | {got:,} | {'missed' if got > limit else ''} |" for what, limit, got in rows]
    lines += ["", f"Where {_SMALL} took {small['ms'][1]:.2f} us a tensor, `_foreach_norm` took {baseline_us:.2f} us."]
    if _LARGE not in cases:
        lines[-1] += f" {_LARGE} is not measured: `python benchmarks/collectors.py --large` adds it."
    return [*lines, "", *_audited_versions(cases[_MODEL]["rows"])]


def _audited_versions(model: dict[str, Any]) -> list[str]:
    """How much slower the audited versions are; a tenth of a pure read's time is out of anything's reach."""
    slower = {name: row["ratio"] / model[OURS]["ratio"] for name, row in model.items() if name.startswith("B7")}
    read, ours = (model[name]["ratio"] for name in (PURE_READ, OURS))
    reached = [name for name, ratio in slower.items() if ratio >= 10]
    lines = [f"{_MODEL}, the audited versions over ours, of which the goal is 10x: "]
    lines[-1] += "; ".join(f"{name} {ratio:.1f}x" for name, ratio in slower.items()) + "."
    lines[-1] += f" {len(reached)} of {len(slower)} reach it. A pure read of the gradients takes {read / ours:.2f} of "
    lines[-1] += "our time: what is not 10 times slower than ours computes less (one norm, no counts), and a version "
    lines[-1] += f"that took less than {10 * read:.1f} times the baseline could not be beaten tenfold by a pure read."
    return [*lines, ""]


def _device(found: dict[str, Any]) -> list[str]:
    lines: list[str] = []
    for name, case in found["cases"].items():
        loads = " to ".join(str(load) for load in case["load"])
        kept = (
            f"; of the rows that were kept, {' to '.join(map(str, case['kept_load']))}" if "kept_load" in case else ""
        )
        lines += [f"### {name}", "", f"Load average {loads}{kept}. Turns: {_turns(case['rows'])}.", ""]
        lines += ["| collector | ms | quartiles | ratio | extra bytes | relative error |", "|---|---|---|---|---|---|"]
        lines += [_row(collector, row) for collector, row in case["rows"].items()]
        lines.append("")
    lines += ["### Inputs that take the longer way", "", f"The shapes of {_MODEL}.", ""]
    lines += ["| input | ms | ratio | load |", "|---|---|---|---|"]
    for name, row in found["hard_inputs"].items():
        lines.append(f"| {name} | {row['ms'][1]:.1f} | {row['ratio']} | {row['load']} |")
    lines += ["", "### Syncs and launches", "", _traffic_note(found["environment"]), ""]
    lines += ["| collector | syncs | launches |", "|---|---|---|"]
    lines += [f"| {name} | {row['syncs']} | {row['launches']} |" for name, row in found["traffic"].items()]
    return [*lines, ""]


def _row(name: str, row: dict[str, Any]) -> str:
    if "needed_bytes" in row:
        needed, available = (f"{row[key] / 1e9:.1f} GB" for key in ("needed_bytes", "available_bytes"))
        return f"| {name} | not run: needs {needed}, {available} are left | | | | |"
    low, median, high = row["ms"]
    error = "" if row["error"] is None else f"{row['error']:.1e}"
    return f"| {name} | {median:.2f} | {low:.2f} to {high:.2f} | {row['ratio']} | {row['extra_bytes']:,} | {error} |"


def _turns(rows: dict[str, dict[str, Any]]) -> str:
    counts = sorted({row["turns"] for row in rows.values() if "turns" in row}, reverse=True)
    return " or ".join(map(str, counts)) + (" (slow collectors)" if len(counts) > 1 else "")


def _traffic_note(environment: dict[str, Any]) -> str:
    simulated = " simulated: auditkit's pretended CUDA device counts operators, and runs their values on the CPU"
    where = simulated if "cpu" in environment["torch"] else " on the device"
    return f"148 float32 gradients of 64 elements,{where}. The longer the gradients, the more launches of the fallback."


def _growth_lines() -> list[str]:
    lines = ["### Growth", ""]
    for axis in ("parameters", "tensors"):
        for what in ("time", "memory"):
            lines.append(f"![{what} against {axis}](plots/collectors-{what}-{axis}.svg)")
    return [*lines, ""]


def _write_plots(folder: Path, growth: dict[str, list[dict[str, Any]]]) -> None:
    folder.mkdir(exist_ok=True)
    labels = {"parameters": "parameters, in one gradient", "tensors": "gradients of 1000 elements"}
    for axis, points in growth.items():
        for what, key, unit in (("time", "ms", "processor ms"), ("memory", "extra_bytes", "peak extra bytes")):
            series = {name: [(point["n"], point[key][name]) for point in points] for name in _names(points)}
            plot = log_plot(f"{what} against {axis}", labels[axis], unit, series)
            (folder / f"collectors-{what}-{axis}.svg").write_text(plot, encoding="utf-8")


def _names(points: Sequence[dict[str, Any]]) -> list[str]:
    return sorted(points[0]["ms"], key=[OURS, BASELINE, *points[0]["ms"]].index)


def _training(training: dict[str, Any]) -> list[str]:
    lines = ["## In training", "", "`python examples/train_with_statistics.py --json FILE` trains a small transformer "]
    lines[-1] += "on generated text, logs the statistics of every step, and measures what they cost: steps with and "
    lines[-1] += "without them take turns."
    if not training:
        return [*lines, "", "Not measured.", ""]
    lines += ["", "| device | parameters | steps | ms a step without | with | overhead | statistics alone, ms | load |"]
    lines += ["|---|---|---|---|---|---|---|---|"]
    for run in training["runs"]:
        lines.append(
            f"| {run['device']} | {run['parameters']:,} | {run['steps']} | {run['plain_ms']:.2f} | "
            f"{run['measured_ms']:.2f} | {run['overhead_percent']:.1f}% | {run['alone_ms']:.2f} | {run['load']} |"
        )
    if all(run["device"] == "cpu" for run in training["runs"]):
        lines.append("| cuda | | | not measured | | | | |")
    return [*lines, "", "```text", *training["runs"][0]["log"], "```", ""]
