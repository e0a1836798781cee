"""The figures of docs/evidence/collectors.md, from what benchmarks/collectors.py measured."""

from collections.abc import Sequence
from typing import Any

from evidence import results_of, rows, write_blocks
from rival_collectors import BASELINE, OURS, PURE_READ

_SMALL, _LARGE = "1000 x 1000", "1 x 1B"
_MODEL = "GPT-2 small: 148 tensors, 124M"


def write_page() -> str:
    """Write the page's blocks from the results that exist, and return the page."""
    cpu, cuda, training = (results_of(f"collectors_{name}") for name in ("cpu", "cuda", "training"))
    not_measured = "Not measured: `python benchmarks/collectors.py --device cuda` fills this section on a GPU."
    blocks = {
        "environment": "\n\n".join([_environment(cpu["environment"]), *_kept(cpu)]),
        "goals": _goals(cpu),
        "audited-versions": _audited_versions(cpu["cases"][_MODEL]["rows"]),
        "cpu": _device(cpu),
        "gpu": f"{_environment(cuda['environment'])}\n\n{_device(cuda)}" if cuda else not_measured,
        "training": _training(training["runs"]) if training else "Not measured.",
    }
    return write_blocks("collectors", blocks)


def _environment(environment: dict[str, Any]) -> str:
    load, cores = environment["load_average"][0], environment["cores"]
    busy = (
        " The machine was not idle: the ratios hold, with wider quartiles, and the times are too long, by the factor "
        "by which the baseline's are."
    )
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
        "A row's ratio is to the baseline of its own turns."
    ]


def _goals(cpu: dict[str, Any]) -> str:
    cases, hard = cpu["cases"], cpu["hard_inputs"]
    small, baseline = (cases[_SMALL]["rows"][name] for name in (OURS, BASELINE))
    goals = [
        (f"{name}: time against `_foreach_norm` float32", 2.5, cases[name]["rows"][OURS]["ratio"])
        for name in cases
        if name != _SMALL
    ]
    goals += [
        (f"{_SMALL}: us a tensor", 6.0, round(small["ms"][1], 2)),
        ("NaN in every piece: time against `_foreach_norm`", 8.0, hard["NaN in every piece"]["ratio"]),
        ("every square underflows", 6.0, hard["every square underflows (1e-30)"]["ratio"]),
    ]
    for name, found in cases.items():
        spare = 2e6 + 256 * found["tensors"]
        goals.append((f"{name}: extra bytes", round(spare), found["rows"][OURS]["extra_bytes"]))
        goals.append((f"{name}: relative error of the norm", 1e-6, float(f"{found['rows'][OURS]['error']:.1e}")))
    cells = [(what, f"{limit:,}", f"{got:,}", "missed" if got > limit else "") for what, limit, got in goals]
    missed = sum(got > limit for _, limit, got in goals)
    note = f"Where {_SMALL} took {small['ms'][1]:.2f} us a tensor, `_foreach_norm` took {baseline['ms'][1]:.2f} us."
    if _LARGE not in cases:
        note += f" {_LARGE} is not measured: `python benchmarks/collectors.py --large` adds it."
    reached = f"{len(goals) - missed} of {len(goals)} goals are reached."
    return "\n\n".join([reached, rows(("goal", "at most", "measured", ""), cells), note])


def _audited_versions(model: dict[str, Any]) -> str:
    """How much slower the audited versions are; a tenth of a pure read's time is out of anything's reach."""
    slower = {name: row["ratio"] / model[OURS]["ratio"] for name, row in model.items() if name.startswith("B7")}
    read, ours = (model[name]["ratio"] for name in (PURE_READ, OURS))
    reached = [name for name, ratio in slower.items() if ratio >= 10]
    return (
        f"{_MODEL}, the audited versions over ours, of which the goal is 10x: "
        f"{'; '.join(f'{name} {ratio:.1f}x' for name, ratio in slower.items())}. "
        f"{len(reached)} of {len(slower)} reach it. A pure read of the gradients takes {read / ours:.2f} of our time: "
        "what is not 10 times slower than ours computes less (one norm, no counts), and a version that took less than "
        f"{10 * read:.1f} times the baseline could not be beaten tenfold by a pure read."
    )


def _device(found: dict[str, Any]) -> str:
    columns = ("collector", "ms", "quartiles", "ratio", "extra bytes", "relative error")
    parts: list[str] = []
    for name, case in found["cases"].items():
        kept = f"; of the rows that were kept, {_load(case['kept_load'])}" if "kept_load" in case else ""
        parts += [f"### {name}", f"Load average {_load(case['load'])}{kept}. Turns: {_turns(case['rows'])}."]
        parts.append(rows(columns, [_cells(collector, row) for collector, row in case["rows"].items()]))
    hard = [(name, f"{row['ms'][1]:.1f}", row["ratio"], row["load"]) for name, row in found["hard_inputs"].items()]
    traffic = [(name, row["syncs"], row["launches"]) for name, row in found["traffic"].items()]
    parts += ["### Inputs that take the longer way", f"The shapes of {_MODEL}."]
    parts += [rows(("input", "ms", "ratio", "load"), hard), "### Syncs and launches"]
    parts += [_traffic_note(found["environment"]), rows(("collector", "syncs", "launches"), traffic)]
    return "\n\n".join(parts)


def _load(averages: Sequence[float]) -> str:
    return " to ".join(map(str, averages))


def _cells(name: str, row: dict[str, Any]) -> tuple[object, ...]:
    if "needed_bytes" in row:
        needed, available = (f"{row[key] / 1e9:.1f} GB" for key in ("needed_bytes", "available_bytes"))
        return name, f"not run: needs {needed}, {available} are left", "", "", "", ""
    low, median, high = row["ms"]
    error = "" if row["error"] is None else f"{row['error']:.1e}"
    return name, f"{median:.2f}", f"{low:.2f} to {high:.2f}", row["ratio"], f"{row['extra_bytes']:,}", error


def _turns(rows: dict[str, dict[str, Any]]) -> str:
    counts = sorted({row["turns"] for row in rows.values() if "turns" in row}, reverse=True)
    return " or ".join(map(str, counts)) + (" (slow collectors)" if len(counts) > 1 else "")


def _traffic_note(environment: dict[str, Any]) -> str:
    simulated = " simulated: auditkit's pretended CUDA device counts operators, and runs their values on the CPU"
    where = simulated if "cpu" in environment["torch"] else " on the device"
    return f"148 float32 gradients of 64 elements,{where}. The longer the gradients, the more launches of the fallback."


def _training(runs: list[dict[str, Any]]) -> str:
    columns = ("device", "parameters", "steps", "ms a step without", "with", "overhead", "statistics alone, ms", "load")
    cells: list[tuple[object, ...]] = []
    for run in runs:
        times = (f"{run['plain_ms']:.2f}", f"{run['measured_ms']:.2f}", f"{run['overhead_percent']:.1f}%")
        alone = f"{run['alone_ms']:.2f}"
        cells.append((run["device"], f"{run['parameters']:,}", run["steps"], *times, alone, run["load"]))
    if all(run["device"] == "cpu" for run in runs):
        cells.append(("cuda", "", "", "not measured", "", "", "", ""))
    return "\n".join([rows(columns, cells), "", "```text", *runs[0]["log"], "```"])
